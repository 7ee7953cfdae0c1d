// The small text files in which the kernel tells about itself.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace slotstream::plan {

// Reads /proc and /sys below a root directory: "" is this machine, anything else a test's.
class SystemFiles {
 public:
  explicit SystemFiles(std::string root = "") : root_(std::move(root)) {}

  // The contents of the file at `path` (absolute), without blanks and newlines at its end; empty
  // when it cannot be read.
  std::string Read(const std::string& path) const;
  // The number that the file begins with; absent when there is none, as in "max".
  std::optional<uint64_t> Number(const std::string& path) const;
  // What `path` points to when all links are followed, without the root; empty when there is
  // nothing.
  std::string Resolve(const std::string& path) const;
  // Names in a directory, sorted; none when it cannot be read.
  std::vector<std::string> List(const std::string& path) const;
  bool Exists(const std::string& path) const;

 private:
  std::string root_;
};

// The number that starts `text` (after blanks); nothing when there is none.
std::optional<uint64_t> LeadingNumber(std::string_view text);
// The text after `key`, up to the end of its line, in lines such as "MemAvailable:   123 kB" or
// "anon 123"; the key includes what separates it. Blanks around it are left out.
std::optional<std::string> FieldText(std::string_view text, std::string_view key);
std::optional<uint64_t> Field(std::string_view text, std::string_view key);
std::vector<std::string> Lines(std::string_view text);
// Words, as blanks separate them.
std::vector<std::string> Words(std::string_view text);

}  // namespace slotstream::plan
