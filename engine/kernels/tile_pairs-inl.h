// Scores by pairs of terms, see tile_pairs.h.
//
// Scalar step:  c[m][n] += (x[m][k] + w[k + 1][n]) (x[m][k + 1] + w[k][n]) + x[m][k + 2] w[k + 2][n]
// Registers:    8 rows times 2 vectors: 16 sums + 4 of W + 2 of x + 4 of x + w, of 32 with AVX-512. A tile of 48 rows,
//               of which 9 would leave 3, and 128 keys, GFLOPS on a peak of 117 (EPYC, Zen 4, AVX3, tile_pairs/*): of
//               size 64 by 4 rows 145 to 151, by 6 152, by 8 157, plain 114; of 128 150 to 154, 157, 164 and 116.
//               Where there are 16, 4 rows take all of them: 8 sums + 4 + 2 + 2. Three terms are then 18 loads beside
//               16 additions and 16 multiply-adds, plainly 24 of these. EPYC (Zen 3), AVX2, plain products' time by
//               that of pairs, before anything is looked at, the least of 60 runs and, where a virtual machine's
//               neighbours were busy, medians: scores of size 64 1.03 and 0.87, of 128 1.08 and 0.93, pooling 1.00 and
//               0.83, projections 0.95 and 0.91. Those are 36 loads in six terms, which take 18 cycles, and 64 sums,
//               which take 16, if nothing is moved in between: told by name (AddProduct, EvenRows), scores of size 128
//               take 0.87 of plain products' time on Zen 4: tile_pairs/qk_m48_n128_d128, tile_product/qk_m48_n512_d128.
//               Since then 33 loads and 4 permutations (kLoadsRowsTogether).
#if defined(ATTEND_KERNELS_TILE_PAIRS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ATTEND_KERNELS_TILE_PAIRS_INL_H_
#undef ATTEND_KERNELS_TILE_PAIRS_INL_H_
#else
#define ATTEND_KERNELS_TILE_PAIRS_INL_H_
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "engine/kernels/pairs-inl.h"
#include "engine/kernels/panel-inl.h"
#include "engine/kernels/tile_pairs.h"
#include "engine/kernels/tile_product-inl.h"
#include "engine/simd/compat-inl.h"

HWY_BEFORE_NAMESPACE();
namespace attend {
namespace kernels {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
namespace simd = attend::HWY_NAMESPACE;

// A vector of keys of a panel, keys in the lanes: their sums of squares and sizes, and of the products of pairs.
template <class D>
HWY_INLINE void SumKeys(D d, const float* HWY_RESTRICT panel, size_t size, float* HWY_RESTRICT squares,
                        float* HWY_RESTRICT sizes, float* HWY_RESTRICT pair_sums) {
  using V = hn::Vec<D>;
  const size_t width = PanelWidth(d);
  V square0 = hn::Zero(d), square1 = hn::Zero(d), size0 = hn::Zero(d), size1 = hn::Zero(d);
  V added = hn::Zero(d), subtracted = hn::Zero(d);
  const float* HWY_RESTRICT w = panel;
  size_t k = 0;
  const auto take = [&](V a, V b) ATTEND_INLINE_ATTR {
    square0 = hn::MulAdd(a, a, square0);
    square1 = hn::MulAdd(b, b, square1);
    size0 = hn::Add(size0, hn::Abs(a));
    size1 = hn::Add(size1, hn::Abs(b));
  };
  for (; k + 6 <= size; k += 6, w += 6 * width) {
    const V a = hn::Load(d, w), b = hn::Load(d, w + width);
    take(a, b);
    added = hn::MulAdd(a, b, added);
    const V e = hn::Load(d, w + 3 * width), f = hn::Load(d, w + 4 * width);
    take(e, f);
    subtracted = hn::MulAdd(e, f, subtracted);
    take(hn::Load(d, w + 2 * width), hn::Load(d, w + 5 * width));
  }
  for (; k < size; ++k, w += width) take(hn::Load(d, w), hn::Zero(d));
  hn::Store(hn::Add(square0, square1), d, squares);
  hn::Store(hn::Add(size0, size1), d, sizes);
  hn::Store(hn::Sub(added, subtracted), d, pair_sums);
}

template <class D>
float PairPanels(D d, const PairPanelsArgs& args) {
  const size_t lanes = hn::Lanes(d), width = PanelWidth(d);
  const float count = static_cast<float>(args.size);
  HWY_ALIGN float squares[kVectorsPerPanel * hn::MaxLanes(D())];
  HWY_ALIGN float sizes[kVectorsPerPanel * hn::MaxLanes(D())];
  float mean_square = args.mean_square;
  for (size_t panel = 0; panel < args.num_panels; ++panel) {
    const float* HWY_RESTRICT keys = args.panels + panel * args.panel_stride;
    for (size_t n = 0; n < width; n += lanes) {
      SumKeys(d, keys + n, args.size, squares + n, sizes + n, args.pair_sums + panel * width + n);
    }
    if (mean_square == 0) {
      float sum = 0;
      for (size_t n = 0; n < width; ++n) sum += squares[n];
      mean_square = sum / (count * static_cast<float>(width));
      // Comparisons fail for NaN.
      if (!(mean_square >= kMinMeanSquare && mean_square <= kMaxMeanSquare)) return 0;
    }
    const float least = mean_square * count / kMaxNormRatio, most = mean_square * count * kMaxNormRatio;
    size_t fit = 0;
    while (fit < width && squares[fit] >= least && squares[fit] <= most &&
           sizes[fit] * sizes[fit] >= kMinSpread * count * squares[fit]) {
      ++fit;
    }
    args.fit_keys[panel] = static_cast<std::int32_t>(fit);
  }
  return mean_square;
}

template <class D>
void PairRows(D d, size_t width, const PairRowsArgs& args) {
  const auto sees_panel = [&](size_t r) { return args.lens == nullptr || static_cast<size_t>(args.lens[r]) >= width; };
  const auto row_at = [&](size_t r) { return args.rows + static_cast<std::ptrdiff_t>(r) * args.stride; };
  for (size_t first = 0; first < args.num_rows; first += kRowsOfTerm) {
    float* copy = args.copies + static_cast<std::ptrdiff_t>(first) * args.copies_stride;
    if constexpr (kRowsOfTerm == 1) {
      args.paired[first] =
          sees_panel(first) ? CopyForPairs(d, row_at(first), args.size, args.keys_mean_square, copy) : PairedRow{0, 0};
    } else {
      const float* rows[kRowsOfTerm];
      float scales[kRowsOfTerm];  // 0: of a row that is not to go by pairs, and of one that is not there
      for (size_t i = 0; i < kRowsOfTerm; ++i) {
        const size_t r = first + i;
        rows[i] = row_at(std::min(r, args.num_rows - 1));
        scales[i] = 0;
        if (r >= args.num_rows) continue;
        args.paired[r] =
            sees_panel(r) ? LookAtRow(d, rows[i], args.size, args.keys_mean_square, scales[i]) : PairedRow{0, 0};
      }
      InterleaveRows(d, rows, scales, args.size, copy);
    }
  }
}

// What steps of rows have in common: the same vectors of one panel.
struct PairedKeys {
  const float* keys;  // at their first term
  const float* pair_sums;
  size_t size;
  bool first_max;  // max_lanes hold nothing yet
};

template <size_t kVectors, class D, class V = hn::Vec<D>>
HWY_INLINE void StorePairedRow(D d, const PairedRow& row, bool first_max, V c0, V c1, float* HWY_RESTRICT c,
                               float* HWY_RESTRICT max_lanes) {
  const V unscale = simd::BroadcastLoad(d, &row.unscale);
  c0 = hn::Mul(c0, unscale);
  hn::Store(c0, d, c);
  if constexpr (kVectors > 1) {
    c1 = hn::Mul(c1, unscale);
    hn::Store(c1, d, c + hn::Lanes(d));
    c0 = hn::Max(c0, c1);
  }
  if (max_lanes != nullptr) {
    if (!first_max) c0 = hn::Max(c0, hn::Load(d, max_lanes));
    hn::Store(c0, d, max_lanes);
  }
}

// kRows copies of rows times kVectors vectors of keys, over the whole sum.
template <size_t kRows, size_t kVectors, class D>
HWY_INLINE void PairedRowsInline(D d, const PairedKeys& keys, const float* HWY_RESTRICT x, std::ptrdiff_t x_stride,
                                 const PairedRow* HWY_RESTRICT paired, float* HWY_RESTRICT c, std::ptrdiff_t c_stride,
                                 float* HWY_RESTRICT max_lanes) {
  static_assert(kRows <= 8 && kVectors <= kMaxPairedVectors);
  using V = hn::Vec<D>;
  const size_t lanes = hn::Lanes(d), width = PanelWidth(d), size = keys.size;
  const bool first_max = keys.first_max;
  const V zero = hn::Zero(d);
  const float* HWY_RESTRICT b = keys.keys;
  const V s0 = hn::Load(d, keys.pair_sums), s1 = kVectors > 1 ? hn::Load(d, keys.pair_sums + lanes) : zero;
  const EvenRows rows(x_stride);
#define ATTEND_PAIRS_X(r, i) BroadcastOfRow<r, i>(d, rows, x)
#define ATTEND_PAIRS_ROW(r)         \
  V y##r##0 = zero, y##r##1 = zero; \
  ATTEND_PAIRS_START(r, paired[r])
#define ATTEND_PAIRS_LOAD(first, second, at) \
  first = hn::Load(d, b + (at));             \
  if constexpr (kVectors > 1) second = hn::Load(d, b + (at) + lanes);
#define ATTEND_PAIRS_TERMS(ROW, ALONE)     \
  {                                        \
    V b00, b01 = zero, b10, b11 = zero;    \
    ATTEND_PAIRS_LOAD(b00, b01, 0)         \
    ATTEND_PAIRS_LOAD(b10, b11, width)     \
    ATTEND_PAIRS_ROWS(ROW)                 \
    ATTEND_PAIRS_LOAD(b00, b01, 2 * width) \
    ALONE                                  \
    x += 3 * kRowsOfTerm;                  \
    b += 3 * width;                        \
  }
#define ATTEND_PAIRS_STORE(r)                                                                                          \
  if constexpr (kRows > r) {                                                                                           \
    StorePairedRow<kVectors>(d, paired[r], first_max, y##r##0, y##r##1, c + static_cast<std::ptrdiff_t>(r) * c_stride, \
                             max_lanes == nullptr ? nullptr : max_lanes + r * lanes);                                  \
  }
  ATTEND_PAIRS_ROWS(ATTEND_PAIRS_ROW)
  size_t k = 0;
  for (; k + 6 <= size; k += 6) {
    ATTEND_PAIRS_TERMS(ATTEND_PAIRS_ADD, ATTEND_PAIRS_ALONE_TOGETHER)
    ATTEND_PAIRS_TERMS(ATTEND_PAIRS_SUBTRACT, ATTEND_PAIRS_ROWS(ATTEND_PAIRS_ALONE))
  }
  for (; k < size; ++k) {
    V b00, b01 = zero;
    ATTEND_PAIRS_LOAD(b00, b01, 0)
    ATTEND_PAIRS_ROWS(ATTEND_PAIRS_LAST)
    x += kRowsOfTerm;
    b += width;
  }
  ATTEND_PAIRS_ROWS(ATTEND_PAIRS_STORE)
#undef ATTEND_PAIRS_STORE
#undef ATTEND_PAIRS_TERMS
#undef ATTEND_PAIRS_LOAD
#undef ATTEND_PAIRS_ROW
#undef ATTEND_PAIRS_X
}

template <size_t kRows, size_t kVectors, class D>
HWY_NOINLINE void PairedRowsStep(D d, const PairedKeys& keys, const float* x, std::ptrdiff_t x_stride,
                                 const PairedRow* paired, float* c, std::ptrdiff_t c_stride, float* max_lanes) {
  PairedRowsInline<kRows, kVectors>(d, keys, x, x_stride, paired, c, c_stride, max_lanes);
}

// Steps of kRows rows, one after another, and two vectors, where 16 registers make steps so short that a call each
// shows: EPYC (Zen 4) without AVX-512, tile_pairs/qk_m48_n128_d64/AVX2 7.86 and 7.65 us, _d128 15.1 and 14.9.
template <size_t kRows, class D>
HWY_NOINLINE void PairedRowsSteps(D d, PairedKeys keys, size_t steps, PrefetchRows* ahead, const float* HWY_RESTRICT x,
                                  std::ptrdiff_t x_stride, const PairedRow* HWY_RESTRICT paired, float* HWY_RESTRICT c,
                                  std::ptrdiff_t c_stride, float* HWY_RESTRICT max_lanes) {
  for (size_t i = 0; i < steps; ++i) {
    if (ahead != nullptr) ahead->fetch_fours();
    PairedRowsInline<kRows, 2>(d, keys, x, x_stride, paired, c, c_stride, max_lanes);
    x += static_cast<std::ptrdiff_t>(kRows) * x_stride;
    c += static_cast<std::ptrdiff_t>(kRows) * c_stride;
    paired += kRows;
    if (max_lanes != nullptr) max_lanes += kRows * hn::Lanes(d);
  }
}

template <size_t kRows, class D>
HWY_INLINE void PairedVectors(D d, const PairedKeys& keys, size_t columns, const float* a, std::ptrdiff_t a_stride,
                              const PairedRow* paired, float* c, std::ptrdiff_t c_stride, float* max_lanes) {
  if (HWY_LIKELY(columns > hn::Lanes(d))) {
    PairedRowsStep<kRows, 2>(d, keys, a, a_stride, paired, c, c_stride, max_lanes);
  } else {
    PairedRowsStep<kRows, 1>(d, keys, a, a_stride, paired, c, c_stride, max_lanes);
  }
}

// rows <= kRows; columns: how many are wanted, at least one.
template <size_t kRows, class D>
HWY_INLINE void PairedAnyRows(D d, const PairedKeys& keys, size_t rows, size_t columns, const float* a,
                              std::ptrdiff_t a_stride, const PairedRow* paired, float* c, std::ptrdiff_t c_stride,
                              float* max_lanes) {
  if constexpr (kRows > 1) {
    if (rows < kRows) {
      return PairedAnyRows<kRows - 1>(d, keys, rows, columns, a, a_stride, paired, c, c_stride, max_lanes);
    }
  }
  PairedVectors<kRows>(d, keys, columns, a, a_stride, paired, c, c_stride, max_lanes);
}

// Rows `first` to end - 1, all of them by pairs, by one panel. lens: of the product, or nullptr where they limit
// nothing.
template <class D>
HWY_INLINE void MultiplyPanelByPairs(D d, const TilePairsArgs& args, size_t panel, size_t first, size_t end,
                                     const std::int32_t* lens) {
  const TileProductArgs& product = args.product;
  const size_t lanes = hn::Lanes(d), width = PanelWidth(d);
  for (size_t n = 0; n < width; n += kMaxPairedVectors * lanes) {
    const size_t column = panel * width + n;
    const PairedKeys keys{.keys = product.b + panel * product.b_panel_stride + n,
                          .pair_sums = args.pair_sums + column,
                          .size = product.inner,
                          .first_max = column == 0};
    for (size_t row = first, rows; row < end; row += rows) {
      const size_t place = args.first_copy + row, in_step = place % kRowsOfTerm;
      const float* x = args.copies + static_cast<std::ptrdiff_t>(place - in_step) * args.copies_stride + in_step;
      const PairedRow* paired = args.paired + row;
      float* c = product.c + static_cast<std::ptrdiff_t>(row) * product.c_stride + column;
      float* max_lanes = product.max_lanes == nullptr ? nullptr : product.max_lanes + row * lanes;
      if constexpr (!kHas32Registers) {
        const size_t steps = (end - row) / kPairedRowsPerStep;
        if (lens == nullptr && product.num_columns > column + lanes && in_step == 0 && steps > 0) {
          rows = steps * kPairedRowsPerStep;
          PairedRowsSteps<kPairedRowsPerStep>(d, keys, steps, product.ahead, x, args.copies_stride, paired, c,
                                              product.c_stride, max_lanes);
          continue;
        }
      }
      rows = std::min(kPairedRowsPerStep - in_step, end - row);
      if (product.ahead != nullptr) product.ahead->fetch_fours();
      const size_t columns = lens == nullptr ? product.num_columns : LongestOf(lens + row, rows);
      if (columns <= column) continue;
      PairedAnyRows<kPairedRowsPerStep>(d, keys, rows, columns - column, x, args.copies_stride, paired, c,
                                        product.c_stride, max_lanes);
    }
  }
}

// Panel by panel, in runs of rows that go the same way.
template <class D>
void MultiplyTileByPairs(D d, const TilePairsArgs& args) {
  const TileProductArgs& product = args.product;
  const size_t width = PanelWidth(d), num_rows = product.num_rows;
  if (num_rows == 0) return;
  const std::int32_t* lens = ThatLimit(product.lens, num_rows, product.num_columns);
  const bool all_rows = AllGoByPairs(args.paired, num_rows);
  for (size_t panel = 0; panel * width < product.num_columns; ++panel) {
    const size_t first_column = panel * width, fit = static_cast<size_t>(args.fit_keys[panel]);
    if (HWY_LIKELY(all_rows && fit == width)) {
      MultiplyPanelByPairs(d, args, panel, 0, num_rows, lens);
      continue;
    }
    const auto goes_by_pairs = [&](size_t row) {
      const size_t columns = lens == nullptr ? product.num_columns : static_cast<size_t>(lens[row]);
      return args.paired[row].unscale != 0 && (fit == width || columns <= first_column + fit);
    };
    for (size_t row = 0; row < num_rows;) {
      const bool by_pairs = goes_by_pairs(row);
      size_t end = row + 1;
      while (end < num_rows && goes_by_pairs(end) == by_pairs) ++end;
      if (by_pairs) {
        MultiplyPanelByPairs(d, args, panel, row, end, lens);
      } else {
        MultiplyPanel(d, product, panel, row, end, lens, nullptr);
      }
      row = end;
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace kernels
}  // namespace attend
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
