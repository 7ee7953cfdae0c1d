// n-gram memory: rows of a hashed table, gated into the residual streams.
//
// Per token, e = the table's rows of the token's n-grams side by side [ple_embed_dim], R [N, H]:
//   key = RMSNorm of each stream of Wkey e; v = Wvalue e; q = RMSNorm of each stream of R
//   c_s = <key_s, q_s> / sqrt(H);  c'_s = sign(c_s) sqrt(max(|c_s|, 1e-6)), 0 if c_s is 0
//   u_s = sigmoid(c'_s) v;  un = RMSNorm of each stream of u
//   R = R + u + silu(causal convolution of un, taps ngram_size tokens apart)
#pragma once

#include "base/result.h"
#include "checkpoint/config.h"
#include "experts/ngram_store.h"
#include "model/arena.h"
#include "model/capture.h"
#include "model/products.h"
#include "model/weights.h"
#include "state/sequence.h"

namespace slotstream::model {

// Adds the memory to residual [rows, N*H]. The rows' n-grams were asked for with store.Begin, in
// order of tokens and heads; errors are the store's.
Status RunNgramMemory(Compute& compute, const checkpoint::ModelConfig& config,
                      const NgramWeights& weights, experts::NgramStore& store, size_t rows,
                      state::NgramState& state, Captures<state::NgramState> captures,
                      MutableRows residual, Arena arena);

size_t NgramMemoryScratch(const checkpoint::ModelConfig& config, size_t rows);

// c' of one stream, through the sigmoid.
float NgramGate(float c);

}  // namespace slotstream::model
