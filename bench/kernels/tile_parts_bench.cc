// tile_parts/*: products by bfloat16 parts, for targets whose tiles this CPU has. qk_*, pv_*: scores of m queries and n
// keys of size d, and pooling of n values of d columns, added to what is there; 2 m n d FLOPs, beside tile_product/qk_*
// and tile_product/pv_*. qk_* takes nothing apart, pv_* its powers. attend_*: both with the online softmax in between,
// 128 keys at a time, 4 m n d FLOPs, beside dot_tile/*. queries_*, keys_*, values_*: what taking them apart costs.
#include "engine/kernels/tile_parts.h"

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

namespace attend::bench {
namespace {

struct TilePartsCase {
  const char* name;
  std::size_t rows, keys, size;
};
constexpr TilePartsCase kTiles[] = {{"m32_n128_d64", 32, 128, 64}, {"m32_n128_d128", 32, 128, 128}};
constexpr TilePartsCase kHeads[] = {{"m128_n512_d64", 128, 512, 64}, {"m128_n512_d128", 128, 512, 128}};

std::ptrdiff_t stride_of(std::size_t n) { return static_cast<std::ptrdiff_t>(n); }
std::size_t up_to(std::size_t n, std::size_t multiple) { return (n + multiple - 1) / multiple * multiple; }

// The keys in panels, the values where they lie, as in a head. Scores of deviation 1.44, as in units of e they would
// have 1. Powers are uniform.
class Problem {
 public:
  Problem(const Target& target, const TilePartsCase& c)
      : case_(c),
        width_(kernels::pack_kernels(target.id()).panel_width),
        kernels_(kernels::tile_parts_kernels(target.id())),
        softmax_(kernels::softmax_tile_kernels(target.id())),
        queries_(c.rows * c.size, 1, 1.44f / std::sqrt(static_cast<float>(c.size))),
        keys_(up_to(c.keys, width_) * c.size, 2),
        values_(c.keys * c.size, 3),
        scores_(2 * std::max(c.rows, kernels::kPartsRowsPerStep) * kTileKeys),
        sums_(c.rows * c.size, 4),
        row_sums_(c.rows * softmax_.sums_stride),
        query_parts_(kernels::parts_size(c.rows, c.size)),
        key_parts_(kernels::parts_size(c.keys, c.size)),
        value_parts_(kernels::parts_size(c.size, c.keys)),
        scratch_(2 * kernels::pool_parts_scratch()),
        fit_queries_(c.rows),
        fit_keys_(c.keys),
        fit_values_(c.keys),
        lens_(c.rows, static_cast<std::int32_t>(c.keys)),
        row_max_(c.rows) {
    take_queries();
    take_keys();
    take_values();
    kernels_.configure();
  }
  ~Problem() { kernels_.release(); }
  Problem(const Problem&) = delete;
  Problem& operator=(const Problem&) = delete;

  void take_queries() {
    kernels_.queries({.rows = queries_.data(),
                      .stride = stride_of(case_.size),
                      .num_rows = case_.rows,
                      .size = case_.size,
                      .parts = query_parts_.data(),
                      .fit = fit_queries_.data()});
  }
  void take_keys() {
    kernels_.keys({.panels = keys_.data(),
                   .panel_stride = case_.size * width_,
                   .num_keys = case_.keys,
                   .size = case_.size,
                   .parts = key_parts_.data(),
                   .fit = fit_keys_.data()});
  }
  void take_values() {
    kernels_.values({.values = values_.data(),
                     .panel_stride = width_,
                     .row_stride = stride_of(case_.size),
                     .num_values = case_.keys,
                     .size = case_.size,
                     .parts = value_parts_.data(),
                     .fit = fit_values_.data()});
  }
  void score() { kernels_.score(score_args()); }
  void pool() {
    kernels::PoolPartsArgs args = pool_args();
    args.powers = scores_.data();
    args.powers_stride = stride_of(kTileKeys);
    args.accumulate = true;
    kernels_.pool(args);
  }
  void attend() {
    std::fill(row_max_.begin(), row_max_.end(), -std::numeric_limits<float>::infinity());
    std::fill_n(row_sums_.data(), row_sums_.size(), 0.0f);
    kernels_.attend({.score = score_args(),
                     .softmax = {.scores = nullptr,
                                 .scores_stride = 0,
                                 .num_rows = case_.rows,
                                 .num_columns = 0,
                                 .lens = nullptr,
                                 .scale = 1.0f,
                                 .row_max = row_max_.data(),
                                 .row_sums = row_sums_.data(),
                                 .accumulators = sums_.data(),
                                 .accumulators_stride = stride_of(case_.size),
                                 .accumulator_columns = case_.size},
                     .pool = pool_args(),
                     .tile_keys = kTileKeys});
  }

 private:
  static constexpr std::size_t kTileKeys = kernels::kPoolPartsKeys;

  kernels::ScorePartsArgs score_args() {
    return {.num_rows = case_.rows,
            .num_columns = case_.keys,
            .size = case_.size,
            .queries = query_parts_.data(),
            .fit_queries = nullptr,
            .plain_queries = queries_.data(),
            .plain_stride = stride_of(case_.size),
            .keys = key_parts_.data(),
            .fit_keys = nullptr,
            .panels = nullptr,
            .panel_stride = case_.size * width_,
            .lens = lens_.data(),
            .scores = scores_.data(),
            .scores_stride = stride_of(kTileKeys)};
  }
  kernels::PoolPartsArgs pool_args() {
    return {.num_rows = case_.rows,
            .num_values = case_.keys,
            .size = case_.size,
            .powers = nullptr,
            .powers_stride = 0,
            .lens = lens_.data(),
            .values = value_parts_.data(),
            .column_stride = kernels::parts_size(kernels::kPartsColumns, case_.keys),
            .fit_values = nullptr,
            .plain_values = values_.data(),
            .plain_panel_stride = width_,
            .plain_row_stride = stride_of(case_.size),
            .accumulate = false,
            .c = sums_.data(),
            .c_stride = stride_of(case_.size),
            .scratch = scratch_.data()};
  }

  using Numbers = std::vector<std::uint16_t, LineAllocator<std::uint16_t>>;

  const TilePartsCase& case_;
  std::size_t width_;
  kernels::TilePartsKernels kernels_;
  kernels::SoftmaxTileKernels softmax_;
  AlignedFloats queries_, keys_, values_, scores_, sums_, row_sums_;
  Numbers query_parts_, key_parts_, value_parts_, scratch_;
  std::vector<std::uint8_t> fit_queries_, fit_keys_, fit_values_;
  std::vector<std::int32_t> lens_;
  std::vector<float> row_max_;
};

using Step = void (Problem::*)();

void multiply(benchmark::State& state, const Target& target, const TilePartsCase& c, Step step, double products) {
  Problem problem(target, c);
  measure(state, [&] { (problem.*step)(); });
  const double flops = 2.0 * products * static_cast<double>(c.rows * c.keys * c.size);
  count_flops(state, flops, target);
  if (products > 1) {
    count_intensity(state, flops, static_cast<double>(2 * (c.rows + c.keys) * c.size * sizeof(float)));
  }
}

void take_apart(benchmark::State& state, const Target& target, const TilePartsCase& c, Step step, std::size_t count) {
  Problem problem(target, c);
  measure(state, [&] { (problem.*step)(); });
  state.counters["per_row"] = seconds_each(static_cast<double>(count));
}

}  // namespace

void register_tile_parts_benchmarks() {
  for (const Target& target : Target::available()) {
    if (!kernels::tile_parts_kernels(target.id()).has_tiles) continue;
    const auto add_products = [&](const char* what, const TilePartsCase& c, Step step, double products) {
      register_case(std::string("tile_parts/") + what + c.name, target.name(),
                    [=, &c](benchmark::State& state) { multiply(state, target, c, step, products); });
    };
    const auto add_taking = [&](const char* what, const TilePartsCase& c, Step step, std::size_t count) {
      register_case(std::string("tile_parts/") + what + c.name, target.name(),
                    [=, &c](benchmark::State& state) { take_apart(state, target, c, step, count); });
    };
    for (const TilePartsCase& c : kTiles) {
      add_products("qk_", c, &Problem::score, 1);
      add_products("pv_", c, &Problem::pool, 1);
    }
    for (const TilePartsCase& c : kHeads) {
      add_products("attend_", c, &Problem::attend, 2);
      add_taking("queries_", c, &Problem::take_queries, c.rows);
      add_taking("keys_", c, &Problem::take_keys, c.keys);
      add_taking("values_", c, &Problem::take_values, c.keys);
    }
  }
}

}  // namespace attend::bench
