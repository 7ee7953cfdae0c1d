// Gated delta net: linear attention with a recurrent state per value head.
//
// Per token, x [H]: q, k, v = silu(causal convolution(Wqkv x)); z = Wz x; beta = sigmoid(Wb x);
// g = -exp(A_log) softplus(Wa x + dt_bias); q and k are l2-normalised per head (q also scaled by
// 1/sqrt(key dim)); value head j uses key head j div (value heads / key heads):
//   S = e^g S;  S = S + k (beta (v - S^T k))^T;  o = S^T q
// and y = Wo (RMSNorm(o) * gate(z)), gate being sigmoid or silu.
#pragma once

#include "checkpoint/config.h"
#include "model/arena.h"
#include "model/capture.h"
#include "model/products.h"
#include "model/weights.h"
#include "state/sequence.h"

namespace slotstream::model {

// y [rows, H] from x [rows, H], the rows being consecutive tokens; moves `state` on by `rows`.
void RunDeltaNet(Compute& compute, const checkpoint::ModelConfig& config,
                 const DeltaNetWeights& weights, ConstRows x, size_t rows,
                 state::LinearState& state, Captures<state::LinearState> captures, MutableRows y,
                 Arena arena);

size_t DeltaNetScratch(const checkpoint::ModelConfig& config, size_t rows);

}  // namespace slotstream::model
