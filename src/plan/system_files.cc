#include "plan/system_files.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <sstream>
#include <system_error>

#include "io/file.h"

namespace slotstream::plan {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMaxFileBytes = 1 << 20;
constexpr std::string_view kBlanks = " \t\r\n";

}  // namespace

std::string SystemFiles::Read(const std::string& path) const {
  std::string text = io::ReadWholeFile(root_ + path, kMaxFileBytes).value_or("");
  text.resize(text.find_last_not_of(kBlanks) + 1);
  return text;
}

std::optional<uint64_t> SystemFiles::Number(const std::string& path) const {
  return LeadingNumber(Read(path));
}

std::string SystemFiles::Resolve(const std::string& path) const {
  std::error_code error;
  const fs::path root = fs::canonical(root_.empty() ? "/" : root_, error);
  if (error) return "";
  const fs::path found = fs::canonical(root_ + path, error);
  if (error) return "";
  return "/" + found.lexically_relative(root).string();
}

std::vector<std::string> SystemFiles::List(const std::string& path) const {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator entry(root_ + path, error), end; !error && entry != end;
       entry.increment(error)) {
    names.push_back(entry->path().filename());
  }
  std::ranges::sort(names);
  return names;
}

bool SystemFiles::Exists(const std::string& path) const {
  std::error_code error;
  return fs::exists(root_ + path, error);
}

std::optional<uint64_t> LeadingNumber(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of(kBlanks), text.size()));
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end == text.data()) return std::nullopt;
  return value;
}

std::optional<std::string> FieldText(std::string_view text, std::string_view key) {
  for (const std::string& line : Lines(text)) {
    if (!line.starts_with(key)) continue;
    std::string_view value = std::string_view(line).substr(key.size());
    value.remove_prefix(std::min(value.find_first_not_of(kBlanks), value.size()));
    return std::string(value.substr(0, value.find_last_not_of(kBlanks) + 1));
  }
  return std::nullopt;
}

std::optional<uint64_t> Field(std::string_view text, std::string_view key) {
  const auto value = FieldText(text, key);
  return value ? LeadingNumber(*value) : std::nullopt;
}

std::vector<std::string> Lines(std::string_view text) {
  std::vector<std::string> lines;
  std::istringstream in{std::string(text)};
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

std::vector<std::string> Words(std::string_view text) {
  std::vector<std::string> words;
  std::istringstream in{std::string(text)};
  for (std::string word; in >> word;) words.push_back(word);
  return words;
}

}  // namespace slotstream::plan
