// Per target: floats to bfloat16 parts, and products of tiles of them, see parts.h.
#if defined(ATTEND_KERNELS_PARTS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ATTEND_KERNELS_PARTS_INL_H_
#undef ATTEND_KERNELS_PARTS_INL_H_
#else
#define ATTEND_KERNELS_PARTS_INL_H_
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "engine/kernels/parts.h"
#include "engine/simd/amx-inl.h"
#include "engine/simd/compat-inl.h"
#include "engine/simd/tail-inl.h"

HWY_BEFORE_NAMESPACE();
namespace attend {
namespace kernels {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
namespace simd = attend::HWY_NAMESPACE;

using simd::TileNumbers;

static constexpr size_t kPartsLine = kPartsTerms;  // numbers of a tile's row

// How a number becomes its parts: each rounded to nearest, or cut off, which saves an addition. What is left out of a
// product, by 2^-24 of it, over pairs of numbers of uniform and of chosen bits: at most 0.9 where both sides are
// rounded; 2.7 where one is cut, of either sign still; 7.9 where both are, and then always of the product's sign, so
// that it adds up. Hence one side at most is cut: powers, which are taken apart in the innermost loop.
enum class Cut { kRounded, kCut };

// A number of 8 significant bits near x, of which what is left of x is an exact number.
template <Cut kCut, class D, class V = hn::Vec<D>>
HWY_INLINE V LeadingPart(D d, V x) {
  const hn::RebindToSigned<D> di;
  auto bits = hn::BitCast(di, x);
  if constexpr (kCut == Cut::kRounded) bits = hn::Add(bits, hn::Set(di, 0x8000));
  return hn::BitCast(d, hn::And(bits, hn::Set(di, static_cast<std::int32_t>(0xffff0000))));
}

// Two numbers' upper halves, the first one below.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V JoinUpperHalves(D d, V low, V high) {
  const hn::RebindToUnsigned<D> du;
  return hn::BitCast(
      d, hn::OrAnd(hn::ShiftRight<16>(hn::BitCast(du, low)), hn::BitCast(du, high), hn::Set(du, 0xffff0000u)));
}

// Lane i of x0 and x1 to number 2 i and 2 i + 1 of one line of each part.
template <Cut kCut, class D, class V = hn::Vec<D>>
HWY_INLINE void StoreParts(D d, V x0, V x1, TileNumbers* HWY_RESTRICT line) {
  const auto to = [&](size_t part) ATTEND_INLINE_ATTR { return reinterpret_cast<float*>(line + part * kPartsTile); };
  const V a0 = LeadingPart<kCut>(d, x0), a1 = LeadingPart<kCut>(d, x1);
  hn::Store(JoinUpperHalves(d, a0, a1), d, to(0));
  x0 = hn::Sub(x0, a0);
  x1 = hn::Sub(x1, a1);
  const V b0 = LeadingPart<kCut>(d, x0), b1 = LeadingPart<kCut>(d, x1);
  hn::Store(JoinUpperHalves(d, b0, b1), d, to(1));
  // What is left has 8 bits at most and so an upper half alone, but for subnormal numbers, which lose the lower.
  hn::Store(JoinUpperHalves(d, hn::Sub(x0, b0), hn::Sub(x1, b1)), d, to(2));
}

// The number of tiles of terms.
HWY_INLINE size_t TileSteps(size_t terms) { return (terms + kPartsTerms - 1) / kPartsTerms; }

// One row of `terms` terms as row r of A's tiles, which start with the first of the 16 rows it is among. Its line of
// each tile is written whole, zeros behind the last term; other lines are left alone.
template <Cut kCut, class D>
HWY_INLINE void RowToParts(D d, const float* HWY_RESTRICT x, size_t terms, size_t r, TileNumbers* HWY_RESTRICT tiles) {
  const size_t N = hn::Lanes(d);
  TileNumbers* HWY_RESTRICT line = tiles + r % kPartsRows * kPartsLine;
  size_t k = 0;
  for (; k + kPartsTerms <= terms; k += kPartsTerms, line += kNumParts * kPartsTile) {
    for (size_t i = 0; i < kPartsColumns; i += N) {
      StoreParts<kCut>(d, hn::LoadU(d, x + k + i), hn::LoadU(d, x + k + kPartsColumns + i), line + 2 * i);
    }
  }
  if (k == terms) return;
  const auto tail = [&](size_t at) ATTEND_INLINE_ATTR {
    if (at + N <= terms) return hn::LoadU(d, x + at);
    return at < terms ? simd::LoadTail(d, x + at, terms - at) : hn::Zero(d);
  };
  for (size_t i = 0; i < kPartsColumns; i += N) {
    StoreParts<kCut>(d, tail(k + i), tail(k + kPartsColumns + i), line + 2 * i);
  }
}

// Zeros as row r.
HWY_INLINE void ZeroRowOfParts(size_t terms, size_t r, TileNumbers* HWY_RESTRICT tiles) {
  for (size_t tile = 0; tile < TileSteps(terms) * kNumParts; ++tile) {
    std::memset(tiles + tile * kPartsTile + r % kPartsRows * kPartsLine, 0, kPartsLine * sizeof(TileNumbers));
  }
}

// Largest magnitudes seen, by their bits, which order like numbers; NaN is above all.
template <class D>
HWY_INLINE hn::Vec<hn::RebindToSigned<D>> MagnitudeBits(D /*d*/, hn::Vec<D> x) {
  return hn::BitCast(hn::RebindToSigned<D>(), hn::Abs(x));
}

// Whether numbers of which this is the largest are 0 or within the limits of parts.h. least: less than kMinWithParts,
// where the other side's magnitudes make up for it.
HWY_INLINE bool IsFitForExactParts(std::int32_t magnitude_bits, float least = kMinWithParts) {
  float x;
  std::memcpy(&x, &magnitude_bits, sizeof(x));
  return x == 0.0f || (x >= least && x <= kMaxWithParts);
}

// The largest of n numbers' lanes.
template <class D>
HWY_INLINE hn::Vec<hn::RebindToSigned<D>> LargestMagnitudes(D d, const float* HWY_RESTRICT x, size_t n) {
  const size_t N = hn::Lanes(d);
  auto most = hn::Zero(hn::RebindToSigned<D>());
  size_t k = 0;
  for (; k + N <= n; k += N) most = hn::Max(most, MagnitudeBits(d, hn::LoadU(d, x + k)));
  if (k < n) most = hn::Max(most, MagnitudeBits(d, simd::LoadTail(d, x + k, n - k)));
  return most;
}
template <class D>
HWY_INLINE std::int32_t LargestMagnitudeBits(D d, const float* HWY_RESTRICT x, size_t n) {
  HWY_ALIGN std::int32_t lanes[hn::MaxLanes(D())];
  hn::Store(LargestMagnitudes(d, x, n), hn::RebindToSigned<D>(), lanes);
  return *std::max_element(lanes, lanes + hn::Lanes(d));
}

// Whether n numbers have parts, however small they are.
template <class D>
HWY_INLINE bool AreFitForParts(D d, const float* HWY_RESTRICT x, size_t n) {
  const hn::RebindToSigned<D> di;
  return hn::AllFalse(di, hn::Gt(LargestMagnitudes(d, x, n), hn::BitCast(di, hn::Set(d, kMaxWithParts))));
}

// 16 columns of `terms` terms as tiles of B, which are written whole, zeros where there is nothing. columns: how many
// may be read, if less than 16. column(i), i a multiple of the lanes: the first term of column i, next to those of the
// columns that follow; the next terms are `stride` further; nullptr where there are no more columns.
// fit: of each term, whether it is fit, or nullptr: all are. fit_columns: of each of the 16 columns all ones or 0, or
// nullptr likewise. What is not fit is taken as zeros.
template <class D, class Column>
HWY_INLINE void ColumnsToParts(D d, const Column& column, std::ptrdiff_t stride, size_t terms, size_t columns,
                               const std::uint8_t* fit, const std::int32_t* fit_columns,
                               TileNumbers* HWY_RESTRICT tiles) {
  using V = hn::Vec<D>;
  const hn::RebindToSigned<D> di;
  const size_t N = hn::Lanes(d);
  for (size_t i = 0; i < kPartsColumns; i += N) {
    const float* HWY_RESTRICT from = column(i);
    const V mask = fit_columns == nullptr ? hn::Zero(d) : hn::BitCast(d, hn::LoadU(di, fit_columns + i));
    const auto load = [&](size_t k) ATTEND_INLINE_ATTR {
      if (k >= terms || from == nullptr || (fit != nullptr && fit[k] == 0)) return hn::Zero(d);
      const float* at = from + static_cast<std::ptrdiff_t>(k) * stride;
      const V x = i + N <= columns ? hn::LoadU(d, at) : simd::LoadTail(d, at, columns - i);
      return fit_columns == nullptr ? x : hn::And(x, mask);
    };
    for (size_t k = 0; k < terms; k += kPartsTerms) {
      TileNumbers* HWY_RESTRICT tile = tiles + k / kPartsTerms * kNumParts * kPartsTile + 2 * i;
      for (size_t j = 0; j < kPartsTerms / 2; ++j) {
        StoreParts<Cut::kRounded>(d, load(k + j), load(k + kPartsTerms / 2 + j), tile + j * kPartsLine);
      }
    }
  }
}

// C (+)= A B for kRowTiles x kColumnTiles tiles, 1 or 2 each, whatever numbers of rows and columns args has.
//
// Two by two, a step of 32 terms is six groups of four products, of 16 cycles each, and 14 loads, of 8: in this order
// each group but the first shares a side with the one before. `meanwhile` is called after each group, kGroupsPerStep
// times a step, for work on vectors that finds room beside it: the tiles' unit is busy for 64 cycles with a dozen
// instructions. Some 80 others at a time fit beside them (PowersInTurns in attend_parts-inl.h).
// bench: tile_parts/qk_m32_n128_d128.
static constexpr size_t kGroupsPerStep = 6;

template <size_t kRowTiles, size_t kColumnTiles, class T, class Meanwhile>
HWY_INLINE void MultiplyTiles(T& tiles, const PartsProductArgs& args, const Meanwhile& meanwhile) {
  constexpr bool kRows = kRowTiles > 1, kColumns = kColumnTiles > 1;
  const TileNumbers *a = args.a, *b = args.b;
  float* const c = args.c;
  const std::ptrdiff_t c_bytes = args.c_stride * static_cast<std::ptrdiff_t>(sizeof(float));
  float* const c2 = c + static_cast<std::ptrdiff_t>(kPartsRows) * args.c_stride;
  if (args.accumulate) {
    tiles.template Load<0>(c, c_bytes);
    if constexpr (kColumns) tiles.template Load<1>(c + kPartsColumns, c_bytes);
    if constexpr (kRows) tiles.template Load<2>(c2, c_bytes);
    if constexpr (kRows && kColumns) tiles.template Load<3>(c2 + kPartsColumns, c_bytes);
  } else {
    tiles.template Zero<0>();
    if constexpr (kColumns) tiles.template Zero<1>();
    if constexpr (kRows) tiles.template Zero<2>();
    if constexpr (kRows && kColumns) tiles.template Zero<3>();
  }
  constexpr std::ptrdiff_t kLineBytes = kPartsLine * sizeof(TileNumbers);
  const auto load_a = [&](size_t part) ATTEND_INLINE_ATTR {
    tiles.template Load<4>(a + part * kPartsTile, kLineBytes);
    if constexpr (kRows) tiles.template Load<5>(a + args.a_block + part * kPartsTile, kLineBytes);
  };
  const auto load_b = [&](size_t part) ATTEND_INLINE_ATTR {
    tiles.template Load<6>(b + part * kPartsTile, kLineBytes);
    if constexpr (kColumns) tiles.template Load<7>(b + args.b_block + part * kPartsTile, kLineBytes);
  };
  const auto multiply = [&]() ATTEND_INLINE_ATTR {
    tiles.template MultiplyAdd<0, 4, 6>();
    if constexpr (kColumns) tiles.template MultiplyAdd<1, 4, 7>();
    if constexpr (kRows) tiles.template MultiplyAdd<2, 5, 6>();
    if constexpr (kRows && kColumns) tiles.template MultiplyAdd<3, 5, 7>();
    meanwhile();
  };
  for (size_t s = 0; s < args.num_steps; ++s) {
    load_a(2);
    load_b(0);
    multiply();
    load_a(1);
    multiply();
    load_b(1);
    multiply();
    load_a(0);
    multiply();
    load_b(2);
    multiply();
    load_b(0);
    multiply();
    a += kNumParts * kPartsTile;
    b += kNumParts * kPartsTile;
  }
  tiles.template Store<0>(c, c_bytes);
  if constexpr (kColumns) tiles.template Store<1>(c + kPartsColumns, c_bytes);
  if constexpr (kRows) tiles.template Store<2>(c2, c_bytes);
  if constexpr (kRows && kColumns) tiles.template Store<3>(c2 + kPartsColumns, c_bytes);
}

// The same for as many tiles as hold the rows and columns of args.
template <class T, class Meanwhile>
HWY_INLINE void MultiplyTiles(T& tiles, const PartsProductArgs& args, const Meanwhile& meanwhile) {
  if (HWY_LIKELY(args.num_rows > kPartsRows && args.num_columns > kPartsColumns)) {
    MultiplyTiles<2, 2>(tiles, args, meanwhile);
  } else if (args.num_rows > kPartsRows) {
    MultiplyTiles<2, 1>(tiles, args, meanwhile);
  } else if (args.num_columns > kPartsColumns) {
    MultiplyTiles<1, 2>(tiles, args, meanwhile);
  } else {
    MultiplyTiles<1, 1>(tiles, args, meanwhile);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace kernels
}  // namespace attend
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
