// The tables behind AvailableKernels(), one per instruction set that this build was compiled for.
#pragma once

#include "kernels/kernels.h"

namespace slotstream::kernels {

extern const KernelTable kScalarKernels;
#if defined(__x86_64__)
extern const KernelTable kAvx2Kernels;
extern const KernelTable kAvx512Kernels;
#elif defined(__aarch64__)
extern const KernelTable kNeonKernels;
#endif

}  // namespace slotstream::kernels
