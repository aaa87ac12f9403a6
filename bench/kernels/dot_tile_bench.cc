// dot_tile/d64_q48_k128: what fused dot-product attention does for one head, without packing: 48 queries against 512
// packed keys in tiles of 128 of them: scores, one step of the online softmax, pooling. For the planner's choice of
// tiles. FLOPs: those of the two products, so peak_percent counts what softmax takes as lost.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include <benchmark/benchmark.h>

#include "attend/target.h"
#include "bench/benchmarks.h"
#include "bench/support.h"
#include "engine/kernels/pack.h"
#include "engine/kernels/softmax_tile.h"
#include "engine/kernels/tile_product.h"

namespace attend::bench {
namespace {

constexpr std::size_t kKeys = 512;

struct DotTileCase {
  std::size_t size, tile_queries, tile_keys;
};
constexpr DotTileCase kDotTileCases[] = {
    {64, 48, 128},  {64, 48, 256},  {64, 48, 512},  {64, 24, 128},  {64, 24, 512},  {64, 96, 128},
    {128, 48, 128}, {128, 48, 256}, {128, 48, 512}, {128, 24, 128}, {128, 24, 512}, {128, 96, 128},
};

// Four tiles of queries pass the same keys, as in a head: keys and values come from L2.
void dot_tile(benchmark::State& state, const Target& target, const DotTileCase& tile) {
  constexpr std::size_t kTiles = 4;
  const kernels::PackKernels pack = kernels::pack_kernels(target.id());
  const kernels::TileProductKernels product = kernels::tile_product_kernels(target.id());
  const kernels::SoftmaxTileKernels softmax = kernels::softmax_tile_kernels(target.id());
  const std::size_t width = pack.panel_width, size = (tile.size + width - 1) / width * width, rows = tile.tile_queries;
  const std::size_t lanes = softmax.sums_stride / 2;
  // Scores of deviation 1.44, as in units of e they would have 1.
  const AlignedFloats queries(kTiles * rows * tile.size, 1, 1.44f / std::sqrt(static_cast<float>(tile.size)));
  const AlignedFloats keys(tile.size * kKeys, 2), values(kKeys * size, 3);
  const AlignedFloats scores(rows * tile.tile_keys), accumulators(rows * size), max_lanes(rows * lanes);
  const AlignedFloats row_sums(rows * softmax.sums_stride);
  std::vector<float> row_max(rows);
  const std::vector<std::int32_t> lens(rows, static_cast<std::int32_t>(tile.tile_keys));
  const auto stride = [](std::size_t n) { return static_cast<std::ptrdiff_t>(n); };
  measure(state, [&] {
    for (std::size_t q = 0; q < kTiles; ++q) {
      std::fill(row_max.begin(), row_max.end(), -std::numeric_limits<float>::infinity());
      std::fill_n(row_sums.data(), row_sums.size(), 0.0f);
      for (std::size_t first = 0; first < kKeys; first += tile.tile_keys) {
        product.multiply({.a = queries.data() + q * rows * tile.size,
                          .a_stride = stride(tile.size),
                          .b = keys.data() + first * tile.size,
                          .b_panel_stride = tile.size * width,
                          .b_row_stride = stride(width),
                          .c = scores.data(),
                          .c_stride = stride(tile.tile_keys),
                          .num_rows = rows,
                          .num_columns = tile.tile_keys,
                          .inner = tile.size,
                          .accumulate = false,
                          .lens = lens.data(),
                          .max_lanes = max_lanes.data()});
        softmax.step({.scores = scores.data(),
                      .scores_stride = stride(tile.tile_keys),
                      .num_rows = rows,
                      .num_columns = tile.tile_keys,
                      .lens = lens.data(),
                      .scale = 1.0f,
                      .max_lanes = max_lanes.data(),
                      .row_max = row_max.data(),
                      .row_sums = row_sums.data(),
                      .accumulators = accumulators.data(),
                      .accumulators_stride = stride(size),
                      .accumulator_columns = size});
        product.multiply({.a = scores.data(),
                          .a_stride = stride(tile.tile_keys),
                          .b = values.data() + first * width,
                          .b_panel_stride = kKeys * width,
                          .b_row_stride = stride(width),
                          .c = accumulators.data(),
                          .c_stride = stride(size),
                          .num_rows = rows,
                          .num_columns = tile.size,
                          .inner = tile.tile_keys,
                          .accumulate = first > 0,
                          .inner_lens = lens.data()});
      }
    }
  });
  const double flops = 4.0 * static_cast<double>(kTiles * rows * kKeys * tile.size);
  count_flops(state, flops, target);
  count_intensity(state, flops, static_cast<double>(2 * (kTiles * rows + kKeys) * tile.size * sizeof(float)));
}

}  // namespace

void register_dot_tile_benchmarks() {
  for (const DotTileCase& tile : kDotTileCases) {
    const std::string name = "dot_tile/d" + std::to_string(tile.size) + "_q" + std::to_string(tile.tile_queries) +
                             "_k" + std::to_string(tile.tile_keys);
    for (const Target& target : Target::available()) {
      register_case(name, target.name(), [target, &tile](benchmark::State& state) { dot_tile(state, target, tile); });
    }
  }
}

}  // namespace attend::bench
