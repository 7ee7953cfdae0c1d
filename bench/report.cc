#include "bench/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

namespace slotstream::bench {
namespace {

std::optional<double> Quotient(const std::optional<double>& value,
                               const std::optional<double>& of) {
  if (!value || !of || *of == 0) return std::nullopt;
  return *value / *of;
}

// Three or more significant digits, never an exponent.
std::string Number(const std::optional<double>& value) {
  if (!value) return "-";
  const double magnitude = std::abs(*value);
  return fmt::format("{:.{}f}", *value, magnitude >= 100 ? 0 : magnitude >= 10 ? 1 : 3);
}

std::string Ratio(const std::optional<double>& value) {
  return value ? fmt::format("{:.2f}", *value) : "-";
}

constexpr size_t kColumns = 13;
using Cells = std::array<std::string, kColumns>;

constexpr std::array<const char*, kColumns> kTitles = {
    "group", "name", "mode",  "isa",  "threads",    "rows",   "value",
    "unit",  "roof", "ratio", "peer", "peer ratio", "counted"};

Cells CellsOf(const Row& row) {
  const std::string peer =
      row.peer ? fmt::format("{} ({})", Number(row.peer), row.peer_name) : std::string("-");
  return {row.group,
          row.name,
          row.mode,
          row.isa,
          std::to_string(row.threads),
          row.rows == 0 ? "-" : std::to_string(row.rows),
          Number(row.value),
          row.unit,
          Number(row.roof),
          Ratio(row.ratio()),
          peer,
          Ratio(row.peer_ratio()),
          fmt::format("{}/{}", row.counted, row.rounds)};
}

nlohmann::ordered_json Json(const std::optional<double>& value) {
  return value ? nlohmann::ordered_json(*value) : nlohmann::ordered_json(nullptr);
}

}  // namespace

std::optional<double> Row::ratio() const { return Quotient(value, roof); }
std::optional<double> Row::peer_ratio() const { return Quotient(value, peer); }

std::string TextTable(const std::vector<Row>& rows) {
  Cells titles;
  std::copy(kTitles.begin(), kTitles.end(), titles.begin());
  std::vector<Cells> lines = {titles};
  for (const Row& row : rows) lines.push_back(CellsOf(row));
  std::array<size_t, kColumns> widths{};
  for (const Cells& cells : lines) {
    for (size_t c = 0; c < kColumns; ++c) widths[c] = std::max(widths[c], cells[c].size());
  }
  std::string text;
  for (const Cells& cells : lines) {
    std::string line;
    for (size_t c = 0; c < kColumns; ++c) {
      line += fmt::format("{:{}}  ", cells[c], widths[c]);
    }
    text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  return text;
}

std::string MarkdownTable(const std::vector<Row>& rows) {
  std::string text = "|";
  for (const char* title : kTitles) text += fmt::format(" {} |", title);
  text += "\n|";
  for (size_t c = 0; c < kColumns; ++c) text += "---|";
  text += "\n";
  for (const Row& row : rows) {
    text += "|";
    for (const std::string& cell : CellsOf(row)) text += fmt::format(" {} |", cell);
    text += "\n";
  }
  return text;
}

Status WriteJson(const std::vector<Row>& rows, const std::string& path) {
  auto list = nlohmann::ordered_json::array();
  for (const Row& row : rows) {
    list.push_back({{"group", row.group},
                    {"name", row.name},
                    {"mode", row.mode},
                    {"isa", row.isa},
                    {"threads", row.threads},
                    {"rows", row.rows},
                    {"value", Json(row.value)},
                    {"unit", row.unit},
                    {"roof", Json(row.roof)},
                    {"ratio", Json(row.ratio())},
                    {"peer", Json(row.peer)},
                    {"peer_ratio", Json(row.peer_ratio())},
                    {"peer_name", row.peer_name},
                    {"peer_types", row.peer_types},
                    {"rounds", row.rounds},
                    {"counted", row.counted}});
  }
  const std::string text = list.dump(1) + "\n";
  if (path == "-") {
    fmt::print("{}", text);
    return {};
  }
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.close();
  if (!file) return Fail(ErrorCode::kIo, fmt::format("cannot write {}", path));
  return {};
}

}  // namespace slotstream::bench
