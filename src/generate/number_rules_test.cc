#include "generate/number_rules.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <string_view>

namespace slotstream::generate {
namespace {

constexpr std::string_view kCharacters = "0123456789-.eE+";

bool Accepts(const NumberRules& rules, std::string_view text) {
  NumberState state;
  for (char c : text) {
    if (!StepNumber(rules, state, static_cast<uint8_t>(c))) return false;
  }
  return NumberComplete(rules, state);
}

NumberRules Bounded(bool integer, const std::string& low, const std::string& high) {
  return {integer, NumberBounds{ParseScaled(low).value(), ParseScaled(high).value()}};
}

TEST(NumberRules, JsonGrammar) {
  const NumberRules any, integer{true, {}};
  for (const char* good : {"0", "-0", "10", "-1.5", "0.001", "1e5", "1E+05", "2.5e-07"}) {
    EXPECT_TRUE(Accepts(any, good)) << good;
  }
  for (const char* bad : {"", "-", "01", "1.", ".5", "+1", "1e", "1e+", "1e100", "--1", "0x1"}) {
    EXPECT_FALSE(Accepts(any, bad)) << bad;
  }
  EXPECT_TRUE(Accepts(integer, "-42"));
  for (const char* bad : {"1.0", "1e1", "-0", "1234567890123456789"}) {
    EXPECT_FALSE(Accepts(integer, bad)) << bad;
  }
}

TEST(NumberRules, ParsesExactly) {
  const Int128 unit = 1'000'000'000'000;
  EXPECT_TRUE(ParseScaled("3").value() == 3 * unit);
  EXPECT_TRUE(ParseScaled("-0.5").value() == -unit / 2);
  EXPECT_TRUE(ParseScaled("1e-12").value() == 1);
  EXPECT_TRUE(ParseScaled("2.50e2").value() == 250 * unit);
  EXPECT_TRUE(ParseScaled("9007199254740991").value() == 9007199254740991 * unit);
  EXPECT_TRUE(ParseScaled("1e300").value() == ParseScaled("1e18").value());
  EXPECT_FALSE(ParseScaled("1e-13"));
}

// For small ranges: exactly the integers within are accepted.
TEST(NumberRules, IntegersWithinBounds) {
  std::mt19937 rng(5);
  for (int round = 0; round < 300; ++round) {
    int64_t low = static_cast<int64_t>(rng() % 3000) - 1500;
    const int64_t high = low + static_cast<int64_t>(rng() % 200);
    const NumberRules rules = Bounded(true, std::to_string(low), std::to_string(high));
    ASSERT_TRUE(HasNumber(rules));
    for (int64_t value = -1800; value <= 1800; ++value) {
      ASSERT_EQ(Accepts(rules, std::to_string(value)), value >= low && value <= high)
          << value << " in " << low << " to " << high;
    }
  }
  EXPECT_FALSE(HasNumber(Bounded(true, "0.2", "0.8")));
  EXPECT_FALSE(HasNumber(Bounded(false, "2", "1")));
  EXPECT_TRUE(HasNumber(Bounded(false, "0.2", "0.3")));
}

// Whatever characters are chosen, there is always one more or an end, and the end is in bounds.
TEST(NumberRules, NeverStuck) {
  std::mt19937 rng(6);
  const auto decimal = [&] {
    std::string text = std::to_string(static_cast<int64_t>(rng() % 2001) - 1000);
    if (rng() % 2 == 0) text += "." + std::to_string(rng() % 1000);
    if (rng() % 8 == 0) text = std::to_string(static_cast<int64_t>(rng()) * 100000000) + "00";
    return text;
  };
  int reached = 0;
  for (int round = 0; round < 5000; ++round) {
    const NumberRules rules = Bounded(rng() % 2 == 0, decimal(), decimal());
    const bool possible = HasNumber(rules);
    NumberState state;
    std::string text;
    while (possible) {
      if (NumberComplete(rules, state) && rng() % 4 == 0) break;
      std::string next;
      for (char c : kCharacters) {
        NumberState trial = state;
        if (StepNumber(rules, trial, static_cast<uint8_t>(c))) next += c;
      }
      if (next.empty()) break;
      text += next[rng() % next.size()];
      ASSERT_TRUE(StepNumber(rules, state, static_cast<uint8_t>(text.back())));
      ASSERT_LE(text.size(), 40u);
    }
    if (!possible) continue;
    ++reached;
    ASSERT_TRUE(NumberComplete(rules, state)) << text;
    ASSERT_TRUE(nlohmann::json::accept(text)) << text;
    const Int128 value = ParseScaled(text).value();
    ASSERT_TRUE(value >= rules.bounds->low && value <= rules.bounds->high) << text;
  }
  EXPECT_GT(reached, 2000);
}

}  // namespace
}  // namespace slotstream::generate
