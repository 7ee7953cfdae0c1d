// What the benchmarks print: a list of rows, as a table, as Markdown, as JSON.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"

namespace slotstream::bench {

// One measured figure. `value` is the median of the rounds that count; it is absent when none did,
// and so is everything that would be computed from it. `ratio` is value / roof, `peer_ratio` value
// / peer: above 1 is better, except where the unit is a time.
struct Row {
  std::string group;  // "roof", "decode product", ...
  std::string name;
  std::string mode;  // "exact", "int8", "int15"; a peer's own row: its weights' type
  std::string isa;   // the kernels, or the peer's name
  int threads = 1;
  size_t rows = 0;  // of activations; 0 where that means nothing
  std::optional<double> value = {};
  std::string unit = {};
  std::optional<double> roof = {};
  std::optional<double> peer = {};
  std::string peer_name = {};                     // whose figure `peer` is
  std::map<std::string, double> peer_types = {};  // all of them, by weights' type
  int rounds = 0;
  int counted = 0;  // rounds in which the cores were ours

  std::optional<double> ratio() const;
  std::optional<double> peer_ratio() const;
};

std::string TextTable(const std::vector<Row>& rows);
std::string MarkdownTable(const std::vector<Row>& rows);

// Writes the list of rows to `path`; "-" is standard output. Absent figures are null.
Status WriteJson(const std::vector<Row>& rows, const std::string& path);

}  // namespace slotstream::bench
