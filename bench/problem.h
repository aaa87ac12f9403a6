// One attention problem, the same for every contender: layer, inputs, and the truth for a few of its rows.
#ifndef ATTEND_BENCH_PROBLEM_H_
#define ATTEND_BENCH_PROBLEM_H_

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <numeric>
#include <optional>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "attend/layers.h"
#include "attend/reference.h"
#include "attend/tensor.h"
#include "bench/dot_cases.h"
#include "bench/support.h"

namespace attend::bench {

struct Problem {
  Attention layer;
  Shape shape;
  AlignedTensor queries, keys, values;  // (B, M or N, ...), dense; keys and values without sizes: self-attention
  LengthsTensor valid_lens;             // (B) or (B, M); no sizes: all keys are valid
  Causal causal = Causal::kNone;
  // Heads that the views of a row of queries are split into, (B, H, M, D), and those of keys and values; 1: (B, M, D).
  std::int64_t split = 1, kv_split = 1;
  std::function<reference::Result(const Inputs&)> reference;
  mutable std::optional<reference::Result> truth = std::nullopt;
  mutable std::array<std::int32_t, 4> causal_lens{};

  Inputs inputs() const {
    Inputs in{.queries = heads(queries.view(), split), .keys = {}, .values = {}, .valid_lens = {}};
    if (!keys.sizes.empty()) in.keys = heads(keys.view(), kv_split);
    if (!values.sizes.empty()) in.values = heads(values.view(), kv_split);
    if (!valid_lens.sizes.empty()) in.valid_lens = valid_lens.view();
    return in;
  }

  bool has_lens_per_query() const { return valid_lens.sizes.size() == 2; }
  // Keys that any query of their entry sees, summed over the batch: rows that must be projected.
  std::int64_t visible_keys() const {
    if (valid_lens.sizes.empty()) return shape.batch * shape.num_keys;
    const std::size_t lens = has_lens_per_query() ? static_cast<std::size_t>(shape.num_queries) : 1;
    std::int64_t visible = 0;
    for (auto entry = valid_lens.data.begin(); entry != valid_lens.data.end();
         entry += static_cast<std::ptrdiff_t>(lens)) {
      visible += *std::max_element(entry, entry + static_cast<std::ptrdiff_t>(lens));
    }
    return visible;
  }
  // What any way of computing a dot product's attention must move: queries, valid keys and values read once, output and
  // weights (where returned) written once.
  double compulsory_bytes(bool attention_weights) const {
    const std::int64_t rows = shape.batch * shape.num_queries * shape.num_heads;
    const std::int64_t key_rows = visible_keys() * shape.num_kv_heads;
    const std::int64_t floats = rows * (shape.query_size + shape.value_size) +
                                key_rows * (shape.key_size + shape.value_size) +
                                (attention_weights ? rows * shape.num_keys : 0);
    return static_cast<double>(floats) * sizeof(float);
  }
  // (query, valid key) pairs of one head; causal: queries and keys as many.
  std::int64_t pairs() const {
    if (has_lens_per_query()) return std::accumulate(valid_lens.data.begin(), valid_lens.data.end(), std::int64_t{0});
    const std::int64_t all = shape.num_queries * visible_keys();
    return causal == Causal::kNone ? all : all / 2;
  }

  // max |output - truth in double| over four queries of batch entry 0, all heads: the first, or where the mask is
  // causal the last, which see the most keys.
  double max_error(TensorView<const float> output) const {
    if (!truth) truth = reference(checked_inputs());
    const TensorView<const float> rows = rows_of_entry(output, checked_begin(), checked_rows());
    double error = 0;
    std::size_t i = 0;
    const std::int64_t num_heads = rows.rank() == 4 ? rows.size(1) : 1;
    for (std::int64_t h = 0; h < num_heads; ++h) {
      for (std::int64_t m = 0; m < rows.size(-2); ++m) {
        for (std::int64_t n = 0; n < rows.size(-1); ++n, ++i) {
          const float* actual = rows.rank() == 4 ? rows.at(0, h, m, n) : rows.at(0, m, n);
          const double difference = std::abs(static_cast<double>(*actual) - truth->output[i]);
          error = std::isnan(difference) ? std::numeric_limits<double>::infinity() : std::max(error, difference);
        }
      }
    }
    return error;
  }

 private:
  TensorView<const float> heads(const TensorView<const float>& view, std::int64_t count) const {
    return split > 1 ? split_heads(view, count) : view;
  }
  std::int64_t checked_rows() const { return std::min<std::int64_t>(4, shape.num_queries); }
  std::int64_t checked_begin() const { return causal == Causal::kNone ? 0 : shape.num_queries - checked_rows(); }

  // Batch entry 0, `rows` of the axis before the innermost.
  static TensorView<const float> rows_of_entry(const TensorView<const float>& view, std::int64_t begin,
                                               std::int64_t rows) {
    std::vector<std::int64_t> sizes(view.sizes().begin(), view.sizes().end());
    sizes.front() = 1;
    sizes[sizes.size() - 2] = rows;
    return TensorView<const float>(view.data() + begin * view.stride(-2), std::span<const std::int64_t>(sizes),
                                   view.strides());
  }
  Inputs checked_inputs() const {
    const Inputs all = inputs();
    const TensorView<const float>& k = all.keys.empty() ? all.queries : all.keys;
    const TensorView<const float>& v = all.values.empty() ? k : all.values;
    Inputs in{.queries = rows_of_entry(all.queries, checked_begin(), checked_rows()),
              .keys = rows_of_entry(k, 0, k.size(-2)),
              .values = rows_of_entry(v, 0, v.size(-2)),
              .valid_lens = {}};
    if (has_lens_per_query()) {
      in.valid_lens = TensorView<const std::int32_t>(all.valid_lens.data(), {1, checked_rows()});
    } else if (!all.valid_lens.empty()) {
      in.valid_lens = TensorView<const std::int32_t>(all.valid_lens.data(), {1});
    }
    if (causal == Causal::kNone) return in;
    // The mask, said by lengths.
    for (std::int64_t i = 0; i < checked_rows(); ++i) {
      causal_lens[static_cast<std::size_t>(i)] = static_cast<std::int32_t>(shape.num_keys - checked_rows() + i + 1);
    }
    in.valid_lens = TensorView<const std::int32_t>(causal_lens.data(), {1, checked_rows()});
    return in;
  }
};

// None, one per batch entry or one per query.
inline LengthsTensor lengths_tensor(std::int64_t batch, std::int64_t m, const std::vector<std::int32_t>& lens) {
  if (lens.empty()) return {};
  if (lens.size() == static_cast<std::size_t>(batch)) return {{batch}, lens};
  return {{batch, m}, lens};
}

// Rows of (B, M, H * D), seen as heads in place, as a service holds them.
inline Problem dot_problem(const DotCase& c) {
  const auto [batch, heads, kv_heads, m, n, d] = std::tie(c.batch, c.heads, c.kv_heads, c.m, c.n, c.d);
  Problem problem{.layer = DotAttention(),
                  .shape = {.batch = batch,
                            .num_queries = m,
                            .num_keys = n,
                            .query_size = d,
                            .key_size = d,
                            .value_size = d,
                            .num_heads = heads,
                            .num_kv_heads = kv_heads},
                  .queries = random_tensor({batch, m, heads * d}, 1),
                  .keys = random_tensor({batch, n, kv_heads * d}, 2),
                  .values = random_tensor({batch, n, kv_heads * d}, 3),
                  .valid_lens = {},
                  .causal = c.causal,
                  .split = heads,
                  .kv_split = kv_heads,
                  .reference = [](const Inputs& in) { return reference::dot({}, in); }};
  problem.valid_lens = lengths_tensor(batch, m, c.lens);
  return problem;
}

// The same, scored by distances: sigma as large as those are on average, so that many keys count.
inline Problem gaussian_problem(const DotCase& c) {
  const GaussianOptions options{.sigma = std::sqrt(2.0f * static_cast<float>(c.d))};
  Problem problem = dot_problem(c);
  problem.layer = GaussianAttention(options);
  problem.reference = [options](const Inputs& in) { return reference::gaussian(options, in); };
  return problem;
}

// Query size 192, key and value size 256, as of the additive cases.
inline Problem bilinear_problem(std::int64_t batch, std::int64_t m, std::int64_t n) {
  const AlignedTensor W = random_tensor({192, 256}, 4, 0.01f);
  return {.layer = BilinearAttention({.W = W.view()}),
          .shape = {.batch = batch, .num_queries = m, .num_keys = n},
          .queries = random_tensor({batch, m, 192}, 1),
          .keys = random_tensor({batch, n, 256}, 2),
          .values = random_tensor({batch, n, 256}, 3),
          .valid_lens = {},
          .reference = [W](const Inputs& in) { return reference::bilinear({.W = W.view()}, {}, in); }};
}

// Parameters of the additive cases: query size 192, key and value size 256 (issue 3); scores of a few units.
struct AdditiveWeights {
  explicit AdditiveWeights(std::int64_t num_hiddens)
      : W_q(random_tensor({num_hiddens, 192}, 4, 0.07f)),
        W_k(random_tensor({num_hiddens, 256}, 5, 0.06f)),
        w_v(random_tensor({1, num_hiddens}, 6, 0.3f)) {}
  AdditiveParameters parameters() const {
    return {.W_q = W_q.view(), .W_k = W_k.view(), .w_v = w_v.view(), .b_q = {}, .b_k = {}};
  }
  AlignedTensor W_q, W_k, w_v;
};

inline Problem additive_problem(std::int64_t batch, std::int64_t m, std::int64_t n, std::int64_t num_hiddens,
                                const std::vector<std::int32_t>& lens = {}) {
  const AdditiveWeights weights(num_hiddens);
  Problem problem{.layer = AdditiveAttention(weights.parameters()),
                  .shape = {.batch = batch, .num_queries = m, .num_keys = n},
                  .queries = random_tensor({batch, m, 192}, 1),
                  .keys = random_tensor({batch, n, 256}, 2),
                  .values = random_tensor({batch, n, 256}, 3),
                  .valid_lens = {},
                  .split = 1,
                  .reference = [weights](const Inputs& in) { return reference::additive(weights.parameters(), in); }};
  problem.valid_lens = lengths_tensor(batch, m, lens);
  return problem;
}

}  // namespace attend::bench

#endif  // ATTEND_BENCH_PROBLEM_H_
