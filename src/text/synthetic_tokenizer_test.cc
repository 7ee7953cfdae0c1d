#include "text/synthetic_tokenizer.h"

#include <gtest/gtest.h>

#include "text/tokenizer.h"

namespace slotstream::text {
namespace {

TEST(SyntheticTokenizer, EveryIdHasATextAndTextComesBack) {
  auto made = MakeSyntheticTokenizer(
      1000, {.end_of_text = 900, .vision_start = 902, .vision_end = 903, .image_pad = 905});
  ASSERT_TRUE(made) << made.error().message;
  auto tokenizer = Tokenizer::FromJson(made->tokenizer_json, "synthetic");
  ASSERT_TRUE(tokenizer) << tokenizer.error().message;
  ASSERT_EQ(tokenizer->vocab_size(), 1000u);
  for (TokenId id = 0; id < 1000; ++id) EXPECT_TRUE(tokenizer->TokenBytes(id)) << id;
  EXPECT_EQ(tokenizer->FindAddedToken("<|endoftext|>"), 900u);
  EXPECT_EQ(tokenizer->FindAddedToken("<|im_start|>"), 901u);
  EXPECT_EQ(tokenizer->FindAddedToken("<|vision_start|>"), 902u);
  EXPECT_EQ(tokenizer->FindAddedToken("<|im_end|>"), 904u);
  EXPECT_NE(made->generation_config_json.find("904"), std::string::npos);

  std::string text;
  for (int byte = 1; byte < 128; ++byte) text += static_cast<char>(byte);
  text += "Grüße, 世界";
  auto ids = tokenizer->Encode(text + "<|im_end|>");
  ASSERT_TRUE(ids);
  EXPECT_EQ(ids->size(), text.size() + 1);  // a token per byte, and the control token
  EXPECT_EQ(*tokenizer->Decode(*ids, /*skip_special=*/true), text);
}

TEST(SyntheticTokenizer, EndOfTextAnywhere) {
  for (const uint32_t end : {0u, 5u, 290u, 299u}) {
    auto made = MakeSyntheticTokenizer(300, {.end_of_text = end});
    ASSERT_TRUE(made) << made.error().message;
    auto tokenizer = Tokenizer::FromJson(made->tokenizer_json, "synthetic");
    ASSERT_TRUE(tokenizer) << end << ": " << tokenizer.error().message;
    EXPECT_EQ(tokenizer->FindAddedToken("<|endoftext|>"), end);
    EXPECT_TRUE(tokenizer->FindAddedToken("</tool_response>"));
    EXPECT_EQ(tokenizer->Encode("ab")->size(), 2u);
  }
}

TEST(SyntheticTokenizer, RefusesTooSmallAVocabulary) {
  EXPECT_TRUE(MakeSyntheticTokenizer(265, {.end_of_text = 3}));
  EXPECT_FALSE(MakeSyntheticTokenizer(264, {.end_of_text = 3}));
}

}  // namespace
}  // namespace slotstream::text
