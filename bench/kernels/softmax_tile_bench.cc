// softmax_tile_step/r48_n512: one step over a tile of 48 x 512 scores with 64 columns of o, copying the scores in
// included (the step overwrites them; in the engine the tile product has just written them). per_element: time / (rows
// * columns).
#include "engine/kernels/softmax_tile.h"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include <benchmark/benchmark.h>
#include <hwy/aligned_allocator.h>

#include "attend/target.h"
#include "bench/benchmarks.h"

namespace attend::bench {
namespace {

void softmax_tile_step(benchmark::State& state, std::int64_t target, std::size_t rows, std::size_t columns) {
  constexpr std::size_t kAccumulatorColumns = 64;
  const auto scores = hwy::AllocateAligned<float>(rows * columns);
  const auto tile = hwy::AllocateAligned<float>(rows * columns);
  const auto o = hwy::AllocateAligned<float>(rows * kAccumulatorColumns);
  for (std::size_t i = 0; i < rows * columns; ++i) scores[i] = static_cast<float>(i * 7919 % 2003) * 0.005f;
  std::memset(o.get(), 0, rows * kAccumulatorColumns * sizeof(float));
  const std::vector<std::int32_t> lens(rows, static_cast<std::int32_t>(columns));
  std::vector<float> m(rows, -std::numeric_limits<float>::infinity());
  std::vector<double> l(rows, 0.0);
  const kernels::SoftmaxTileKernels kernels = kernels::softmax_tile_kernels(target);
  for (auto _ : state) {
    std::memcpy(tile.get(), scores.get(), rows * columns * sizeof(float));
    kernels.step({.scores = tile.get(),
                  .scores_stride = static_cast<std::ptrdiff_t>(columns),
                  .num_rows = rows,
                  .num_columns = columns,
                  .lens = lens.data(),
                  .row_max = m.data(),
                  .row_sum = l.data(),
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
    const std::string name = "softmax_tile_step/r48_n512/" + target.name();
    benchmark::RegisterBenchmark(
        name.c_str(), [id = target.id()](benchmark::State& state) { softmax_tile_step(state, id, 48, 512); });
  }
}

}  // namespace attend::bench
