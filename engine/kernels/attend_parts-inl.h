// Attention tile by tile by bfloat16 parts, the softmax of one tile beside the products of its neighbours: `attend` of
// tile_parts.h. Its products are those of tile_parts-inl.h.
#if defined(ATTEND_KERNELS_ATTEND_PARTS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ATTEND_KERNELS_ATTEND_PARTS_INL_H_
#undef ATTEND_KERNELS_ATTEND_PARTS_INL_H_
#else
#define ATTEND_KERNELS_ATTEND_PARTS_INL_H_
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "engine/kernels/softmax_tile-inl.h"
#include "engine/kernels/tile_parts-inl.h"
#include "engine/kernels/tile_parts.h"

HWY_BEFORE_NAMESPACE();
namespace attend {
namespace kernels {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
namespace simd = attend::HWY_NAMESPACE;

// One row of scores through a step of the softmax, and its powers taken apart.
static HWY_NOINLINE void RowToPowers(const SoftmaxTileRows<hn::ScalableTag<float>>& rows,
                                     const SoftmaxTileArgs& softmax, size_t r, TileNumbers* tiles) {
  rows.Step(hn::ScalableTag<float>(), softmax, r);
  const float* powers = softmax.scores + static_cast<std::ptrdiff_t>(r) * softmax.scores_stride;
  RowToParts<Cut::kCut>(PartsTag(), powers, softmax.num_columns, r, tiles);
}

// The rows of one tile of scores on their way to parts of powers, in turns of some 80 instructions, one beside each
// group of four products, which keep the tiles busy for 64 cycles. A core looks ahead a few hundred instructions:
// behind a longer turn the next products begin too late. With whole rows as turns, beside scores alone,
// dot/b1_h12_m512_n512_d64 took 4.8 ms where it took 4.2 with these, beside pooling too. bench:
// tile_parts/attend_m128_n512_d64.
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

// Steps of rows, and for each its tiles of keys, one after the other. While tiles multiply the powers of the last one
// by its values and the queries by the next one's keys, vectors turn this one's scores into powers.
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
    return hwy::DivCeil(unit.num_keys, kPartsColumnsPerStep) * TileSteps(args_.score.size);
  }
  HWY_INLINE size_t NumPoolSteps(const Unit& unit) const {
    return hwy::DivCeil(args_.pool.size, kPartsColumnsPerStep) * TileSteps(unit.num_keys);
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
