// dot_materialised/*: attention from three oneDNN primitives, as a user of that library writes it: all scores of a head
// by one matmul (scale as a post-op), softmax over them, weights times values by another matmul. One thread. Heads are
// copied into (B, H, M, D) beforehand, untimed: in that layout oneDNN is at its best. Scores of one head at a time, so
// that they stay in L2. oneDNN knows neither lengths nor causal masks: all keys are computed, and a mask of 0 and -inf,
// made beforehand, is added to the scores, as a post-op of the matmul too.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <benchmark/benchmark.h>

#include "bench/benchmarks.h"
#include "bench/contest/dot_contender.h"
#include "bench/contest/onednn.h"
#include "bench/problem.h"
#include "bench/support.h"

namespace attend::bench {
namespace {

// Query heads that share a key-value head are folded: their rows are one matrix. Not where there is a causal mask, of
// which the matrix would need a copy per head.
void dot_materialised(benchmark::State& state, const Problem& problem) {
  const Shape& shape = problem.shape;
  const bool causal = problem.causal != Causal::kNone, padded = !problem.valid_lens.data.empty();
  const std::int64_t sharing = shape.num_heads / shape.num_kv_heads, folded = causal ? 1 : sharing;
  const std::int64_t products = shape.batch * shape.num_heads / folded;
  const std::int64_t m = shape.num_queries * folded, n = shape.num_keys, d = shape.query_size;
  const float scale = 1.0f / std::sqrt(static_cast<float>(d));
  const AlignedVector queries = heads_first(problem.queries, shape.num_heads, d),
                      keys = heads_first(problem.keys, shape.num_kv_heads, d),
                      values = heads_first(problem.values, shape.num_kv_heads, d);
  AlignedVector output(queries.size()), scores(static_cast<std::size_t>(m * n));
  const AlignedVector mask = score_mask(problem);
  const onednn::Operand score{scores.data(), {m, n}};
  std::vector<onednn::Primitive> steps;
  for (std::int64_t i = 0; i < products; ++i) {
    const std::int64_t kv = i * folded / sharing, b = kv / shape.num_kv_heads;
    const onednn::Operand q{queries.data() + i * m * d, {m, d}}, k{keys.data() + kv * n * d, {n, d}};
    const onednn::Operand v{values.data() + kv * n * d, {n, d}}, o{output.data() + i * m * d, {m, d}};
    const onednn::Operand addend{mask.data() + (padded ? b * n : 0), {causal ? m : 1, n}};
    steps.push_back(onednn::matmul_transposed(q, k, score, scale, mask.empty() ? nullptr : &addend));
    steps.push_back(onednn::softmax(score));
    steps.push_back(onednn::matmul(score, v, o));
  }
  measure(state, [&] {
    for (const onednn::Primitive& step : steps) step.run();
  });
  state.SetLabel(steps[0].implementation + ", " + steps[1].implementation + ", " + steps[2].implementation);
  report_dot_contender(state, problem, output);
}

}  // namespace

void register_dnnl_materialised_benchmarks() { register_dot_contender("dot_materialised", dot_materialised); }

}  // namespace attend::bench
