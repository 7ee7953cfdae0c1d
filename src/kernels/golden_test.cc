// Recorded hashes of every kernel's outputs. The other tests compare the instruction sets of one
// machine; these constants tie x86-64 and arm64 builds, and today's builds and tomorrow's,
// together. A change here means that every saved conversation and every recorded token may change.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <string>
#include <vector>

#include <fmt/format.h>
#include "kernels/kernel_runs.h"
#include "kernels/rotary_table.h"

namespace slotstream::kernels {
namespace {

uint64_t Fnv1a(const Floats& values, uint64_t hash) {
  for (float value : values) {
    EXPECT_FALSE(std::isnan(value));
    const auto bits = std::bit_cast<uint32_t>(value);
    for (int shift = 0; shift < 32; shift += 8) {
      hash = (hash ^ ((bits >> shift) & 0xff)) * 0x100000001b3u;
    }
  }
  return hash;
}

constexpr uint64_t kFnvStart = 0xcbf29ce484222325u;

// No infinities: they make NaNs, whose bits processors differ in.
std::string HashOf(const KernelRun& kernel, const KernelTable& table) {
  uint64_t hash = kFnvStart;
  for (Data data : {Data::kOrdinary, Data::kWide}) {
    for (uint64_t seed = 1000; seed < 1020; ++seed) {
      Random random(seed);
      hash = Fnv1a(kernel.run(table, random, data), hash);
    }
  }
  return fmt::format("{} {:016x}", kernel.name, hash);
}

// clang-format off
constexpr std::string_view kGolden[] = {
    "prepare_exact fcc47afc75fd6de7",
    "prepare_int8 1fe32bd69038ee18",
    "prepare_int15 f66cf851afa9861d",
    "panel_product_exact c6460e7f548ee356",
    "panel_product_int8 8a3d0bbb2f2e1f32",
    "panel_product_int15 af3e48090664a8d3",
    "bf16_product e2767d23b7d29d48",
    "dequantize_row 76adbb840b1e6c14",
    "dot c48572c21d1801d0",
    "rms_norm ac065f2970eb93d6",
    "l2_norm 4e321399c1948313",
    "add e30431e3b52d9a5d",
    "axpy 075a53cbf67d12bb",
    "scale 46f1e7ffac504797",
    "silu 488446c896639ee3",
    "silu_mul c010a8f3edde6cb9",
    "sigmoid_mul 7579d282b490a911",
    "exp 011ee81de48442ef",
    "softmax 47d919102dcd9653",
    "hc_mix 6712768f3e1e857a",
    "conv_silu 3dafbad86bd9ab23",
    "delta_gates 5d7b5ef2b158f4c9",
    "delta_rule e6c6c24de04f5fc6",
    "gated_rms_norm 2641da27a1491ece",
    "rope 72f56397d8d804b2",
    "index_scores d4741f31746590a7",
    "attention d0921bfee01b8bea",
};
// clang-format on

TEST(GoldenTest, EveryKernelOfEveryInstructionSet) {
  for (const KernelTable* table : AvailableKernels()) {
    for (size_t i = 0; i < std::size(kKernelRuns); ++i) {
      EXPECT_EQ(HashOf(kKernelRuns[i], *table), kGolden[i]) << table->name;
    }
  }
}

TEST(GoldenTest, RotaryTable) {
  Floats angles;
  for (uint32_t position = 0; position < 262144; position += 1023) {
    for (float frequency : {1.0f, 0.6042964f, 0.0064938163f, 1.6548171e-7f}) {
      angles.push_back(static_cast<float>(position) * frequency);
    }
  }
  Floats cos(angles.size());
  Floats sin(angles.size());
  CosSin(angles.data(), angles.size(), cos.data(), sin.data());
  EXPECT_EQ(Fnv1a(cos + sin, kFnvStart), 0x2a68994c71a2d15du);
}

}  // namespace
}  // namespace slotstream::kernels
