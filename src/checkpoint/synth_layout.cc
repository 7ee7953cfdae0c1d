#include "checkpoint/synth_layout.h"

#include <fmt/format.h>

#include "checkpoint/expected_tensors.h"
#include "checkpoint/ngram_hash.h"

namespace slotstream::checkpoint {
namespace {

constexpr uint32_t kGroup = 64;
constexpr uint32_t kNgramGroup = 32;
constexpr uint32_t kSmallestGroup = 8;

Result<uint32_t> GroupFor(std::string_view what, uint32_t inputs, uint32_t group) {
  while (group >= kSmallestGroup && inputs % group != 0) group /= 2;
  if (group >= kSmallestGroup) return group;
  return Fail(ErrorCode::kUnsupported,
              fmt::format("{} has {} inputs, no multiple of {}: it cannot be 4-bit", what, inputs,
                          kSmallestGroup));
}

Result<ResidentLayout> PartLayout(const ModelConfig& config, Part part) {
  const std::vector<ExpectedTensor> tensors = ExpectedTensors(config, part);
  std::vector<uint32_t> groups;
  for (const ExpectedTensor& tensor : tensors) {
    groups.push_back(0);
    if (!tensor.quantized()) continue;
    SS_ASSIGN_OR_RETURN(groups.back(), GroupFor(tensor.name, tensor.k, kGroup));
  }
  return LayOut(tensors, groups);
}

}  // namespace

Result<PackedLayout> SyntheticLayout(const ModelConfig& config, const SynthOptions& options) {
  PackedLayout layout;
  SS_ASSIGN_OR_RETURN(layout.trunk, PartLayout(config, Part::kTrunk));
  if (options.draft) {
    if (config.mtp_layers == 0) {
      return Fail(ErrorCode::kInvalidArgument,
                  fmt::format("{} has no draft head", options.config_name));
    }
    SS_ASSIGN_OR_RETURN(layout.draft, PartLayout(config, Part::kDraft));
  }
  if (options.vision) {
    if (!config.vision) {
      return Fail(ErrorCode::kInvalidArgument,
                  fmt::format("{} has no vision tower", options.config_name));
    }
    SS_ASSIGN_OR_RETURN(layout.vision, PartLayout(config, Part::kVision));
  }
  const uint32_t hidden = config.hidden_size, inner = config.expert_size;
  SS_ASSIGN_OR_RETURN(const uint32_t in_group, GroupFor("an expert", hidden, kGroup));
  SS_ASSIGN_OR_RETURN(const uint32_t down_group, GroupFor("an expert's down", inner, kGroup));
  layout.expert = {
      {inner, hidden, in_group}, {inner, hidden, in_group}, {hidden, inner, down_group}};
  layout.expert_layers = config.num_layers() + (options.draft ? config.mtp_layers : 0);
  layout.experts = config.num_experts;
  for (size_t i = 0; i < config.ple_layers.size(); ++i) {
    const uint32_t width = config.ngram_row_width();
    SS_ASSIGN_OR_RETURN(const uint32_t group, GroupFor("an n-gram row", width, kNgramGroup));
    layout.ngrams.push_back({.layer = config.ple_layers[i],
                             .rows = MakeNgramHash(config, i).rows,
                             .width = width,
                             .group = group});
  }
  SS_RETURN_IF_ERROR(PlaceNgramTables(layout.ngrams));
  layout.fold = options.fold;
  SS_RETURN_IF_ERROR(CheckFold(layout));
  return layout;
}

}  // namespace slotstream::checkpoint
