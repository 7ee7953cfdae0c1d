#include "text/nfc.h"

#include <gtest/gtest.h>

namespace slotstream::text {
namespace {

std::string Nfc(std::string_view text) {
  static const NfcNormalizer normalizer;
  std::string buffer;
  return std::string(normalizer.Normalize(text, buffer));
}

TEST(Nfc, ComposesOrdersAndReplaces) {
  EXPECT_EQ(Nfc("xe\u0301y"), "xéy");
  EXPECT_EQ(Nfc("e\u0301"), "é");
  EXPECT_EQ(Nfc("a\u0308\u0323"), "\u1EA1\u0308");  // dot below sorts before diaeresis
  EXPECT_EQ(Nfc("\u212B"), "\u00C5");               // a singleton
  EXPECT_EQ(Nfc("\u0344"), "\u0308\u0301");         // excluded from composition
  EXPECT_EQ(Nfc("\u0958"), "\u0915\u093C");
  EXPECT_EQ(Nfc("\uFB01"), "\uFB01");  // compatibility only
  EXPECT_EQ(Nfc("\u0301a"), "\u0301a");
  EXPECT_EQ(Nfc("x\u0315\u0316y"), "x\u0316\u0315y");  // neither ever composes
}

TEST(Nfc, Hangul) {
  EXPECT_EQ(Nfc("\u1100\u1161\u11A8"), "각");
  EXPECT_EQ(Nfc("가\u11A8"), "각");
  EXPECT_EQ(Nfc("가\u11A7x"), "가\u11A7x");  // utf8proc would swallow U+11A7
}

TEST(Nfc, IsThatOfUnicode9) {
  // U+07FD (Unicode 11) has class 220 today; U+11938 (Unicode 13) decomposes today.
  EXPECT_EQ(Nfc("a\u0301\u07FD"), "á\u07FD");
  EXPECT_EQ(Nfc("x\u0315\u07FD"), "x\u0315\u07FD");
  EXPECT_EQ(Nfc("a\u07FD\u0323"), "a\u07FD\u0323");
  EXPECT_EQ(Nfc("\U00011935\U00011930"), "\U00011935\U00011930");
}

TEST(Nfc, UnchangedTextIsNotCopied) {
  const NfcNormalizer normalizer;
  std::string buffer;
  const std::string_view text = "plain, größer, 中文, 한국어, é";
  EXPECT_EQ(normalizer.Normalize(text, buffer).data(), text.data());
}

TEST(Nfc, AMegabyteOfUnsortedMarks) {  // hours where sorting is quadratic
  std::string marks = "a", expected = "\u1EA1";
  for (int i = 0; i < 250'000; ++i) marks += "\u0301\u0323";
  for (int i = 1; i < 250'000; ++i) expected += "\u0323";
  for (int i = 0; i < 250'000; ++i) expected += "\u0301";
  EXPECT_EQ(Nfc(marks) == expected, true);
}

}  // namespace
}  // namespace slotstream::text
