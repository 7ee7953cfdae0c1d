// Flags that every command with a model shares.
#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"
#include "engine/loaded_model.h"

namespace slotstream::cli {

// Flag values as typed; turned into LoadOptions once parsing is done.
struct ModelOptions {
  std::string directory;
  uint32_t slots = 0;
  uint32_t pass_rows = 0;
  uint32_t max_context = 0;  // 0: not given
  int threads = 0;
  double memory_gb = 0;
  std::string mirror;  // empty: none
  std::string io = "auto";
  std::string isa = "auto";
  bool fixed = false;
  std::string compute = std::string(kernels::NameOf(kernels::kDefaultComputeMode));
};

void AddModelOptions(CLI::App& command, ModelOptions& options);

// kInvalidArgument for values that CLI11 could not judge.
Result<engine::LoadOptions> ToLoadOptions(const ModelOptions& options, const CLI::App& command);

// Loads with progress and the plan on stderr. `trace`: see engine::LoadOptions.
Result<std::unique_ptr<engine::LoadedModel>> LoadModel(const ModelOptions& options,
                                                       const CLI::App& command,
                                                       experts::TraceWriter* trace = nullptr);
Result<std::unique_ptr<engine::LoadedModel>> LoadModel(const engine::LoadOptions& load);

// "note: .." on stderr.
void PrintNote(std::string_view note);

}  // namespace slotstream::cli
