#include "bench/layers/layer_cases.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <memory>
#include <span>

#include "attend/layers.h"
#include "attend/masked_softmax.h"
#include "attend/reference.h"
#include "bench/support.h"

namespace attend::bench {
namespace {

struct MultiHeadWeights {
  explicit MultiHeadWeights(std::int64_t size)
      : W_q(matrix(size, 11)),
        W_k(matrix(size, 12)),
        W_v(matrix(size, 13)),
        W_o(matrix(size, 14)),
        b(random_tensor({size}, 15, 0.1f)) {}
  static AlignedTensor matrix(std::int64_t size, std::uint64_t seed) {
    return random_tensor({size, size}, seed, 1.0f / std::sqrt(static_cast<float>(size)));
  }
  MultiHeadParameters parameters() const {
    return {.W_q = W_q.view(),
            .W_k = W_k.view(),
            .W_v = W_v.view(),
            .W_o = W_o.view(),
            .b_q = b.view(),
            .b_k = b.view(),
            .b_v = b.view(),
            .b_o = b.view(),
            .w_v = {}};
  }
  AlignedTensor W_q, W_k, W_v, W_o, b;
};

// The formula of the other libraries' lengths (layers_bench.cc).
std::vector<std::int32_t> spread_lens(std::int64_t count, std::int64_t num_keys) {
  std::vector<std::int32_t> lens;
  for (std::int64_t i = 0; i < count; ++i) lens.push_back(static_cast<std::int32_t>(1 + (i * 7919 + 6131) % num_keys));
  return lens;
}

}  // namespace

void count_dot(benchmark::State& state, const Problem& problem, const PlanOptions& options) {
  const std::int64_t row = problem.shape.num_heads * problem.shape.query_size;
  const double flops = 4.0 * static_cast<double>(row * problem.pairs());
  count_flops(state, flops, options.target, options.threads);
  count_intensity(state, flops, problem.compulsory_bytes(options.attention_weights));
}

void count_bilinear(benchmark::State& state, const Problem& problem, const PlanOptions& options) {
  const std::int64_t queries = problem.queries.sizes[2], keys = problem.keys.sizes[2], values = problem.values.sizes[2];
  const std::int64_t rows = problem.shape.batch * problem.shape.num_queries;
  count_flops(state, 2.0 * static_cast<double>(problem.pairs() * (keys + values) + rows * queries * keys),
              options.target, options.threads);
}

void count_decode(benchmark::State& state, const Problem& problem, const PlanOptions& options) {
  count_dot(state, problem, options);
  const std::int64_t row = problem.shape.num_kv_heads * (problem.shape.key_size + problem.shape.value_size);
  count_bytes(state, static_cast<double>(row * problem.visible_keys()) * sizeof(float), options.threads);
}

Problem multi_head_problem(std::int64_t batch, std::int64_t length, std::int64_t size, std::int64_t heads,
                           const std::vector<std::int32_t>& lens) {
  const auto weights = std::make_shared<const MultiHeadWeights>(size);
  const MultiHeadOptions options{.num_heads = heads, .scoring = Scoring::kDot, .scale = {}};
  Problem problem{
      .layer = MultiHeadAttention(options, weights->parameters()),
      .shape = {.batch = batch, .num_queries = length, .num_keys = length},
      .queries = random_tensor({batch, length, size}, 1),
      .keys = {},
      .values = {},
      .valid_lens = {},
      .split = 1,
      .reference = [=](const Inputs& in) { return reference::multi_head(options, weights->parameters(), in); }};
  if (!lens.empty()) problem.valid_lens = {{batch}, lens};
  return problem;
}

void count_multi_head(benchmark::State& state, const Problem& problem, const PlanOptions& options) {
  const double size = static_cast<double>(problem.queries.sizes[2]);
  const bool skips = options.padding == Padding::kSkipQueries;
  double pairs = static_cast<double>(problem.pairs());
  if (skips) {
    pairs = 0;
    for (const std::int32_t len : problem.valid_lens.data) pairs += static_cast<double>(len) * static_cast<double>(len);
  }
  const std::int64_t queries = skips ? problem.visible_keys() : problem.shape.batch * problem.shape.num_queries;
  const double rows = static_cast<double>(queries + problem.visible_keys());
  const double flops = 4 * size * size * rows + 4 * size * pairs;
  count_flops(state, flops, options.target, options.threads);
  // Rows that are computed and written (the rest is zeros), and four maps.
  const double outputs = static_cast<double>(problem.shape.batch * problem.shape.num_queries);
  count_intensity(state, flops, sizeof(float) * (size * (static_cast<double>(queries) + outputs) + 4 * size * size));
}

void run_masked_softmax(benchmark::State& state, const Target& target, std::int64_t rows, std::int64_t columns,
                        bool with_lens) {
  const std::int64_t batch = 32, queries = rows / batch;
  const AlignedTensor scores = random_tensor({batch, queries, columns}, 1, 3.0f);
  AlignedTensor weights{scores.sizes, AlignedVector(scores.data.size())};
  const LengthsTensor lens{{batch, queries}, spread_lens(rows, columns)};
  TensorView<const std::int32_t> valid_lens;
  if (with_lens) valid_lens = lens.view();
  measure(state,
          [&] { masked_softmax(scores.view(), valid_lens, weights.view(), {.target = target, .executor = nullptr}); });
  double valid = 0, error = 0;
  for (const std::int32_t len : lens.data) valid += with_lens ? len : static_cast<double>(columns);
  const std::int64_t checked = std::min<std::int64_t>(queries, 4);
  const std::vector<std::int64_t> sizes = {1, checked, columns};
  const TensorView<const float> first(scores.data.data(), std::span<const std::int64_t>(sizes));
  const std::vector<double> truth =
      reference::masked_softmax(first, with_lens ? TensorView<const std::int32_t>(lens.data.data(), {1, checked})
                                                 : TensorView<const std::int32_t>());
  for (std::size_t i = 0; i < truth.size(); ++i) error = std::max(error, std::abs(weights.data[i] - truth[i]));
  count_bytes(state, (valid + static_cast<double>(rows * columns)) * sizeof(float));
  state.counters["per_element"] = seconds_each(valid);
  state.counters["max_error"] = error;
}

}  // namespace attend::bench
