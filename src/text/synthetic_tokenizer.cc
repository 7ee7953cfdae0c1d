#include "text/synthetic_tokenizer.h"

#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>
#include <string_view>
#include <vector>

#include "text/byte_alphabet.h"
#include "text/tokenizer_json.h"
#include "text/utf8.h"

namespace slotstream::text {
namespace {

using Json = nlohmann::json;

// The published model's pattern less its exceptions: words are of no interest without merges.
constexpr const char* kSplitPattern = R"(\s*\S+|\s+)";
// Characters of the byte-level alphabet lie below it.
constexpr char32_t kAlphabetEnd = 0x144;
// The byte-level alphabet's space.
constexpr const char* kSpace = "\u0120";

// What the chat template and the parsers of replies use beside what configs name.
struct ControlToken {
  const char* content;
  bool special;
};
constexpr ControlToken kControlTokens[] = {{"<|im_start|>", true},     {"<|im_end|>", true},
                                           {"<think>", false},         {"</think>", false},
                                           {"<tool_call>", false},     {"</tool_call>", false},
                                           {"<tool_response>", false}, {"</tool_response>", false}};

Json AddedTokenJson(uint32_t id, const ControlToken& token) {
  return {{"id", id},           {"content", token.content}, {"special", token.special},
          {"lstrip", false},    {"rstrip", false},          {"single_word", false},
          {"normalized", false}};
}

Json PretokenizerJson() {
  return {{"type", "Sequence"},
          {"pretokenizers",
           {{{"type", "Split"},
             {"pattern", {{"Regex", kSplitPattern}}},
             {"behavior", "Isolated"},
             {"invert", false}},
            {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}}}}};
}

// One token per byte, in the order of the alphabet's characters.
std::vector<std::string> ByteTokens() {
  std::vector<std::string> out;
  for (char32_t c = 0; c < kAlphabetEnd; ++c) {
    if (AlphabetByte(c)) AppendUtf8(c, out.emplace_back());
  }
  return out;
}

}  // namespace

Result<SyntheticTokenizer> MakeSyntheticTokenizer(uint32_t vocab_size, const ControlIds& ids) {
  std::map<uint32_t, ControlToken> control;
  control[ids.end_of_text] = {"<|endoftext|>", true};
  if (ids.vision_start) control[*ids.vision_start] = {"<|vision_start|>", true};
  if (ids.vision_end) control[*ids.vision_end] = {"<|vision_end|>", true};
  if (ids.image_pad) control[*ids.image_pad] = {"<|image_pad|>", true};
  if (ids.video_pad) control[*ids.video_pad] = {"<|video_pad|>", true};
  const std::vector<std::string> bytes = ByteTokens();
  if (vocab_size < bytes.size() + control.size() + std::size(kControlTokens) ||
      vocab_size > kTokenIdEnd) {
    return Fail(ErrorCode::kUnsupported,
                fmt::format("a vocabulary of {} has no room for a tokenizer's 256 bytes and its "
                            "control tokens, or more than {} entries",
                            vocab_size, kTokenIdEnd));
  }
  uint32_t id = ids.end_of_text;
  bool up = true;
  std::map<std::string_view, uint32_t> placed;
  for (const ControlToken& token : kControlTokens) {
    while (control.contains(id)) {
      up = up && id + 1 < vocab_size;
      id = up ? id + 1 : (id + vocab_size - 1) % vocab_size;
    }
    control[id] = token;
    placed[token.content] = id;
  }

  Json vocab = Json::object();
  size_t next_byte = 0;
  for (uint32_t i = 0; i < vocab_size; ++i) {
    if (control.contains(i)) continue;
    vocab[next_byte < bytes.size() ? bytes[next_byte++] : fmt::format("{}w{}", kSpace, i)] = i;
  }
  Json added = Json::array();
  for (const auto& [token_id, token] : control) added.push_back(AddedTokenJson(token_id, token));
  const Json tokenizer = {
      {"version", "1.0"},
      {"truncation", nullptr},
      {"padding", nullptr},
      {"added_tokens", std::move(added)},
      {"normalizer", nullptr},
      {"pre_tokenizer", PretokenizerJson()},
      {"post_processor", nullptr},
      {"decoder", {{"type", "ByteLevel"}}},
      {"model", {{"type", "BPE"}, {"vocab", std::move(vocab)}, {"merges", Json::array()}}}};
  const Json generation = {
      {"eos_token_id", Json::array({placed.at("<|im_end|>"), ids.end_of_text})}};
  return SyntheticTokenizer{tokenizer.dump(), generation.dump(1) + "\n"};
}

}  // namespace slotstream::text
