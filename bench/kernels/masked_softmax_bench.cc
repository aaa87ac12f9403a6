// masked_softmax_rows/r64_n1024: 64 rows of 1024 scores, 256 KiB in and as much out: L2.
// per_element: time / (rows * columns), all three passes.
#include "engine/kernels/masked_softmax.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <benchmark/benchmark.h>

#include "attend/target.h"
#include "bench/benchmarks.h"

namespace attend::bench {
namespace {

void masked_softmax_rows(benchmark::State& state, std::int64_t target, std::size_t rows, std::size_t columns) {
  std::vector<float> input(rows * columns), output(rows * columns);
  for (std::size_t i = 0; i < input.size(); ++i) input[i] = static_cast<float>(i * 7919 % 2003) * 0.005f;
  const kernels::MaskedSoftmaxKernels kernels = kernels::masked_softmax_kernels(target);
  const kernels::MaskedSoftmaxArgs args{.input = input.data(),
                                        .input_stride = static_cast<std::ptrdiff_t>(columns),
                                        .output = output.data(),
                                        .output_stride = static_cast<std::ptrdiff_t>(columns),
                                        .num_rows = rows,
                                        .num_columns = columns,
                                        .valid_lens = nullptr,
                                        .valid_lens_stride = 0};
  for (auto _ : state) {
    kernels.rows(args);
    benchmark::ClobberMemory();
  }
  // Elements per second, inverted; the console shows it as "285.1ps", JSON in seconds.
  state.counters["per_element"] = benchmark::Counter(
      static_cast<double>(rows * columns), benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}

}  // namespace

void register_masked_softmax_benchmarks() {
  for (const Target& target : Target::available()) {
    for (const std::size_t columns : {64u, 1024u, 16384u}) {
      const std::string name = "masked_softmax_rows/r64_n" + std::to_string(columns) + "/" + target.name();
      benchmark::RegisterBenchmark(name.c_str(), [id = target.id(), columns](benchmark::State& state) {
        masked_softmax_rows(state, id, 64, columns);
      });
    }
  }
}

}  // namespace attend::bench
