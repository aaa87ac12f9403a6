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
#include "engine/kernels/softmax_tile-inl.h"
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
  const auto most_fit = hn::BitCast(di, hn::Set(d, kMostWithParts));
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
HWY_NOINLINE bool FitValues(const ValuePartsArgs& args, size_t width) {
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
  const auto least_fit = hn::BitCast(di, hn::Set(d, kLeastWithParts));
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
  all = all && hn::AllFalse(di, hn::Gt(largest, hn::BitCast(di, hn::Set(d, kMostWithParts))));
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
HWY_NOINLINE void PatchScores(const ScorePartsArgs& args) {
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
  const size_t block = PartsPerTileRow(args.size), steps = TileSteps(args.size);
  const size_t columns = std::min(args.num_columns, LongestOf(args.lens, args.num_rows, args.num_columns));
  for (size_t n = 0; n < columns; n += 2 * kPartsColumns) {
    MultiplyTiles(tiles, args.num_rows, columns - n, args.queries, block, args.keys + key_parts_at(n, args.size), block,
                  steps, false, args.scores + n, args.scores_stride, meanwhile);
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
HWY_NOINLINE void PatchPool(const PoolPartsArgs& args) {
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
  const size_t steps = TileSteps(values);
  for (size_t n = 0; n < args.size; n += 2 * kPartsColumns) {
    MultiplyTiles(tiles, args.num_rows, args.size - n, args.scratch, PartsPerTileRow(kPoolPartsKeys),
                  args.values + n / kPartsColumns * args.column_stride, args.column_stride, steps, args.accumulate,
                  args.c + n, args.c_stride, meanwhile);
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

// One row of scores through a step of the softmax, and its powers taken apart.
HWY_NOINLINE void RowToPowers(const SoftmaxTileRows<hn::ScalableTag<float>>& rows, const SoftmaxTileArgs& softmax,
                              size_t r, TileNumbers* tiles) {
  rows.Step(hn::ScalableTag<float>(), softmax, r);
  const float* powers = softmax.scores + static_cast<std::ptrdiff_t>(r) * softmax.scores_stride;
  RowToParts<Cut::kCut>(PartsTag(), powers, softmax.num_columns, r, tiles);
}

// The rows of one tile of scores on their way to parts of powers, in turns of some 80 instructions, one beside each group of
// four products, which keep the tiles busy for 64 cycles. A core looks ahead a few hundred instructions: behind a longer
// turn the next products begin too late. With whole rows as turns, beside scores alone, dot/b1_h12_m512_n512_d64 took 4.8
// ms where it took 4.2 with these, beside pooling too. bench: tile_parts/attend_m128_n512_d64.
//
// A row's first turn is its maximum; then come its powers, 64 a turn, which go from registers straight into parts. Some
// rows take a single turn, by the softmax's own step: those that see a part of the tile, whose scores are not exponents
// of two near m (ExponentOfRow), or whose powers are wanted beside their parts. Either way the bits are those of the
// step.
class PowersInTurns {
 public:
  using D = hn::ScalableTag<float>;
  static constexpr size_t kKeysPerTurn = 64;

  HWY_INLINE PowersInTurns(const SoftmaxTileArgs& softmax, const SoftmaxTileRows<D>& rows, bool keep_powers,
                           TileNumbers* tiles)
      : softmax_(softmax), rows_(rows), tiles_(tiles), keep_powers_(keep_powers) {}

  HWY_INLINE size_t NumTurns() const {
    return softmax_.num_rows * (1 + hwy::DivCeil(softmax_.num_columns, kKeysPerTurn));
  }

  HWY_NOINLINE void Turn() {
    if (row_ == softmax_.num_rows) return;
    if (key_ == kNone) return Begin();
    return Powers();
  }

  HWY_INLINE void Finish() {
    while (row_ < softmax_.num_rows) Turn();
  }

 private:
  static constexpr size_t kNone = ~size_t{0};

  HWY_INLINE float* Scores() const {
    return softmax_.scores + static_cast<std::ptrdiff_t>(row_) * softmax_.scores_stride;
  }
  HWY_INLINE TileNumbers* Tiles() const { return tiles_ + row_ / kPartsRows * PartsPerTileRow(kPoolPartsKeys); }

  HWY_INLINE void Begin() {
    const bool whole =
        softmax_.num_columns % kPartsTerms == 0 && static_cast<size_t>(softmax_.lens[row_]) == softmax_.num_columns;
    if (!whole || keep_powers_ || !ATTEND_EXP2_IS_LOOKED_UP || softmax_.scale != 1.0f ||
        hn::MaxLanes(D()) != kPartsColumns) {
      RowToPowers(rows_, softmax_, row_, Tiles());
      ++row_;
      return;
    }
    const D d;
    rows_.TakeMax(d, softmax_, row_, RowMaxLanes(d, Scores(), softmax_.num_columns));
    exponent_ = ExponentOfRow(1.0f, 1.0f, softmax_.row_max[row_]);
    if (exponent_.kind != Exponents::kDirect) {
      RowToPowers(rows_, softmax_, row_, Tiles());
      ++row_;
      return;
    }
    key_ = 0;
  }

  HWY_INLINE void Powers() {
#if ATTEND_EXP2_IS_LOOKED_UP
    const D d;
    using V = hn::Vec<D>;
    const size_t N = hn::Lanes(d);
    const float* HWY_RESTRICT scores = Scores() + key_;
    TileNumbers* HWY_RESTRICT line =
        Tiles() + row_ % kPartsRows * kPartsLine + key_ / kPartsTerms * kNumParts * kPartsTile;
    const V offset = hn::Set(d, exponent_.offset), lowest = hn::Set(d, exponent_.lowest);
    const V p0 = simd::Exp2Above(d, hn::Load(d, scores), offset, lowest);
    const V p1 = simd::Exp2Above(d, hn::Load(d, scores + N), offset, lowest);
    V sum = hn::Add(p0, p1);
    if (softmax_.num_columns - key_ >= kKeysPerTurn) {
      const V p2 = simd::Exp2Above(d, hn::Load(d, scores + 2 * N), offset, lowest);
      const V p3 = simd::Exp2Above(d, hn::Load(d, scores + 3 * N), offset, lowest);
      StoreParts<Cut::kCut>(d, p0, p1, line);
      StoreParts<Cut::kCut>(d, p2, p3, line + kNumParts * kPartsTile);
      sum = hn::Add(sum, hn::Add(p2, p3));
    } else {
      StoreParts<Cut::kCut>(d, p0, p1, line);
    }
    if (key_ > 0) sum = hn::Add(hn::Load(d, sums_), sum);  // in the order of ExponentialsAndSum
    key_ += kKeysPerTurn;
    if (key_ < softmax_.num_columns) return hn::Store(sum, d, sums_);
    float* row_sums = softmax_.row_sums + row_ * kSumVectors * N;
    V total = hn::Load(d, row_sums), lost = hn::Load(d, row_sums + N);
    simd::CompensatedAdd(d, sum, total, lost);
    hn::Store(total, d, row_sums);
    hn::Store(lost, d, row_sums + N);
    key_ = kNone;
    ++row_;
#endif
  }

  const SoftmaxTileArgs& softmax_;
  const SoftmaxTileRows<D>& rows_;
  TileNumbers* const tiles_;
  const bool keep_powers_;
  size_t row_ = 0, key_ = kNone;
  RowExponent exponent_;
  [[maybe_unused]] HWY_ALIGN float sums_[hn::MaxLanes(D())];
};

// Steps of rows, and for each its tiles of keys, one after the other. While tiles multiply the powers of the last one by
// its values and the queries by the next one's keys, vectors turn this one's scores into powers.
template <class T>
class AttendSteps {
 public:
  using D = hn::ScalableTag<float>;

  HWY_INLINE explicit AttendSteps(const AttendPartsArgs& args) : args_(args) {
    std::fill_n(rises_, sizeof(rises_) / sizeof(rises_[0]), 1.0f);
  }

  HWY_INLINE void Run() {
    Unit last{}, unit{}, next = FirstFrom(0);
    if (next.num_rows > 0) ScoreStep(tiles_, ScoresOf(next), NothingMeanwhile());
    for (; next.num_rows > 0; last = unit) {
      unit = next;
      next = After(unit);
      WorkOn(last, unit, next);
    }
    if (last.num_rows > 0) PoolStep(tiles_, PoolOf(last), last.num_keys, NothingMeanwhile());
  }

 private:
  // Some rows and some of the keys that they see; which of the two buffers for scores and powers are theirs.
  struct Unit {
    size_t row = 0, num_rows = 0;  // 0: none
    size_t key = 0, num_keys = 0;
    size_t row_keys = 0;  // of the longest row
    size_t buffer = 0;
  };

  HWY_INLINE Unit FirstFrom(size_t row, size_t buffer = 0) const {
    for (; row < args_.score.num_rows; row += kPartsRowsPerStep) {
      const size_t num_rows = std::min(args_.score.num_rows - row, kPartsRowsPerStep);
      const size_t keys = std::min(args_.score.num_columns, LongestOf(args_.score.lens + row, num_rows, 0));
      if (keys > 0) return {row, num_rows, 0, std::min(keys, args_.tile_keys), keys, buffer};
    }
    return {};
  }
  HWY_INLINE Unit After(Unit unit) const {
    unit.buffer = 1 - unit.buffer;
    unit.key += args_.tile_keys;
    if (unit.key >= unit.row_keys) return FirstFrom(unit.row + kPartsRowsPerStep, unit.buffer);
    unit.num_keys = std::min(args_.tile_keys, unit.row_keys - unit.key);
    return unit;
  }

  HWY_INLINE ScorePartsArgs ScoresOf(const Unit& unit) const {
    ScorePartsArgs args = args_.score;
    args.num_rows = unit.num_rows;
    args.num_columns = unit.num_keys;
    args.queries += unit.row / kPartsRows * PartsPerTileRow(args.size);
    if (args.fit_queries != nullptr) args.fit_queries += unit.row;
    args.plain_queries += static_cast<std::ptrdiff_t>(unit.row) * args.plain_stride;
    args.keys += key_parts_at(unit.key, args.size);
    if (args.fit_keys != nullptr) args.fit_keys += unit.key;
    if (args.panels != nullptr) args.panels += unit.key / PanelWidth(D()) * args.panel_stride;
    args.lens = nullptr;
    args.scores += static_cast<std::ptrdiff_t>(unit.buffer * kPartsRowsPerStep) * args.scores_stride;
    return args;
  }
  HWY_INLINE PoolPartsArgs PoolOf(const Unit& unit) const {
    PoolPartsArgs args = args_.pool;
    args.num_rows = unit.num_rows;
    args.num_values = unit.num_keys;
    args.powers_stride = args_.score.scores_stride;
    args.values += value_parts_at(unit.key);
    if (args.fit_values != nullptr) args.fit_values += unit.key;
    args.plain_values += static_cast<std::ptrdiff_t>(unit.key) * args.plain_row_stride;
    args.accumulate = HasSums(unit);
    args.c += static_cast<std::ptrdiff_t>(unit.row) * args.c_stride;
    args.scratch += unit.buffer * pool_parts_scratch();
    return args;
  }
  // Whether c holds anything when the products of these keys are added. Values that are not fit come before them, right
  // after the powers that they need.
  HWY_INLINE bool HasSums(const Unit& unit) const {
    return unit.key > 0 || args_.pool.accumulate || args_.pool.fit_values != nullptr;
  }

  // Steps of products that a unit takes.
  HWY_INLINE size_t NumScoreSteps(const Unit& unit) const {
    return hwy::DivCeil(unit.num_keys, 2 * kPartsColumns) * TileSteps(args_.score.size);
  }
  HWY_INLINE size_t NumPoolSteps(const Unit& unit) const {
    return hwy::DivCeil(args_.pool.size, 2 * kPartsColumns) * TileSteps(unit.num_keys);
  }

  HWY_INLINE void WorkOn(const Unit& last, const Unit& unit, const Unit& next) {
    const ScorePartsArgs score = ScoresOf(unit);
    if (NeedsPatches(score)) PatchScores(score);
    std::int32_t lens[kPartsRowsPerStep];
    for (size_t r = 0; r < unit.num_rows; ++r) {
      const std::int32_t len = args_.score.lens[unit.row + r] - static_cast<std::int32_t>(unit.key);
      lens[r] = std::clamp(len, 0, static_cast<std::int32_t>(unit.num_keys));
    }
    SoftmaxTileArgs softmax = args_.softmax;
    softmax.scores = score.scores;
    softmax.scores_stride = score.scores_stride;
    softmax.num_rows = unit.num_rows;
    softmax.num_columns = unit.num_keys;
    softmax.lens = lens;
    softmax.row_max += unit.row;
    softmax.row_sums += unit.row * kSumVectors * hn::Lanes(D());
    softmax.accumulators = rises_;
    softmax.accumulators_stride = static_cast<std::ptrdiff_t>(hn::Lanes(D()));
    softmax.accumulator_columns = hn::Lanes(D());
    const SoftmaxTileRows<D> rows(softmax);
    const PoolPartsArgs pool = PoolOf(unit);
    PowersInTurns powers(softmax, rows, pool.fit_values != nullptr, pool.scratch);

    const size_t groups = kGroupsPerStep * (NumPoolSteps(last) + NumScoreSteps(next)), turns = powers.NumTurns();
    size_t due = 0;
    const auto meanwhile = [&]() ATTEND_INLINE_ATTR {
      for (due += turns; due >= groups; due -= groups) powers.Turn();
    };
    if (last.num_rows > 0) PoolStep(tiles_, PoolOf(last), last.num_keys, meanwhile);
    if (next.num_rows > 0) ScoreStep(tiles_, ScoresOf(next), meanwhile);
    powers.Finish();
    if (unit.key > 0 || args_.pool.accumulate) Rise(unit);
    if (pool.fit_values == nullptr) return;
    if (unit.key == 0 && !args_.pool.accumulate) {
      for (size_t r = 0; r < pool.num_rows; ++r) {
        std::fill_n(pool.c + static_cast<std::ptrdiff_t>(r) * pool.c_stride, pool.size, 0.0f);
      }
    }
    PoolPartsArgs patch = pool;
    patch.powers = softmax.scores;
    patch.lens = lens;
    PatchPool(patch);
  }

  // A row's sums follow its m, once the last tile is among them.
  HWY_INLINE void Rise(const Unit& unit) {
    const D d;
    for (size_t r = 0; r < unit.num_rows; ++r) {
      float* rise = rises_ + r * hn::Lanes(d);
      if (HWY_LIKELY(*rise == 1.0f)) continue;
      ScaleAccumulators(
          d, args_.softmax.accumulators + static_cast<std::ptrdiff_t>(unit.row + r) * args_.softmax.accumulators_stride,
          args_.softmax.accumulator_columns, *rise);
      hn::Store(hn::Set(d, 1.0f), d, rise);
    }
  }

  const AttendPartsArgs& args_;
  T tiles_;
  // By what rows' sums are to be multiplied, a vector each.
  HWY_ALIGN float rises_[kPartsRowsPerStep * hn::MaxLanes(D())];
};

template <class T>
void AttendByParts(const AttendPartsArgs& args) {
  AttendSteps<T>(args).Run();
}

}  // namespace HWY_NAMESPACE
}  // namespace kernels
}  // namespace attend
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
