#include "plan/model_cost.h"

#include <algorithm>
#include <string_view>

namespace slotstream::plan {
namespace {

using checkpoint::LayerKind;
using checkpoint::Storage;

// "layers.3.mlp.gate" is "mlp.gate" of any layer.
std::string RoleOf(std::string_view name) {
  constexpr std::string_view kLayers = "layers.";
  if (!name.starts_with(kLayers)) return std::string(name);
  return std::string(name.substr(name.find('.', kLayers.size()) + 1));
}

}  // namespace

TokenCost CostOf(const checkpoint::Checkpoint& checkpoint) {
  const checkpoint::ModelConfig& config = checkpoint.config();
  TokenCost cost;
  const auto add = [&](const MatrixRole& role) {
    const auto same =
        std::find_if(cost.roles.begin(), cost.roles.end(), [&](const MatrixRole& other) {
          return other.name == role.name && other.n == role.n && other.k == role.k;
        });
    if (same == cost.roles.end()) {
      cost.roles.push_back(role);
    } else {
      same->count += role.count;
    }
    cost.operations += 2.0 * role.n * role.k * role.count;
  };
  for (const auto& tensor : checkpoint.layout(checkpoint::Part::kTrunk)->tensors) {
    // A table is read one row a token.
    if (tensor.storage == Storage::kRows) continue;
    cost.decode_bytes += tensor.bytes;
    if (tensor.storage == Storage::kFloat32) continue;
    add({RoleOf(tensor.name), tensor.storage, tensor.n, tensor.k, tensor.group, 1});
    if (tensor.name == "lm_head") cost.head_operations = 2.0 * tensor.n * tensor.k;
  }
  const checkpoint::ExpertShape& expert = checkpoint.experts().shape();
  const uint32_t experts = config.num_layers() * config.experts_per_token;
  cost.decode_bytes += uint64_t{experts} * expert.bytes();
  for (const auto& [name, shape, shared] :
       {std::tuple("routed experts' gate", expert.gate, true),
        std::tuple("routed experts' up", expert.up, true),
        std::tuple("routed experts' down", expert.down, false)}) {
    add({name, Storage::kPanels, shape.n, shape.k, shape.group, experts, shared});
  }
  const auto linear = static_cast<uint64_t>(
      std::count(config.layers.begin(), config.layers.end(), LayerKind::kLinearAttention));
  cost.state_bytes = linear * 2 * sizeof(float) * config.linear_value_heads *
                     config.linear_key_dim * config.linear_value_dim;
  cost.decode_bytes += cost.state_bytes;
  return cost;
}

}  // namespace slotstream::plan
