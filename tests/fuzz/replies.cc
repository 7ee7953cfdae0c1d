// Fuzzes the parsers of replies. The first bytes say how the rest is cut into pieces.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <string>
#include <string_view>

#include "text/test_replies.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  constexpr size_t kCuts = 4;
  if (size <= kCuts) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + kCuts, size - kCuts);
  const std::string fault = slotstream::text::FaultOfReply(text, std::span(data, kCuts));
  if (!fault.empty()) {
    std::fprintf(stderr, "%s\n", fault.c_str());
    std::abort();
  }
  return 0;
}
