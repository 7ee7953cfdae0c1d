#include "checkpoint/geometry.h"

#include <fmt/format.h>

#include "checkpoint/config.h"
#include "checkpoint/published_config.h"
#include "checkpoint/strict_json.h"

namespace slotstream::checkpoint {

using nlohmann::json;

std::string PublishedGeometry() { return PublishedConfig().dump(1) + "\n"; }

Result<std::string> WithLayers(std::string_view text, std::string_view name, uint32_t layers) {
  // Once parsed as a config, the keys below are known to be of their types.
  SS_ASSIGN_OR_RETURN(const ModelConfig config, ParseConfig(text, name));
  if (layers < 1 || layers > config.num_layers()) {
    return Fail(ErrorCode::kInvalidArgument, fmt::format("{} layers are asked for; {} has {}",
                                                         layers, name, config.num_layers()));
  }
  SS_ASSIGN_OR_RETURN(json document, ParseStrictJson(text, name));
  json& model = document.contains("text_config") ? document["text_config"] : document;
  model["num_hidden_layers"] = layers;
  if (auto types = model.find("layer_types"); types != model.end() && types->is_array()) {
    types->erase(types->begin() + layers, types->end());
  }
  if (!config.ple_layers.empty()) {
    json kept = json::array();
    for (const uint32_t layer : config.ple_layers) {
      if (layer < layers) kept.push_back(layer + 1);  // the file counts from one
    }
    model["ple_layer_ids"] = std::move(kept);
  }
  return document.dump(1) + "\n";
}

}  // namespace slotstream::checkpoint
