#include "kernels/panel_kernels.h"

#include <string>

#include <fmt/format.h>
#include "kernels/prepared_rows.h"

namespace slotstream::kernels {
namespace {

// At least so many tasks a thread, or some would wait for the others' last one.
constexpr size_t kTasksPerThread = 4;

}  // namespace

std::string_view NameOf(ComputeMode mode) {
  switch (mode) {
    case ComputeMode::kInt8:
      return "int8";
    case ComputeMode::kInt15:
      return "int15";
    default:
      return "exact";
  }
}

Result<ComputeMode> ParseComputeMode(std::string_view name) {
  std::string names;
  for (ComputeMode mode : kComputeModes) {
    if (name == NameOf(mode)) return mode;
    names += fmt::format("{}{}", names.empty() ? "" : ", ", NameOf(mode));
  }
  return Fail(ErrorCode::kInvalidArgument,
              fmt::format("there is no compute mode '{}'; use one of: {}", name, names));
}

PanelTask PanelKernels::TaskFor(size_t panels, size_t rows, int threads) const {
  if (rows > 1) return {1, tile_rows};
  const size_t tasks = panels / panels_at_once;
  return {tasks >= kTasksPerThread * static_cast<size_t>(threads) ? panels_at_once : 1, 1};
}

size_t PreparedBytes(ComputeMode mode, size_t k, size_t group) {
  constexpr size_t kLine = 64;
  const size_t groups = k / group;
  const size_t bytes = mode == ComputeMode::kExact ? (k + groups) * sizeof(float)
                                                   : TermsOf(mode) * k + groups * sizeof(GroupSum);
  // An odd number of lines: rows whose distance is a multiple of a large power of two would fall
  // into the same few sets of the first-level cache.
  return (bytes + kLine - 1) / kLine / 2 * 2 * kLine + kLine;
}

}  // namespace slotstream::kernels
