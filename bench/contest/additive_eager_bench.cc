// additive_eager/*: additive attention as the textbooks and eager frameworks run it, one operator after another over
// whole tensors, each by what oneDNN offers for it: projections, features (B, M, N, U) = queries + keys written to
// memory, tanh over all of them in place, their products with w_v, softmax, weights times values. With lengths padded
// keys take part in all of it, but their scores are replaced before the softmax. One thread; memory and primitives made
// and weights packed beforehand.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <benchmark/benchmark.h>

#include "bench/additive.h"
#include "bench/benchmarks.h"
#include "bench/contest/onednn.h"
#include "bench/problem.h"
#include "bench/support.h"

namespace attend::bench {
namespace {

// features[b][m][n] = queries[b][m] + keys[b][n]. The compiler's loop, 33 ms for 268 MB: oneDNN's binary primitive
// took 40 ms over one query's (N, U) at a time, and 4.7 s for the whole, since where both operands are broadcast it has
// its reference implementation only.
void make_features(const AdditiveCase& c, const float* queries, const float* keys, float* features) {
  for (std::int64_t b = 0; b < c.batch; ++b) {
    for (std::int64_t m = 0; m < c.num_queries; ++m) {
      const float* query = queries + (b * c.num_queries + m) * c.num_hiddens;
      for (std::int64_t n = 0; n < c.num_keys; ++n, features += c.num_hiddens) {
        const float* key = keys + (b * c.num_keys + n) * c.num_hiddens;
        for (std::int64_t u = 0; u < c.num_hiddens; ++u) features[u] = query[u] + key[u];
      }
    }
  }
}

// scores[b][m][n] = -1e6 for n >= valid_lens[b], as the textbooks' masked softmax does.
void mask(const AdditiveCase& c, const LengthsTensor& valid_lens, float* scores) {
  for (std::int64_t b = 0; b < c.batch; ++b) {
    const std::int64_t len = valid_lens.data[static_cast<std::size_t>(b)];
    for (std::int64_t m = 0; m < c.num_queries; ++m, scores += c.num_keys) {
      std::fill(scores + len, scores + c.num_keys, -1e6f);
    }
  }
}

void additive_eager(benchmark::State& state, const AdditiveCase& c, const Problem& problem) {
  using onednn::Operand;
  const AdditiveWeights weights(c.num_hiddens);
  const std::int64_t query_size = problem.queries.sizes[2], key_size = problem.keys.sizes[2],
                     value_size = problem.values.sizes[2];
  const std::int64_t query_rows = c.batch * c.num_queries, key_rows = c.batch * c.num_keys;
  const std::int64_t pairs = query_rows * c.num_keys;
  const AlignedFloats queries(static_cast<std::size_t>(query_rows * c.num_hiddens)),
      keys(static_cast<std::size_t>(key_rows * c.num_hiddens)),
      features(static_cast<std::size_t>(pairs * c.num_hiddens)), scores(static_cast<std::size_t>(pairs)),
      output(static_cast<std::size_t>(query_rows * value_size));

  const Operand projected_queries{queries.data(), {query_rows, c.num_hiddens}};
  const Operand projected_keys{keys.data(), {key_rows, c.num_hiddens}};
  const Operand all_features{features.data(), {pairs, c.num_hiddens}};
  const auto project_queries =
      onednn::linear({problem.queries.data.data(), {query_rows, query_size}},
                     {weights.W_q.data.data(), {c.num_hiddens, query_size}}, projected_queries);
  const auto project_keys = onednn::linear({problem.keys.data.data(), {key_rows, key_size}},
                                           {weights.W_k.data.data(), {c.num_hiddens, key_size}}, projected_keys);
  const auto tanh = onednn::tanh(all_features);
  const auto score =
      onednn::linear(all_features, {weights.w_v.data.data(), {1, c.num_hiddens}}, {scores.data(), {pairs, 1}});
  const auto softmax = onednn::softmax({scores.data(), {query_rows, c.num_keys}});
  const auto pool = onednn::matmul({scores.data(), {c.batch, c.num_queries, c.num_keys}},
                                   {problem.values.data.data(), {c.batch, c.num_keys, value_size}},
                                   {output.data(), {c.batch, c.num_queries, value_size}});
  measure(state, [&] {
    project_queries.run();
    project_keys.run();
    make_features(c, queries.data(), keys.data(), features.data());
    tanh.run();
    score.run();
    if (!problem.valid_lens.data.empty()) mask(c, problem.valid_lens, scores.data());
    softmax.run();
    pool.run();
  });
  count_additive(state, problem, c.num_hiddens, Target::best());
  state.counters["workspace"] = bytes((queries.size() + keys.size() + features.size() + scores.size()) * sizeof(float));
  state.counters["max_error"] =
      problem.max_error(TensorView<const float>(output.data(), {c.batch, c.num_queries, value_size}));
  state.SetLabel(project_keys.implementation + ", compiler, " + tanh.implementation + ", " + score.implementation +
                 ", " + softmax.implementation + ", " + pool.implementation);
}

}  // namespace

void register_additive_eager_benchmarks() {
  for (const AdditiveCase& c : kAdditiveCases) {
    for (const bool lens : {false, true}) {
      const auto problem = std::make_shared<Lazy<Problem>>();
      const auto make = [&c, lens] { return lens ? padded_additive_problem(c) : additive_problem(c); };
      register_case(std::string("additive_eager/") + c.name + (lens ? "_lens" : ""), "oneDNN",
                    [&c, problem, make](benchmark::State& state) { additive_eager(state, c, problem->get(make)); })
          ->Unit(benchmark::kMicrosecond);
    }
  }
}

}  // namespace attend::bench
