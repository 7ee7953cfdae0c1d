#include <algorithm>
#include <array>
#include <string>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include "kernels/cpu_features.h"
#include "kernels/kernel_tables.h"

namespace slotstream::kernels {
namespace {

// A table of this build, and the first instruction-set extension it needs that is missing here.
struct Candidate {
  KernelTable table;
  std::string_view missing;  // empty: this processor and operating system can run it
};

[[maybe_unused]] KernelTable WithIntegers(const KernelTable& table, std::string_view name,
                                          const PanelKernels& int8, const PanelKernels& int15) {
  KernelTable copy = table;
  copy.name = name;
  copy.panels[static_cast<size_t>(ComputeMode::kInt8)] = &int8;
  copy.panels[static_cast<size_t>(ComputeMode::kInt15)] = &int15;
  return copy;
}

// Slowest first.
auto Candidates() {
  return std::to_array<Candidate>({
      {kScalarKernels, {}},
#if defined(__x86_64__)
      {kAvx2Kernels, MissingForAvx2()},
      {WithIntegers(kAvx2Kernels, "avxvnni", kAvxVnniInt8, kAvxVnniInt15), MissingForAvxVnni()},
      {kAvx512Kernels, MissingForAvx512()},
      {WithIntegers(kAvx512Kernels, "avx512vnni", kAvx512VnniInt8, kAvx512VnniInt15),
       MissingForAvx512Vnni()},
      {WithIntegers(kAvx512Kernels, "amx", kAmxInt8, kAmxInt15), MissingForAmx()},
#elif defined(__aarch64__)
      {kNeonKernels, {}},  // part of every arm64 processor
      {WithIntegers(kNeonKernels, "neon_dotprod", kNeonDotprodInt8, kNeonDotprodInt15),
       MissingForDotprod()},
#endif
  });
}

struct Tables {
  decltype(Candidates()) candidates = Candidates();
  std::array<const KernelTable*, std::tuple_size_v<decltype(Candidates())>> runnable;
  size_t count = 0;

  Tables() {
    for (const Candidate& candidate : candidates) {
      if (candidate.missing.empty()) runnable[count++] = &candidate.table;
    }
  }
};

const Tables& AllTables() {
  static const Tables tables;
  return tables;
}

}  // namespace

std::span<const KernelTable* const> AvailableKernels() {
  return {AllTables().runnable.data(), AllTables().count};
}

Result<const KernelTable*> SelectKernels(std::string_view name) {
  if (name == "auto") return AvailableKernels().back();
  std::string names = "auto";
  for (const KernelTable* table : AvailableKernels()) {
    if (table->name == name) return table;
    names += fmt::format(", {}", table->name);
  }
  for (const Candidate& candidate : AllTables().candidates) {
    if (candidate.table.name == name) {
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
