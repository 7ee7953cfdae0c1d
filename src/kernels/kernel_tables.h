// The pieces behind AvailableKernels(), one per instruction set that this build was compiled for.
#pragma once

#include "kernels/kernels.h"

namespace slotstream::kernels {

extern const PanelKernels kScalarExact, kScalarInt8, kScalarInt15;
extern const KernelTable kScalarKernels;
#if defined(__x86_64__)
extern const PanelKernels kAvx2Int8, kAvx2Int15;
extern const PanelKernels kAvxVnniInt8, kAvxVnniInt15;
extern const PanelKernels kAvx512VnniInt8, kAvx512VnniInt15;
extern const PanelKernels kAmxInt8, kAmxInt15;
extern const KernelTable kAvx2Kernels;
extern const KernelTable kAvx512Kernels;  // with AVX2's integer products
#elif defined(__aarch64__)
extern const PanelKernels kNeonInt8, kNeonInt15;
extern const PanelKernels kNeonDotprodInt8, kNeonDotprodInt15;
extern const KernelTable kNeonKernels;
#endif

}  // namespace slotstream::kernels
