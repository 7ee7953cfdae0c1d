// A line on stderr that shows how far a long job is.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace slotstream::cli {

// Draws only when stderr is a terminal, at most ten times a second. Not thread-safe.
class ProgressBar {
 public:
  explicit ProgressBar(std::string label);
  void Update(uint64_t done, uint64_t total);
  // Clears the line.
  void Finish();

 private:
  std::string label_;
  bool terminal_;
  bool drawn_ = false;
  uint64_t start_nanos_;
  uint64_t last_nanos_ = 0;
};

// Jobs of several phases: a bar for each. Not thread-safe.
class PhaseBars {
 public:
  void Update(std::string_view phase, uint64_t done, uint64_t total);
  void Finish();

 private:
  std::string phase_;
  std::optional<ProgressBar> bar_;
};

}  // namespace slotstream::cli
