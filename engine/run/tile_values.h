// What a tile's powers are multiplied by: a head's values, in plain products, by pairs of terms or by bfloat16 parts;
// and the accumulators of these products, a row for each query of a group.
#ifndef ATTEND_RUN_TILE_VALUES_H_
#define ATTEND_RUN_TILE_VALUES_H_

#include <cstddef>
#include <cstdint>
#include <optional>

#include "engine/run/head_spans.h"
#include "engine/run/next_rows.h"
#include "engine/run/tile.h"
#include "engine/run/value_spans.h"

namespace attend::detail {

class TileValues {
 public:
  // values: of that head. lens: of the group at work.
  TileValues(const HeadSpans& head, ValueSpans& values, const RowLens& lens, std::byte* worker, NextRows& next_rows);

  // A group of so many queries comes next, whose lengths are there.
  void begin(std::size_t rows);

  // For SoftmaxTileArgs: what powers of rows from `row` on are brought to, for pairs, or null.
  const float* power_exponents(std::size_t row) const { return plan_.pairs_values ? power_exponents_ + row : nullptr; }
  // Of the group's rows from `row` on: the running sums.
  float* accumulators(std::size_t row) const { return accumulators_ + row * accumulators_stride_; }
  std::size_t accumulators_stride() const { return accumulators_stride_; }

  // Before rows from `row` on meet the keys from `first` on.
  void begin_keys(std::size_t row, std::size_t rows, std::size_t first) {
    if (plan_.accumulator_levels > 1 && first > 0 && first % plan_.keys_per_level() == 0) add_to_totals(row, rows);
  }
  // accumulators += p values, over keys first ... first + columns - 1; = with the first keys of all, if the first
  // products are written. tile_lens: how many of these keys each row sees; overwritten.
  void pool(const Tile& tile, const float* p, std::ptrdiff_t p_stride, std::size_t first, std::size_t columns,
            std::int32_t* tile_lens);
  // What products by parts want for that; powers and lens are still to be told.
  kernels::PoolPartsArgs parts_of(const Tile& tile, std::size_t first, std::size_t columns);

  // The sums over all keys, rows of them accumulators_stride() apart, when the group has met them.
  const float* totals(std::size_t rows);

 private:
  void choose_exponents(std::size_t rows);
  std::size_t block_size(std::size_t first) const;
  void add_to_totals(std::size_t row, std::size_t rows);
  void pool_block(const Tile& tile, const float* p, std::ptrdiff_t p_stride, std::size_t first, std::size_t columns,
                  std::int32_t* tile_lens);
  bool look_at_powers(const Tile& tile, const float* p, std::ptrdiff_t p_stride, std::size_t first, std::size_t columns,
                      const std::int32_t* tile_lens);
  void multiply(const kernels::TileProductArgs& product, bool by_pairs, std::size_t row, std::size_t first);

  const PlanImpl& plan_;
  const kernels::KernelSet& kernels_;
  ValueSpans& values_;
  const RowLens& lens_;
  const std::size_t begin_;
  const std::optional<std::size_t> all_see_;  // how many of the head's keys every row sees, if all see as many
  const std::size_t value_size_;
  const std::size_t accumulators_stride_;  // one or two padded rows of values (PlanImpl::accumulator_levels)
  // Whether products with the first keys are written to whole rows of accumulators, rather than added to rows that were
  // cleared: 2 % of dot/b8_h12_m512_n512_d64_lens (AVX3, Zen 5). Rows of a tile that meets some key get zeros where
  // they meet none; of other tiles they keep what they held, and with l = 0 nobody looks.
  const bool writes_first_;
  float* const accumulators_;
  float* const power_exponents_;
  kernels::PairedRow* const paired_powers_;
  std::uint16_t* const power_parts_;
  NextRows& next_rows_;
};

}  // namespace attend::detail

#endif  // ATTEND_RUN_TILE_VALUES_H_
