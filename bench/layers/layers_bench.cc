// Whole layers on one thread, planned once, run many times: dot/*, multi_head/*, overhead/*; and masked_softmax/*.
// Shapes and lengths are those of issue 4 and of the peers' workloads.json, so that numbers can be set side by side.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <benchmark/benchmark.h>

#include "attend/layers.h"
#include "attend/masked_softmax.h"
#include "attend/plan.h"
#include "attend/reference.h"
#include "bench/benchmarks.h"
#include "bench/layers/run_layer.h"
#include "bench/problem.h"
#include "bench/support.h"

namespace attend::bench {
namespace {

// The lengths that other libraries are measured with on the same cases.
const std::vector<std::int32_t> kLensB8N512 = {383, 148, 511, 77, 290, 26, 441, 212};
const std::vector<std::int32_t> kLensB8S128 = {128, 90, 17, 64, 121, 33, 105, 71};
const std::vector<std::int32_t> kLensB1S512 = {387};
const std::vector<std::int32_t> kLensB32S32 = {32, 7,  19, 25, 3,  30, 14, 22, 9,  28, 17, 11, 31, 5,  24, 13,
                                               20, 27, 2,  16, 29, 8,  23, 12, 18, 26, 6,  21, 10, 15, 4,  1};

// The same formula for lengths that are not listed.
std::vector<std::int32_t> spread_lens(std::int64_t count, std::int64_t num_keys) {
  std::vector<std::int32_t> lens;
  for (std::int64_t i = 0; i < count; ++i) lens.push_back(static_cast<std::int32_t>(1 + (i * 7919 + 6131) % num_keys));
  return lens;
}

// Two products over the visible pairs: 4 H D sum_b(M len_b), half of it where the mask is causal. Softmax is not
// counted.
void count_dot(benchmark::State& state, const Problem& problem, const PlanOptions& options) {
  const std::int64_t row = problem.shape.num_heads * problem.shape.query_size;
  count_flops(state, 4.0 * static_cast<double>(row * problem.pairs()), options.target);
}

// One query: keys and values are read once, and nothing else takes time.
void count_decode(benchmark::State& state, const Problem& problem, const PlanOptions&) {
  const std::int64_t row = problem.shape.num_kv_heads * (problem.shape.key_size + problem.shape.value_size);
  count_bytes(state, static_cast<double>(row * problem.visible_keys()) * sizeof(float));
}

void register_dot() {
  struct Case {
    const char* name;
    DotCase problem;
  };
  // {batch, heads, kv_heads, m, n, d}
  const Case cases[] = {{"b1_h12_m512_n512_d64", {1, 12, 12, 512, 512, 64}},
                        {"b1_h32_kv8_m2048_n2048_d128_causal", {1, 32, 8, 2048, 2048, 128, Causal::kBottomRight}},
                        {"b1_h32_kv8_m2048_n2048_d128", {1, 32, 8, 2048, 2048, 128}},
                        {"b8_h12_m512_n512_d64_lens", {8, 12, 12, 512, 512, 64, Causal::kNone, kLensB8N512}},
                        {"b64_h8_m32_n32_d64", {64, 8, 8, 32, 32, 64}},
                        {"b4_h8_m16_n1024_d64", {4, 8, 8, 16, 1024, 64}},
                        {"b1_h32_kv8_m1_n4096_d128", {1, 32, 8, 1, 4096, 128}},
                        {"b8_h32_kv8_m1_n1024_d128", {8, 32, 8, 1, 1024, 128}}};
  for (const Case& c : cases) {
    const std::string name = std::string("dot/") + c.name;
    const SharedProblem problem = shared_problem([c] { return dot_problem(c.problem); });
    const Count count = c.problem.m == 1 ? count_decode : count_dot;
    for (const int threads : {1, 2}) {
      const PlanOptions options{.threads = threads, .causal = c.problem.causal};
      register_layer(name + (threads > 1 ? "_threads2" : ""), options, problem, count);
    }
    register_layer(name + "_weights", {.attention_weights = true, .causal = c.problem.causal}, problem, count);
  }
  // What a run costs beyond its arithmetic: 8 queries and keys of size 8.
  register_layer("overhead/1x1x8x8", {}, shared_problem([] { return dot_problem({1, 1, 1, 8, 8, 8}); }), count_dot);
}

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

// Queries and output: 4 E^2 per computed query row; keys and values: 4 E^2 per valid key; pooling as in dot with H D =
// E. The share is of the best target's peak, whatever the plan's: of E = 512 the projections are oneDNN's, which
// chooses for itself.
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
  count_flops(state, 4 * size * size * rows + 4 * size * pairs, Target::best());
}

void register_multi_head() {
  struct Case {
    const char* name;
    std::int64_t batch, length, size, heads;
    std::vector<std::int32_t> lens;
  };
  const Case cases[] = {{"b8_s128_e768_h12", 8, 128, 768, 12, kLensB8S128},
                        {"b1_s512_e768_h12", 1, 512, 768, 12, kLensB1S512},
                        {"b32_s32_e512_h8", 32, 32, 512, 8, kLensB32S32}};
  for (const Case& c : cases) {
    const std::string name = std::string("multi_head/") + c.name;
    const auto problem = [c](bool lens) {
      return shared_problem([c, lens] {
        return multi_head_problem(c.batch, c.length, c.size, c.heads, lens ? c.lens : std::vector<std::int32_t>{});
      });
    };
    const SharedProblem full = problem(false), padded = problem(true);
    register_layer(name, {}, full, count_multi_head);
    register_layer(name + "_threads2", {.threads = 2}, full, count_multi_head);
    register_layer(name + "_lens", {}, padded, count_multi_head);
    register_layer(name + "_ragged", {.padding = Padding::kSkipQueries}, padded, count_multi_head);
  }
}

// The operation on its own, (32, 128, N) scores, not in place. GB: valid scores read and all N written, per second.
void run_masked_softmax(benchmark::State& state, const Target& target, std::int64_t columns, bool with_lens) {
  constexpr std::int64_t kBatch = 32, kQueries = 128, kRows = kBatch * kQueries;
  const AlignedTensor scores = random_tensor({kBatch, kQueries, columns}, 1, 3.0f);
  AlignedTensor weights{scores.sizes, AlignedVector(scores.data.size())};
  const LengthsTensor lens{{kBatch, kQueries}, spread_lens(kRows, columns)};
  TensorView<const std::int32_t> valid_lens;
  if (with_lens) valid_lens = lens.view();
  for (auto _ : state) {
    masked_softmax(scores.view(), valid_lens, weights.view(), {.target = target, .executor = nullptr});
    benchmark::ClobberMemory();
  }
  double valid = 0, error = 0;
  for (const std::int32_t len : lens.data) valid += with_lens ? len : static_cast<double>(columns);
  const std::vector<std::int64_t> first = {1, 4, columns};
  const TensorView<const float> rows(scores.data.data(), std::span<const std::int64_t>(first));
  const std::vector<double> truth = reference::masked_softmax(
      rows, with_lens ? TensorView<const std::int32_t>(lens.data.data(), {1, 4}) : TensorView<const std::int32_t>());
  for (std::size_t i = 0; i < truth.size(); ++i) error = std::max(error, std::abs(weights.data[i] - truth[i]));
  state.counters["GB"] = per_second((valid + static_cast<double>(kRows * columns)) * sizeof(float) * 1e-9);
  state.counters["per_element"] = seconds_each(valid);
  state.counters["max_error"] = error;
}

void register_masked_softmax() {
  for (const std::int64_t columns : {1024, 128}) {
    for (const bool lens : {false, true}) {
      for (const Target& target : Target::available()) {
        register_case("masked_softmax/r4096_n" + std::to_string(columns) + (lens ? "_lens" : ""), target.name(),
                      [=](benchmark::State& state) { run_masked_softmax(state, target, columns, lens); })
            ->Unit(benchmark::kMicrosecond);
      }
    }
  }
}

}  // namespace

void register_layer_benchmarks() {
  register_dot();
  register_multi_head();
  register_masked_softmax();
}

}  // namespace attend::bench
