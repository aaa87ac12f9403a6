// The two products of attention with queries in the lanes, see query_lanes.h: one loop over registers, LaneRows.
#if defined(ATTEND_KERNELS_LANE_PRODUCT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ATTEND_KERNELS_LANE_PRODUCT_INL_H_
#undef ATTEND_KERNELS_LANE_PRODUCT_INL_H_
#else
#define ATTEND_KERNELS_LANE_PRODUCT_INL_H_
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "engine/kernels/lane_terms-inl.h"
#include "engine/kernels/panel-inl.h"
#include "engine/kernels/tile_product.h"
#include "engine/simd/compat-inl.h"
#include "engine/simd/tail-inl.h"

HWY_BEFORE_NAMESPACE();
namespace attend {
namespace kernels {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
namespace simd = attend::HWY_NAMESPACE;

// What LaneResults say of a factor of 0.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V TimesFactor(D d, V v, V factor) {
  return hn::IfThenZeroElse(hn::Eq(factor, hn::Zero(d)), hn::Mul(v, factor));
}

// Whether 3 rows by 4 vectors go at a time, where there are so many: 7 loads beside 12 multiply-adds instead of 8, as
// in two_panels-inl.h. EPYC (Zen 3), AVX2, relative to 6 by 2: query_lanes/q32_n32_d64 0.95, _l3_ahead 0.92,
// q32_n256_d128_off4 0.89; attend turns --layer dot --shape 64,32,32,64 --num-heads 8 0.95, with others on the core
// 0.94.
static constexpr bool kFourVectors = simd::kSumsStay;

// Vectors of queries that are in registers at a time, in the product with keys.
static constexpr std::size_t kMaxKeyVectors = kVectorsPerPanel > 2 ? 3 : kFourVectors ? 4 : 2;

// Rows of a that are in registers at a time, for the number of vectors. Keys: 16, 8 x 2 or 8 x 3 sums with 32
// registers, 12 or 6 x 2 with 16. With one vector every multiplication loads what it broadcasts, and two loads a cycle
// are all there are. 24 x 1, 12 x 1, 12 x 2 and 6 x 4 were no faster on AVX3; 8 and 16 divide the usual sizes. Values:
// 12 x 2 with 32 registers, but 6 x 4 where they come from memory: rows are read once from end to end, which memory
// answers sooner (query_lanes/q32_n32_d64_l3_ahead 2.3 ms instead of 2.6; q16_n1024_d64, whose values are in L2, 50 us
// instead of 46).
template <bool kValues, std::size_t kVectors>
constexpr std::size_t LaneRowsPerStep() {
  if (kVectorsPerPanel <= 2) return 12 / kVectors;
  if (kVectors == 1) return 16;
  if (!kValues) return 8;
  return kVectors == 2 ? 12 : 6;
}

// Of values: whether a block is kept side by side, or was before.
enum class Kept { kNot, kNow, kBefore };

// A block of terms and columns of b.
struct LaneTerms {
  const float* b;
  std::ptrdiff_t stride;
  std::size_t first, count;  // terms
  std::size_t column;
  bool add;     // to c
  bool last;    // and results are complete
  float* kept;  // Kept::kNow: where both vectors of each term go as well, term k at kept + k * kept_stride
  std::size_t kept_stride;
};

// A step of kRows rows may run up to so many rows beyond the last of p: padding lanes take their place, and their sums
// are dropped. With 16 registers 5 rows are 6, not 4 + 1, with 32 registers 7 are 8. EPYC (Zen 4), us: AVX2 3
// rows 28.2 -> 20.9, 5 rows 27.6 -> 21.9, 9 rows 41.0 -> 37.3; AVX3 7 rows 38.0 -> 29.9, 11 rows 42.5 -> 34.7; SSE4 3
// rows 40.8 -> 33.8 (attend plan --layer dot --shape 1,5,256,64 --num-heads 4 --tune --target AVX2).
template <std::size_t kRows>
constexpr std::size_t MaxMissingRows() {
  if (kRows > 6) return 2;
  return kRows > 3 ? 1 : 0;
}

// The sums of rows [row, row + kRows) and kVectors vectors of columns over a block of terms. Sums of a block begin at
// zero and run in the order of k whatever kRows and kVectors are. kTail: the last vector has `left` columns.
template <bool kValues, bool kAhead, std::size_t kRows, std::size_t kVectors, bool kTail, Kept kKept, class D>
HWY_INLINE void LaneRows(D d, const LaneProduct& p, const LaneTerms& terms, std::size_t row) {
  using V = hn::Vec<D>;
  static_assert(kRows <= 16 && kVectors <= 4 && kRows * kVectors <= 24);
  static_assert(kKept == Kept::kNot || (kValues && !kTail));
  static_assert(kKept != Kept::kNow || kVectors == 2);
  const std::size_t lanes = hn::Lanes(d);
  // Four rows of keys share a base, so that base + {0, 1, 2, 3} * stride needs few registers.
  const std::ptrdiff_t stride = p.a_stride, stride3 = 3 * stride;
  const std::size_t first = terms.first, column = terms.column;
  std::size_t inner = terms.count;
  const float* a0 = kValues ? p.a + static_cast<std::ptrdiff_t>(first) * stride + row
                            : p.a + static_cast<std::ptrdiff_t>(row) * stride + first;
  const float* a4 = kValues || kRows <= 4 ? a0 : a0 + 4 * stride;
  const float* a8 = kValues || kRows <= 8 ? a0 : a0 + 8 * stride;
  const float* a12 = kValues || kRows <= 12 ? a0 : a0 + 12 * stride;
  const std::ptrdiff_t b_stride = terms.stride;
  const float* HWY_RESTRICT b = terms.b;
  [[maybe_unused]] float* kept = terms.kept;
  [[maybe_unused]] const std::size_t left = kTail ? p.num_columns - column - (kVectors - 1) * lanes : lanes;

  const V zero = hn::Zero(d);
  V c0 = zero, c1 = zero, c2 = zero, c3 = zero, c4 = zero, c5 = zero, c6 = zero, c7 = zero;
  V c8 = zero, c9 = zero, c10 = zero, c11 = zero, c12 = zero, c13 = zero, c14 = zero, c15 = zero;
  V c16 = zero, c17 = zero, c18 = zero, c19 = zero, c20 = zero, c21 = zero, c22 = zero, c23 = zero;
#define ATTEND_ALL_LANE_SUMS(step)                                                                                    \
  step(0) step(1) step(2) step(3) step(4) step(5) step(6) step(7) step(8) step(9) step(10) step(11) step(12) step(13) \
      step(14) step(15) step(16) step(17) step(18) step(19) step(20) step(21) step(22) step(23)
  // The element of sum i's row, at the present k.
  const auto element = [&](std::size_t i) ATTEND_INLINE_ATTR {
    const std::size_t r = i / kVectors;
    if constexpr (kValues) return hn::Set(d, a0[r]);
    const float* base = r < 4 ? a0 : r < 8 ? a4 : r < 12 ? a8 : a12;
    return hn::Set(d, r % 4 == 0 ? *base : r % 4 == 1 ? base[stride] : r % 4 == 2 ? base[2 * stride] : base[stride3]);
  };
  V b0 = zero, b1 = zero, b2 = zero, b3 = zero;
  const auto load = [&](std::size_t v) ATTEND_INLINE_ATTR {
    if constexpr (!kValues) return hn::Load(d, b + v * lanes);
    if constexpr (kTail) {
      if (v + 1 == kVectors) return simd::LoadTail(d, b + v * lanes, left);
    }
    return hn::LoadU(d, b + v * lanes);
  };
  const auto load_all = [&]() ATTEND_INLINE_ATTR {
    b0 = load(0);
    if constexpr (kVectors > 1) b1 = load(1);
    if constexpr (kVectors > 2) b2 = load(2);
    if constexpr (kVectors > 3) b3 = load(3);
  };
  const auto advance = [&]() ATTEND_INLINE_ATTR {
    b += b_stride;
    const std::ptrdiff_t by = kValues ? stride : 1;
    a0 += by;
    if constexpr (!kValues && kRows > 4) a4 += by;
    if constexpr (!kValues && kRows > 8) a8 += by;
    if constexpr (!kValues && kRows > 12) a12 += by;
  };
#define ATTEND_PICK(i) (i % kVectors == 0 ? b0 : i % kVectors == 1 ? b1 : i % kVectors == 2 ? b2 : b3)

  // Rows by four vectors: one vector at a time, since 12 sums leave four of 16 registers.
  const auto step_by_columns = [&]() ATTEND_INLINE_ATTR {
    const V x0 = element(0), x1 = kRows > 1 ? element(4) : zero, x2 = kRows > 2 ? element(8) : zero;
    simd::AddColumnInOrder<kRows>(d, x0, x1, x2, load(0), c0, c4, c8);
    simd::AddColumnInOrder<kRows>(d, x0, x1, x2, load(1), c1, c5, c9);
    simd::AddColumnInOrder<kRows>(d, x0, x1, x2, load(2), c2, c6, c10);
    simd::AddColumnInOrder<kRows>(d, x0, x1, x2, load(3), c3, c7, c11);
  };
  const auto step = [&]() ATTEND_INLINE_ATTR {
    if constexpr (kFourVectors && kVectors == 4) {
      step_by_columns();
    } else {
      load_all();
      if constexpr (kKept == Kept::kNow) {
        hn::Store(b0, d, kept);
        hn::Store(b1, d, kept + lanes);
        kept += terms.kept_stride;
      }
#define ATTEND_STEP(i) \
  if constexpr (i < kRows * kVectors) simd::AddProductInOrder(d, element(i), ATTEND_PICK(i), c##i);
      ATTEND_ALL_LANE_SUMS(ATTEND_STEP)
#undef ATTEND_STEP
    }
    advance();
  };
  std::size_t common = inner;
  if constexpr (kValues && kKept == Kept::kNot) {
    if (p.common < first + inner) {
      const auto [least, most] = std::minmax_element(p.lens + row, p.lens + std::min(row + kRows, p.num_rows));
      const auto within = [&](std::int32_t len) {
        return std::min(inner, std::max(static_cast<std::size_t>(len), first) - first);
      };
      common = within(*least);
      inner = within(*most);
      if (inner == 0 && terms.add && !terms.last) return;
    }
  }
  if constexpr (kKept == Kept::kBefore) {
    std::size_t k = 0;
    if constexpr (simd::kSumsStay) {
      for (; k + 4 <= common; k += 4) {
        step();
        step();
        step();
        step();
      }
    }
    for (; k < common; ++k) step();
  } else if constexpr (kKept == Kept::kNow) {
    KeepingTerms(p, common, b, b_stride, step);
  } else if constexpr (kValues) {
    ValueTerms<kAhead, kVectors>(p, common, b, b_stride, lanes, step);
  } else {
    KeyTerms<kAhead, kRows>(p, common, a0, b, step);
  }
  if constexpr (kValues && kKept == Kept::kNot) {
    const hn::RebindToSigned<D> di;
    for (std::size_t k = common; k < inner; ++k) {
      // p is 0 where the lane does not see the value, but 0 * inf and 0 * NaN are NaN.
      const hn::Vec<decltype(di)> at = hn::Set(di, static_cast<std::int32_t>(first + k));
      const auto seen = [&](std::size_t i)
                            HWY_ATTR { return hn::RebindMask(d, hn::Gt(hn::Set(di, p.lens[row + i / kVectors]), at)); };
      load_all();
#define ATTEND_STEP(i)                \
  if constexpr (i < kRows * kVectors) \
    c##i = hn::IfThenElse(seen(i), hn::MulAdd(element(i), ATTEND_PICK(i), c##i), c##i);
      ATTEND_ALL_LANE_SUMS(ATTEND_STEP)
#undef ATTEND_STEP
      advance();
    }
  }

  const std::size_t rows = kValues ? p.num_rows - row : kRows;
  const auto at_c = [&](std::size_t i)
                        HWY_ATTR { return p.c + (row + i / kVectors) * p.c_stride + column + i % kVectors * lanes; };
  if constexpr (kValues) {
    if (terms.last && p.results != nullptr) {
      // Copies: a vector that is stored might change what p refers to, for all that the compiler knows.
      const float* const factors = p.results->factors + row;
      const std::ptrdiff_t to_stride = p.results->stride;
      float* const output = p.results->output + static_cast<std::ptrdiff_t>(row) * to_stride + column;
#define ATTEND_STEP(i)                                                                        \
  if constexpr (i < kRows * kVectors) {                                                       \
    constexpr std::size_t r = i / kVectors, v = i % kVectors;                                 \
    if (r + MaxMissingRows<kRows>() >= kRows && r >= rows) return;                            \
    if (terms.add) c##i = hn::Add(c##i, hn::Load(d, at_c(i)));                                \
    c##i = TimesFactor(d, c##i, hn::Set(d, factors[r]));                                      \
    float* to = output + static_cast<std::ptrdiff_t>(r) * to_stride + v * lanes;              \
    kTail&& v + 1 == kVectors ? simd::StoreTail(c##i, d, to, left) : hn::StoreU(c##i, d, to); \
  }
      ATTEND_ALL_LANE_SUMS(ATTEND_STEP)
#undef ATTEND_STEP
      return;
    }
  }
#define ATTEND_STEP(i)                                                                   \
  if constexpr (i < kRows * kVectors) {                                                  \
    if (i / kVectors + MaxMissingRows<kRows>() >= kRows && i / kVectors >= rows) return; \
    if (terms.add) c##i = hn::Add(c##i, hn::Load(d, at_c(i)));                           \
    hn::Store(c##i, d, at_c(i));                                                         \
  }
  ATTEND_ALL_LANE_SUMS(ATTEND_STEP)
#undef ATTEND_STEP
#undef ATTEND_PICK
#undef ATTEND_ALL_LANE_SUMS
}

// The ways that any L1 of 64 sets has.
static constexpr std::size_t kMaxRowsOfOneSet = 8;

// Rows of a step that follows steps of kRows: halves, but 12, 6 and 3 leave powers of two, which more numbers of rows
// are sums of.
template <std::size_t kRows>
constexpr std::size_t FewerLaneRows() {
  return kRows == 12 ? 8 : kRows == 6 ? 4 : kRows == 3 ? 2 : kRows / 2;
}

// Whether kRows from `row` on are the next step. 8 rows are 4 + 4, not 6 + 2: two rows are too few sums in flight. 7 of
// p as 4 + 4 too: 0 to 3 % won on AVX2, 2 to 3 % lost on SSE4. By four vectors, 4 rows are 2 + 2, not 3 + 1: one row
// takes as long as two.
template <bool kValues, std::size_t kRows>
HWY_INLINE bool StepFits(const LaneProduct& p, std::size_t row) {
  if (row >= p.num_rows) return false;
  const std::size_t left = p.num_rows - row;
  const std::size_t lanes_left = kValues ? static_cast<std::size_t>(p.a_stride) - row : left;
  if ((kRows == 6 && left == 8) || (kRows == 3 && left == 4)) return false;
  return kRows <= lanes_left && kRows <= left + (kValues ? MaxMissingRows<kRows>() : 0);
}

// All rows from `row` on, kRows at a time, what is left in fewer.
template <bool kValues, bool kAhead, std::size_t kRows, std::size_t kVectors, bool kTail, Kept kKept, class D>
HWY_INLINE void LaneRowsFrom(D d, const LaneProduct& p, const LaneTerms& terms, std::size_t row) {
  for (; StepFits<kValues, kRows>(p, row); row += kRows) {
    LaneRows<kValues, kAhead, kRows, kVectors, kTail, kKept>(d, p, terms, row);
  }
  if constexpr (kRows > 1) {
    constexpr std::size_t kFewer = FewerLaneRows<kRows>();
    if (row < p.num_rows) LaneRowsFrom<kValues, kAhead, kFewer, kVectors, kTail, kKept>(d, p, terms, row);
  }
}

// Values of a block and of two vectors are kept while the first rows of p are at work, side by side for the rows that
// follow: rows of values are far apart, and few of a block's 128 stay in L1, 16 where they are 2 KiB apart. EPYC (Zen
// 4), AVX2, query_lanes/q32_n256_d128_off4 44 us, _unkept 54; SSE4 128 and 131. With 32 registers 12 rows meet each
// value at a time, and there is little to win. Copying rows before they are used won half as much and lost from memory.
// Rows that see different keys are not worth a third copy of the loops.
static constexpr bool kKeepsValues = kVectorsPerPanel == 2 && !ATTEND_TARGET_IS_EMULATED;

template <std::size_t kRows, class D>
HWY_INLINE void LaneRowsOfKept(D d, const LaneProduct& p, LaneTerms terms) {
  if constexpr (kRows > 1) {
    if (!StepFits<true, kRows>(p, 0)) return LaneRowsOfKept<FewerLaneRows<kRows>()>(d, p, terms);
  }
  constexpr std::size_t kVectors = 2;
  HWY_ALIGN float kept[kInnerBlock * kVectors * hn::MaxLanes(D())];
  terms.kept = kept;
  terms.kept_stride = kVectors * hn::Lanes(d);
  LaneRows<true, false, kRows, kVectors, false, Kept::kNow>(d, p, terms, 0);
  terms.b = kept;
  terms.stride = static_cast<std::ptrdiff_t>(kVectors * hn::Lanes(d));
  LaneRowsFrom<true, false, kRows, kVectors, false, Kept::kBefore>(d, p, terms, kRows);
}

HWY_INLINE LaneTerms BlockOfTerms(const LaneProduct& p, std::size_t first, std::size_t column) {
  return {.b = p.b + static_cast<std::ptrdiff_t>(first) * p.b_stride + column,
          .stride = p.b_stride,
          .first = first,
          .count = std::min(kInnerBlock, p.inner - first),
          .column = column,
          .add = p.add || first > 0,
          .last = first + kInnerBlock >= p.inner,
          .kept = nullptr,
          .kept_stride = 0};
}

template <bool kValues, bool kAhead, std::size_t kRows, std::size_t kVectors, bool kTail, class D>
HWY_INLINE void LaneBlock(D d, const LaneProduct& p, const LaneTerms& terms) {
  if constexpr (kValues && kVectors == 2 && !kTail && kKeepsValues) {
    // From memory also where no rows follow: it is while values are kept that the next columns are prefetched.
    if (p.keep_values && (p.num_rows > kRows || !p.ahead.empty()) && p.common >= terms.first + terms.count) {
      return LaneRowsOfKept<kRows>(d, p, terms);
    }
  }
  LaneRowsFrom<kValues, kAhead, kRows, kVectors, kTail, Kept::kNot>(d, p, terms, 0);
}

template <bool kValues, bool kAhead, std::size_t kRows, std::size_t kVectors, bool kTail, class D>
HWY_INLINE void LaneBlocks(D d, const LaneProduct& p, std::size_t column) {
  for (std::size_t first = 0; first == 0 || first < p.inner; first += kInnerBlock) {
    LaneBlock<kValues, kAhead, kRows, kVectors, kTail>(d, p, BlockOfTerms(p, first, column));
  }
}

// So many rows of p meet values by two vectors everywhere, see LaneFourColumns.
static constexpr std::size_t kMaxRowsByTwo = 16;

// Columns of four vectors of values: kept by two and used by four. The first rows want all four from memory before the
// others have their turn, which 16 rows do not make up for: query_lanes/q16_n1024_d64_l3_ahead/AVX2 on Zen 3 took 2 to
// 5 % longer, and 10 % if they were kept by four. 32 rows: see kFourVectors.
template <class D>
HWY_NOINLINE void LaneFourColumns(D d, const LaneProduct& p, std::size_t column) {
  constexpr std::size_t kRows = LaneRowsPerStep<true, 2>();
  const std::size_t lanes = hn::Lanes(d);
  HWY_ALIGN float kept[kInnerBlock * 4 * hn::MaxLanes(D())];
  for (std::size_t first = 0; first == 0 || first < p.inner; first += kInnerBlock) {
    LaneTerms terms = BlockOfTerms(p, first, column), others = BlockOfTerms(p, first, column + 2 * lanes);
    if (p.common < first + terms.count) {
      LaneBlock<true, false, kRows, 2, false>(d, p, terms);
      LaneBlock<true, false, kRows, 2, false>(d, p, others);
      continue;
    }
    terms.kept = kept;
    others.kept = kept + 2 * lanes;
    terms.kept_stride = others.kept_stride = 4 * lanes;
    LaneRows<true, false, kRows, 2, false, Kept::kNow>(d, p, terms, 0);
    LaneRows<true, false, kRows, 2, false, Kept::kNow>(d, p, others, 0);
    terms.b = kept;
    terms.stride = static_cast<std::ptrdiff_t>(4 * lanes);
    LaneRowsFrom<true, false, LaneRowsPerStep<true, 4>(), 4, false, Kept::kBefore>(d, p, terms, kRows);
  }
}

template <bool kValues, bool kAhead, std::size_t kVectors, bool kTail, class D>
HWY_NOINLINE void LaneColumns(D d, const LaneProduct& p, std::size_t column) {
  constexpr std::size_t kRows = LaneRowsPerStep<kValues, kVectors>();
  // Keys whose rows are a multiple of 4 KiB apart share one set of L1, and of 16 rows only 8 stay in it, or 12: every
  // broadcast would come from L2. EPYC (Zen 4), query_lanes/q16_n512_d128_row1024/AVX3: 64 us by 16 rows, 44 by 8; 39
  // where rows are 2 KiB apart.
  if constexpr (!kValues && kRows > kMaxRowsOfOneSet) {
    if (p.a_stride % kSetsRepeat == 0) {
      return LaneBlocks<kValues, kAhead, kMaxRowsOfOneSet, kVectors, kTail>(d, p, column);
    }
  }
  LaneBlocks<kValues, kAhead, kRows, kVectors, kTail>(d, p, column);
}

// How many vectors of queries go next, of so many that are left: the most, or else two. 4 are 2 + 2, not 3 + 1.
constexpr std::size_t KeyVectorsOf(std::size_t left) {
  const bool two_and_two = left == 4 && kMaxKeyVectors == 3;
  return left >= kMaxKeyVectors && !two_and_two ? kMaxKeyVectors : std::min(std::size_t{2}, left);
}

template <bool kAhead, class D>
HWY_INLINE void MultiplyKeyColumns(D d, const LaneProduct& p) {
  const std::size_t lanes = hn::Lanes(d);
  for (std::size_t column = 0; column < p.num_columns;) {
    const std::size_t left = (p.num_columns - column) / lanes;
    const std::size_t vectors = KeyVectorsOf(left);
    switch (vectors) {
      case 1:
        LaneColumns<false, kAhead, 1, false>(d, p, column);
        break;
      case 2:
        LaneColumns<false, kAhead, 2, false>(d, p, column);
        break;
      default:
        if constexpr (kMaxKeyVectors > 2) LaneColumns<false, kAhead, kMaxKeyVectors, false>(d, p, column);
        break;
    }
    column += vectors * lanes;
  }
}

static constexpr bool kLanesPrefetch = !ATTEND_TARGET_IS_EMULATED;

template <class D>
HWY_INLINE void MultiplyKeys(D d, const LaneProduct& p) {
  if (!kLanesPrefetch || p.ahead.empty()) {
    MultiplyKeyColumns<false>(d, p);
  } else {
    MultiplyKeyColumns<kLanesPrefetch>(d, p);
  }
}

// kAhead: what is `ahead` is prefetched, as were these values, so that they come from the core's own cache.
template <bool kAhead, class D>
HWY_INLINE void MultiplyValueColumns(D d, const LaneProduct& p) {
  const std::size_t lanes = hn::Lanes(d);
  std::size_t column = 0;
  if constexpr (kVectorsPerPanel > 2 && !kAhead) {
    if (!p.ahead.empty()) {  // values come from memory
      for (; column + 4 * lanes <= p.num_columns; column += 4 * lanes) LaneColumns<true, false, 4, false>(d, p, column);
    }
  }
  if constexpr (kFourVectors && kKeepsValues) {
    if (p.keep_values && p.num_rows > kMaxRowsByTwo) {
      for (; column + 4 * lanes <= p.num_columns; column += 4 * lanes) LaneFourColumns(d, p, column);
    }
  }
  for (; column + 2 * lanes <= p.num_columns; column += 2 * lanes) LaneColumns<true, kAhead, 2, false>(d, p, column);
  for (; column + lanes <= p.num_columns; column += lanes) LaneColumns<true, false, 1, false>(d, p, column);
  if (column < p.num_columns) LaneColumns<true, false, 1, true>(d, p, column);
}

template <class D>
HWY_INLINE void MultiplyValues(D d, const LaneProduct& p) {
  constexpr bool kMayFetch = kLanesPrefetch && kVectorsPerPanel > 2;
  if (kMayFetch && p.fetches) {
    MultiplyValueColumns<kMayFetch>(d, p);
  } else {
    MultiplyValueColumns<false>(d, p);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace kernels
}  // namespace attend
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
