#include "text/tokenizer_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cctype>
#include <functional>
#include <random>

#include "text/test_tokenizer.h"
#include "text/tokenizer.h"

namespace slotstream::text {
namespace {

using Json = nlohmann::json;
using ::testing::HasSubstr;

TEST(TokenizerJson, ReadsBothFormsOfMerges) {
  Json json = SmallTokenizerJson();
  const auto pairs = ParseTokenizerJson(json.dump(), "t");
  json["model"]["merges"] = {"b c", "a b", "a bc"};
  const auto lines = ParseTokenizerJson(json.dump(), "t");
  ASSERT_TRUE(pairs && lines);
  EXPECT_EQ(pairs->vocab.size(), 259u);
  EXPECT_EQ(pairs->added.size(), 3u);
  EXPECT_TRUE(pairs->nfc);
  ASSERT_EQ(pairs->merges.size(), 3u);
  ASSERT_EQ(lines->merges.size(), 3u);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(pairs->merges[i].left, lines->merges[i].left);
    EXPECT_EQ(pairs->merges[i].right, lines->merges[i].right);
  }
}

struct Bad {
  const char* what;  // stands in the message
  ErrorCode code;
  std::function<void(Json&)> change;
};

TEST(TokenizerJson, RefusesWithTheReason) {
  const auto corrupt = ErrorCode::kCorrupt, unsupported = ErrorCode::kUnsupported;
  const std::vector<Bad> cases = {
      {"not an object", corrupt, [](Json& j) { j = Json::array(); }},
      {"model", corrupt, [](Json& j) { j.erase("model"); }},
      {"model", corrupt, [](Json& j) { j["model"] = 3; }},
      {"type is not BPE", unsupported, [](Json& j) { j["model"]["type"] = "Unigram"; }},
      {"vocab", corrupt, [](Json& j) { j["model"].erase("vocab"); }},
      {"vocab", corrupt, [](Json& j) { j["model"]["vocab"] = Json::array({1}); }},
      {"vocab", corrupt, [](Json& j) { j["model"]["vocab"]["ab"] = -1; }},
      {"vocab", corrupt, [](Json& j) { j["model"]["vocab"]["ab"] = 1.5; }},
      {"vocab", corrupt, [](Json& j) { j["model"]["vocab"]["ab"] = 1u << 20; }},
      {"vocab", corrupt, [](Json& j) { j["model"]["vocab"]["ab"] = "256"; }},
      {"vocab", corrupt, [](Json& j) { j["model"]["vocab"]["ab"] = Json::object({{"x", 1}}); }},
      {"belongs to two", corrupt, [](Json& j) { j["model"]["vocab"]["ab"] = 257; }},
      {"is empty", corrupt, [](Json& j) { j["model"]["vocab"][""] = 300; }},
      {"byte 0x61", corrupt, [](Json& j) { j["model"]["vocab"].erase("a"); }},
      {"merges", corrupt, [](Json& j) { j["model"]["merges"] = 5; }},
      {"merges[3]", corrupt, [](Json& j) { j["model"]["merges"].push_back(Json::array({"a"})); }},
      {"merges[3]", corrupt, [](Json& j) { j["model"]["merges"].push_back("a b c"); }},
      {"merges[3]", corrupt, [](Json& j) { j["model"]["merges"].push_back(nullptr); }},
      {"wrong type", corrupt,
       [](Json& j) { j["model"]["merges"].push_back(Json::object({{"a", "b"}})); }},
      {"merges[3]", corrupt,
       [](Json& j) { j["model"]["merges"].push_back(Json::array({"c", "a"})); }},
      {"byte_fallback", unsupported, [](Json& j) { j["model"]["byte_fallback"] = true; }},
      {"ignore_merges", unsupported, [](Json& j) { j["model"]["ignore_merges"] = true; }},
      {"unk_token", unsupported, [](Json& j) { j["model"]["unk_token"] = "<unk>"; }},
      {"end_of_word", unsupported, [](Json& j) { j["model"]["end_of_word_suffix"] = "</w>"; }},
      {"dropout", unsupported, [](Json& j) { j["model"]["dropout"] = 0.1; }},
      {"normalizer", unsupported, [](Json& j) { j["normalizer"]["type"] = "NFKC"; }},
      {"pre_tokenizer", unsupported, [](Json& j) { j["pre_tokenizer"] = nullptr; }},
      {"Isolated", unsupported,
       [](Json& j) { j["pre_tokenizer"]["pretokenizers"][0]["behavior"] = "Removed"; }},
      {"invert", unsupported,
       [](Json& j) { j["pre_tokenizer"]["pretokenizers"][0]["invert"] = true; }},
      {"add_prefix_space", unsupported,
       [](Json& j) { j["pre_tokenizer"]["pretokenizers"][1]["add_prefix_space"] = true; }},
      {"use_regex", unsupported,
       [](Json& j) { j["pre_tokenizer"]["pretokenizers"][1].erase("use_regex"); }},
      {"split pattern", unsupported,
       [](Json& j) { j["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"] = "(a"; }},
      {"decoder", unsupported, [](Json& j) { j["decoder"]["type"] = "Metaspace"; }},
      {"post_processor", unsupported,
       [](Json& j) { j["post_processor"] = {{"type", "TemplateProcessing"}}; }},
      {"truncation", unsupported, [](Json& j) { j["truncation"] = {{"max_length", 5}}; }},
      {"added_tokens", corrupt, [](Json& j) { j["added_tokens"] = "x"; }},
      {"added_tokens[1].id", corrupt, [](Json& j) { j["added_tokens"][1]["id"] = -1; }},
      {"added_tokens[1]", corrupt, [](Json& j) { j["added_tokens"][1]["id"] = 259; }},
      {"added_tokens[1]", corrupt, [](Json& j) { j["added_tokens"][1]["id"] = 256; }},
      {"added_tokens[1]", corrupt, [](Json& j) { j["added_tokens"][1]["content"] = "<|end|>"; }},
      {"added_tokens[1]", corrupt, [](Json& j) { j["added_tokens"][1]["content"] = "ab"; }},
      {"content", corrupt, [](Json& j) { j["added_tokens"][1]["content"] = ""; }},
      {"content", unsupported,
       [](Json& j) { j["added_tokens"][1]["content"] = std::string(300, 'x'); }},
      {"lstrip", unsupported, [](Json& j) { j["added_tokens"][1]["lstrip"] = true; }},
      {"rstrip", unsupported, [](Json& j) { j["added_tokens"][1]["rstrip"] = true; }},
      {"single_word", unsupported, [](Json& j) { j["added_tokens"][1]["single_word"] = true; }},
      {"normalized", unsupported, [](Json& j) { j["added_tokens"][1]["normalized"] = true; }},
      {"special", corrupt, [](Json& j) { j["added_tokens"][1].erase("special"); }},
  };
  for (size_t i = 0; i < cases.size(); ++i) {
    Json json = SmallTokenizerJson();
    cases[i].change(json);
    const auto result = Tokenizer::FromJson(json.dump(), "file.json");
    ASSERT_FALSE(result) << "case " << i << ": " << cases[i].what;
    EXPECT_EQ(result.error().code, cases[i].code) << result.error().message;
    EXPECT_THAT(result.error().message, HasSubstr(cases[i].what));
    EXPECT_THAT(result.error().message, HasSubstr("file.json"));
  }
}

TEST(TokenizerJson, RefusesWhatIsNotJson) {
  const std::string text = SmallTokenizerJson().dump();
  for (const std::string& bad :
       {std::string(), std::string("{"), text.substr(0, text.size() / 2), std::string(5000, '['),
        text + "x", std::string("\xFF\xFE"), std::string("{\"model\": \"\\ud800\"}")}) {
    const auto result = Tokenizer::FromJson(bad, "t");
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().code, ErrorCode::kCorrupt);
  }
}

// Whatever is done to the file, the answer is an error or a tokenizer that works.
TEST(TokenizerJson, SurvivesMutation) {
  const std::string original = SmallTokenizerJson().dump();
  const std::vector<std::string> splices = {"null", "-1",   "1e99",    "{}",
                                            "[]",   "\"\"", "true",    ",",
                                            ":",    "\"",   "\\u0000", "99999999999999999999"};
  std::mt19937 rng(7);
  int accepted = 0;
  for (int round = 0; round < 600; ++round) {
    std::string text = original;
    for (unsigned n = rng() % 2 + 1; n > 0; --n) {
      const size_t at = rng() % text.size();
      switch (rng() % 4) {
        case 0:  // mostly still JSON
          text[at] = std::isalnum(static_cast<unsigned char>(text[at]))
                         ? "0123456789abcdef"[rng() % 16]
                         : static_cast<char>(rng());
          break;
        case 1:
          text.erase(at, rng() % 8 + 1);
          break;
        case 2:
          text.insert(at, splices[rng() % splices.size()]);
          break;
        case 3:
          text.insert(at, text.substr(rng() % text.size(), rng() % 50));
          break;
      }
      if (text.empty()) text = " ";
    }
    const auto tokenizer = Tokenizer::FromJson(text, "mutant");
    if (!tokenizer) continue;
    ++accepted;
    const auto ids = tokenizer->Encode("abc <t>> e\u0301 12\n<|end|>");
    if (!ids) continue;
    for (TokenId id : *ids) ASSERT_LT(id, tokenizer->vocab_size());
    EXPECT_TRUE(tokenizer->Decode(*ids));
  }
  // Both kinds must occur, or the test shows nothing.
  EXPECT_GT(accepted, 5);
  EXPECT_LT(accepted, 590);
}

// The same for values: every value of the document in turn becomes another type.
TEST(TokenizerJson, SurvivesEveryWrongType) {
  Json json = SmallTokenizerJson();
  json["model"]["vocab"].erase("abc");  // fewer values
  const Json flat = json.flatten();
  size_t index = 0;
  for (const auto& [pointer, value] : flat.items()) {
    if (pointer.starts_with("/model/vocab") && ++index % 16 != 0) continue;
    for (const Json& other : {Json(nullptr), Json(true), Json(-5), Json("x"), Json(1e300),
                              Json::array(), Json::object()}) {
      Json changed = json;
      changed[Json::json_pointer(pointer)] = other;
      const auto result = Tokenizer::FromJson(changed.dump(), "t");
      EXPECT_TRUE(result || !result.error().message.empty());
    }
  }
}

}  // namespace
}  // namespace slotstream::text
