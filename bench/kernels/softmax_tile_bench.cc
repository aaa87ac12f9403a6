// softmax_tile_step/r48_n512: one step over a tile of scores with 64 columns of o, maxima found by the step; _max:
// given to it, as dot products do; _max_m3: m is 3, as of large scores, and not 0. Scores are copied in before each
// step, and the copies count: a fifth to a third of the time. Scale 1, as dot products have, whose queries are scaled.
// per_element: time / (rows * columns).
#include "engine/kernels/softmax_tile.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
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
                       bool has_max, float m0) {
  constexpr std::size_t kAccumulatorColumns = 64;
  const auto scores = hwy::AllocateAligned<float>(rows * columns);
  const auto o = hwy::AllocateAligned<float>(rows * kAccumulatorColumns);
  std::vector<float> given(rows * columns);
  for (std::size_t i = 0; i < given.size(); ++i) given[i] = static_cast<float>(i * 7919 % 2003) * 0.0005f;
  std::fill_n(o.get(), rows * kAccumulatorColumns, 0.0f);
  const std::vector<std::int32_t> lens(rows, static_cast<std::int32_t>(columns));
  std::vector<float> m(rows, m0);
  const kernels::SoftmaxTileKernels kernels = kernels::softmax_tile_kernels(target);
  const AlignedFloats l(rows * kernels.sums_stride), max(rows * kernels.sums_stride / 2);
  std::fill_n(l.data(), l.size(), 0.0f);
  std::fill_n(max.data(), max.size(), 2.0f);
  measure(state, [&] {
    std::copy(given.begin(), given.end(), scores.get());
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
  });
  // Elements per second, inverted; the console shows it as "285.1ps", JSON in seconds.
  state.counters["per_element"] = benchmark::Counter(
      static_cast<double>(rows * columns), benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}

}  // namespace

void register_softmax_tile_benchmarks() {
  for (const Target& target : Target::available()) {
    for (const std::size_t columns : {64u, 112u, 128u, 512u}) {
      const auto add = [&](const char* suffix, bool has_max, float m) {
        register_case("softmax_tile_step/r48_n" + std::to_string(columns) + suffix, target.name(),
                      [id = target.id(), columns, has_max, m](benchmark::State& state) {
                        softmax_tile_step(state, id, 48, columns, has_max, m);
                      });
      };
      add("", false, 0);
      add("_max", true, 0);
      add("_max_m3", true, 3);
    }
  }
}

}  // namespace attend::bench
