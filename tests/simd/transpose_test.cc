// TransposeRows on every target: every number of rows, sizes around a 4x4 block, rows beside an unmapped page.
#include <cstddef>
#include <cstdint>
#include <cstring>

#include <doctest/doctest.h>

#include "tests/support/for_each_target.h"
#include "tests/support/guard_page.h"
#include "tests/support/random.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tests/simd/transpose_test.cc"
#include <hwy/foreach_target.h>  // before highway.h
#include <hwy/highway.h>

#include "engine/kernels/for_target.h"
#include "engine/simd/transpose-inl.h"

#ifndef ATTEND_TESTS_SIMD_TRANSPOSE_TEST_ONCE_
#define ATTEND_TESTS_SIMD_TRANSPOSE_TEST_ONCE_
namespace attend {
struct TransposeFunctions {
  void (*rows)(const float* from, std::ptrdiff_t from_stride, std::size_t num_rows, std::size_t num_columns, float* to,
               std::size_t to_stride);
  std::size_t lanes;
};
}  // namespace attend
#endif

HWY_BEFORE_NAMESPACE();
namespace attend {
namespace HWY_NAMESPACE {
namespace {

void Rows(const float* from, std::ptrdiff_t from_stride, std::size_t num_rows, std::size_t num_columns, float* to,
          std::size_t to_stride) {
  TransposeRows(hn::ScalableTag<float>(), from, from_stride, num_rows, num_columns, to, to_stride);
}

TransposeFunctions Functions() {
  TransposeFunctions functions;
  functions.rows = &Rows;
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

TransposeFunctions functions_of(std::int64_t target) { ATTEND_RETURN_FOR_TARGET(target, Functions); }

std::uint32_t bits_of(const float& x) {  // by reference: a signalling NaN may change when it is passed on x87
  std::uint32_t bits;
  std::memcpy(&bits, &x, sizeof(bits));
  return bits;
}

constexpr std::uint32_t kUntouched = 0x12345678;

// Elements of any bits, signalling NaN included: a transposition moves, it does not compute.
void fill_with_any_bits(GuardedArray<float>& array) {
  Random random(array.size());
  for (float& x : array) {
    const std::uint32_t bits = static_cast<std::uint32_t>(random.bits());
    std::memcpy(&x, &bits, sizeof(bits));
  }
}

// Number of elements that TransposeRows got wrong, or wrote although they lie beside its vector of columns.
std::size_t count_wrong(const TransposeFunctions& transpose, std::size_t num_rows, std::size_t num_columns,
                        std::size_t gap, int direction, Guard guard) {
  const std::size_t stored = direction == 0 && num_rows > 0 ? 1 : num_rows;
  GuardedArray<float> from(stored == 0 ? 0 : (stored - 1) * (num_columns + gap) + num_columns, guard);
  fill_with_any_bits(from);
  const std::ptrdiff_t stride = direction * static_cast<std::ptrdiff_t>(num_columns + gap);
  const float* first = from.data() + (direction < 0 && stored > 0 ? (stored - 1) * (num_columns + gap) : 0);

  const std::size_t to_stride = 2 * transpose.lanes;
  GuardedArray<float> to(num_columns * to_stride);
  for (float& x : to) std::memcpy(&x, &kUntouched, sizeof(x));
  transpose.rows(first, stride, num_rows, num_columns, to.data(), to_stride);

  std::size_t wrong = 0;
  for (std::size_t k = 0; k < num_columns; ++k) {
    for (std::size_t row = 0; row < num_rows; ++row) {
      const float& expected = *(first + static_cast<std::ptrdiff_t>(row) * stride + k);
      wrong += bits_of(to[k * to_stride + row]) == bits_of(expected) ? 0 : 1;
    }
    for (std::size_t beside = transpose.lanes; beside < to_stride; ++beside) {
      wrong += bits_of(to[k * to_stride + beside]) == kUntouched ? 0 : 1;
    }
  }
  return wrong;
}

TEST_CASE("TransposeRows moves bits, reads no element but the rows' and writes nothing beside its vectors") {
  for_each_target([](const Target& target) {
    const TransposeFunctions transpose = functions_of(target.id());
    for (std::size_t num_rows = 0; num_rows <= transpose.lanes; ++num_rows) {
      for (const std::size_t num_columns : {0u, 1u, 2u, 3u, 4u, 5u, 6u, 7u, 8u, 15u, 16u, 17u, 35u}) {
        for (const Guard guard : {Guard::kEnd, Guard::kBegin}) {
          for (const int direction : {1, -1, 0}) {
            for (const std::size_t gap : {0u, 3u}) {
              INFO(num_rows, " rows of ", num_columns, ", gap ", gap, ", direction ", direction);
              CHECK(count_wrong(transpose, num_rows, num_columns, gap, direction, guard) == 0);
            }
          }
        }
      }
    }
  });
}

}  // namespace
}  // namespace attend::tests
#endif
