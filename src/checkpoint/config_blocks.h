// Blocks of config.json that stand beside the text model's.
#pragma once

#include <cstdint>

#include "checkpoint/config.h"
#include "checkpoint/strict_json.h"

namespace slotstream::checkpoint {

// Upper bounds. They leave room for models tens of times larger, and keep every product that later
// code forms within its type: hc_width, conv_dim and query rows below 2^26 (uint32), one matrix
// below 2^26 * 2^15 values, all routed experts below 2^10 * 2^16 * 2^31 bytes (uint64).
inline constexpr uint32_t kMaxVocab = 1u << 24;
inline constexpr uint32_t kMaxHidden = 1u << 15;
inline constexpr uint32_t kMaxLayers = 1u << 10;
inline constexpr uint32_t kMaxHeads = 1u << 10;

// vision_config, unless language_model_only. The text model's hidden_size is known already.
void ParseVision(const JsonObject& root, ModelConfig& out);

// quantization: only affine 4 bits; the group of all modules and of some by name.
void ParseQuantization(const JsonObject& root, ModelConfig& out);

}  // namespace slotstream::checkpoint
