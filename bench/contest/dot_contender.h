// What libraries that contend with dot/* share: heads copied one after the other, a mask of numbers to add, counters
// and cases.
#ifndef ATTEND_BENCH_CONTEST_DOT_CONTENDER_H_
#define ATTEND_BENCH_CONTEST_DOT_CONTENDER_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>

#include <benchmark/benchmark.h>

#include "attend/target.h"
#include "attend/tensor.h"
#include "bench/problem.h"
#include "bench/support.h"

namespace attend::bench {

// (B, M, H * D) to (B, H, M, D).
inline AlignedVector heads_first(const AlignedTensor& rows, std::int64_t heads, std::int64_t size) {
  const TensorView<const float> split = split_heads(rows.view(), heads);
  AlignedVector copy;
  for (std::int64_t b = 0; b < split.size(0); ++b) {
    for (std::int64_t h = 0; h < heads; ++h) {
      for (std::int64_t m = 0; m < split.size(2); ++m)
        copy.insert(copy.end(), split.at(b, h, m), split.at(b, h, m) + size);
    }
  }
  return copy;
}

// What is added to the scores: 0 where row i of the problem sees key j, else -inf. Lengths: a row per batch entry,
// (B, 1, N), which all queries share; causal: (1, M, N), which all heads share; else nothing.
inline AlignedVector score_mask(const Problem& problem) {
  const std::int64_t m = problem.shape.num_queries, n = problem.shape.num_keys;
  AlignedVector mask;
  const auto add_row = [&](std::int64_t len) {
    mask.insert(mask.end(), static_cast<std::size_t>(len), 0.0f);
    mask.insert(mask.end(), static_cast<std::size_t>(n - len), -std::numeric_limits<float>::infinity());
  };
  for (const std::int32_t len : problem.valid_lens.data) add_row(len);
  for (std::int64_t i = 0; problem.causal != Causal::kNone && i < m; ++i) add_row(n - m + i + 1);
  return mask;
}

// Counters of a run that wrote `output`, (B, H, M, D).
inline void report_dot_contender(benchmark::State& state, const Problem& problem, const AlignedVector& output) {
  const Shape& shape = problem.shape;
  const double flops = 4.0 * static_cast<double>(shape.num_heads * shape.query_size * problem.pairs());
  count_flops(state, flops, Target::best());
  count_intensity(state, flops, problem.compulsory_bytes(false));
  state.counters["max_error"] = problem.max_error(
      TensorView<const float>(output.data(), {shape.batch, shape.num_heads, shape.num_queries, shape.query_size}));
}

// family/CASE/oneDNN for all cases of dot/*, each by run(state, problem).
template <class Run>
void register_dot_contender(const std::string& family, const Run& run) {
  for (const NamedDotCase& c : dot_cases()) {
    const auto problem = std::make_shared<Lazy<Problem>>();
    register_case(family + "/" + c.name, "oneDNN", [problem, c, run](benchmark::State& state) {
      run(state, problem->get([&] { return dot_problem(c.problem); }));
    })->Unit(benchmark::kMicrosecond);
  }
}

}  // namespace attend::bench

#endif  // ATTEND_BENCH_CONTEST_DOT_CONTENDER_H_
