// masked_softmax_rows/r64_n1024: 64 rows of 1024 scores, 256 KiB in and as much out: L2.
// masked_softmax_rows/r4096_n128 and n1024: 2 and 16 MiB in and as much out, half of it padding with _lens. The next
// row's scores and output are prefetched; with _breaks only scores that do not go on from the row before, with _near
// and output that begins, modulo 4096 bytes, a line behind the scores; with _lines_l2 scores and output 8 KiB ahead,
// into L2. All of these row by row; with _together passes over neighbouring rows take turns. r4096_n1024_half*: the
// output begins half a page behind the scores, so that its rows cross pages elsewhere; as above. per_element: time /
// valid scores, all three passes.
#include "engine/kernels/masked_softmax.h"

#include <cstddef>
#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

#include <benchmark/benchmark.h>

#include "attend/target.h"
#include "bench/benchmarks.h"
#include "bench/support.h"

namespace attend::bench {
namespace {

struct Case {
  std::string name;
  std::size_t rows, columns;
  kernels::SoftmaxPrefetch prefetch = kernels::SoftmaxPrefetch::kAll;
  bool ragged = false;
  std::size_t apart = 0;  // floats from scores to output, modulo a page
  bool together = false;
};

void masked_softmax_rows(benchmark::State& state, std::int64_t target, const Case& c) {
  const std::size_t scores = c.rows * c.columns;
  constexpr std::size_t kPage = 4096 / sizeof(float);
  const std::size_t begin_of_output = (scores + kPage - 1) / kPage * kPage + c.apart;
  const AlignedFloats memory(begin_of_output + scores);
  float* const input = memory.data();
  float* const output = input + begin_of_output;
  for (std::size_t i = 0; i < scores; ++i) input[i] = static_cast<float>(i * 7919 % 2003) * 0.005f;
  std::vector<std::int32_t> lens;
  for (std::size_t r = 0; c.ragged && r < c.rows; ++r) {
    lens.push_back(static_cast<std::int32_t>(r * 7919 % (c.columns + 1)));
  }
  const std::size_t valid = lens.empty() ? scores : std::accumulate(lens.begin(), lens.end(), std::size_t{0});
  const kernels::MaskedSoftmaxKernels kernels = kernels::masked_softmax_kernels(target);
  const kernels::MaskedSoftmaxArgs args{.input = input,
                                        .input_stride = static_cast<std::ptrdiff_t>(c.columns),
                                        .output = output,
                                        .output_stride = static_cast<std::ptrdiff_t>(c.columns),
                                        .num_rows = c.rows,
                                        .num_columns = c.columns,
                                        .valid_lens = lens.empty() ? nullptr : lens.data(),
                                        .valid_lens_stride = 1,
                                        .prefetch = c.prefetch,
                                        .together = c.together};
  measure(state, [&] { kernels.rows(args); });
  // Elements per second, inverted; the console shows it as "285.1ps", JSON in seconds.
  state.counters["per_element"] = benchmark::Counter(
      static_cast<double>(valid), benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}

}  // namespace

void register_masked_softmax_benchmarks() {
  std::vector<Case> cases;
  for (const std::size_t columns : {64u, 1024u, 16384u}) {
    cases.push_back({.name = "r64_n" + std::to_string(columns), .rows = 64, .columns = columns});
  }
  for (const bool ragged : {false, true}) {
    for (const std::size_t columns : {128u, 1024u}) {
      const std::string name = "r4096_n" + std::to_string(columns) + (ragged ? "_lens" : "");
      Case c{.name = name, .rows = 4096, .columns = columns, .ragged = ragged};
      cases.push_back(c);
      c.name = name + "_breaks";
      c.prefetch = kernels::SoftmaxPrefetch::kBreaks;
      cases.push_back(c);
      c.name = name + "_near";
      c.apart = 16;
      cases.push_back(c);
      c.apart = 0;
      c.name = name + "_lines_l2";
      c.prefetch = kernels::SoftmaxPrefetch::kLinesIntoL2;
      cases.push_back(c);
    }
  }
  for (const Case& c : std::vector<Case>(cases)) {
    if (c.apart != 0 || c.prefetch != kernels::SoftmaxPrefetch::kAll) continue;
    cases.push_back(c);
    cases.back().name += "_together";
    cases.back().together = true;
  }
  Case half{.name = "r4096_n1024_half", .rows = 4096, .columns = 1024, .apart = 512};
  cases.push_back(half);
  half.name = "r4096_n1024_half_breaks";
  half.prefetch = kernels::SoftmaxPrefetch::kBreaks;
  cases.push_back(half);
  for (const Target& target : Target::available()) {
    for (const Case& c : cases) {
      benchmark::RegisterBenchmark(
          ("masked_softmax_rows/" + c.name + "/" + target.name()).c_str(),
          [id = target.id(), c](benchmark::State& state) { masked_softmax_rows(state, id, c); });
    }
  }
}

}  // namespace attend::bench
