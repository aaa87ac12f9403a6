// dot_graph/*: attention by oneDNN's Graph, as a user of that library writes it: two products, scale, softmax and an
// added mask of 0 and -inf, made beforehand, which the Graph takes for one operation. Where oneDNN has a Graph (3.x).
// One thread. Heads are copied into (B, H, M, D) beforehand, untimed. It knows no lengths and computes all keys.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <vector>

#include <benchmark/benchmark.h>

#include "bench/benchmarks.h"
#include "bench/contest/dot_contender.h"
#include "bench/contest/onednn.h"
#include "bench/problem.h"
#include "bench/support.h"

namespace attend::bench {
namespace {

// One query: heads that share keys are rows of one head, folded. More: they stand in an axis of their own.
void dot_graph(benchmark::State& state, const Problem& problem) {
  const Shape& shape = problem.shape;
  const bool causal = problem.causal != Causal::kNone;
  const std::int64_t batch = shape.batch, kv = shape.num_kv_heads, sharing = shape.num_heads / kv;
  const std::int64_t m = shape.num_queries, n = shape.num_keys, d = shape.query_size;
  const AlignedVector queries = heads_first(problem.queries, shape.num_heads, d),
                      keys = heads_first(problem.keys, kv, d), values = heads_first(problem.values, kv, d);
  AlignedVector output(queries.size());
  const AlignedVector mask = score_mask(problem);
  std::vector<std::int64_t> rows = {batch, kv, sharing * m, d}, key_rows = {batch, kv, n, d};
  std::vector<std::int64_t> mask_rows = {causal ? 1 : batch, 1, causal ? m : 1, n};
  if (sharing > 1 && m > 1) {
    rows = {batch, kv, sharing, m, d};
    key_rows = {batch, kv, 1, n, d};
    mask_rows.insert(mask_rows.begin() + 1, 1);
  }
  const onednn::Operand addend{mask.data(), mask_rows};
  onednn::Primitive attention;
  try {
    attention = onednn::attention({queries.data(), rows}, {keys.data(), key_rows}, {values.data(), key_rows},
                                  mask.empty() ? nullptr : &addend, {output.data(), rows},
                                  1.0f / std::sqrt(static_cast<float>(d)));
  } catch (const std::exception& refusal) {
    state.SkipWithError(refusal.what());
    return;
  }
  measure(state, attention.run);
  state.SetLabel(attention.implementation);
  report_dot_contender(state, problem, output);
}

}  // namespace

void register_dnnl_graph_benchmarks() {
  if (onednn::has_graph()) register_dot_contender("dot_graph", dot_graph);
}

}  // namespace attend::bench
