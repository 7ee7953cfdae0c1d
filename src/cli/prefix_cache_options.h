// Flags of the prefix cache, for commands that hold conversations.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>

#include "base/result.h"
#include "engine/prefix_reuse.h"
#include "plan/plan.h"

namespace slotstream::cli {

struct PrefixCacheOptions {
  bool off = false;
  double memory_gb = 0;
  std::string directory;
  double disk_gb = 20;
  uint64_t min_tokens = 1024;
  int64_t max_age_days = 30;
};

void AddPrefixCacheOptions(CLI::App& command, PrefixCacheOptions& options);

// kInvalidArgument for values that CLI11 could not judge.
Status ApplyPrefixCache(const PrefixCacheOptions& options, const CLI::App& command,
                        plan::Wishes& wishes, engine::PrefixDiskOptions& disk);

}  // namespace slotstream::cli
