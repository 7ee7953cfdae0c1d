#include "checkpoint/config_blocks.h"

#include <cmath>

namespace slotstream::checkpoint {
namespace {

uint32_t ParseGroup(const JsonObject& object) {
  if (object.UintOr("bits", 1, 64, 4) != 4) object.Unsupported("bits", "only 4 is supported");
  if (object.StringOr("mode", "affine") != "affine") {
    object.Unsupported("mode", "only affine quantization is supported");
  }
  return object.U32("group_size", 8, kMaxHidden);
}

}  // namespace

void ParseVision(const JsonObject& root, ModelConfig& out) {
  if (root.BoolOr("language_model_only", false) || !root.Has("vision_config")) return;
  const JsonObject object = root.Object("vision_config");
  VisionConfig vision;
  vision.depth = object.U32("depth", 1, kMaxLayers);
  vision.hidden_size = object.U32("hidden_size", 1, kMaxHidden);
  vision.intermediate_size = object.U32("intermediate_size", 1, 1u << 17);
  vision.num_heads = object.U32("num_heads", 1, kMaxHeads);
  vision.in_channels = object.U32Or("in_channels", 1, 16, 3);
  vision.patch_size = object.U32("patch_size", 1, 256);
  vision.temporal_patch_size = object.U32("temporal_patch_size", 1, 16);
  vision.spatial_merge_size = object.U32("spatial_merge_size", 1, 16);
  vision.num_position_embeddings = object.U32("num_position_embeddings", 1, 1u << 20);
  vision.out_hidden_size = object.U32("out_hidden_size", 1, kMaxHidden);
  if (!object.ok()) return;
  const auto side = static_cast<uint32_t>(std::lround(std::sqrt(vision.num_position_embeddings)));
  if (side * side != vision.num_position_embeddings) {
    object.Corrupt("num_position_embeddings", "must be a square");
  }
  // Rotary angles cover half of a head, split between rows and columns.
  if (vision.hidden_size % vision.num_heads != 0 ||
      vision.hidden_size / vision.num_heads % 4 != 0) {
    object.Corrupt("hidden_size", "must be num_heads times a multiple of 4");
  }
  if (vision.out_hidden_size != out.hidden_size) {
    object.Corrupt("out_hidden_size", "differs from the text model's hidden_size");
  }
  if (object.StringOr("hidden_act", "gelu_pytorch_tanh") != "gelu_pytorch_tanh") {
    object.Unsupported("hidden_act", "only gelu_pytorch_tanh is supported");
  }
  if (object.Has("deepstack_visual_indexes") && !object.Array("deepstack_visual_indexes").empty()) {
    object.Unsupported("deepstack_visual_indexes", "deepstack is not supported");
  }
  out.vision = vision;
}

void ParseQuantization(const JsonObject& root, ModelConfig& out) {
  if (!root.Has("quantization")) return;
  const JsonObject object = root.Object("quantization");
  if (!object.ok()) return;
  out.quantization_group = ParseGroup(object);
  for (const auto& [name, value] : object.value().items()) {
    if (!value.is_object()) continue;  // group_size, bits, mode; true and false mean the default
    out.quantization_overrides[name] = ParseGroup(object.Object(name.c_str()));
  }
}

}  // namespace slotstream::checkpoint
