#include "text/utf8.h"

#include <gtest/gtest.h>

namespace slotstream::text {
namespace {

std::string Replaced(std::string_view bytes) {
  std::string out;
  AppendReplacingBroken(bytes, out);
  return out;
}

TEST(Utf8, EveryScalarRoundTrips) {
  for (char32_t c = 0; c < 0x110000; ++c) {
    if (c >= 0xD800 && c < 0xE000) continue;
    std::string bytes;
    AppendUtf8(c, bytes);
    const Scalar scalar = NextScalar(bytes);
    ASSERT_EQ(scalar.kind, Scalar::Kind::kValid);
    ASSERT_EQ(scalar.code_point, c);
    ASSERT_EQ(scalar.length, bytes.size());
    for (size_t n = 1; n < bytes.size(); ++n) {
      ASSERT_EQ(NextScalar(bytes.substr(0, n)).kind, Scalar::Kind::kIncomplete);
    }
  }
}

TEST(Utf8, ReplacesMaximalSubparts) {
  // Unicode 16, section 3.9, tables 3-8 to 3-11.
  const std::string r(kReplacement);
  EXPECT_EQ(Replaced("\xC0\xAF\xE0\x80\xBF\xF0\x81\x82\x41"), r + r + r + r + r + r + r + r + "A");
  EXPECT_EQ(Replaced("\xED\xA0\x80\xED\xBF\xBF\xED\xAF\x41"), r + r + r + r + r + r + r + r + "A");
  EXPECT_EQ(Replaced("\xF4\x91\x92\x93\xFF\x41\x80\xBF\x42"),
            r + r + r + r + r + "A" + r + r + "B");
  EXPECT_EQ(Replaced("\xE1\x80\xE2\xF0\x91\x92\xF1\xBF\x41"), r + r + r + r + "A");
  EXPECT_EQ(Replaced("abc \xE2\x82"), "abc " + r);
}

}  // namespace
}  // namespace slotstream::text
