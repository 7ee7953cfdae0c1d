// Depthwise causal convolution over a pass, with the tokens before it kept as state.
#pragma once

#include <cstddef>
#include <vector>

#include "model/products.h"

namespace slotstream::model {

struct ConvShape {
  size_t kernel;    // taps, the last one is the current token
  size_t dilation;  // tokens between taps
  size_t width;     // channels
  size_t history() const { return (kernel - 1) * dilation; }
};

// out[t] = silu(sum over taps j of weight[j] * in[t - dilation (kernel - 1 - j)]), weight
// [kernel, width]. Tokens before the pass come from `history` [shape.history(), width], oldest
// first (zeros at the start of a sequence), which is moved on to the last ones seen.
void CausalConvSilu(Compute& compute, const ConvShape& shape, const float* weight, ConstRows in,
                    size_t rows, std::vector<float>& history, MutableRows out);

// `after`: the history behind the first `rows` of `in`, where `before` is the one in front of them.
// The two may be one vector.
void AdvanceHistory(const ConvShape& shape, ConstRows in, size_t rows,
                    const std::vector<float>& before, std::vector<float>& after);

}  // namespace slotstream::model
