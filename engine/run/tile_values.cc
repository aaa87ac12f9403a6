#include "engine/run/tile_values.h"

#include <algorithm>
#include <limits>

#include "engine/base/carver.h"

namespace attend::detail {

TileValues::TileValues(const HeadSpans& head, ValueSpans& values, const RowLens& lens, std::byte* worker,
                       NextRows& next_rows)
    : plan_(*head.job.plan),
      kernels_(*plan_.kernels),
      values_(values),
      lens_(lens),
      begin_(head.begin),
      all_see_(head.job.visible.is_uniform() ? std::optional(head.limit) : std::nullopt),
      value_size_(static_cast<std::size_t>(plan_.head_value_size)),
      accumulators_stride_(plan_.padded_values * plan_.accumulator_levels),
      writes_first_(accumulators_stride_ == value_size_),
      accumulators_(part<float>(worker, plan_.layout.accumulators)),
      power_exponents_(part<float>(worker, plan_.layout.power_exponents)),
      paired_powers_(part<kernels::PairedRow>(worker, plan_.layout.paired_powers)),
      power_parts_(part<std::uint16_t>(worker, plan_.layout.power_parts)),
      next_rows_(next_rows) {}

void TileValues::begin(std::size_t rows) {
  if (plan_.pairs_values) choose_exponents(rows);
  if (!writes_first_) std::fill(accumulators_, accumulators_ + rows * accumulators_stride_, 0.0f);
}

// Rows that see the first block of values have their powers brought to the size of these.
void TileValues::choose_exponents(std::size_t rows) {
  const float exponent = kernels::power_exponent(values_.look_at_values());
  const auto first_block = static_cast<std::int32_t>(begin_ + block_size(begin_));
  for (std::size_t r = 0; r < rows; ++r) {
    power_exponents_[r] = lens_.lens[r] >= first_block ? exponent : std::numeric_limits<float>::quiet_NaN();
  }
}

// Keys of the block of values that begins with key `first`. The last block is shorter only where all rows see it to its
// end: else whether a row that does goes by pairs would depend on whether others see more.
std::size_t TileValues::block_size(std::size_t first) const {
  const std::size_t block = std::min(kernels::kInnerBlock, plan_.tile_keys);
  return all_see_ ? std::min(block, *all_see_ - first) : block;
}

void TileValues::pool(const Tile& tile, const float* p, std::ptrdiff_t p_stride, std::size_t first, std::size_t columns,
                      std::int32_t* tile_lens) {
  begin_keys(tile.row, tile.rows, first);
  if (plan_.parts) {
    kernels::PoolPartsArgs args = parts_of(tile, first, columns);
    args.powers = p;
    args.powers_stride = p_stride;
    args.lens = tile_lens;
    return kernels_.tile_parts.pool(args);
  }
  if (!plan_.pairs_values) return pool_block(tile, p, p_stride, first, columns, tile_lens);
  for (std::size_t k = 0; k < columns; k += kernels::kInnerBlock) {
    const std::size_t block = std::min(kernels::kInnerBlock, columns - k);
    if (block < columns) lens_.within(tile.row, tile.rows, first + k, block, tile_lens);
    pool_block(tile, p + k, p_stride, first + k, block, tile_lens);
  }
}

kernels::PoolPartsArgs TileValues::parts_of(const Tile& tile, std::size_t first, std::size_t columns) {
  const ValueSpans::ValueParts parts = values_.value_parts(first);
  const ValueSpans::Values plain = values_.values(first);
  return {.num_rows = tile.rows,
          .num_values = columns,
          .size = value_size_,
          .powers = nullptr,
          .powers_stride = 0,
          .lens = nullptr,
          .values = parts.parts,
          .column_stride = parts.column_stride,
          .fit_values = parts.fit,
          .plain_values = plain.panels,
          .plain_panel_stride = plain.panel_stride,
          .plain_row_stride = plain.row_stride,
          .accumulate = !writes_first_ || first > begin_,
          .c = accumulators(tile.row),
          .c_stride = static_cast<std::ptrdiff_t>(accumulators_stride_),
          .scratch = power_parts_};
}

// The same of the keys of one block of the tile product, or of all if no rows go by pairs.
void TileValues::pool_block(const Tile& tile, const float* p, std::ptrdiff_t p_stride, std::size_t first,
                            std::size_t columns, std::int32_t* tile_lens) {
  const ValueSpans::Values from = values_.values(first);
  kernels::TileProductArgs args{.a = p,
                                .a_stride = p_stride,
                                .b = from.panels,
                                .b_panel_stride = from.panel_stride,
                                .b_row_stride = from.row_stride,
                                .c = accumulators(tile.row),
                                .c_stride = static_cast<std::ptrdiff_t>(accumulators_stride_),
                                .num_rows = tile.rows,
                                .num_columns = value_size_,
                                .inner = columns,
                                .accumulate = !writes_first_ || first > begin_,
                                .inner_lens = tile_lens,
                                .ahead = next_rows_.next()};
  const bool by_pairs = plan_.pairs_values && look_at_powers(tile, p, p_stride, first, columns, tile_lens);
  // p is 0 beyond a row's length and 0 * v adds nothing, unless v is infinite or NaN.
  const std::size_t last = first + columns;
  if (tile.shortest >= last || values_.are_finite(std::max(first, tile.shortest), last)) {
    return multiply(args, by_pairs, 0, first);
  }
  args.num_rows = 1;
  args.inner_lens = nullptr;
  for (std::size_t r = 0; r < tile.rows; ++r) {
    args.a = p + static_cast<std::ptrdiff_t>(r) * p_stride;
    args.c = accumulators(tile.row + r);
    args.inner = static_cast<std::size_t>(tile_lens[r]);
    if (args.inner > 0 || !args.accumulate) multiply(args, by_pairs, r, first);
  }
}

// Whether rows of the tile may go by pairs: some see all keys of the block, which `columns` need not be.
bool TileValues::look_at_powers(const Tile& tile, const float* p, std::ptrdiff_t p_stride, std::size_t first,
                                std::size_t columns, const std::int32_t* tile_lens) {
  const float mean_square = values_.look_at_values();
  if (mean_square == 0 || columns < block_size(first)) return false;
  kernels_.value_pairs.powers({.powers = p,
                               .stride = p_stride,
                               .num_rows = tile.rows,
                               .num_keys = columns,
                               .lens = tile_lens,
                               .mean_square = mean_square,
                               .paired = paired_powers_});
  return true;
}

// Rows of a tile from `row` on.
void TileValues::multiply(const kernels::TileProductArgs& product, bool by_pairs, std::size_t row, std::size_t first) {
  if (!by_pairs) return kernels_.tile_product.multiply(product);
  const ValueSpans::ValuePairs pairs = values_.value_pairs(first);
  kernels_.value_pairs.multiply(
      {.product = product, .paired = paired_powers_ + row, .pair_sums = pairs.sums, .fit = pairs.fit});
}

// Running sums to totals, where there are two levels; sums start again from 0.
void TileValues::add_to_totals(std::size_t row, std::size_t rows) {
  for (std::size_t r = row; r < row + rows; ++r) {
    float* from = accumulators(r);
    for (std::size_t n = 0; n < plan_.padded_values; ++n) {
      from[plan_.padded_values + n] += from[n];
      from[n] = 0.0f;
    }
  }
}

const float* TileValues::totals(std::size_t rows) {
  if (plan_.accumulator_levels == 1) return accumulators_;
  add_to_totals(0, rows);
  return accumulators_ + plan_.padded_values;
}

}  // namespace attend::detail
