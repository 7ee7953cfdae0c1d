// UTF-8, one scalar at a time, with the replacement rule of Unicode section 3.9 (table 3-8): a
// maximal broken subpart becomes one U+FFFD. Python's errors='replace' and Rust's
// from_utf8_lossy do the same, so text agrees with what their users see.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace slotstream::text {

inline constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

struct Scalar {
  enum class Kind {
    kValid,       // code_point holds the scalar value
    kBroken,      // `length` bytes that no continuation can repair
    kIncomplete,  // the text ended inside a scalar that was well formed so far
  };
  Kind kind = Kind::kValid;
  size_t length = 0;  // bytes read, at least 1
  char32_t code_point = 0;
};

// The scalar at the beginning of `bytes`, which must not be empty.
Scalar NextScalar(std::string_view bytes);

// Length of the longest prefix of `bytes` that is well formed.
size_t ValidPrefix(std::string_view bytes);

// Appends `bytes` to `out`, with every broken or incomplete subpart replaced.
void AppendReplacingBroken(std::string_view bytes, std::string& out);

void AppendUtf8(char32_t code_point, std::string& out);

}  // namespace slotstream::text
