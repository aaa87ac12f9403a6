// dot_materialised/*: attention from three oneDNN primitives, as a user of that library writes it: all scores of a head
// by one matmul (scale as a post-op), softmax over them, weights times values by another matmul. One thread. Heads are
// copied into (H, M, D) beforehand, untimed: in that layout oneDNN is at its best. Scores of one head at a time, so
// that they stay in L2.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <benchmark/benchmark.h>

#include "bench/benchmarks.h"
#include "bench/contest/onednn.h"
#include "bench/problem.h"
#include "bench/support.h"

namespace attend::bench {
namespace {

// (M, H * D) to (H, M, D).
std::vector<float> heads_first(const Tensor& rows, std::int64_t heads, std::int64_t size) {
  const TensorView<const float> split = split_heads(rows.view(), heads);
  std::vector<float> copy;
  for (std::int64_t h = 0; h < heads; ++h) {
    for (std::int64_t m = 0; m < split.size(2); ++m)
      copy.insert(copy.end(), split.at(0, h, m), split.at(0, h, m) + size);
  }
  return copy;
}

void dot_materialised(benchmark::State& state, const Problem& problem) {
  const Shape& shape = problem.shape;
  const std::int64_t heads = shape.num_heads, m = shape.num_queries, n = shape.num_keys, d = shape.query_size;
  const float scale = 1.0f / std::sqrt(static_cast<float>(d));
  const std::vector<float> queries = heads_first(problem.queries, heads, d), keys = heads_first(problem.keys, heads, d),
                           values = heads_first(problem.values, heads, d);
  std::vector<float> output(queries.size()), scores(static_cast<std::size_t>(m * n));
  const onednn::Operand score{scores.data(), {m, n}};
  std::vector<onednn::Primitive> steps;
  for (std::int64_t h = 0; h < heads; ++h) {
    const onednn::Operand q{queries.data() + h * m * d, {m, d}}, k{keys.data() + h * n * d, {n, d}};
    const onednn::Operand v{values.data() + h * n * d, {n, d}}, o{output.data() + h * m * d, {m, d}};
    steps.push_back(onednn::matmul_transposed(q, k, score, scale));
    steps.push_back(onednn::softmax(score));
    steps.push_back(onednn::matmul(score, v, o));
  }
  for (auto _ : state) {
    for (const onednn::Primitive& step : steps) step.run();
    benchmark::ClobberMemory();
  }
  state.SetLabel(steps[0].implementation + ", " + steps[1].implementation + ", " + steps[2].implementation);
  count_flops(state, 4.0 * static_cast<double>(heads * d * problem.pairs()), Target::best());
  state.counters["max_error"] = problem.max_error(TensorView<const float>(output.data(), {1, heads, m, d}));
}

}  // namespace

void register_dnnl_materialised_benchmarks() {
  const auto problem = std::make_shared<Lazy<Problem>>();
  register_case("dot_materialised/b1_h12_m512_n512_d64", "oneDNN", [problem](benchmark::State& state) {
    dot_materialised(state, problem->get([] { return dot_problem(1, 12, 512, 512, 64); }));
  })->Unit(benchmark::kMicrosecond);
}

}  // namespace attend::bench
