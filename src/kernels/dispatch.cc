#include <algorithm>
#include <array>
#include <string>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include "kernels/kernel_tables.h"

namespace slotstream::kernels {
namespace {

// A table of this build, and the first instruction-set extension it needs that is missing here.
struct Candidate {
  const KernelTable* table;
  std::string_view missing;  // empty: this processor and operating system can run it
};

#if defined(__x86_64__)

// The extensions that the compiler may use in code for Highway's HWY_AVX2 and HWY_AVX3 targets
// (without AES, which is switched off). __builtin_cpu_supports also asks whether the operating
// system saves the wide registers. It wants literals, hence a macro.
#define SS_REQUIRE(feature) \
  if (!__builtin_cpu_supports(feature)) return feature

std::string_view MissingForAvx2() {
  SS_REQUIRE("avx2");
  SS_REQUIRE("fma");
  SS_REQUIRE("f16c");
  SS_REQUIRE("bmi");
  SS_REQUIRE("bmi2");
  return {};
}

std::string_view MissingForAvx512() {
  if (std::string_view missing = MissingForAvx2(); !missing.empty()) return missing;
  SS_REQUIRE("avx512f");
  SS_REQUIRE("avx512vl");
  SS_REQUIRE("avx512dq");
  SS_REQUIRE("avx512bw");
  return {};
}

#undef SS_REQUIRE
#endif

// Slowest first.
auto Candidates() {
  return std::to_array<Candidate>({
      {&kScalarKernels, {}},
#if defined(__x86_64__)
      {&kAvx2Kernels, MissingForAvx2()},
      {&kAvx512Kernels, MissingForAvx512()},
#elif defined(__aarch64__)
      {&kNeonKernels, {}},  // part of every arm64 processor
#endif
  });
}

struct Runnable {
  std::array<const KernelTable*, std::tuple_size_v<decltype(Candidates())>> tables;
  size_t count = 0;

  Runnable() {
    for (const Candidate& candidate : Candidates()) {
      if (candidate.missing.empty()) tables[count++] = candidate.table;
    }
  }
};

}  // namespace

std::span<const KernelTable* const> AvailableKernels() {
  static const Runnable runnable;
  return {runnable.tables.data(), runnable.count};
}

Result<const KernelTable*> SelectKernels(std::string_view name) {
  if (name == "auto") return AvailableKernels().back();
  std::string names = "auto";
  for (const KernelTable* table : AvailableKernels()) {
    if (table->name == name) return table;
    names += fmt::format(", {}", table->name);
  }
  for (const Candidate& candidate : Candidates()) {
    if (candidate.table->name == name) {
      return Fail(ErrorCode::kInvalidArgument,
                  fmt::format("kernels '{}' are in this build, but the processor or the operating "
                              "system lacks {}; use one of: {}",
                              name, candidate.missing, names));
    }
  }
  return Fail(ErrorCode::kInvalidArgument,
              fmt::format("this build has no kernels called '{}'; use one of: {}", name, names));
}

}  // namespace slotstream::kernels
