#include "kernels/cpu_features.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#elif defined(__aarch64__)
#include <sys/auxv.h>
#endif

namespace slotstream::kernels {

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

std::string_view MissingForAvx512Vnni() {
  if (std::string_view missing = MissingForAvx512(); !missing.empty()) return missing;
  SS_REQUIRE("avx512vnni");
  return {};
}

#undef SS_REQUIRE

// Clang's __builtin_cpu_supports knows neither of the following.

std::string_view MissingForAvxVnni() {
  if (std::string_view missing = MissingForAvx2(); !missing.empty()) return missing;
  unsigned eax, ebx, ecx, edx;
  constexpr unsigned kAvxVnni = 1u << 4;  // leaf 7, subleaf 1, EAX
  if (!__get_cpuid_count(7, 1, &eax, &ebx, &ecx, &edx) || (eax & kAvxVnni) == 0) return "avxvnni";
  return {};
}

std::string_view MissingForAmx() {
  if (std::string_view missing = MissingForAvx512Vnni(); !missing.empty()) return missing;
  unsigned eax, ebx, ecx, edx;
  constexpr unsigned kAmxTile = 1u << 24;  // leaf 7, EDX
  constexpr unsigned kAmxInt8 = 1u << 25;
  if (!__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx)) return "amx-tile";
  if ((edx & kAmxTile) == 0) return "amx-tile";
  if ((edx & kAmxInt8) == 0) return "amx-int8";
  constexpr int kRequestPermission = 0x1023;  // ARCH_REQ_XCOMP_PERM
  constexpr int kTileData = 18;               // XFEATURE_XTILEDATA
  if (syscall(SYS_arch_prctl, kRequestPermission, kTileData) != 0) return "permission for amx-tile";
  return {};
}

#elif defined(__aarch64__)

std::string_view MissingForDotprod() {
  return (getauxval(AT_HWCAP) & HWCAP_ASIMDDP) != 0 ? "" : "dotprod";
}

#endif

}  // namespace slotstream::kernels
