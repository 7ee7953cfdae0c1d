// The integer products for AVX-512 with VNNI.
#if defined(__x86_64__)

#define SS_INTEGER_TARGET "avx2,fma,avx512f,avx512vl,avx512dq,avx512bw,avx512vnni"
#include "kernels/avx512vnni_lanes-inl.h"

namespace slotstream::kernels {

constinit const PanelKernels kAvx512VnniInt8 = MakeIntegerPanels<Avx512VnniLanes, 1>("avx512vnni");
constinit const PanelKernels kAvx512VnniInt15 = MakeIntegerPanels<Avx512VnniLanes, 2>("avx512vnni");

}  // namespace slotstream::kernels

#endif
