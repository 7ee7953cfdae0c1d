#include "cli/inputs.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <iostream>
#include <iterator>

#include "io/file.h"

namespace slotstream::cli {
namespace {

// A prompt of the longest context is about 1 MB; more is a mistake.
constexpr size_t kMaxTextBytes = 64 << 20;
constexpr std::string_view kSeparators = ", \t\r\n";

}  // namespace

Result<std::vector<uint32_t>> ParseIds(std::string_view text) {
  std::vector<uint32_t> ids;
  for (size_t at = text.find_first_not_of(kSeparators); at != std::string_view::npos;
       at = text.find_first_not_of(kSeparators, at)) {
    const std::string_view word =
        text.substr(at, std::min(text.find_first_of(kSeparators, at), text.size()) - at);
    uint32_t id = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), id);
    if (error != std::errc() || end != word.data() + word.size()) {
      return Fail(ErrorCode::kInvalidArgument,
                  fmt::format("\"{}\" is not a token id", word.substr(0, 40)));
    }
    ids.push_back(id);
    at += word.size();
  }
  if (ids.empty()) return Fail(ErrorCode::kInvalidArgument, "no token ids were given");
  return ids;
}

Result<std::string> ReadTextFile(const std::string& path) {
  if (path != "-") return io::ReadWholeFile(path, kMaxTextBytes);
  std::string text(std::istreambuf_iterator<char>(std::cin), {});
  if (text.size() > kMaxTextBytes) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("standard input is longer than {} bytes", kMaxTextBytes));
  }
  return text;
}

}  // namespace slotstream::cli
