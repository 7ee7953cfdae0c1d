// Hyper-connections: how a block reads the residual streams and writes back to them.
//
// Per token, streams R [N, H]:
//   n = RMSNorm of each stream, with weights per stream
//   t = silu((Wd n) / N), g = sigmoid(Wu t)
//   x = mean over streams of g * n                 what the block sees
//   a = 2 sigmoid((Wi n) / N)                      [N]
//   R_s = R_s + a_s * block(x)
#pragma once

#include "checkpoint/config.h"
#include "model/arena.h"
#include "model/products.h"
#include "model/weights.h"

namespace slotstream::model {

// x [rows, H] and, if the site has an inject matrix, a [rows, N] from residual [rows, N*H].
void ReadStreams(Compute& compute, const checkpoint::ModelConfig& config,
                 const HyperConnectionWeights& weights, ConstRows residual, size_t rows,
                 MutableRows x, MutableRows a, Arena arena);

// residual_s = residual_s + a_s * y, y [rows, H].
void WriteStreams(Compute& compute, const checkpoint::ModelConfig& config, ConstRows y, ConstRows a,
                  size_t rows, MutableRows residual);

// The root-mean-square norm of each of the N streams of one token, weights [N*H]; out may be in.
void NormStreams(const kernels::KernelTable& kernels, const checkpoint::ModelConfig& config,
                 const float* in, const float* weight, float* out);

// Scratch that ReadStreams takes.
size_t HyperConnectionScratch(const checkpoint::ModelConfig& config, size_t rows);

}  // namespace slotstream::model
