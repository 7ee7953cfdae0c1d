// What the processor and the operating system offer to the kernels.
#pragma once

#include <string_view>

namespace slotstream::kernels {

// The first extension that the kernels' code needs and that is missing here; empty if none is.
#if defined(__x86_64__)
std::string_view MissingForAvx2();
std::string_view MissingForAvxVnni();
std::string_view MissingForAvx512();
std::string_view MissingForAvx512Vnni();
// Asks the operating system for the tile registers, which it gives a process on request only.
std::string_view MissingForAmx();
#elif defined(__aarch64__)
std::string_view MissingForDotprod();
#endif

}  // namespace slotstream::kernels
