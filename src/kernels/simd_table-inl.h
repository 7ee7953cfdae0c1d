// The vector kernels as a table, for the files that compile them per instruction set.
#pragma once

#include "kernels/kernel_tables.h"
#include "kernels/simd_attention-inl.h"
#include "kernels/simd_bf16-inl.h"
#include "kernels/simd_exact-inl.h"
#include "kernels/simd_layers-inl.h"
#include "kernels/simd_vectors-inl.h"

namespace slotstream::kernels::HWY_NAMESPACE {

constexpr PanelKernels MakeExactPanels(std::string_view name) {
  return {.instructions = name,
          .tile_rows = kTileRows,
          .prepare = PrepareExact,
          .product = ExactProduct};
}

constexpr KernelTable MakeTable(std::string_view name, const PanelKernels* exact,
                                const PanelKernels* int8, const PanelKernels* int15) {
  return {
      .name = name,
      .panels = {exact, int8, int15},
      .bf16_product = Bf16Product,
      .dequantize_row = DequantizeRow,
      .dot = Dot16,
      .rms_norm = RmsNorm,
      .l2_norm = L2Norm,
      .add = Add,
      .axpy = Axpy,
      .scale = Scale,
      .silu = SiluScaled,
      .silu_mul = SiluMul,
      .sigmoid_mul = SigmoidMul,
      .exp = ExpInPlace,
      .softmax = Softmax,
      .hc_mix = HcMix,
      .conv_silu = ConvSilu,
      .delta_gates = DeltaGates,
      .delta_rule = DeltaRule,
      .gated_rms_norm = GatedRmsNorm,
      .rope = Rope,
      .index_scores = IndexScores,
      .attention = Attention,
  };
}

}  // namespace slotstream::kernels::HWY_NAMESPACE
