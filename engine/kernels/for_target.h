// How a family's getter reaches the code of a named target without Highway's global chosen target: one switch over the
// bits of HWY_TARGETS. To be included once per dispatch point, after its HWY_ONCE guard.
//
//     #if HWY_ONCE
//     PackKernels pack_kernels(std::int64_t target) { ATTEND_RETURN_FOR_TARGET(target, Kernels); }
//     #endif
// where each target's namespace holds PackKernels Kernels().
#ifndef ATTEND_KERNELS_FOR_TARGET_H_
#define ATTEND_KERNELS_FOR_TARGET_H_

#include <hwy/highway.h>

// Highway declares the namespaces N_<TARGET>; a case is generated for each target this build compiles.
#define ATTEND_CASE(target_bit, name_space, function) \
  case target_bit:                                    \
    return name_space::function();

#if HWY_TARGETS & HWY_SCALAR
#define ATTEND_CASE_SCALAR(function) ATTEND_CASE(HWY_SCALAR, N_SCALAR, function)
#else
#define ATTEND_CASE_SCALAR(function)
#endif
#if HWY_TARGETS & HWY_EMU128
#define ATTEND_CASE_EMU128(function) ATTEND_CASE(HWY_EMU128, N_EMU128, function)
#else
#define ATTEND_CASE_EMU128(function)
#endif
#if defined(HWY_SSE2) && (HWY_TARGETS & HWY_SSE2)
#define ATTEND_CASE_SSE2(function) ATTEND_CASE(HWY_SSE2, N_SSE2, function)
#else
#define ATTEND_CASE_SSE2(function)
#endif
#if HWY_TARGETS & HWY_SSSE3
#define ATTEND_CASE_SSSE3(function) ATTEND_CASE(HWY_SSSE3, N_SSSE3, function)
#else
#define ATTEND_CASE_SSSE3(function)
#endif
#if HWY_TARGETS & HWY_SSE4
#define ATTEND_CASE_SSE4(function) ATTEND_CASE(HWY_SSE4, N_SSE4, function)
#else
#define ATTEND_CASE_SSE4(function)
#endif
#if HWY_TARGETS & HWY_AVX2
#define ATTEND_CASE_AVX2(function) ATTEND_CASE(HWY_AVX2, N_AVX2, function)
#else
#define ATTEND_CASE_AVX2(function)
#endif
#if HWY_TARGETS & HWY_AVX3
#define ATTEND_CASE_AVX3(function) ATTEND_CASE(HWY_AVX3, N_AVX3, function)
#else
#define ATTEND_CASE_AVX3(function)
#endif
#if HWY_TARGETS & HWY_AVX3_DL
#define ATTEND_CASE_AVX3_DL(function) ATTEND_CASE(HWY_AVX3_DL, N_AVX3_DL, function)
#else
#define ATTEND_CASE_AVX3_DL(function)
#endif
#if defined(HWY_AVX3_ZEN4) && (HWY_TARGETS & HWY_AVX3_ZEN4)
#define ATTEND_CASE_AVX3_ZEN4(function) ATTEND_CASE(HWY_AVX3_ZEN4, N_AVX3_ZEN4, function)
#else
#define ATTEND_CASE_AVX3_ZEN4(function)
#endif
#if defined(HWY_AVX3_SPR) && (HWY_TARGETS & HWY_AVX3_SPR)
#define ATTEND_CASE_AVX3_SPR(function) ATTEND_CASE(HWY_AVX3_SPR, N_AVX3_SPR, function)
#else
#define ATTEND_CASE_AVX3_SPR(function)
#endif
#if HWY_TARGETS & HWY_NEON
#define ATTEND_CASE_NEON(function) ATTEND_CASE(HWY_NEON, N_NEON, function)
#else
#define ATTEND_CASE_NEON(function)
#endif
#if HWY_TARGETS & HWY_SVE
#define ATTEND_CASE_SVE(function) ATTEND_CASE(HWY_SVE, N_SVE, function)
#else
#define ATTEND_CASE_SVE(function)
#endif
#if HWY_TARGETS & HWY_SVE2
#define ATTEND_CASE_SVE2(function) ATTEND_CASE(HWY_SVE2, N_SVE2, function)
#else
#define ATTEND_CASE_SVE2(function)
#endif
#if HWY_TARGETS & HWY_SVE_256
#define ATTEND_CASE_SVE_256(function) ATTEND_CASE(HWY_SVE_256, N_SVE_256, function)
#else
#define ATTEND_CASE_SVE_256(function)
#endif
#if HWY_TARGETS & HWY_SVE2_128
#define ATTEND_CASE_SVE2_128(function) ATTEND_CASE(HWY_SVE2_128, N_SVE2_128, function)
#else
#define ATTEND_CASE_SVE2_128(function)
#endif
#if defined(HWY_NEON_WITHOUT_AES) && (HWY_TARGETS & HWY_NEON_WITHOUT_AES)
#define ATTEND_CASE_NEON_WITHOUT_AES(function) ATTEND_CASE(HWY_NEON_WITHOUT_AES, N_NEON_WITHOUT_AES, function)
#else
#define ATTEND_CASE_NEON_WITHOUT_AES(function)
#endif

#define ATTEND_RETURN_FOR_TARGET(target, function) \
  switch (target) {                                \
    ATTEND_CASE_SCALAR(function)                   \
    ATTEND_CASE_EMU128(function)                   \
    ATTEND_CASE_SSE2(function)                     \
    ATTEND_CASE_SSSE3(function)                    \
    ATTEND_CASE_SSE4(function)                     \
    ATTEND_CASE_AVX2(function)                     \
    ATTEND_CASE_AVX3(function)                     \
    ATTEND_CASE_AVX3_DL(function)                  \
    ATTEND_CASE_AVX3_ZEN4(function)                \
    ATTEND_CASE_AVX3_SPR(function)                 \
    ATTEND_CASE_NEON(function)                     \
    ATTEND_CASE_SVE(function)                      \
    ATTEND_CASE_SVE2(function)                     \
    ATTEND_CASE_SVE_256(function)                  \
    ATTEND_CASE_SVE2_128(function)                 \
    ATTEND_CASE_NEON_WITHOUT_AES(function)         \
    default:                                       \
      return {};                                   \
  }

#endif  // ATTEND_KERNELS_FOR_TARGET_H_
