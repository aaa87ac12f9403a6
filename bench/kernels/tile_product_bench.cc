// tile_product/*: one tile's product, operands in L1 and L2. qk: scores of m queries and n keys of size d (inner d, n
// columns); pv: pooling of n values of size d (inner n, d columns), added to what is there. FLOPs: 2 m n d.
#include "engine/kernels/tile_product.h"

#include <cstddef>
#include <cstdint>
#include <string>

#include <benchmark/benchmark.h>

#include "attend/target.h"
#include "bench/benchmarks.h"
#include "bench/support.h"
#include "engine/kernels/pack.h"

namespace attend::bench {
namespace {

struct TileCase {
  const char* name;
  std::size_t rows, inner, columns;
  bool accumulate;
};
// The tiles the planner chooses for head sizes 64 and 128, columns that fill no panel of 64, and fewer rows down to
// one.
constexpr TileCase kTileCases[] = {
    {"qk_m48_n512_d64", 48, 64, 512, false}, {"qk_m48_n512_d128", 48, 128, 512, false},
    {"qk_m32_n32_d64", 32, 64, 32, false},   {"qk_m16_n512_d64", 16, 64, 512, false},
    {"qk_m6_n512_d64", 6, 64, 512, false},   {"qk_m1_n512_d64", 1, 64, 512, false},
    {"pv_m48_n512_d64", 48, 512, 64, true},  {"pv_m48_n512_d128", 48, 512, 128, true},
    {"pv_m32_n32_d64", 32, 32, 64, true},    {"pv_m16_n512_d64", 16, 512, 64, true},
    {"pv_m1_n512_d64", 1, 512, 64, true},    {"qk_m48_n80_d64", 48, 64, 80, false},
    {"pv_m48_n512_d32", 48, 512, 32, true},
};

void tile_product(benchmark::State& state, const Target& target, const TileCase& tile) {
  const std::size_t width = kernels::pack_kernels(target.id()).panel_width;
  const std::size_t columns = (tile.columns + width - 1) / width * width;
  const AlignedFloats a(tile.rows * tile.inner, 1), b(tile.inner * columns, 2), c(tile.rows * columns, 3);
  const kernels::TileProductKernels kernels = kernels::tile_product_kernels(target.id());
  const kernels::TileProductArgs args{.a = a.data(),
                                      .a_stride = static_cast<std::ptrdiff_t>(tile.inner),
                                      .b = b.data(),
                                      .b_panel_stride = tile.inner * width,
                                      .b_row_stride = static_cast<std::ptrdiff_t>(width),
                                      .c = c.data(),
                                      .c_stride = static_cast<std::ptrdiff_t>(columns),
                                      .num_rows = tile.rows,
                                      .num_columns = tile.columns,
                                      .inner = tile.inner,
                                      .accumulate = tile.accumulate};
  for (auto _ : state) {
    kernels.multiply(args);
    benchmark::ClobberMemory();
  }
  const double flops = 2.0 * static_cast<double>(tile.rows * tile.inner * tile.columns);
  const std::size_t results = tile.rows * tile.columns * (tile.accumulate ? 2 : 1);
  const std::size_t floats = tile.rows * tile.inner + tile.inner * tile.columns + results;
  count_flops(state, flops, target);
  count_intensity(state, flops, static_cast<double>(floats * sizeof(float)));
}

}  // namespace

void register_tile_product_benchmarks() {
  for (const TileCase& tile : kTileCases) {
    for (const Target& target : Target::available()) {
      register_case(std::string("tile_product/") + tile.name, target.name(),
                    [target, &tile](benchmark::State& state) { tile_product(state, target, tile); });
    }
  }
}

}  // namespace attend::bench
