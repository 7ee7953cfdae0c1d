#include <utility>

#include "checkpoint/config.h"
#include "checkpoint/config_blocks.h"
#include "checkpoint/strict_json.h"

namespace slotstream::checkpoint {

using nlohmann::json;

Result<GenerationConfig> ParseGenerationConfig(std::string_view text, std::string_view name) {
  SS_ASSIGN_OR_RETURN(const json document, ParseStrictJson(text, name));
  Status status;
  const JsonObject root(document, std::string(name), &status);
  GenerationConfig out;
  if (root.Has("eos_token_id")) {
    const json& eos = root.value().at("eos_token_id");
    for (const json& entry : eos.is_array() ? eos : json::array({eos})) {
      if (!entry.is_number_unsigned() || entry.get<uint64_t>() >= kMaxVocab) {
        root.Corrupt("eos_token_id", "must be an id or a list of ids");
        break;
      }
      out.eos_token_ids.push_back(entry.get<uint32_t>());
    }
  }
  if (root.Has("temperature")) {
    out.temperature = static_cast<float>(root.Number("temperature", 0, 1000));
  }
  if (root.Has("top_p")) out.top_p = static_cast<float>(root.Number("top_p", 0, 1));
  if (root.Has("top_k")) out.top_k = root.U32("top_k", 0, kMaxVocab);
  if (!root.BoolOr("do_sample", true)) out.temperature = 0.0f;
  SS_RETURN_IF_ERROR(std::move(status));
  return out;
}

}  // namespace slotstream::checkpoint
