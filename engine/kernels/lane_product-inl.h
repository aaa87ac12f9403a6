// The two products of attention with queries in the lanes, see query_lanes.h: one loop over registers, LaneRows.
#if defined(ATTEND_KERNELS_LANE_PRODUCT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ATTEND_KERNELS_LANE_PRODUCT_INL_H_
#undef ATTEND_KERNELS_LANE_PRODUCT_INL_H_
#else
#define ATTEND_KERNELS_LANE_PRODUCT_INL_H_
#endif

#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "engine/kernels/panel-inl.h"
#include "engine/kernels/rows_ahead.h"
#include "engine/kernels/tile_product.h"

HWY_BEFORE_NAMESPACE();
namespace attend {
namespace kernels {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// c[i][lane] (+)= sum_k a[i][k] b[k][lane], both products.
struct LaneProduct {
  const float* a;  // keys: element k of row i at a + i * a_stride + k; values: at a + i + k * a_stride
  std::ptrdiff_t a_stride;
  std::size_t num_rows;
  const float* b;  // row k at b + k * num_lanes, aligned
  std::size_t inner;
  std::size_t common;        // values: terms that count for every lane; from there on, term k counts where lens > k
  const std::int32_t* lens;  // values: per lane
  std::size_t num_lanes;
  float* c;                    // row i at c + i * num_lanes, aligned
  bool add;                    // to c
  std::span<RowsAhead> ahead;  // rows to ask for meanwhile
};

// Rows of a that are in registers at a time, for the number of vectors of lanes: 16, 8 x 2 or 8 x 3 sums with 32
// registers, 12 or 6 x 2 with 16. With one vector every multiplication loads what it broadcasts, and two loads a cycle
// are all there are. 24 x 1, 12 x 1, 12 x 2 and 6 x 4 were no faster on AVX3; 8 and 16 divide the usual sizes.
template <std::size_t kVectors>
constexpr std::size_t LaneRowsPerStep() {
  if (kVectorsPerPanel > 2) return kVectors == 1 ? 16 : 8;
  return kVectors == 1 ? 12 : 6;
}
static constexpr std::size_t kMostLaneVectors = kVectorsPerPanel > 2 ? 3 : 2;

// Block [first, first + inner) of the sums of rows [row, row + kRows) and kVectors vectors of lanes from `lane`. Sums
// of a block begin at zero and run in the order of k whatever kRows and kVectors are.
template <bool kValues, bool kAhead, std::size_t kRows, std::size_t kVectors, class D>
HWY_INLINE void LaneRows(D d, const LaneProduct& p, std::size_t row, std::size_t lane, std::size_t first,
                         std::size_t inner, bool add) {
  using V = hn::Vec<D>;
  static_assert(kRows <= 16 && kVectors <= 3 && kRows * kVectors <= 24);
  const std::size_t lanes = hn::Lanes(d);
  // Four rows of keys share a base, so that base + {0, 1, 2, 3} * stride needs few registers.
  const std::ptrdiff_t stride = p.a_stride, stride3 = 3 * stride;
  const float* a0 = kValues ? p.a + static_cast<std::ptrdiff_t>(first) * stride + row
                            : p.a + static_cast<std::ptrdiff_t>(row) * stride + first;
  const float* a4 = kValues || kRows <= 4 ? a0 : a0 + 4 * stride;
  const float* a8 = kValues || kRows <= 8 ? a0 : a0 + 8 * stride;
  const float* a12 = kValues || kRows <= 12 ? a0 : a0 + 12 * stride;
  const float* HWY_RESTRICT b = p.b + first * p.num_lanes + lane;

  const V zero = hn::Zero(d);
  V c0 = zero, c1 = zero, c2 = zero, c3 = zero, c4 = zero, c5 = zero, c6 = zero, c7 = zero;
  V c8 = zero, c9 = zero, c10 = zero, c11 = zero, c12 = zero, c13 = zero, c14 = zero, c15 = zero;
  V c16 = zero, c17 = zero, c18 = zero, c19 = zero, c20 = zero, c21 = zero, c22 = zero, c23 = zero;
#define ATTEND_ALL_LANE_SUMS(step)                                                                                    \
  step(0) step(1) step(2) step(3) step(4) step(5) step(6) step(7) step(8) step(9) step(10) step(11) step(12) step(13) \
      step(14) step(15) step(16) step(17) step(18) step(19) step(20) step(21) step(22) step(23)
  // The element of sum i's row, at the present k.
  const auto element = [&](std::size_t i) HWY_ATTR {
    const std::size_t r = i / kVectors;
    if constexpr (kValues) return hn::Set(d, a0[r]);
    const float* base = r < 4 ? a0 : r < 8 ? a4 : r < 12 ? a8 : a12;
    return hn::Set(d, r % 4 == 0 ? *base : r % 4 == 1 ? base[stride] : r % 4 == 2 ? base[2 * stride] : base[stride3]);
  };
  V b0 = zero, b1 = zero, b2 = zero;
  const auto load = [&]() HWY_ATTR {
    b0 = hn::Load(d, b);
    if constexpr (kVectors > 1) b1 = hn::Load(d, b + lanes);
    if constexpr (kVectors > 2) b2 = hn::Load(d, b + 2 * lanes);
  };
  const auto advance = [&]() HWY_ATTR {
    b += p.num_lanes;
    const std::ptrdiff_t by = kValues ? stride : 1;
    a0 += by;
    if constexpr (!kValues && kRows > 4) a4 += by;
    if constexpr (!kValues && kRows > 8) a8 += by;
    if constexpr (!kValues && kRows > 12) a12 += by;
  };
#define ATTEND_PICK(i) (i % kVectors == 0 ? b0 : i % kVectors == 1 ? b1 : b2)

  const auto step = [&]() HWY_ATTR {
    load();
#define ATTEND_STEP(i) \
  if constexpr (i < kRows * kVectors) c##i = hn::MulAdd(element(i), ATTEND_PICK(i), c##i);
    ATTEND_ALL_LANE_SUMS(ATTEND_STEP)
#undef ATTEND_STEP
    advance();
  };
  const std::size_t common = kValues ? std::min(inner, std::max(p.common, first) - first) : inner;
  std::size_t k = 0;
  // Rows of several heads are too far apart for the hardware to follow, so that lines are fetched here, into L1, and
  // only those that come next: rows some power of two apart share few sets and would not stay. Of keys, one line of
  // every row while the line before is at work; of values, those of 8 keys further down, both where rows do not begin
  // with a line. Losers, times relative to this with 16 queries, 1024 keys, 512 apart, rows 16 bytes off a line (as
  // malloc has them, dot/b4_h8_m16_n1024_d64 from L3): lines of the next rows into L2 instead, 1.17; the rows of the
  // next step into L2 as well, a line per multiplication, 1.07, which is what p.ahead does where they come from memory;
  // copying rows side by side, in bulk or while sums run, 1.1 to 1.35. Four terms of p.ahead a turn: 1.1, g++ 12 moves
  // registers.
  LinesAhead lines(p.ahead, b);
  if constexpr (kValues) {
    for (; k < common; ++k) {
      if constexpr (kAhead) lines.fetch();
      hwy::Prefetch(a0 + 8 * stride);
      hwy::Prefetch(a0 + 8 * stride + 15);
      step();
    }
  } else {
    const float* next_rows = a0 + static_cast<std::ptrdiff_t>(kRows) * stride + 15;
    while (k < common) {
      const float* line = k + 16 < common ? a0 + 31 : next_rows;
      for (const std::size_t end = std::min(common, k + 16); k < end; ++k) {
        if constexpr (kAhead) lines.fetch();
        hwy::Prefetch(line);
        line += stride;
        step();
      }
    }
  }
  if constexpr (kAhead) lines.stop();
  if constexpr (kValues) {
    const hn::RebindToSigned<D> di;
    for (; k < inner; ++k) {
      // p is 0 where the lane does not see the value, but 0 * inf and 0 * NaN are NaN.
      const hn::Vec<decltype(di)> at = hn::Set(di, static_cast<std::int32_t>(first + k));
      const std::int32_t* lens = p.lens + lane;
      const hn::Mask<D> m0 = hn::RebindMask(d, hn::Gt(hn::Load(di, lens), at));
      const hn::Mask<D> m1 = kVectors > 1 ? hn::RebindMask(d, hn::Gt(hn::Load(di, lens + lanes), at)) : m0;
      const hn::Mask<D> m2 = kVectors > 2 ? hn::RebindMask(d, hn::Gt(hn::Load(di, lens + 2 * lanes), at)) : m0;
      load();
#define ATTEND_STEP(i)                                                               \
  if constexpr (i < kRows * kVectors) {                                              \
    const hn::Mask<D> seen = i % kVectors == 0 ? m0 : i % kVectors == 1 ? m1 : m2;   \
    c##i = hn::IfThenElse(seen, hn::MulAdd(element(i), ATTEND_PICK(i), c##i), c##i); \
  }
      ATTEND_ALL_LANE_SUMS(ATTEND_STEP)
#undef ATTEND_STEP
      advance();
    }
  }

#define ATTEND_STEP(i)                                                                  \
  if constexpr (i < kRows * kVectors) {                                                 \
    float* to = p.c + (row + i / kVectors) * p.num_lanes + lane + i % kVectors * lanes; \
    if (add) c##i = hn::Add(c##i, hn::Load(d, to));                                     \
    hn::Store(c##i, d, to);                                                             \
  }
  ATTEND_ALL_LANE_SUMS(ATTEND_STEP)
#undef ATTEND_STEP
#undef ATTEND_PICK
#undef ATTEND_ALL_LANE_SUMS
}

// All rows from `row` on, kRows at a time, what is left in halves.
template <bool kValues, bool kAhead, std::size_t kRows, std::size_t kVectors, class D>
HWY_INLINE void LaneRowsFrom(D d, const LaneProduct& p, std::size_t row, std::size_t lane, std::size_t first,
                             std::size_t inner, bool add) {
  for (; row + kRows <= p.num_rows; row += kRows)
    LaneRows<kValues, kAhead, kRows, kVectors>(d, p, row, lane, first, inner, add);
  if constexpr (kRows > 1) {
    if (row < p.num_rows) LaneRowsFrom<kValues, kAhead, kRows / 2, kVectors>(d, p, row, lane, first, inner, add);
  }
}

template <bool kValues, bool kAhead, std::size_t kVectors, class D>
HWY_NOINLINE void LaneColumns(D d, const LaneProduct& p, std::size_t lane) {
  for (std::size_t first = 0; first == 0 || first < p.inner; first += kInnerBlock) {
    LaneRowsFrom<kValues, kAhead, LaneRowsPerStep<kVectors>(), kVectors>(
        d, p, 0, lane, first, std::min(kInnerBlock, p.inner - first), p.add || first > 0);
  }
}

template <bool kValues, bool kAhead, class D>
HWY_INLINE void MultiplyColumns(D d, const LaneProduct& p) {
  const std::size_t lanes = hn::Lanes(d);
  for (std::size_t lane = 0; lane < p.num_lanes;) {
    const std::size_t left = (p.num_lanes - lane) / lanes;
    const std::size_t vectors = left == 4 ? 2 : std::min(kMostLaneVectors, left);  // 2 + 2, not 3 + 1
    switch (vectors) {
      case 1:
        LaneColumns<kValues, kAhead, 1>(d, p, lane);
        break;
      case 2:
        LaneColumns<kValues, kAhead, 2>(d, p, lane);
        break;
      default:
        if constexpr (kMostLaneVectors > 2) LaneColumns<kValues, kAhead, 3>(d, p, lane);
        break;
    }
    lane += vectors * lanes;
  }
}

// With 16 registers a term is half as many sums, so that asking takes twice its part: dot/b4_h8_m16_n1024_d64 1.3 as
// long on AVX2, 1.1 on SSE4.
static constexpr bool kLanesAskAhead = kVectorsPerPanel > 2;

template <bool kValues, class D>
HWY_INLINE void MultiplyLanes(D d, const LaneProduct& p) {
  if (!kLanesAskAhead || p.ahead.empty()) {
    MultiplyColumns<kValues, false>(d, p);
  } else {
    MultiplyColumns<kValues, kLanesAskAhead>(d, p);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace kernels
}  // namespace attend
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
