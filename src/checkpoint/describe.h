// What can be said about a checkpoint directory without loading it, broken ones included.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/config.h"

namespace slotstream::checkpoint {

struct PartDescription {
  std::string name;  // "trunk", "experts", "n-grams", "draft head", "vision tower"
  uint64_t parameters = 0;
  uint64_t bytes = 0;     // in this program's layout
  bool resident = false;  // stays in memory while the model runs
};

struct Description {
  std::string directory;
  Form form = Form::kOriginal;
  std::optional<ModelConfig> config;   // nothing below is known without it
  std::vector<PartDescription> parts;  // those that are there

  uint64_t expert_records = 0;
  uint64_t expert_record_bytes = 0;
  uint64_t ngram_rows = 0;  // of all tables
  uint64_t ngram_row_bytes = 0;
  // Read for one token of plain decode when nothing is cached, page rounding included.
  uint64_t expert_bytes_per_token = 0;
  uint64_t ngram_bytes_per_token = 0;
  uint64_t resident_bytes = 0;

  std::vector<std::string> problems;  // what keeps the checkpoint from being used
  std::vector<std::string> notes;
  bool usable() const { return problems.empty(); }
};

// kNotFound when the directory holds no checkpoint at all; everything else that is wrong is listed
// in `problems`.
Result<Description> Describe(const std::string& directory);

// Lines for a terminal.
std::vector<std::string> FormatDescription(const Description& description);

}  // namespace slotstream::checkpoint
