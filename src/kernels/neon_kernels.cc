// The vector kernels for NEON, which is part of every arm64 processor.
#if defined(__aarch64__)

#define HWY_COMPILE_ONLY_STATIC
#define HWY_BASELINE_TARGETS HWY_NEON
// Highway's way to leave the compiler's target as it is; it would add the AES instructions.
#define TOOLCHAIN_MISS_SYS_AUXV_H
#include "kernels/simd_table-inl.h"

namespace slotstream::kernels {

static constinit const PanelKernels exact = HWY_NAMESPACE::MakeExactPanels("neon");
constinit const KernelTable kNeonKernels =
    HWY_NAMESPACE::MakeTable("neon", &exact, &kNeonInt8, &kNeonInt15);

}  // namespace slotstream::kernels

#endif
