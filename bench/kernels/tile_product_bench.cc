// tile_product/*: one tile's product, operands in L1 and L2. qk: scores of m queries and n keys of size d (inner d, n
// columns); pv: pooling of n values of size d (inner n, d columns), added to what is there. FLOPs: 2 m n d.
// tile_pairs/*: the same scores by pairs of terms, and what looking at rows and keys costs beside them.
#include "engine/kernels/tile_product.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <benchmark/benchmark.h>

#include "attend/target.h"
#include "bench/benchmarks.h"
#include "bench/support.h"
#include "engine/kernels/pack.h"
#include "engine/kernels/tile_pairs.h"

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
  measure(state, [&] { kernels.multiply(args); });
  const double flops = 2.0 * static_cast<double>(tile.rows * tile.inner * tile.columns);
  const std::size_t results = tile.rows * tile.columns * (tile.accumulate ? 2 : 1);
  const std::size_t floats = tile.rows * tile.inner + tile.inner * tile.columns + results;
  count_flops(state, flops, target);
  count_intensity(state, flops, static_cast<double>(floats * sizeof(float)));
}

struct PairsCase {
  const char* name;
  std::size_t rows, keys, size;
};
constexpr PairsCase kPairsCases[] = {{"qk_m48_n128_d32", 48, 128, 32},
                                     {"qk_m48_n128_d64", 48, 128, 64},
                                     {"qk_m48_n128_d128", 48, 128, 128},
                                     {"qk_m48_n512_d64", 48, 512, 64}};

// Queries and keys as they are for pairs: of normal numbers, so that all are fit.
class PairsProblem {
 public:
  PairsProblem(const Target& target, const PairsCase& c)
      : case_(c),
        width_(kernels::pack_kernels(target.id()).panel_width),
        kernels_(kernels::tile_pairs_kernels(target.id())),
        keys_(c.keys * c.size, 1),
        rows_(c.rows * c.size, 2),
        copies_(kernels::copied_rows(c.rows) * c.size, 3),
        pair_sums_(c.keys, 4),
        scores_(c.rows * c.keys, 5),
        fit_(c.keys / width_),
        paired_(c.rows) {
    look_at_keys();
    look_at_rows();
  }

  void look_at_keys() {
    mean_square_ = kernels_.panels({.panels = keys_.data(),
                                    .panel_stride = case_.size * width_,
                                    .num_panels = case_.keys / width_,
                                    .size = case_.size,
                                    .pair_sums = pair_sums_.data(),
                                    .fit_keys = fit_.data()});
  }
  void look_at_rows() {
    const auto stride = static_cast<std::ptrdiff_t>(case_.size);
    kernels_.rows({.rows = rows_.data(),
                   .stride = stride,
                   .num_rows = case_.rows,
                   .size = case_.size,
                   .lens = nullptr,
                   .keys_mean_square = mean_square_,
                   .copies = copies_.data(),
                   .copies_stride = stride,
                   .paired = paired_.data()});
  }
  void multiply() {
    const auto stride = static_cast<std::ptrdiff_t>(case_.size);
    kernels_.multiply({.product = {.a = rows_.data(),
                                   .a_stride = stride,
                                   .b = keys_.data(),
                                   .b_panel_stride = case_.size * width_,
                                   .b_row_stride = static_cast<std::ptrdiff_t>(width_),
                                   .c = scores_.data(),
                                   .c_stride = static_cast<std::ptrdiff_t>(case_.keys),
                                   .num_rows = case_.rows,
                                   .num_columns = case_.keys,
                                   .inner = case_.size,
                                   .accumulate = false},
                       .copies = copies_.data(),
                       .copies_stride = stride,
                       .paired = paired_.data(),
                       .pair_sums = pair_sums_.data(),
                       .fit_keys = fit_.data()});
  }

 private:
  const PairsCase& case_;
  std::size_t width_;
  kernels::TilePairsKernels kernels_;
  AlignedFloats keys_, rows_, copies_, pair_sums_, scores_;
  std::vector<std::int32_t> fit_;
  std::vector<kernels::PairedRow> paired_;
  float mean_square_ = 0;
};

void tile_pairs(benchmark::State& state, const Target& target, const PairsCase& c) {
  PairsProblem problem(target, c);
  measure(state, [&] { problem.multiply(); });
  count_flops(state, 2.0 * static_cast<double>(c.rows * c.keys * c.size), target);
}

void tile_pairs_looks(benchmark::State& state, const Target& target, const PairsCase& c, bool at_keys) {
  PairsProblem problem(target, c);
  measure(state, [&] { at_keys ? problem.look_at_keys() : problem.look_at_rows(); });
  state.counters["per_row"] =
      benchmark::Counter(static_cast<double>(at_keys ? c.keys : c.rows),
                         benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}

}  // namespace

void register_tile_product_benchmarks() {
  for (const TileCase& tile : kTileCases) {
    for (const Target& target : Target::available()) {
      register_case(std::string("tile_product/") + tile.name, target.name(),
                    [target, &tile](benchmark::State& state) { tile_product(state, target, tile); });
    }
  }
  for (const PairsCase& c : kPairsCases) {
    for (const Target& target : Target::available()) {
      const std::string name = std::string("tile_pairs/") + c.name;
      register_case(name, target.name(), [target, &c](benchmark::State& state) { tile_pairs(state, target, c); });
      for (const bool at_keys : {true, false}) {
        register_case(name + (at_keys ? "_keys" : "_rows"), target.name(),
                      [target, &c, at_keys](benchmark::State& state) { tile_pairs_looks(state, target, c, at_keys); });
      }
    }
  }
}

}  // namespace attend::bench
