// StoreSumsOfFour on every target: each vector's own sum, by the same additions wherever it stands.
#include <cmath>
#include <cstddef>
#include <cstdint>

#include <doctest/doctest.h>

#include "tests/support/for_each_target.h"
#include "tests/support/guard_page.h"
#include "tests/support/random.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tests/simd/sums_test.cc"
#include <hwy/foreach_target.h>  // before highway.h
#include <hwy/highway.h>

#include "engine/kernels/for_target.h"
#include "engine/simd/sums-inl.h"

#ifndef ATTEND_TESTS_SIMD_SUMS_TEST_ONCE_
#define ATTEND_TESTS_SIMD_SUMS_TEST_ONCE_
namespace attend {
struct SumFunctions {
  void (*of_four)(const float* vectors, float* sums);  // vectors side by side
  std::size_t lanes;
};
}  // namespace attend
#endif

HWY_BEFORE_NAMESPACE();
namespace attend {
namespace HWY_NAMESPACE {
namespace {

void OfFour(const float* vectors, float* sums) {
  const hn::ScalableTag<float> d;
  const size_t lanes = hn::Lanes(d);
  StoreSumsOfFour(d, hn::LoadU(d, vectors), hn::LoadU(d, vectors + lanes), hn::LoadU(d, vectors + 2 * lanes),
                  hn::LoadU(d, vectors + 3 * lanes), sums);
}

SumFunctions Functions() {
  SumFunctions functions;
  functions.of_four = &OfFour;
  functions.lanes = hn::Lanes(hn::ScalableTag<float>());
  return functions;
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace attend
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace attend::tests {
namespace {

SumFunctions functions_of(std::int64_t target) { ATTEND_RETURN_FOR_TARGET(target, Functions); }

}  // namespace

TEST_CASE("StoreSumsOfFour: the sum of each vector, in order, the same bits in any place") {
  for_each_target([](const Target& target) {
    const SumFunctions functions = functions_of(target.id());
    const std::size_t lanes = functions.lanes;
    Random random(lanes);
    GuardedArray<float> vectors(4 * lanes), sums(4), alike(4);
    for (float& x : vectors) x = random.normal();
    functions.of_four(vectors.data(), sums.data());
    for (std::size_t i = 0; i < 4; ++i) {
      double sum = 0, sizes = 0;
      for (std::size_t lane = 0; lane < lanes; ++lane) {
        sum += static_cast<double>(vectors[i * lanes + lane]);
        sizes += std::abs(static_cast<double>(vectors[i * lanes + lane]));
      }
      CHECK(std::abs(static_cast<double>(sums[i]) - sum) <= 4 * 0x1p-24 * sizes);
      GuardedArray<float> copies(4 * lanes);
      for (std::size_t k = 0; k < 4 * lanes; ++k) copies[k] = vectors[i * lanes + k % lanes];
      functions.of_four(copies.data(), alike.data());
      for (const float x : alike) CHECK(x == sums[i]);
    }
  });
}

}  // namespace attend::tests
#endif
