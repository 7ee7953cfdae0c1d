#include "text/json_text.h"

#include <gtest/gtest.h>

#include <limits>

namespace slotstream::text {
namespace {

std::string Python(const char* json) {
  return *WriteJson(OrderedJson::parse(json), JsonStyle::kPython);
}

TEST(JsonText, WritesAsPython) {
  // Each expectation is json.dumps(json.loads(x), ensure_ascii=False) of CPython.
  EXPECT_EQ(Python(R"({"b":1,"a":[true,null,{}],"é":"<&>'中"})"),
            R"({"b": 1, "a": [true, null, {}], "é": "<&>'中"})");
  EXPECT_EQ(Python(R"("\u0000\u001f\u007f\"\\\/\b\f\n\r\t\u2028")"),
            "\"\\u0000\\u001f\x7f\\\"\\\\/\\b\\f\\n\\r\\t\u2028\"");
  EXPECT_EQ(Python("[1.0, -0.0, 1e20, 1e16, 1e15, 123456789.125, 0.0001, 0.00001, 1.5e-7]"),
            "[1.0, -0.0, 1e+20, 1e+16, 1000000000000000.0, 123456789.125, 0.0001, 1e-05, 1.5e-07]");
  EXPECT_EQ(Python("[0.1, 1e300, 5e-324, 1.7976931348623157e308, 9007199254740993.0]"),
            "[0.1, 1e+300, 5e-324, 1.7976931348623157e+308, 9007199254740992.0]");
  EXPECT_EQ(Python("[18446744073709551615, -9223372036854775808, -0]"),
            "[18446744073709551615, -9223372036854775808, 0]");
  EXPECT_EQ(*WriteJson(std::numeric_limits<double>::infinity(), JsonStyle::kPython), "Infinity");
}

TEST(JsonText, Compact) {
  EXPECT_EQ(
      *WriteJson(OrderedJson::parse(R"({"a": 3.0, "b": [1e15, 0.5, -2.0]})"), JsonStyle::kCompact),
      R"({"a":3,"b":[1000000000000000.0,0.5,-2]})");
}

TEST(JsonText, DepthIsBounded) {
  OrderedJson fits = 1, deep;
  for (size_t i = 0; i < kDeepestJson; ++i) fits = OrderedJson::array({std::move(fits)});
  EXPECT_TRUE(WriteJson(fits, JsonStyle::kPython));
  deep = OrderedJson::array({std::move(fits)});
  EXPECT_EQ(WriteJson(deep, JsonStyle::kPython).error().code, ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace slotstream::text
