// The two products of attention with queries in the lanes, see query_lanes.h: which rows and vectors go at a time. The
// loops over registers: lane_rows-inl.h.
#if defined(ATTEND_KERNELS_LANE_PRODUCT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ATTEND_KERNELS_LANE_PRODUCT_INL_H_
#undef ATTEND_KERNELS_LANE_PRODUCT_INL_H_
#else
#define ATTEND_KERNELS_LANE_PRODUCT_INL_H_
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cstddef>

#include "engine/kernels/lane_rows-inl.h"
#include "engine/kernels/lane_terms-inl.h"
#include "engine/kernels/panel-inl.h"
#include "engine/kernels/prefetch.h"
#include "engine/kernels/tile_product.h"
#include "engine/simd/compat-inl.h"

HWY_BEFORE_NAMESPACE();
namespace attend {
namespace kernels {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

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
  const std::size_t lanes_left = kValues ? p.padded_rows - row : left;
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
static constexpr bool kKeepsValues = !kHas32Registers && !ATTEND_TARGET_IS_EMULATED;

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
  if constexpr (kHas32Registers && !kAhead) {
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

// Rows `row` to last - 1 of a product with values.
HWY_INLINE LaneProduct RowsOfProduct(const LaneProduct& p, std::size_t row, std::size_t last) {
  LaneProduct rows = p;
  rows.a += row;
  rows.num_rows = last - row;
  rows.padded_rows -= row;
  rows.lens += row;
  rows.c += row * p.c_stride;
  return rows;
}

// Values that stay in the core's own cache meet a step of rows column by column before the next rows, so that rows of
// results are written as a whole: those 512 bytes apart took twice as long by columns. EPYC (Zen 5), AVX3, 8 heads of
// 512 queries, us by columns and so: 8 keys of size 64 87 and 88, 96 131 and 128, 128 347 and 179, 256 410 and 328; 32
// keys of size 128 521 and 472, 64 of size 256 1970 and 1780, 128 of size 128 1710 and 1640 (attend plan --layer dot
// --shape 1,512,8,128 --num-heads 8 --tune; a group of rows alone: query_lanes/q64_n8_d128). With 16 registers, where
// values are kept side by side, AVX2 and SSE4 lost a tenth.
static constexpr bool kRowsFirst = kHas32Registers;
static constexpr std::size_t kRowsFirstValues = 32768;

template <class D>
HWY_INLINE void MultiplyValueRows(D d, const LaneProduct& p) {
  constexpr std::size_t kRows = LaneRowsPerStep<true, 2>();
  for (std::size_t row = 0; row < p.num_rows; row += kRows) {
    LaneProduct rows = RowsOfProduct(p, row, std::min(row + kRows, p.num_rows));
    if (p.results == nullptr) {
      MultiplyValueColumns<false>(d, rows);
      continue;
    }
    const LaneResults results{p.results->factors + row,
                              p.results->output + static_cast<std::ptrdiff_t>(row) * p.results->stride,
                              p.results->stride};
    rows.results = &results;
    MultiplyValueColumns<false>(d, rows);
  }
}

template <class D>
HWY_INLINE void MultiplyValues(D d, const LaneProduct& p) {
  constexpr bool kMayFetch = kLanesPrefetch && kHas32Registers;
  if (kMayFetch && p.fetches) {
    MultiplyValueColumns<kMayFetch>(d, p);
  } else if (kRowsFirst && p.ahead.empty() && p.inner <= kInnerBlock && p.inner * p.num_columns <= kRowsFirstValues) {
    MultiplyValueRows(d, p);
  } else {
    MultiplyValueColumns<false>(d, p);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace kernels
}  // namespace attend
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
