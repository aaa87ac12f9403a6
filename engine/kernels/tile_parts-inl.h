// Scores and pooling by bfloat16 parts, see tile_parts.h.
//
// The eight tiles of AMX: four of C, 32 x 32 results; two of A and two of B. Of each step of 32 terms, all parts are
// loaded once and the first ones of B twice (MultiplyTiles).
#if defined(ATTEND_KERNELS_TILE_PARTS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ATTEND_KERNELS_TILE_PARTS_INL_H_
#undef ATTEND_KERNELS_TILE_PARTS_INL_H_
#else
#define ATTEND_KERNELS_TILE_PARTS_INL_H_
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "engine/kernels/panel-inl.h"
#include "engine/kernels/parts-inl.h"
#include "engine/kernels/tile_parts.h"
#include "engine/kernels/tile_product-inl.h"

HWY_BEFORE_NAMESPACE();
namespace attend {
namespace kernels {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
namespace simd = attend::HWY_NAMESPACE;

// Vectors of a row of a tile.
using PartsTag = hn::CappedTag<float, kPartsColumns>;

struct NothingMeanwhile {
  HWY_INLINE void operator()() const {}
};

HWY_INLINE size_t PartsPerTileRow(size_t terms) { return TileSteps(terms) * kNumParts * kPartsTile; }

HWY_INLINE bool QueryParts(const QueryPartsArgs& args) {
  const PartsTag d;
  bool all = true;
  for (size_t r = 0; r < args.num_rows; ++r) {
    const float* row = args.rows + static_cast<std::ptrdiff_t>(r) * args.stride;
    TileNumbers* tiles = args.parts + r / kPartsRows * PartsPerTileRow(args.size);
    const bool fit = AreFitForParts(d, row, args.size);
    args.fit[r] = fit;
    all = all && fit;
    fit ? RowToParts<Cut::kRounded>(d, row, args.size, r, tiles) : ZeroRowOfParts(args.size, r, tiles);
  }
  return all;
}

// The columns of panels from column n on, of `num` in all, as ColumnsToParts asks for them.
struct PanelColumns {
  const float* panels;
  size_t panel_stride, width, num, n;
  HWY_INLINE const float* operator()(size_t i) const {
    const size_t column = n + i;
    return column < num ? panels + column / width * panel_stride + column % width : nullptr;
  }
};

// Whether all of 16 columns are fit; of each, all ones or 0. Columns that are not there are, and what pads the last
// vector counts.
template <class D, class Column>
HWY_INLINE bool FitColumns(D d, const Column& column, size_t stride, size_t terms, std::int32_t* HWY_RESTRICT fit) {
  const hn::RebindToSigned<D> di;
  const size_t N = hn::Lanes(d);
  const auto most_fit = hn::BitCast(di, hn::Set(d, kMaxWithParts));
  bool all = true;
  for (size_t i = 0; i < kPartsColumns; i += N) {
    const float* HWY_RESTRICT from = column(i);
    auto most0 = hn::Zero(di), most1 = most0;
    if (from != nullptr) {
      size_t k = 0;
      for (; k + 2 <= terms; k += 2) {
        most0 = hn::Max(most0, MagnitudeBits(d, hn::Load(d, from + k * stride)));
        most1 = hn::Max(most1, MagnitudeBits(d, hn::Load(d, from + (k + 1) * stride)));
      }
      if (k < terms) most0 = hn::Max(most0, MagnitudeBits(d, hn::Load(d, from + k * stride)));
    }
    const auto too_large = hn::Gt(hn::Max(most0, most1), most_fit);
    hn::Store(hn::IfThenZeroElse(too_large, hn::Set(di, -1)), di, fit + i);
    all = all && hn::AllFalse(di, too_large);
  }
  return all;
}

HWY_INLINE bool KeyParts(const KeyPartsArgs& args) {
  const PartsTag d;
  const size_t width = PanelWidth(hn::ScalableTag<float>());
  HWY_ALIGN std::int32_t fit[kPartsColumns];
  bool all = true;
  for (size_t n = 0; n < args.num_keys; n += kPartsColumns) {
    const PanelColumns column{args.panels, args.panel_stride, width, args.num_keys, n};
    const bool are_fit = FitColumns(d, column, width, args.size, fit);
    ColumnsToParts(d, column, static_cast<std::ptrdiff_t>(width), args.size, kPartsColumns, nullptr,
                   are_fit ? nullptr : fit, args.parts + key_parts_at(n, args.size));
    for (size_t i = 0; i < std::min(kPartsColumns, args.num_keys - n); ++i) args.fit[n + i] = fit[i] != 0;
    all = all && are_fit;
  }
  return all;
}

// Of each row, whether it is fit, and whether all are. Kept out of the way: some are not, or nothing but zeros.
static HWY_NOINLINE bool FitValues(const ValuePartsArgs& args, size_t width) {
  bool all = true;
  for (size_t j = 0; j < args.num_values; ++j) {
    const float* row = args.values + static_cast<std::ptrdiff_t>(j) * args.row_stride;
    std::int32_t most = 0;
    for (size_t n = 0; n < args.size; n += width) {
      const size_t columns = std::min(width, args.size - n);
      most = std::max(most, LargestMagnitudeBits(PartsTag(), row + n / width * args.panel_stride, columns));
    }
    args.fit[j] = IsFitForExactParts(most);
    all = all && args.fit[j] != 0;
  }
  return all;
}

HWY_INLINE bool ValueParts(const ValuePartsArgs& args) {
  const PartsTag d;
  const hn::RebindToSigned<PartsTag> di;
  const size_t width = PanelWidth(hn::ScalableTag<float>()), N = hn::Lanes(d);
  // Whether all rows hold a number that is large enough, and no number is too large.
  const auto least_fit = hn::BitCast(di, hn::Set(d, kMinWithParts));
  auto largest = hn::Zero(di);
  bool all = true;
  for (size_t j = 0; j < args.num_values; ++j) {
    const float* row = args.values + static_cast<std::ptrdiff_t>(j) * args.row_stride;
    auto most = hn::Zero(di);
    size_t n = 0;
    for (; n + N <= args.size; n += N) {
      most = hn::Max(most, MagnitudeBits(d, hn::LoadU(d, row + n / width * args.panel_stride + n % width)));
    }
    if (n < args.size) {
      const float* tail = row + n / width * args.panel_stride + n % width;
      most = hn::Max(most, MagnitudeBits(d, simd::LoadTail(d, tail, args.size - n)));
    }
    largest = hn::Max(largest, most);
    all = all && !hn::AllTrue(di, hn::Lt(most, least_fit));
  }
  all = all && hn::AllFalse(di, hn::Gt(largest, hn::BitCast(di, hn::Set(d, kMaxWithParts))));
  if (!all) all = FitValues(args, width);
  for (size_t n = 0; n < args.size; n += kPartsColumns) {
    const PanelColumns column{args.values, args.panel_stride, width, args.size, n};
    ColumnsToParts(d, column, args.row_stride, args.num_values, args.size - n, all ? nullptr : args.fit, nullptr,
                   args.parts + n / kPartsColumns * PartsPerTileRow(args.num_values));
  }
  return all;
}

// The longest of n lengths, or `all` where there are none.
HWY_INLINE size_t LongestOf(const std::int32_t* lens, size_t n, size_t all) {
  return lens == nullptr ? all : static_cast<size_t>(*std::max_element(lens, lens + n));
}

// Scores of columns and rows that are not fit, in the place of what the tiles made of their zeros. Columns by a chain
// of multiply-adds in the order of terms, each on its own, so that a score has its bits whatever is beside it. Then
// rows, by the tile product, so that theirs are its bits for all columns.
static HWY_NOINLINE void PatchScores(const ScorePartsArgs& args) {
  const size_t width = PanelWidth(hn::ScalableTag<float>());
  const auto query = [&](size_t r) { return args.plain_queries + static_cast<std::ptrdiff_t>(r) * args.plain_stride; };
  const auto scores = [&](size_t r) { return args.scores + static_cast<std::ptrdiff_t>(r) * args.scores_stride; };
  for (size_t n = 0; args.fit_keys != nullptr && n < args.num_columns; ++n) {
    if (args.fit_keys[n] != 0) continue;
    const float* key = args.panels + n / width * args.panel_stride + n % width;
    for (size_t r = 0; r < args.num_rows; ++r) {
      const hn::CappedTag<float, 1> one;
      auto sum = hn::Zero(one);
      for (size_t k = 0; k < args.size; ++k) {
        sum = hn::MulAdd(hn::Set(one, query(r)[k]), hn::Set(one, key[k * width]), sum);
      }
      scores(r)[n] = hn::GetLane(sum);
    }
  }
  for (size_t r = 0; args.fit_queries != nullptr && r < args.num_rows; ++r) {
    if (args.fit_queries[r] != 0) continue;
    MultiplyTile(hn::ScalableTag<float>(), {.a = query(r),
                                            .a_stride = args.plain_stride,
                                            .b = args.panels,
                                            .b_panel_stride = args.panel_stride,
                                            .b_row_stride = static_cast<std::ptrdiff_t>(width),
                                            .c = scores(r),
                                            .c_stride = args.scores_stride,
                                            .num_rows = 1,
                                            .num_columns = args.num_columns,
                                            .inner = args.size,
                                            .accumulate = false});
  }
}

// Rows of one step times columns. `meanwhile` is called kGroupsPerStep times for each 32 terms of 32 columns or less.
template <class T, class Meanwhile>
HWY_INLINE void ScoreStep(T& tiles, const ScorePartsArgs& args, const Meanwhile& meanwhile) {
  const size_t block = PartsPerTileRow(args.size);
  const size_t columns = std::min(args.num_columns, LongestOf(args.lens, args.num_rows, args.num_columns));
  for (size_t n = 0; n < columns; n += kPartsColumnsPerStep) {
    const PartsProductArgs product{.num_rows = args.num_rows,
                                   .num_columns = columns - n,
                                   .a = args.queries,
                                   .a_block = block,
                                   .b = args.keys + key_parts_at(n, args.size),
                                   .b_block = block,
                                   .num_steps = TileSteps(args.size),
                                   .accumulate = false,
                                   .c = args.scores + n,
                                   .c_stride = args.scores_stride};
    MultiplyTiles(tiles, product, meanwhile);
  }
}

// The same arguments for rows from r on, at most a step.
HWY_INLINE ScorePartsArgs RowsOf(ScorePartsArgs args, size_t r) {
  args.num_rows = std::min(args.num_rows - r, kPartsRowsPerStep);
  args.queries += r / kPartsRows * PartsPerTileRow(args.size);
  if (args.fit_queries != nullptr) args.fit_queries += r;
  args.plain_queries += static_cast<std::ptrdiff_t>(r) * args.plain_stride;
  if (args.lens != nullptr) args.lens += r;
  args.scores += static_cast<std::ptrdiff_t>(r) * args.scores_stride;
  return args;
}

HWY_INLINE bool NeedsPatches(const ScorePartsArgs& args) {
  return args.fit_keys != nullptr || args.fit_queries != nullptr;
}

template <class T>
void ScoreByParts(const ScorePartsArgs& args) {
  T tiles;
  for (size_t r = 0; r < args.num_rows; r += kPartsRowsPerStep) ScoreStep(tiles, RowsOf(args, r), NothingMeanwhile());
  if (NeedsPatches(args)) PatchScores(args);
}

// Values that are not fit, one by one: each adds its product to the rows that see it, and to no other, which 0 times
// infinity would touch.
static HWY_NOINLINE void PatchPool(const PoolPartsArgs& args) {
  const size_t width = PanelWidth(hn::ScalableTag<float>());
  for (size_t j = 0; j < args.num_values; ++j) {
    if (args.fit_values[j] != 0) continue;
    for (size_t r = 0; r < args.num_rows; ++r) {
      const auto row = static_cast<std::ptrdiff_t>(r);
      if (args.lens != nullptr && static_cast<size_t>(args.lens[r]) <= j) continue;
      const float power = args.powers[row * args.powers_stride + static_cast<std::ptrdiff_t>(j)];
      float* c = args.c + row * args.c_stride;
      const float* value = args.plain_values + static_cast<std::ptrdiff_t>(j) * args.plain_row_stride;
      for (size_t n = 0; n < args.size; ++n) c[n] += power * value[n / width * args.plain_panel_stride + n % width];
    }
  }
}

// Powers whose parts are in scratch, of rows of one step and of at most kPoolPartsKeys keys, times these keys' values.
template <class T, class Meanwhile>
HWY_INLINE void PoolStep(T& tiles, const PoolPartsArgs& args, size_t values, const Meanwhile& meanwhile) {
  for (size_t n = 0; n < args.size; n += kPartsColumnsPerStep) {
    const PartsProductArgs product{.num_rows = args.num_rows,
                                   .num_columns = args.size - n,
                                   .a = args.scratch,
                                   .a_block = PartsPerTileRow(kPoolPartsKeys),
                                   .b = args.values + n / kPartsColumns * args.column_stride,
                                   .b_block = args.column_stride,
                                   .num_steps = TileSteps(values),
                                   .accumulate = args.accumulate,
                                   .c = args.c + n,
                                   .c_stride = args.c_stride};
    MultiplyTiles(tiles, product, meanwhile);
  }
}

HWY_INLINE TileNumbers* PowerTiles(const PoolPartsArgs& args, size_t r) {
  return args.scratch + r / kPartsRows * PartsPerTileRow(kPoolPartsKeys);
}

template <class T>
void PoolByParts(const PoolPartsArgs& all) {
  const PartsTag d;
  T tiles;
  for (size_t r = 0; r < all.num_rows; r += kPartsRowsPerStep) {
    const auto first_row = static_cast<std::ptrdiff_t>(r);
    PoolPartsArgs args = all;
    args.num_rows = std::min(all.num_rows - r, kPartsRowsPerStep);
    args.c += first_row * args.c_stride;
    const std::int32_t* lens = args.lens == nullptr ? nullptr : args.lens + r;
    const size_t longest = std::min(args.num_values, LongestOf(lens, args.num_rows, args.num_values));
    size_t j = 0;
    do {  // once for no values at all, which are written as zeros
      const size_t values = std::min(longest - j, kPoolPartsKeys);
      for (size_t i = 0; i < args.num_rows; ++i) {
        const float* powers = all.powers + (first_row + static_cast<std::ptrdiff_t>(i)) * all.powers_stride + j;
        RowToParts<Cut::kCut>(d, powers, values, i, PowerTiles(args, i));
      }
      PoolStep(tiles, args, values, NothingMeanwhile());
      args.values += value_parts_at(values);
      args.accumulate = true;
      j += kPoolPartsKeys;
    } while (j < longest);
  }
  if (all.fit_values != nullptr) PatchPool(all);
}

}  // namespace HWY_NAMESPACE
}  // namespace kernels
}  // namespace attend
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
