// Exp, Tanh and CompensatedAdd on every target, against libm in double: a scan of the bit patterns of all floats,
// special values, and the ends of their ranges float by float.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "tests/support/compare.h"
#include "tests/support/for_each_target.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tests/simd/math_test.cc"
#include <hwy/foreach_target.h>  // before highway.h
#include <hwy/highway.h>

#include "engine/kernels/for_target.h"
#include "engine/simd/compat-inl.h"
#include "engine/simd/math-inl.h"

#ifndef ATTEND_TESTS_SIMD_MATH_TEST_ONCE_
#define ATTEND_TESTS_SIMD_MATH_TEST_ONCE_
namespace attend {
// The templates under test as plain functions.
struct MathFunctions {
  void (*exp)(const float* x, float* y, std::size_t n);  // n: a multiple of 64
  void (*exp2)(const float* x, float* y, std::size_t n);
  void (*exp2_scaled)(const float* x, float* y, std::size_t n, float scale, float m);
  void (*tanh)(const float* x, float* y, std::size_t n);
  double (*compensated_sum)(const float* x, std::size_t n);
  float (*largest)(const float* x);  // of one vector
  std::size_t lanes;
  bool has_fma;
  float max_whole_exponent;
};
}  // namespace attend
#endif

HWY_BEFORE_NAMESPACE();
namespace attend {
namespace HWY_NAMESPACE {
namespace {

void ExpOfAll(const float* x, float* y, std::size_t n) {
  const hn::ScalableTag<float> d;
  for (std::size_t i = 0; i < n; i += hn::Lanes(d)) hn::StoreU(Exp(d, hn::LoadU(d, x + i)), d, y + i);
}

void Exp2OfAll(const float* x, float* y, std::size_t n) {
  const hn::ScalableTag<float> d;
  for (std::size_t i = 0; i < n; i += hn::Lanes(d)) hn::StoreU(Exp2(d, hn::LoadU(d, x + i)), d, y + i);
}

void Exp2ScaledOfAll(const float* x, float* y, std::size_t n, float scale, float m) {
  const hn::ScalableTag<float> d;
  const ScaledExponent exponent = ExponentAbove(m, 1.0f / scale);
  for (std::size_t i = 0; i < n; i += hn::Lanes(d)) {
    hn::StoreU(
        Exp2Scaled(d, hn::LoadU(d, x + i), hn::Set(d, scale), hn::Set(d, exponent.offset), hn::Set(d, exponent.lowest)),
        d, y + i);
  }
}

void TanhOfAll(const float* x, float* y, std::size_t n) {
  const hn::ScalableTag<float> d;
  for (std::size_t i = 0; i < n; i += hn::Lanes(d)) hn::StoreU(Tanh(d, hn::LoadU(d, x + i)), d, y + i);
}

double CompensatedSum(const float* x, std::size_t n) {
  const hn::ScalableTag<float> d;
  using V = hn::Vec<decltype(d)>;
  V sum = hn::Zero(d), lost = hn::Zero(d);
  for (std::size_t i = 0; i < n; i += hn::Lanes(d)) CompensatedAdd(d, hn::LoadU(d, x + i), sum, lost);
  return HorizontalSum(d, sum, lost);
}

float Largest(const float* x) {
  const hn::ScalableTag<float> d;
  return HorizontalMax(d, hn::LoadU(d, x));
}

MathFunctions Functions() {
  MathFunctions functions;
  functions.exp = &ExpOfAll;
  functions.exp2 = &Exp2OfAll;
  functions.exp2_scaled = &Exp2ScaledOfAll;
  functions.tanh = &TanhOfAll;
  functions.compensated_sum = &CompensatedSum;
  functions.largest = &Largest;
  functions.lanes = hn::Lanes(hn::ScalableTag<float>());
  functions.has_fma = HWY_NATIVE_FMA != 0;
  functions.max_whole_exponent = kMaxWholeExponent;
  return functions;
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace attend
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
// 1 scans all 2^32 floats, in some minutes: the figures in math-inl.h are from that. Odd, so that every mantissa bit
// varies.
#ifndef ATTEND_SCAN_STEP
#define ATTEND_SCAN_STEP 499
#endif

namespace attend::tests {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

MathFunctions functions_of(std::int64_t target) { ATTEND_RETURN_FOR_TARGET(target, Functions); }

// Distance in units of the spacing of floats at `want`.
double ulps(float got, double want) {
  const int exponent = std::max(std::ilogb(want), -126);
  return std::abs(static_cast<double>(got) - want) * std::ldexp(1.0, 23 - exponent);
}

float apply(void (*f)(const float*, float*, std::size_t), float x) {
  float in[64], out[64];
  std::fill(in, in + 64, x);
  f(in, out, 64);
  CHECK(std::bit_cast<std::uint32_t>(out[0]) == std::bit_cast<std::uint32_t>(out[63]));
  return out[0];
}

// What Exp and Exp2 have in common.
void check_special_values_of_exponential(void (*f)(const float*, float*, std::size_t)) {
  CHECK(apply(f, 0.0f) == 1.0f);
  CHECK(apply(f, -0.0f) == 1.0f);
  CHECK(apply(f, 1e-45f) == 1.0f);
  CHECK(apply(f, -kInf) == 0.0f);
  CHECK(apply(f, std::numeric_limits<float>::lowest()) == 0.0f);
  // Payloads too: the scale is made from bits of x.
  for (std::uint32_t bits :
       {0x7FC00000u, 0xFFC00000u, 0x7FFFFFFFu, 0xFFFFFFFFu, 0x7F800001u, 0x7FC001FFu, 0xFF8000FFu}) {
    CHECK(std::isnan(apply(f, std::bit_cast<float>(bits))));
  }
}

// Calls check(x, y) for every ATTEND_SCAN_STEP-th float from +0 to +inf and their negatives, NaN excluded.
template <class Check>
void scan(void (*f)(const float*, float*, std::size_t), Check&& check) {
  constexpr std::size_t kBlock = 1024;
  std::vector<float> x(kBlock), y(kBlock);
  std::size_t filled = 0;
  const auto flush = [&] {
    std::fill(x.begin() + static_cast<std::ptrdiff_t>(filled), x.end(), 0.0f);
    f(x.data(), y.data(), kBlock);
    for (std::size_t i = 0; i < filled; ++i) check(x[i], y[i]);
    filled = 0;
  };
  for (std::uint64_t bits = 0; bits <= 0x7F800000u; bits += ATTEND_SCAN_STEP) {
    const float value = std::bit_cast<float>(static_cast<std::uint32_t>(bits));
    x[filled++] = value;
    x[filled++] = -value;
    if (filled == kBlock) flush();
  }
  flush();
}

TEST_CASE("Exp: within 1 ULP with FMA and 1.25 without, over all floats; flushed below 2^-125.5") {
  for_each_target([](const Target& target) {
    double worst = 0.0;
    float worst_at = 0.0f;
    std::size_t wrong = 0;
    scan(functions_of(target.id()).exp, [&](float x, float y) {
      const double want = std::exp(static_cast<double>(x));
      if (x < -86.99f) {
        wrong += y != 0.0f || std::signbit(y) ? 1u : 0u;
      } else if (want > static_cast<double>(std::numeric_limits<float>::max())) {
        wrong += y != kInf ? 1u : 0u;
      } else if (x > -86.98f) {
        const double error = ulps(y, want);
        if (!(error <= worst)) worst = worse(worst, error), worst_at = x;
      }
    });
    MESSAGE(target.name(), ": Exp wrong by at most ", worst, " ULP, at ", worst_at);
    CHECK(wrong == 0);
    CHECK(worst <= (functions_of(target.id()).has_fma ? 1.0 : 1.25));
  });
}

TEST_CASE("Exp: special values") {
  for_each_target([](const Target& target) {
    const auto f = functions_of(target.id()).exp;
    check_special_values_of_exponential(f);
    CHECK(apply(f, kInf) == kInf);
    CHECK(apply(f, std::numeric_limits<float>::max()) == kInf);
  });
}

TEST_CASE("Exp: monotone where it underflows and where it overflows") {
  for_each_target([](const Target& target) {
    const MathFunctions functions = functions_of(target.id());
    for (const float start : {-87.05f, -86.993f, 88.3f, 88.7228f}) {
      std::vector<float> x(64 * 512), y(x.size());
      x[0] = start;
      for (std::size_t i = 1; i < x.size(); ++i) x[i] = std::nextafter(x[i - 1], kInf);
      functions.exp(x.data(), y.data(), x.size());
      std::size_t falls = 0;
      // One ULP of slack: neighbours whose exact values round together may come out in either order.
      for (std::size_t i = 1; i < x.size(); ++i) falls += y[i] < std::nextafter(y[i - 1], 0.0f) ? 1u : 0u;
      INFO("from ", start);
      CHECK(falls == 0);
    }
    CHECK(apply(functions.exp, -87.0f) == 0.0f);
    CHECK(apply(functions.exp, 88.7228f) < kInf);
    CHECK(apply(functions.exp, 88.7229f) == kInf);
  });
}

TEST_CASE("Exp2: within 3 ULP over all floats up to 127, and 2e-7 of the value; flushed below 2^-126") {
  for_each_target([](const Target& target) {
    double worst = 0.0, worst_relative = 0.0;
    float worst_at = 0.0f;
    std::size_t wrong = 0;
    scan(functions_of(target.id()).exp2, [&](float x, float y) {
      if (x < -126.0f) {
        wrong += y != 0.0f || std::signbit(y) ? 1u : 0u;
      } else if (x <= 127.0f && !(x <= -125.5f && y == 0.0f)) {  // 0 from there on, where targets flush earlier
        const double want = std::exp2(static_cast<double>(x)), error = ulps(y, want);
        if (!(error <= worst)) worst = worse(worst, error), worst_at = x;
        worst_relative = worse(worst_relative, std::abs(y / want - 1.0));
      }
      wrong += x <= 127.0f && y != 0.0f && y < 0x1p-126f ? 1u : 0u;  // subnormal
    });
    MESSAGE(target.name(), ": Exp2 wrong by at most ", worst, " ULP, at ", worst_at, "; relative ", worst_relative);
    CHECK(wrong == 0);
    CHECK(worst <= 3.0);
    CHECK(worst_relative <= 2e-7);
  });
}

TEST_CASE("Exp2: special values") {
  for_each_target([](const Target& target) {
    const auto f = functions_of(target.id()).exp2;
    for (int e = -125; e < 128; ++e) CHECK(apply(f, static_cast<float>(e)) == std::ldexp(1.0f, e));
    CHECK(apply(f, -127.0f) == 0.0f);
    float x = -126.001f;
    for (int i = 0; i < 512; ++i, x = std::nextafter(x, kInf)) {
      const float y = apply(f, x);
      CHECK((y == 0.0f || (x >= -126.0f && y >= 0x1p-126f)));
    }
    check_special_values_of_exponential(f);
  });
}

TEST_CASE("Exp2Scaled: 2^(scale x - m), whose exponent is rounded once with FMA; far below 0; NaN stays") {
  for_each_target([](const Target& target) {
    const MathFunctions functions = functions_of(target.id());
    constexpr std::size_t kCount = 1 << 14;
    std::vector<float> x(kCount), y(kCount);
    double worst = 0.0;
    for (const float scale : {1.0f, 0x1.715476p+0f, 0.125f}) {
      for (const float m : {0.0f, 1.0f, -7.0f, 100.0f, 12345.0f, -1e6f, 2097151.0f, -2097151.0f, 65535.0f, -65535.0f}) {
        if (std::abs(m) >= functions.max_whole_exponent) continue;
        // Exponents from 13 above m to 140 below, then some far below, and NaN.
        for (std::size_t i = 0; i < kCount; ++i) {
          x[i] = static_cast<float>((m + 13.0 - 153.0 * static_cast<double>(i) / kCount) / scale);
        }
        x[0] = -kInf, x[1] = std::numeric_limits<float>::lowest(), x[2] = (m - 1e6f) / scale;
        x[3] = std::numeric_limits<float>::quiet_NaN();
        functions.exp2_scaled(x.data(), y.data(), kCount, scale, m);
        INFO("scale ", scale, ", m ", m);
        CHECK((y[0] == 0.0f && y[1] == 0.0f && y[2] == 0.0f && std::isnan(y[3])));
        std::size_t wrong = 0;
        for (std::size_t i = 4; i < kCount; ++i) {
          const double exponent = static_cast<double>(scale) * x[i] - m;
          wrong += y[i] != 0.0f && y[i] < 0x1p-126f ? 1u : 0u;  // subnormal
          if (exponent < -125.25) {
            wrong += y[i] == 0.0f || (exponent > -126.25 && y[i] < 0x1p-124f) ? 0u : 1u;
            continue;
          }
          // The power's own error, and that of the exponent: half a spacing of floats at the exponent itself with FMA,
          // of floats at scale x too without.
          const double rounded =
              std::abs(exponent) + (functions.has_fma || scale != 0x1.715476p+0f ? 0.0 : std::abs(m) + 153.0);
          const double error = std::abs(y[i] / std::exp2(exponent) - 1.0);
          wrong += error <= 2.5e-7 + 0.7 * 0x1p-24 * rounded * 2.0 ? 0u : 1u;
          if (rounded < 1.0) worst = std::max(worst, error);
        }
        CHECK(wrong == 0);
      }
    }
    MESSAGE(target.name(), ": Exp2Scaled wrong by at most ", worst, " for exponents below 1");
  });
}

TEST_CASE("Tanh: within 3 ULP over all floats; odd; never above 1") {
  for_each_target([](const Target& target) {
    double worst = 0.0, largest = 0.0, worst_absolute = 0.0;
    float worst_at = 0.0f, positive = 0.0f;
    std::size_t uneven = 0;
    scan(functions_of(target.id()).tanh, [&](float x, float y) {
      const double want = std::tanh(static_cast<double>(x));
      const double error = want == 0.0 ? (y == 0.0f ? 0.0 : 1e9) : ulps(y, want);
      if (!(error <= worst)) worst = worse(worst, error), worst_at = x;
      worst_absolute = worse(worst_absolute, std::abs(y - want));
      largest = std::max(largest, std::abs(static_cast<double>(y)));
      // scan() gives x and then -x.
      if (!std::signbit(x)) positive = y;
      if (std::signbit(x))
        uneven += std::bit_cast<std::uint32_t>(y) != std::bit_cast<std::uint32_t>(-positive) ? 1u : 0u;
    });
    MESSAGE(target.name(), ": Tanh wrong by at most ", worst, " ULP, at ", worst_at, "; absolute ", worst_absolute,
            "; largest ", largest - 1.0, " above 1");
    CHECK(worst <= 3.0);
    CHECK(worst_absolute <= 1.7e-7);
    CHECK(largest == 1.0);
    CHECK(uneven == 0);
  });
}

TEST_CASE("Tanh: special values") {
  for_each_target([](const Target& target) {
    const auto f = functions_of(target.id()).tanh;
    CHECK(apply(f, 0.0f) == 0.0f);
    CHECK(!std::signbit(apply(f, 0.0f)));
    CHECK(std::signbit(apply(f, -0.0f)));
    CHECK(apply(f, kInf) == 1.0f);
    CHECK(apply(f, -kInf) == -1.0f);
    CHECK(apply(f, 1e30f) == 1.0f);
    CHECK(apply(f, 9.02f) == 1.0f);
    CHECK(apply(f, -9.02f) == -1.0f);
    CHECK(apply(f, 1e-45f) == 1e-45f);
    CHECK(apply(f, -1e-40f) == -1e-40f);
    CHECK(apply(f, 1e-5f) == 1e-5f);
    for (std::uint32_t bits : {0x7FC00000u, 0xFFC00000u, 0x7FFFFFFFu, 0x7F800001u}) {
      CHECK(std::isnan(apply(f, std::bit_cast<float>(bits))));
    }
  });
}

TEST_CASE("CompensatedAdd: the error does not grow with the number of terms") {
  for_each_target([](const Target& target) {
    const MathFunctions functions = functions_of(target.id());
    std::vector<float> x(64 * 16384);
    std::uint32_t state = 1;
    for (int kind = 0; kind < 3; ++kind) {
      double sum = 0.0, magnitude = 0.0, plain_sum = 0.0;
      float plain = 0.0f;
      for (float& value : x) {
        state = state * 1664525u + 1013904223u;
        const float noise = static_cast<float>(state >> 8) * 0x1p-24f;
        value = kind == 0 ? 0.1f : kind == 1 ? noise : (noise - 0.5f) * 1e3f;
        sum += value;
        magnitude += std::abs(value);
        plain += value;
      }
      plain_sum = plain;
      const double error = std::abs(functions.compensated_sum(x.data(), x.size()) - sum) / magnitude;
      MESSAGE(target.name(), ": relative error ", error, " over 2^20 terms, plain ",
              std::abs(plain_sum - sum) / magnitude);
      CHECK(error <= 0x1p-23);
    }
  });
}

TEST_CASE("HorizontalSum and HorizontalMax: every lane counts once") {
  for_each_target([](const Target& target) {
    const MathFunctions functions = functions_of(target.id());
    CHECK(functions.largest(std::vector<float>(64, -kInf).data()) == -kInf);
    for (std::size_t lane = 0; lane < functions.lanes; ++lane) {
      std::vector<float> x(64, -5.0f);
      x[lane] = 3.0f;
      CHECK(functions.largest(x.data()) == 3.0f);
      std::fill(x.begin(), x.end(), 1.0f);
      x[lane] = 0x1p30f;  // in float, 2^30 + 1 would be 2^30
      CHECK(functions.compensated_sum(x.data(), functions.lanes) ==
            0x1p30 + static_cast<double>(functions.lanes) - 1.0);
    }
  });
}

}  // namespace
}  // namespace attend::tests
#endif
