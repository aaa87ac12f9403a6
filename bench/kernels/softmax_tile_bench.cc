// softmax_tile_step/r48_n512: one step over a tile of scores with 64 columns of o, maxima found by the step; _max:
// given to it, as dot products do. Each step takes the exponentials that the one before it left for scores: they stay
// between 0 and 2. Scale 1, as dot products have, whose queries are scaled. per_element: time / (rows * columns).
#include "engine/kernels/softmax_tile.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include <benchmark/benchmark.h>
#include <hwy/aligned_allocator.h>

#include "attend/target.h"
#include "bench/benchmarks.h"
#include "bench/support.h"

namespace attend::bench {
namespace {

void softmax_tile_step(benchmark::State& state, std::int64_t target, std::size_t rows, std::size_t columns,
                       bool has_max) {
  constexpr std::size_t kAccumulatorColumns = 64;
  const auto scores = hwy::AllocateAligned<float>(rows * columns);
  const auto o = hwy::AllocateAligned<float>(rows * kAccumulatorColumns);
  for (std::size_t i = 0; i < rows * columns; ++i) scores[i] = static_cast<float>(i * 7919 % 2003) * 0.0005f;
  std::fill_n(o.get(), rows * kAccumulatorColumns, 0.0f);
  const std::vector<std::int32_t> lens(rows, static_cast<std::int32_t>(columns));
  std::vector<float> m(rows, -std::numeric_limits<float>::infinity());
  const kernels::SoftmaxTileKernels kernels = kernels::softmax_tile_kernels(target);
  const AlignedFloats l(rows * kernels.sums_stride), max(rows * kernels.sums_stride / 2);
  std::fill_n(l.data(), l.size(), 0.0f);
  std::fill_n(max.data(), max.size(), 2.0f);
  for (auto _ : state) {
    kernels.step({.scores = scores.get(),
                  .scores_stride = static_cast<std::ptrdiff_t>(columns),
                  .num_rows = rows,
                  .num_columns = columns,
                  .lens = lens.data(),
                  .scale = 1.0f,
                  .max_lanes = has_max ? max.data() : nullptr,
                  .row_max = m.data(),
                  .row_sums = l.data(),
                  .accumulators = o.get(),
                  .accumulators_stride = kAccumulatorColumns,
                  .accumulator_columns = kAccumulatorColumns});
    benchmark::ClobberMemory();
  }
  // Elements per second, inverted; the console shows it as "285.1ps", JSON in seconds.
  state.counters["per_element"] = benchmark::Counter(
      static_cast<double>(rows * columns), benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}

}  // namespace

void register_softmax_tile_benchmarks() {
  for (const Target& target : Target::available()) {
    for (const std::size_t columns : {64u, 112u, 128u, 512u}) {
      for (const bool has_max : {false, true}) {
        register_case("softmax_tile_step/r48_n" + std::to_string(columns) + (has_max ? "_max" : ""), target.name(),
                      [id = target.id(), columns, has_max](benchmark::State& state) {
                        softmax_tile_step(state, id, 48, columns, has_max);
                      });
      }
    }
  }
}

}  // namespace attend::bench
