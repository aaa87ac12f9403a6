// Floats as bfloat16 parts and products of tiles of them, on every target, in tiles where this CPU has them and in
// memory: parts add up to the number without a remainder, lie where parts.h says, and products are those of double.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include <doctest/doctest.h>

#include "engine/base/cpus.h"
#include "engine/kernels/parts.h"
#include "tests/support/for_each_target.h"
#include "tests/support/guard_page.h"
#include "tests/support/random.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tests/kernels/parts_test.cc"
#include <hwy/foreach_target.h>  // before highway.h
#include <hwy/highway.h>

#include "engine/kernels/for_target.h"
#include "engine/kernels/parts-inl.h"

#ifndef ATTEND_TESTS_KERNELS_PARTS_TEST_ONCE_
#define ATTEND_TESTS_KERNELS_PARTS_TEST_ONCE_
namespace attend::kernels {
struct PartsFunctions {
  void (*row)(const float* x, std::size_t terms, std::size_t r, bool rounded, std::uint16_t* tiles);
  void (*zero_row)(std::size_t terms, std::size_t r, std::uint16_t* tiles);
  void (*columns)(const float* from, std::size_t stride, std::size_t terms, const std::uint8_t* fit,
                  const std::int32_t* fit_columns, std::uint16_t* tiles);
  void (*multiply)(const PartsProductArgs&);  // in tiles; nullptr: the target has none
  void (*multiply_in_memory)(const PartsProductArgs&);
  bool (*is_fit)(const float* x, std::size_t n);  // for exact parts
};
}  // namespace attend::kernels
#endif

HWY_BEFORE_NAMESPACE();
namespace attend {
namespace kernels {
namespace HWY_NAMESPACE {
namespace {

using PartsTag = hn::CappedTag<float, 16>;

void Row(const float* x, size_t terms, size_t r, bool rounded, std::uint16_t* tiles) {
  if (rounded) return RowToParts<Cut::kRounded>(PartsTag(), x, terms, r, tiles);
  RowToParts<Cut::kCut>(PartsTag(), x, terms, r, tiles);
}

void ZeroRow(size_t terms, size_t r, std::uint16_t* tiles) { ZeroRowOfParts(terms, r, tiles); }

void Columns(const float* from, size_t stride, size_t terms, const std::uint8_t* fit, const std::int32_t* fit_columns,
             std::uint16_t* tiles) {
  ColumnsToParts(
      PartsTag(), [from](size_t i) { return from + i; }, static_cast<std::ptrdiff_t>(stride), terms, kPartsColumns, fit,
      fit_columns, tiles);
}

template <class T>
void MultiplyOn(const PartsProductArgs& args) {
  T tiles;
  T::Configure();
  size_t calls = 0;
  MultiplyTiles(tiles, args, [&] { ++calls; });
  T::Release();
  if (calls != args.num_steps * kGroupsPerStep) args.c[0] = std::numeric_limits<float>::quiet_NaN();
}

bool IsFit(const float* x, size_t n) { return IsFitForExactParts(LargestMagnitudeBits(PartsTag(), x, n)); }

PartsFunctions Functions() {
  PartsFunctions functions{};
  functions.row = &Row;
  functions.zero_row = &ZeroRow;
  functions.columns = &Columns;
#if ATTEND_HAS_AMX
  functions.multiply = &MultiplyOn<simd::AmxTiles>;
#endif
  functions.multiply_in_memory = &MultiplyOn<simd::TilesInMemory>;
  functions.is_fit = &IsFit;
  return functions;
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace kernels
}  // namespace attend
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace attend::kernels {
namespace {
PartsFunctions parts_functions(std::int64_t target) { ATTEND_RETURN_FOR_TARGET(target, Functions); }
}  // namespace
}  // namespace attend::kernels

namespace attend::tests {
namespace {

using kernels::parts_functions;
using kernels::PartsFunctions;
using kernels::PartsProductArgs;
constexpr std::size_t kTile = kernels::kPartsTile;

float number(std::uint16_t part) { return std::bit_cast<float>(std::uint32_t{part} << 16); }

// Of row or column n's term k, in the layout of parts.h.
std::size_t place_in_a(std::size_t r, std::size_t k, std::size_t part) {
  return (k / 32 * 3 + part) * kTile + r * 32 + k % 16 * 2 + k % 32 / 16;
}
std::size_t place_in_b(std::size_t n, std::size_t k, std::size_t part) {
  return (k / 32 * 3 + part) * kTile + k % 16 * 32 + n * 2 + k % 32 / 16;
}

// The scalar step, rounded: halves away from zero.
void split(float x, std::uint16_t parts[3]) {
  for (int part = 0; part < 3; ++part) {
    const std::uint32_t bits = std::bit_cast<std::uint32_t>(x) + (part < 2 ? 0x8000u : 0u);
    parts[part] = static_cast<std::uint16_t>(bits >> 16);
    x -= number(parts[part]);
  }
}

// Numbers of all sizes that have parts, those whose lower bits are all ones or zeros among them.
float draw(Random& random) {
  const auto mantissa = static_cast<std::uint32_t>(random.bits());
  const std::uint32_t masks[] = {0x7fffff, 0x7f0000, 0x7f8000, 0x7fff00, 0x00ffff};
  const std::uint32_t ones[] = {0, 0x7fff, 0x8000, 0xff, 0x7fffff};
  const auto pick = [&random] { return static_cast<std::size_t>(random.integer(0, 4)); };
  const auto exponent = static_cast<std::uint32_t>(random.integer(127 - 60, 127 + 63));
  const std::uint32_t sign = random.integer(0, 1) == 0 ? 0 : 0x80000000u;
  return std::bit_cast<float>(sign | exponent << 23 | (((mantissa & masks[pick()]) | ones[pick()]) & 0x7fffff));
}

}  // namespace

TEST_CASE("parts: of a row add up to its numbers, lie in their places, zeros behind them") {
  for_each_target([&](const Target& target) {
    const PartsFunctions functions = parts_functions(target.id());
    Random random(1);
    for (const std::size_t terms : {1u, 5u, 15u, 16u, 17u, 31u, 32u, 33u, 48u, 63u, 64u, 100u, 960u}) {
      for (const std::size_t r : {0u, 3u, 15u}) {
        for (const bool rounded : {true, false}) {
          GuardedArray<float> x(terms);
          for (float& each : x) each = draw(random);
          GuardedArray<std::uint16_t> tiles(kernels::parts_size(16, terms));
          std::fill(tiles.begin(), tiles.end(), std::uint16_t{0x7fc1});
          functions.row(x.data(), terms, r, rounded, tiles.data());
          bool adds_up = true, is_split = true, ends = true;
          for (std::size_t k = 0; k < (terms + 31) / 32 * 32; ++k) {
            std::uint16_t expected[3] = {}, parts[3];
            if (k < terms) split(x[k], expected);
            float sum = 0;
            for (std::size_t part = 3; part-- > 0;) {
              parts[part] = tiles[place_in_a(r, k, part)];
              sum += number(parts[part]);
              if (rounded) is_split &= number(parts[part]) == number(expected[part]);
            }
            if (k < terms) adds_up &= sum == x[k];
            if (k >= terms) ends &= parts[0] == 0 && parts[1] == 0 && parts[2] == 0;
            if (k < terms && !rounded) is_split &= std::abs(number(parts[0])) <= std::abs(x[k]);
          }
          INFO(terms, " terms, row ", r, ", rounded ", rounded);
          CHECK(adds_up);
          CHECK(is_split);
          CHECK(ends);
          // Other rows are left alone; zeros put it back.
          functions.zero_row(terms, r, tiles.data());
          bool only = true;
          for (std::size_t i = 0; i < tiles.size(); ++i) only &= tiles[i] == (i % kTile / 32 == r ? 0 : 0x7fc1);
          CHECK(only);
        }
      }
    }
  });
}

TEST_CASE("parts: of columns lie in their places, zeros where terms or columns are not fit") {
  for_each_target([&](const Target& target) {
    const PartsFunctions functions = parts_functions(target.id());
    Random random(2);
    for (const std::size_t terms : {1u, 15u, 16u, 17u, 31u, 32u, 33u, 64u, 100u}) {
      for (const bool some : {false, true}) {
        constexpr std::size_t kStride = 19;
        GuardedArray<float> from((terms - 1) * kStride + 16);
        for (float& each : from) each = draw(random);
        std::vector<std::uint8_t> fit(terms);
        std::vector<std::int32_t> fit_columns(16);
        for (auto& each : fit) each = random.integer(0, 2) > 0;
        for (auto& each : fit_columns) each = random.integer(0, 2) > 0 ? -1 : 0;
        for (std::size_t k = 0; some && k < terms; ++k) {
          if (fit[k] == 0) from[k * kStride] = std::numeric_limits<float>::quiet_NaN();
        }
        GuardedArray<std::uint16_t> tiles(kernels::parts_size(16, terms));
        std::fill(tiles.begin(), tiles.end(), std::uint16_t{0x7fc1});
        functions.columns(from.data(), kStride, terms, some ? fit.data() : nullptr, some ? fit_columns.data() : nullptr,
                          tiles.data());
        bool all = true;
        for (std::size_t k = 0; k < (terms + 31) / 32 * 32; ++k) {
          for (std::size_t n = 0; n < 16; ++n) {
            std::uint16_t expected[3] = {};
            const bool is_there = k < terms && (!some || (fit[k] != 0 && fit_columns[n] != 0));
            if (is_there) split(from[k * kStride + n], expected);
            for (std::size_t part = 0; part < 3; ++part) {
              all &= number(tiles[place_in_b(n, k, part)]) == number(expected[part]);
            }
          }
        }
        INFO(terms, " terms, some ", some);
        CHECK(all);
      }
    }
  });
}

TEST_CASE("parts: rows are fit for them whose largest magnitude is 0 or within the limits") {
  for_each_target([&](const Target& target) {
    const PartsFunctions functions = parts_functions(target.id());
    for (const std::size_t n : {1u, 7u, 16u, 17u, 40u}) {
      for (std::size_t at = 0; at < n; ++at) {
        const auto is_fit = [&](float number, float others) {
          GuardedArray<float> x(n);
          std::fill(x.begin(), x.end(), others);
          x[at] = number;
          return functions.is_fit(x.data(), n);
        };
        CHECK(is_fit(0.0f, -0.0f));
        CHECK(is_fit(-0x1p-60f, 0.0f));
        CHECK(!is_fit(0x1p-61f, 0.0f));
        CHECK(is_fit(-0x1p64f, 1.0f));
        CHECK(!is_fit(0x1.000002p64f, 1.0f));
        CHECK(!is_fit(std::numeric_limits<float>::quiet_NaN(), 1.0f));
        CHECK(!is_fit(-std::numeric_limits<float>::infinity(), 1.0f));
      }
    }
  });
}

TEST_CASE("parts: products of tiles equal double, in tiles and in memory, added to what is there or not") {
  for_each_target([&](const Target& target) {
    const PartsFunctions functions = parts_functions(target.id());
    Random random(3);
    for (const std::size_t steps : {1u, 2u, 5u}) {
      const std::size_t terms = steps * 32 - 3, block = kernels::parts_size(16, terms);
      std::vector<float> a(32 * terms), b(terms * 32);
      for (float& each : a) each = random.normal();
      for (float& each : b) each = random.normal();
      GuardedArray<std::uint16_t> a_parts(2 * block), b_parts(2 * block);
      for (std::size_t r = 0; r < 32; ++r) {
        functions.row(&a[r * terms], terms, r, true, a_parts.data() + r / 16 * block);
      }
      for (std::size_t n = 0; n < 32; n += 16) {
        functions.columns(&b[n], 32, terms, nullptr, nullptr, b_parts.data() + n / 16 * block);
      }
      std::vector<float> start(32 * 32);
      for (float& each : start) each = random.normal();
      for (const bool accumulate : {false, true}) {
        for (const std::size_t rows : {16u, 32u}) {
          for (const std::size_t columns : {16u, 32u}) {
            PartsProductArgs product{.num_rows = rows,
                                     .num_columns = columns,
                                     .a = a_parts.data(),
                                     .a_block = block,
                                     .b = b_parts.data(),
                                     .b_block = block,
                                     .num_steps = steps,
                                     .accumulate = accumulate,
                                     .c = nullptr,
                                     .c_stride = 32};
            GuardedArray<float> in_memory(32 * 32), in_tiles(32 * 32);
            std::copy(start.begin(), start.end(), in_memory.begin());
            std::copy(start.begin(), start.end(), in_tiles.begin());
            product.c = in_memory.data();
            functions.multiply_in_memory(product);
            product.c = in_tiles.data();
            const bool has_tiles = functions.multiply != nullptr && this_cpu().has_tiles;
            (has_tiles ? functions.multiply : functions.multiply_in_memory)(product);
            double worst = 0;
            bool same = true, beyond = true;
            for (std::size_t r = 0; r < 32; ++r) {
              for (std::size_t n = 0; n < 32; ++n) {
                same &= in_memory[r * 32 + n] == in_tiles[r * 32 + n];
                if (r >= rows || n >= columns) {
                  beyond &= in_tiles[r * 32 + n] == start[r * 32 + n];
                  continue;
                }
                double sum = accumulate ? start[r * 32 + n] : 0.0, unit = std::abs(sum);
                for (std::size_t k = 0; k < terms; ++k) {
                  sum += static_cast<double>(a[r * terms + k]) * b[k * 32 + n];
                  unit += std::abs(static_cast<double>(a[r * terms + k]) * b[k * 32 + n]);
                }
                worst = std::max(worst, std::abs(in_tiles[r * 32 + n] - sum) / unit);
              }
            }
            INFO(steps, " steps, ", rows, " x ", columns, ", accumulate ", accumulate, ", tiles ", has_tiles);
            CHECK(worst <= 2e-7);
            CHECK(same);
            CHECK(beyond);
          }
        }
      }
    }
  });
}

}  // namespace attend::tests
#endif  // HWY_ONCE
