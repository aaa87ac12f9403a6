// Pooling by pairs of terms, see value_pairs.h.
//
// Scalar step:  c[m][n] += (p[m][k] + v[k + N][n]) (p[m][k + N] + v[k][n]) + p[m][k + 2 N] v[k + 2 N][n]
// Registers:    as tile_pairs-inl.h: 8 rows times 2 vectors with AVX-512. A tile of 48 rows and 128 keys, GFLOPS on a
//               peak of 117 (EPYC, Zen 4, AVX3, value_pairs/*): 64 columns 149 to 151, 128 columns 151, plain 108 and
//               114; 64 keys 131. Where the keys of the last two vectors that stand alone came behind their pairs and
//               not among them, 144.
#if defined(ATTEND_KERNELS_VALUE_PAIRS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ATTEND_KERNELS_VALUE_PAIRS_INL_H_
#undef ATTEND_KERNELS_VALUE_PAIRS_INL_H_
#else
#define ATTEND_KERNELS_VALUE_PAIRS_INL_H_
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "engine/kernels/pairs-inl.h"
#include "engine/kernels/panel-inl.h"
#include "engine/kernels/tile_product-inl.h"
#include "engine/kernels/value_pairs.h"
#include "engine/simd/compat-inl.h"
#include "engine/simd/sums-inl.h"
#include "engine/simd/tail-inl.h"

HWY_BEFORE_NAMESPACE();
namespace attend {
namespace kernels {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
namespace simd = attend::HWY_NAMESPACE;

HWY_INLINE std::ptrdiff_t Offset(size_t rows, std::ptrdiff_t stride) {
  return static_cast<std::ptrdiff_t>(rows) * stride;
}

// How n keys of a block are paired. Pairs are added and subtracted in turn, from lane to lane; where there is but one,
// from group to group.
struct Pairing {
  size_t groups;  // of three vectors
  size_t last;    // pairs of the two vectors behind them, an even number
};

template <class D>
HWY_INLINE Pairing PairingOf(D d, size_t n) {
  const size_t lanes = hn::Lanes(d), groups = n / (3 * lanes);
  return {groups, n - groups * 3 * lanes >= 2 * lanes ? lanes / 3 * 2 : 0};
}

template <class V>
HWY_INLINE void AddTo(V& squares, V& sizes, V a) {
  squares = hn::MulAdd(a, a, squares);
  sizes = hn::Add(sizes, hn::Abs(a));
}

// One vector of a block's columns: sums of squares and of sizes, and of the products of pairs. Two of each side by
// side, since sums wait for each other.
template <class D>
HWY_INLINE void SumValues(D d, const float* HWY_RESTRICT values, std::ptrdiff_t stride, size_t n,
                          float* HWY_RESTRICT squares, float* HWY_RESTRICT sizes, float* HWY_RESTRICT pair_sums) {
  using V = hn::Vec<D>;
  const size_t lanes = hn::Lanes(d);
  const std::ptrdiff_t apart = Offset(lanes, stride);
  const Pairing pairing = PairingOf(d, n);
  V square0 = hn::Zero(d), square1 = square0, size0 = square0, size1 = square0, added = square0, subtracted = square0;
  const float* HWY_RESTRICT v = values;
  const auto take_pair = [&](V& sum) ATTEND_INLINE_ATTR {
    const V a = hn::LoadU(d, v), b = hn::LoadU(d, v + apart);
    AddTo(square0, size0, a);
    AddTo(square1, size1, b);
    sum = hn::MulAdd(a, b, sum);
  };
  for (size_t group = 0; group < pairing.groups; ++group, v += 2 * apart) {
    size_t i = 0;
    for (; i + 2 <= lanes; i += 2, v += stride) {
      take_pair(added);
      AddTo(square0, size0, hn::LoadU(d, v + 2 * apart));
      v += stride;
      take_pair(subtracted);
      AddTo(square1, size1, hn::LoadU(d, v + 2 * apart));
    }
    for (; i < lanes; ++i, v += stride) {  // one lane
      take_pair(group % 2 == 0 ? added : subtracted);
      AddTo(square0, size0, hn::LoadU(d, v + 2 * apart));
    }
  }
  size_t k = pairing.groups * 3 * lanes;
  if (pairing.last > 0) {
    for (size_t i = 0; i < pairing.last; i += 2, v += stride) {
      take_pair(added);
      v += stride;
      take_pair(subtracted);
    }
    for (size_t i = pairing.last; i < lanes; ++i, v += stride) {
      AddTo(square0, size0, hn::LoadU(d, v));
      AddTo(square1, size1, hn::LoadU(d, v + apart));
    }
    v += apart;
    k += 2 * lanes;
  }
  for (; k < n; ++k, v += stride) AddTo(square0, size0, hn::LoadU(d, v));
  hn::Store(hn::Add(square0, square1), d, squares);
  hn::Store(hn::Add(size0, size1), d, sizes);
  hn::Store(hn::Sub(added, subtracted), d, pair_sums);
}

template <class D>
float PairValues(D d, const PairValuesArgs& args) {
  const size_t width = PanelWidth(d), panels = hwy::DivCeil(args.size, width);
  HWY_ALIGN float squares[kVectorsPerPanel * hn::MaxLanes(D())];
  HWY_ALIGN float sizes[kVectorsPerPanel * hn::MaxLanes(D())];
  float mean_square = args.mean_square;
  const auto columns_of = [&](size_t panel) { return std::min(width, args.size - panel * width); };
  for (size_t first = 0, block = 0; first < args.num_values; first += kInnerBlock, ++block) {
    const size_t n = std::min(kInnerBlock, args.num_values - first);
    const float* values = args.values + Offset(first, args.row_stride);
    float* pair_sums = args.pair_sums + block * panels * width;
    std::int32_t* fit = args.fit + block * panels;
    const float count = static_cast<float>(n);
    const auto sum_panel = [&](size_t panel) {
      for (size_t column = 0; column < width; column += hn::Lanes(d)) {
        SumValues(d, values + panel * args.panel_stride + column, args.row_stride, n, squares + column, sizes + column,
                  pair_sums + panel * width + column);
      }
    };
    if (mean_square == 0) {
      float sum = 0;
      for (size_t panel = 0; panel < panels; ++panel) {
        sum_panel(panel);
        for (size_t column = 0; column < columns_of(panel); ++column) sum += squares[column];
      }
      mean_square = sum / (count * static_cast<float>(args.size));
      // Comparisons fail for NaN.
      if (!(mean_square >= kMinMeanSquare && mean_square <= kMaxMeanSquare)) return 0;
    }
    const float least = mean_square * count / kMaxNormRatio, most = mean_square * count * kMaxNormRatio;
    for (size_t panel = 0; panel < panels; ++panel) {
      sum_panel(panel);
      bool is_fit = true;
      for (size_t column = 0; column < columns_of(panel); ++column) {
        const float square = squares[column], size = sizes[column];
        is_fit &= square >= least && square <= most && size * size >= kMinSpread * count * square;
      }
      fit[panel] = is_fit ? 1 : 0;
    }
  }
  return mean_square;
}

// Four rows side by side: sums of one wait for each other, and those across lanes are made for four.
template <class D>
void PairPowers(D d, const PairPowersArgs& args) {
  using V = hn::Vec<D>;
  const size_t lanes = hn::Lanes(d), n = args.num_keys;
  const Pairing pairing = PairingOf(d, n);
  const auto paired = hn::FirstN(d, pairing.last);
  const float count = static_cast<float>(n);
  const float least = args.mean_square * count * kMinPowerRatio, most = args.mean_square * count * kMaxPowerRatio;
  const float least_spread = kMinPowerSpread * count;
  HWY_ALIGN float squares[4], sizes[4], minus_pair_sums[4], fits[4];
  for (size_t first = 0; first < args.num_rows; first += 4) {
    const size_t rows = std::min<size_t>(4, args.num_rows - first);
    const auto row = [&](size_t r) { return args.powers + Offset(first + std::min(r, rows - 1), args.stride); };
    const float *HWY_RESTRICT p0 = row(0), *HWY_RESTRICT p1 = row(1), *HWY_RESTRICT p2 = row(2),
                              *HWY_RESTRICT p3 = row(3);
    V squares0 = hn::Zero(d), squares1 = squares0, squares2 = squares0, squares3 = squares0;
    V sizes0 = squares0, sizes1 = squares0, sizes2 = squares0, sizes3 = squares0;
    V pairs0 = squares0, pairs1 = squares0, pairs2 = squares0, pairs3 = squares0;
    const auto each_row = [&](auto&& take) ATTEND_INLINE_ATTR {
      take(p0, squares0, sizes0, pairs0);
      take(p1, squares1, sizes1, pairs1);
      take(p2, squares2, sizes2, pairs2);
      take(p3, squares3, sizes3, pairs3);
    };
    size_t k = 0;
    for (size_t group = 0; group < pairing.groups; ++group, k += 3 * lanes) {
      const bool subtract = lanes == 1 && group % 2 == 1;
      each_row([&](const float* HWY_RESTRICT p, V& square, V& size, V& pair) ATTEND_INLINE_ATTR {
        const V a = hn::Load(d, p + k), b = hn::Load(d, p + k + lanes);
        AddTo(square, size, a);
        AddTo(square, size, b);
        AddTo(square, size, hn::Load(d, p + k + 2 * lanes));
        pair = hn::MulAdd(subtract ? hn::Neg(a) : a, b, pair);
      });
    }
    if (pairing.last > 0) {
      each_row([&](const float* HWY_RESTRICT p, V& square, V& size, V& pair) ATTEND_INLINE_ATTR {
        const V a = hn::Load(d, p + k), b = hn::Load(d, p + k + lanes);
        AddTo(square, size, a);
        AddTo(square, size, b);
        pair = hn::MulAdd(hn::IfThenElseZero(paired, a), b, pair);
      });
      k += 2 * lanes;
    }
    for (; k < n; k += lanes) {
      const size_t left = std::min(lanes, n - k);
      each_row([&](const float* HWY_RESTRICT p, V& square, V& size, V&)
                   ATTEND_INLINE_ATTR { AddTo(square, size, simd::LoadTail(d, p + k, left)); });
    }
    simd::StoreSumsOfFour(d, squares0, squares1, squares2, squares3, squares);
    simd::StoreSumsOfFour(d, sizes0, sizes1, sizes2, sizes3, sizes);
    const auto alternate = [&](V pairs) ATTEND_INLINE_ATTR { return hn::OddEven(pairs, hn::Neg(pairs)); };
    simd::StoreSumsOfFour(d, alternate(pairs0), alternate(pairs1), alternate(pairs2), alternate(pairs3),
                          minus_pair_sums);
    // Comparisons fail for NaN.
    const hn::CappedTag<float, 4> four;
    for (size_t r = 0; r < 4; r += hn::Lanes(four)) {
      const auto square = hn::Load(four, squares + r), size = hn::Load(four, sizes + r);
      const auto is_fit = hn::And(hn::And(hn::Ge(square, hn::Set(four, least)), hn::Le(square, hn::Set(four, most))),
                                  hn::Ge(hn::Mul(size, size), hn::Mul(hn::Set(four, least_spread), square)));
      hn::Store(hn::IfThenElseZero(is_fit, hn::Set(four, 1.0f)), four, fits + r);
    }
    for (size_t r = 0; r < rows; ++r) {
      const bool sees_all = static_cast<size_t>(args.lens[first + r]) >= n;
      args.paired[first + r] = {minus_pair_sums[r], sees_all ? fits[r] : 0.0f};
    }
  }
}

// What steps of rows have in common: the same vectors of one panel.
struct PooledValues {
  const float* values;  // of the first key
  std::ptrdiff_t stride;
  const float* pair_sums;
  const float* powers;
  std::ptrdiff_t powers_stride;
  float* sums;
  std::ptrdiff_t sums_stride;
  const PairedRow* paired;
  bool add;  // to the sums
};

// Rows that go the same way stand anywhere in a tile: at most so many are sorted at a time.
using RowNumber = std::uint8_t;
static constexpr size_t kMaxSortedRows = 64;

template <size_t kVectors, class D, class V = hn::Vec<D>>
HWY_INLINE void StorePooledRow(D d, const PooledValues& values, size_t row, V c0, V c1) {
  const size_t lanes = hn::Lanes(d);
  float* HWY_RESTRICT c = values.sums + Offset(row, values.sums_stride);
  hn::Store(values.add ? hn::Add(c0, hn::Load(d, c)) : c0, d, c);
  if constexpr (kVectors > 1) hn::Store(values.add ? hn::Add(c1, hn::Load(d, c + lanes)) : c1, d, c + lanes);
}

// kRows rows of powers times kVectors vectors of values, over the whole block.
template <bool kPairs, size_t kRows, size_t kVectors, class D>
HWY_NOINLINE void PooledRowsStep(D d, const PooledValues& values, const RowNumber* HWY_RESTRICT rows, size_t inner) {
  static_assert(kRows <= 8 && kVectors <= kMaxPairedVectors);
  using V = hn::Vec<D>;
  const size_t lanes = hn::Lanes(d);
  const std::ptrdiff_t stride = values.stride;
  const V zero = hn::Zero(d);
  const Pairing pairing = kPairs ? PairingOf(d, inner) : Pairing{0, 0};
  const size_t pair_step = lanes;
  const float* HWY_RESTRICT b = values.values;
  V s0 = zero, s1 = zero;
  if constexpr (kPairs) s0 = hn::Load(d, values.pair_sums);
  if constexpr (kPairs && kVectors > 1) s1 = hn::Load(d, values.pair_sums + lanes);
#define ATTEND_PAIRS_ROW(r)                                                                                 \
  const float* HWY_RESTRICT x##r = values.powers + (kRows > r ? Offset(rows[r], values.powers_stride) : 0); \
  V y##r##0 = zero, y##r##1 = zero;                                                                         \
  if constexpr (kPairs) ATTEND_PAIRS_START(r, values.paired[rows[r]])
#define ATTEND_PAIRS_LOAD(first, second, key)                        \
  {                                                                  \
    const float* HWY_RESTRICT from = b + Offset(key, stride);        \
    first = hn::LoadU(d, from);                                      \
    if constexpr (kVectors > 1) second = hn::LoadU(d, from + lanes); \
  }
#define ATTEND_PAIRS_PAIR(ROW)             \
  {                                        \
    V b00, b01 = zero, b10, b11 = zero;    \
    ATTEND_PAIRS_LOAD(b00, b01, 0)         \
    ATTEND_PAIRS_LOAD(b10, b11, pair_step) \
    ATTEND_PAIRS_ROWS(ROW)                 \
  }
#define ATTEND_PAIRS_TERM(at)             \
  {                                       \
    const size_t alone_at = at;           \
    V b00, b01 = zero;                    \
    ATTEND_PAIRS_LOAD(b00, b01, alone_at) \
    ATTEND_PAIRS_ROWS(ATTEND_PAIRS_ALONE) \
  }
#define ATTEND_PAIRS_FORWARD(count)      \
  {                                      \
    const size_t next_pair = count;      \
    ATTEND_PAIRS_ROWS(ATTEND_PAIRS_NEXT) \
    b += Offset(next_pair, stride);      \
  }
#define ATTEND_PAIRS_STORE(r) \
  if constexpr (kRows > r) StorePooledRow<kVectors>(d, values, rows[r], y##r##0, y##r##1);
  ATTEND_PAIRS_ROWS(ATTEND_PAIRS_ROW)
  for (size_t group = 0; group < pairing.groups; ++group) {
    size_t i = 0;
    for (; i + 2 <= lanes; i += 2) {
      ATTEND_PAIRS_PAIR(ATTEND_PAIRS_ADD)
      ATTEND_PAIRS_TERM(2 * lanes)
      ATTEND_PAIRS_FORWARD(1)
      ATTEND_PAIRS_PAIR(ATTEND_PAIRS_SUBTRACT)
      ATTEND_PAIRS_TERM(2 * lanes)
      ATTEND_PAIRS_FORWARD(1)
    }
    if (i < lanes) {  // one lane
      if (group % 2 == 0) {
        ATTEND_PAIRS_PAIR(ATTEND_PAIRS_ADD)
      } else {
        ATTEND_PAIRS_PAIR(ATTEND_PAIRS_SUBTRACT)
      }
      ATTEND_PAIRS_TERM(2 * lanes)
      ATTEND_PAIRS_FORWARD(1)
    }
    ATTEND_PAIRS_FORWARD(2 * lanes)
  }
  size_t k = pairing.groups * 3 * lanes;
  if (pairing.last > 0) {
    // Those that stand alone among the pairs, to keep both kinds of units busy: first those behind the paired ones of
    // the first vector, then as many of the second as there are pairs left.
    const size_t pairs = pairing.last, alone = lanes - pairs;
    size_t i = 0;
    for (; i < alone; i += 2) {
      ATTEND_PAIRS_PAIR(ATTEND_PAIRS_ADD)
      ATTEND_PAIRS_TERM(pairs)
      ATTEND_PAIRS_FORWARD(1)
      ATTEND_PAIRS_PAIR(ATTEND_PAIRS_SUBTRACT)
      ATTEND_PAIRS_TERM(pairs)
      ATTEND_PAIRS_FORWARD(1)
    }
    const size_t behind = lanes + pairs - alone;
    for (; i < pairs; i += 2) {
      ATTEND_PAIRS_PAIR(ATTEND_PAIRS_ADD)
      ATTEND_PAIRS_TERM(behind)
      ATTEND_PAIRS_FORWARD(1)
      ATTEND_PAIRS_PAIR(ATTEND_PAIRS_SUBTRACT)
      ATTEND_PAIRS_TERM(behind)
      ATTEND_PAIRS_FORWARD(1)
    }
    const size_t taken = lanes + pairs + (pairs - alone);
    ATTEND_PAIRS_FORWARD(taken - pairs)
    for (i = taken; i < 2 * lanes; ++i) {
      ATTEND_PAIRS_TERM(0)
      ATTEND_PAIRS_FORWARD(1)
    }
    k += 2 * lanes;
  }
  for (; k < inner; ++k) {
    ATTEND_PAIRS_TERM(0)
    ATTEND_PAIRS_FORWARD(1)
  }
  ATTEND_PAIRS_ROWS(ATTEND_PAIRS_STORE)
#undef ATTEND_PAIRS_STORE
#undef ATTEND_PAIRS_FORWARD
#undef ATTEND_PAIRS_TERM
#undef ATTEND_PAIRS_PAIR
#undef ATTEND_PAIRS_LOAD
#undef ATTEND_PAIRS_ROW
}

// count <= kRows; columns: how many are wanted, at least one.
template <bool kPairs, size_t kRows, class D>
HWY_INLINE void PooledAnyRows(D d, const PooledValues& values, const RowNumber* rows, size_t count, size_t columns,
                              size_t inner) {
  if constexpr (kRows > 1) {
    if (count < kRows) return PooledAnyRows<kPairs, kRows - 1>(d, values, rows, count, columns, inner);
  }
  if (HWY_LIKELY(columns > hn::Lanes(d))) {
    PooledRowsStep<kPairs, kRows, 2>(d, values, rows, inner);
  } else {
    PooledRowsStep<kPairs, kRows, 1>(d, values, rows, inner);
  }
}

// Rows of a tile by one panel: by pairs, or with the bits of the tile product.
template <bool kPairs, class D>
HWY_INLINE void PoolRows(D d, const ValuePairsArgs& args, size_t panel, size_t first, const RowNumber* rows,
                         size_t count, const std::int32_t* inner_lens) {
  const TileProductArgs& product = args.product;
  const size_t lanes = hn::Lanes(d), width = PanelWidth(d);
  for (size_t n = 0; n < width && panel * width + n < product.num_columns; n += kMaxPairedVectors * lanes) {
    const size_t column = panel * width + n;
    const PooledValues values{.values = product.b + panel * product.b_panel_stride + n,
                              .stride = product.b_row_stride,
                              .pair_sums = args.pair_sums + column,
                              .powers = product.a + Offset(first, product.a_stride),
                              .powers_stride = product.a_stride,
                              .sums = product.c + Offset(first, product.c_stride) + column,
                              .sums_stride = product.c_stride,
                              .paired = args.paired + first,
                              .add = product.accumulate};
    for (size_t i = 0; i < count; i += kPairedRowsPerStep) {
      const size_t in_step = std::min(kPairedRowsPerStep, count - i);
      if (product.ahead != nullptr) product.ahead->fetch(kPrefetchRowsPerPairedStep);
      size_t inner = product.inner;
      if (!kPairs && inner_lens != nullptr) {
        inner = 0;
        for (size_t r = 0; r < in_step; ++r) {
          inner = std::max(inner, static_cast<size_t>(inner_lens[first + rows[i + r]]));
        }
        if (inner == 0 && product.accumulate) continue;
      }
      PooledAnyRows<kPairs, kPairedRowsPerStep>(d, values, rows + i, in_step, product.num_columns - column, inner);
    }
  }
}

template <class D>
void PoolTileByPairs(D d, const ValuePairsArgs& args) {
  const TileProductArgs& product = args.product;
  const size_t width = PanelWidth(d);
  if (product.num_rows == 0) return;
  const std::int32_t* inner_lens = ThatLimit(product.inner_lens, product.num_rows, product.inner);
  for (size_t first = 0; first < product.num_rows; first += kMaxSortedRows) {
    const size_t end = std::min(product.num_rows, first + kMaxSortedRows);
    RowNumber by_pairs[kMaxSortedRows], plain[kMaxSortedRows];
    size_t num_by_pairs = 0, num_plain = 0;
    for (size_t row = first; row < end; ++row) {
      const RowNumber number = static_cast<RowNumber>(row - first);
      by_pairs[num_by_pairs] = plain[num_plain] = number;
      const bool is_fit = args.paired[row].unscale != 0;
      num_by_pairs += is_fit ? 1 : 0;
      num_plain += is_fit ? 0 : 1;
    }
    for (size_t panel = 0; panel * width < product.num_columns; ++panel) {
      if (args.fit[panel] == 0 || num_by_pairs == 0) {
        MultiplyPanel(d, product, panel, first, end, nullptr, inner_lens);
      } else {
        PoolRows<true>(d, args, panel, first, by_pairs, num_by_pairs, inner_lens);
        PoolRows<false>(d, args, panel, first, plain, num_plain, inner_lens);
      }
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace kernels
}  // namespace attend
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
