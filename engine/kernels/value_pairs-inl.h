// Pooling by pairs of terms, see value_pairs.h.
//
// Scalar step:  c[m][n] += (p[m][k] + v[k + K][n]) (p[m][k + K] + v[k][n]) + p[m][k + 2 K] v[k + 2 K][n], K keys apart
// Registers:    as tile_pairs-inl.h: 8 rows times 2 vectors with AVX-512. A tile of 48 rows and 128 keys, GFLOPS on a
//               peak of 117 (EPYC, Zen 4, AVX3, value_pairs/*): 64 and 128 columns 157, plain 113 and 115; 64 keys
//               151, and where the last vector that is left all stood alone 134.
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

// How far apart the next keys of a block are paired, `left` of them being left: that many keys, as many behind them
// that these are paired with and as many that stand alone. Pairs are added and subtracted in turn, hence an even
// number; where there is but one lane, in turn from group to group. 0: all others stand alone.
HWY_INLINE size_t KeysApart(size_t lanes, size_t left) {
  return lanes == 1 ? std::min<size_t>(1, left / 3) : std::min(lanes, left / 6 * 2);
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
  V square0 = hn::Zero(d), square1 = square0, size0 = square0, size1 = square0, added = square0, subtracted = square0;
  const float* HWY_RESTRICT v = values;
  size_t left = n;
  for (size_t group = 0, keys = KeysApart(lanes, left); keys > 0; ++group, keys = KeysApart(lanes, left)) {
    const std::ptrdiff_t apart = Offset(keys, stride);
    const auto take = [&](V& sum, V& square, V& size) ATTEND_INLINE_ATTR {
      const V a = hn::LoadU(d, v), b = hn::LoadU(d, v + apart);
      AddTo(square0, size0, a);
      AddTo(square1, size1, b);
      sum = hn::MulAdd(a, b, sum);
      AddTo(square, size, hn::LoadU(d, v + 2 * apart));
      v += stride;
    };
    size_t i = 0;
    for (; i + 2 <= keys; i += 2) {
      take(added, square0, size0);
      take(subtracted, square1, size1);
    }
    if (i < keys) take(group % 2 == 0 ? added : subtracted, square0, size0);  // one lane
    v += 2 * apart;
    left -= 3 * keys;
  }
  for (; left > 0; --left, v += stride) AddTo(square0, size0, hn::LoadU(d, v));
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
    for (size_t group = 0; k + 3 * lanes <= n; ++group, k += 3 * lanes) {
      const bool subtract = lanes == 1 && group % 2 == 1;
      each_row([&](const float* HWY_RESTRICT p, V& square, V& size, V& pair) ATTEND_INLINE_ATTR {
        const V a = hn::Load(d, p + k), b = hn::Load(d, p + k + lanes);
        AddTo(square, size, a);
        AddTo(square, size, b);
        AddTo(square, size, hn::Load(d, p + k + 2 * lanes));
        pair = hn::MulAdd(subtract ? hn::Neg(a) : a, b, pair);
      });
    }
    if (const size_t keys = KeysApart(lanes, n - k); keys > 0) {
      each_row([&](const float* HWY_RESTRICT p, V&, V&, V& pair) ATTEND_INLINE_ATTR {
        pair = hn::MulAdd(simd::LoadTail(d, p + k, keys), simd::LoadTail(d, p + k + keys, keys), pair);
      });
    }
    for (; k + lanes <= n; k += lanes) {
      each_row([&](const float* HWY_RESTRICT p, V& square, V& size, V&)
                   ATTEND_INLINE_ATTR { AddTo(square, size, hn::Load(d, p + k)); });
    }
    if (k < n) {
      each_row([&](const float* HWY_RESTRICT p, V& square, V& size, V&)
                   ATTEND_INLINE_ATTR { AddTo(square, size, simd::LoadTail(d, p + k, n - k)); });
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
};

// Rows of a step, from the first on.
struct PooledRows {
  const float* powers;
  std::ptrdiff_t powers_stride;
  const PairedRow* paired;
  float* sums;
  std::ptrdiff_t sums_stride;
  bool add;  // to the sums
};

template <size_t kVectors, class D, class V = hn::Vec<D>>
HWY_INLINE void StorePooledRow(D d, float* HWY_RESTRICT sums, bool add, V c0, V c1) {
  const size_t lanes = hn::Lanes(d);
  hn::Store(add ? hn::Add(c0, hn::Load(d, sums)) : c0, d, sums);
  if constexpr (kVectors > 1) hn::Store(add ? hn::Add(c1, hn::Load(d, sums + lanes)) : c1, d, sums + lanes);
}

// kRows rows of powers times kVectors vectors of values, over the whole block.
template <bool kPairs, size_t kRows, size_t kVectors, class D>
HWY_NOINLINE void PooledRowsStep(D d, const PooledValues& values, const PooledRows& rows, size_t inner) {
  static_assert(kRows <= 8 && kVectors <= kMaxPairedVectors);
  using V = hn::Vec<D>;
  const size_t lanes = hn::Lanes(d);
  const std::ptrdiff_t stride = values.stride, sums_stride = rows.sums_stride;
  const EvenRows powers(rows.powers_stride);
  const V zero = hn::Zero(d);
  const float* HWY_RESTRICT x0 = rows.powers;
  const float* HWY_RESTRICT b0 = values.values;
  float* HWY_RESTRICT sums = rows.sums;
  const bool add = rows.add;
  V s0 = zero, s1 = zero;
  if constexpr (kPairs) s0 = hn::Load(d, values.pair_sums);
  if constexpr (kPairs && kVectors > 1) s1 = hn::Load(d, values.pair_sums + lanes);
#define ATTEND_PAIRS_ROW(r)         \
  V y##r##0 = zero, y##r##1 = zero; \
  if constexpr (kPairs) ATTEND_PAIRS_START(r, rows.paired[r])
#define ATTEND_PAIRS_X(r, i) powers.Broadcast<r, at>(d, x##i)
#define ATTEND_PAIRS_LOAD(first, second, from) \
  first = hn::LoadU(d, from);                  \
  if constexpr (kVectors > 1) second = hn::LoadU(d, from + lanes);
#define ATTEND_PAIRS_TERMS(key, ROW)          \
  {                                           \
    constexpr size_t at = key;                \
    V b00, b01 = zero, b10, b11 = zero;       \
    ATTEND_PAIRS_LOAD(b00, b01, b0)           \
    ATTEND_PAIRS_LOAD(b10, b11, b1)           \
    ATTEND_PAIRS_ROWS(ROW)                    \
    ATTEND_PAIRS_LOAD(b00, b01, b2)           \
    ATTEND_PAIRS_ROWS(ATTEND_PAIRS_ALONE)     \
    b0 += stride, b1 += stride, b2 += stride; \
  }
#define ATTEND_PAIRS_STORE(r) \
  if constexpr (kRows > r) StorePooledRow<kVectors>(d, sums + r * sums_stride, add, y##r##0, y##r##1);
  ATTEND_PAIRS_ROWS(ATTEND_PAIRS_ROW)
  size_t left = inner;
  const auto take = [&](size_t keys, bool add_first) ATTEND_INLINE_ATTR {
    const float *HWY_RESTRICT x1 = x0 + keys, *HWY_RESTRICT x2 = x1 + keys;
    const float *HWY_RESTRICT b1 = b0 + Offset(keys, stride), *HWY_RESTRICT b2 = b1 + Offset(keys, stride);
    size_t i = 0;
    for (; i + 2 <= keys; i += 2) {
      ATTEND_PAIRS_TERMS(0, ATTEND_PAIRS_ADD)
      ATTEND_PAIRS_TERMS(1, ATTEND_PAIRS_SUBTRACT)
      x0 += 2, x1 += 2, x2 += 2;
    }
    if (i < keys) {  // one lane
      if (add_first) {
        ATTEND_PAIRS_TERMS(0, ATTEND_PAIRS_ADD)
      } else {
        ATTEND_PAIRS_TERMS(0, ATTEND_PAIRS_SUBTRACT)
      }
      ++x2;
    }
    x0 = x2, b0 = b2;
  };
  if constexpr (kPairs) {
    // By themselves: with the others, the next keys' addresses would wait for a number that vector registers kept.
    for (size_t group = 0; left >= 3 * lanes; ++group, left -= 3 * lanes) take(lanes, group % 2 == 0);
    const size_t keys = KeysApart(lanes, left);
    if (keys > 0) take(keys, true);
    left -= 3 * keys;
  }
  for (; left > 0; --left) {
    constexpr size_t at = 0;
    V b00, b01 = zero;
    ATTEND_PAIRS_LOAD(b00, b01, b0)
    ATTEND_PAIRS_ROWS(ATTEND_PAIRS_LAST)
    ++x0, b0 += stride;
  }
  ATTEND_PAIRS_ROWS(ATTEND_PAIRS_STORE)
#undef ATTEND_PAIRS_STORE
#undef ATTEND_PAIRS_TERMS
#undef ATTEND_PAIRS_LOAD
#undef ATTEND_PAIRS_X
#undef ATTEND_PAIRS_ROW
}

// count <= kRows; columns: how many are wanted, at least one.
template <bool kPairs, size_t kRows, class D>
HWY_INLINE void PooledAnyRows(D d, const PooledValues& values, const PooledRows& rows, size_t count, size_t columns,
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

// Rows that go the same way stand anywhere in a tile: at most so many are sorted at a time.
using RowNumber = std::uint8_t;
static constexpr size_t kMaxSortedRows = 64;

// The same of rows that do not follow one another, `all` being from the tile's first on: by copies that do.
template <bool kPairs, class D>
HWY_NOINLINE void PooledScatteredRows(D d, const PooledValues& values, const PooledRows& all, const RowNumber* numbers,
                                      size_t count, size_t columns, size_t inner) {
  constexpr size_t kWidth = kMaxPairedVectors * hn::MaxLanes(D());
  HWY_ALIGN float powers[kPairedRowsPerStep * kInnerBlock];
  HWY_ALIGN float sums[kPairedRowsPerStep * kWidth];
  PairedRow paired[kPairedRowsPerStep];
  const size_t width = columns > hn::Lanes(d) ? 2 * hn::Lanes(d) : hn::Lanes(d);
  for (size_t r = 0; r < count; ++r) {
    std::copy_n(all.powers + Offset(numbers[r], all.powers_stride), inner, powers + r * kInnerBlock);
    std::copy_n(all.sums + Offset(numbers[r], all.sums_stride), all.add ? width : 0, sums + r * kWidth);
    paired[r] = all.paired[numbers[r]];
  }
  const PooledRows rows{.powers = powers,
                        .powers_stride = kInnerBlock,
                        .paired = paired,
                        .sums = sums,
                        .sums_stride = kWidth,
                        .add = all.add};
  PooledAnyRows<kPairs, kPairedRowsPerStep>(d, values, rows, count, columns, inner);
  for (size_t r = 0; r < count; ++r) {
    std::copy_n(sums + r * kWidth, width, all.sums + Offset(numbers[r], all.sums_stride));
  }
}

// Rows of a tile by one panel: by pairs, or with the bits of the tile product. numbers: which ones from the first on;
// nullptr: all of them.
template <bool kPairs, class D>
HWY_INLINE void PoolRows(D d, const ValuePairsArgs& args, size_t panel, size_t first, const RowNumber* numbers,
                         size_t count, const std::int32_t* inner_lens) {
  const TileProductArgs& product = args.product;
  const size_t lanes = hn::Lanes(d), width = PanelWidth(d);
  const auto number = [&](size_t i) { return numbers == nullptr ? i : size_t{numbers[i]}; };
  for (size_t n = 0; n < width && panel * width + n < product.num_columns; n += kMaxPairedVectors * lanes) {
    const size_t column = panel * width + n;
    const PooledValues values{.values = product.b + panel * product.b_panel_stride + n,
                              .stride = product.b_row_stride,
                              .pair_sums = args.pair_sums + column};
    const auto rows_from = [&](size_t row) {
      return PooledRows{.powers = product.a + Offset(row, product.a_stride),
                        .powers_stride = product.a_stride,
                        .paired = args.paired + row,
                        .sums = product.c + Offset(row, product.c_stride) + column,
                        .sums_stride = product.c_stride,
                        .add = product.accumulate};
    };
    for (size_t i = 0; i < count; i += kPairedRowsPerStep) {
      const size_t in_step = std::min(kPairedRowsPerStep, count - i), columns = product.num_columns - column;
      if (product.ahead != nullptr) product.ahead->fetch_fours();
      size_t inner = product.inner;
      if (!kPairs && inner_lens != nullptr) {
        inner = 0;
        for (size_t r = 0; r < in_step; ++r) {
          inner = std::max(inner, static_cast<size_t>(inner_lens[first + number(i + r)]));
        }
        if (inner == 0 && product.accumulate) continue;
      }
      if (HWY_LIKELY(number(i) + in_step == number(i + in_step - 1) + 1)) {
        PooledAnyRows<kPairs, kPairedRowsPerStep>(d, values, rows_from(first + number(i)), in_step, columns, inner);
      } else {
        PooledScatteredRows<kPairs>(d, values, rows_from(first), numbers + i, in_step, columns, inner);
      }
    }
  }
}

template <class D>
void PoolTileByPairs(D d, const ValuePairsArgs& args) {
  const TileProductArgs& product = args.product;
  const size_t width = PanelWidth(d);
  if (product.num_rows == 0) return;
  const std::int32_t* inner_lens = ThatLimit(product.inner_lens, product.num_rows, product.inner);
  if (HWY_LIKELY(AllGoByPairs(args.paired, product.num_rows))) {
    for (size_t panel = 0; panel * width < product.num_columns; ++panel) {
      if (args.fit[panel] == 0) {
        MultiplyPanel(d, product, panel, 0, product.num_rows, nullptr, inner_lens);
      } else {
        PoolRows<true>(d, args, panel, 0, nullptr, product.num_rows, inner_lens);
      }
    }
    return;
  }
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
