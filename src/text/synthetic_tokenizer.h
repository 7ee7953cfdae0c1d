// A tokenizer for models without one of their own: text in becomes one token per byte, and every
// id of the vocabulary has a text.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/result.h"

namespace slotstream::text {

// Ids that a model's config gives to control tokens.
struct ControlIds {
  uint32_t end_of_text = 0;
  std::optional<uint32_t> vision_start = {}, vision_end = {}, image_pad = {}, video_pad = {};
};

struct SyntheticTokenizer {
  std::string tokenizer_json;
  std::string generation_config_json;  // names the ids that end a reply
};

// The chat template's other control tokens take the ids nearest to end of text, above it while
// there are any; the bytes take the lowest ids that are left; all others stand for " w" and their
// number. kUnsupported when the vocabulary has no room for bytes and control tokens, or exceeds
// what a tokenizer.json may name.
Result<SyntheticTokenizer> MakeSyntheticTokenizer(uint32_t vocab_size, const ControlIds& ids);

}  // namespace slotstream::text
