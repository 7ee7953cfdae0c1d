// The vector kernels for AVX2 with FMA. Only the code between Highway's namespace macros may use
// these instructions; the rest of this file, as of the program, is baseline x86-64.
#if defined(__x86_64__)

#define HWY_COMPILE_ONLY_STATIC
#define HWY_BASELINE_TARGETS HWY_AVX2
#define HWY_DISABLE_PCLMUL_AES  // not needed, and some virtual machines hide them
#include "kernels/simd_table-inl.h"

namespace slotstream::kernels {

static constinit const PanelKernels exact = HWY_NAMESPACE::MakeExactPanels("avx2");
constinit const KernelTable kAvx2Kernels =
    HWY_NAMESPACE::MakeTable("avx2", &exact, &kAvx2Int8, &kAvx2Int15);

}  // namespace slotstream::kernels

#endif
