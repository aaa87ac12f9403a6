// One problem for any of the layers, built from a few numbers: parameters, inputs, the layer, the truth and how far
// from it a result may be. Contract tests loop over kAllLayers instead of repeating themselves.
#ifndef ATTEND_TESTS_SUPPORT_LAYER_CASES_H_
#define ATTEND_TESTS_SUPPORT_LAYER_CASES_H_

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "attend/layers.h"
#include "attend/plan.h"
#include "attend/reference.h"
#include "attend/tensor.h"
#include "tests/support/compare.h"
#include "tests/support/random.h"

namespace attend::tests {

enum class Layer { kAdditive, kDot, kDotHeads, kBilinear, kGaussian, kGaussianHeads, kMultiHead, kMultiHeadAdditive };

// kDotHeads and kGaussianHeads take views that are split into heads already, (B, H, M, D).
inline constexpr Layer kAllLayers[] = {
    Layer::kAdditive, Layer::kDot,           Layer::kDotHeads,  Layer::kBilinear,
    Layer::kGaussian, Layer::kGaussianHeads, Layer::kMultiHead, Layer::kMultiHeadAdditive};

inline std::string layer_name(Layer layer) {
  constexpr const char* kNames[] = {"additive",          "dot",        "dot on heads",       "bilinear", "gaussian",
                                    "gaussian on heads", "multi-head", "multi-head additive"};
  return kNames[static_cast<int>(layer)];
}

enum class Lens { kNone, kPerBatch, kPerQuery };
inline constexpr Lens kAllLens[] = {Lens::kNone, Lens::kPerBatch, Lens::kPerQuery};

struct CaseSpec {
  Layer layer = Layer::kDot;
  std::int64_t batch = 2, num_queries = 3, num_keys = 9;
  std::int64_t size = 8;          // of queries
  std::int64_t value_size = 5;    // of values
  std::int64_t num_hiddens = 12;  // U; for multi-head H * D, a multiple of num_heads
  std::int64_t num_heads = 3;
  std::int64_t num_kv_heads = 0;  // of keys and values of kDotHeads, kGaussianHeads and kMultiHead; 0: num_heads
  Causal causal = Causal::kNone;
  Padding padding = Padding::kCompute;
  Pairs pairs = Pairs::kWhereFaster;
  Parts parts = Parts::kWhereFaster;
  Lens lens = Lens::kPerBatch;
  std::int64_t min_len = 0;
  float spread = 1;
  bool same_sizes = false;  // keys and values have the queries' size: what self-attention needs
  bool biases = true;
  std::uint64_t seed = 1;
};

// Error of an f32 product W x + b against the exact one, over the given rows: rounding errors add up like a random
// walk.
inline double projection_error(const Tensor& weight, const Tensor& rows) {
  double largest = 0;
  const std::int64_t columns = weight.sizes[1];
  for (std::size_t row = 0; row + static_cast<std::size_t>(columns) <= rows.data.size();
       row += static_cast<std::size_t>(columns)) {
    for (std::size_t i = 0; i < weight.data.size(); i += static_cast<std::size_t>(columns)) {
      double sum = 0;
      for (std::size_t j = 0; j < static_cast<std::size_t>(columns); ++j) {
        const double term = static_cast<double>(weight.data[i + j]) * static_cast<double>(rows.data[row + j]);
        sum += term * term;
      }
      largest = std::max(largest, sum);
    }
  }
  return 6e-8 * (1 + std::sqrt(static_cast<double>(columns)) / 2) * std::sqrt(largest);
}

inline double max_abs(const Tensor& tensor) {
  double largest = 0;
  for (const float x : tensor.data) largest = std::max(largest, std::abs(static_cast<double>(x)));
  return largest;
}

inline double max_row_sum(const Tensor& weight) {
  double largest = 0;
  const std::size_t columns = static_cast<std::size_t>(weight.sizes.back());
  for (std::size_t i = 0; i < weight.data.size(); i += columns) {
    double sum = 0;
    for (std::size_t j = 0; j < columns; ++j) sum += std::abs(static_cast<double>(weight.data[i + j]));
    largest = std::max(largest, sum);
  }
  return largest;
}

class LayerCase {
 public:
  explicit LayerCase(const CaseSpec& s) : spec(s), weights(make_weights(s)), attention(make_attention()) {
    Random random(s.seed + 1000);
    const std::int64_t key_size = this->key_size();
    const std::int64_t value_size = this->value_size();
    queries = random.normal(rows(s.num_heads, s.num_queries, s.size), s.spread);
    keys = random.normal(rows(kv_heads(s), s.num_keys, key_size), s.spread);
    values = random.normal(rows(kv_heads(s), s.num_keys, value_size));
    if (s.lens != Lens::kNone) {
      lens = random.lengths(s.lens == Lens::kPerBatch ? std::vector{s.batch} : std::vector{s.batch, s.num_queries},
                            std::min(s.min_len, s.num_keys), s.num_keys);
      lens.data[0] = static_cast<std::int32_t>(s.num_keys);  // one entry sees everything
    }
    shape = {.batch = s.batch,
             .num_queries = s.num_queries,
             .num_keys = s.num_keys,
             .query_size = s.size,
             .key_size = key_size,
             .value_size = value_size,
             .num_heads = view_heads(),
             .num_kv_heads = on_heads() ? s.num_kv_heads : 0};
  }

  bool on_heads() const { return spec.layer == Layer::kDotHeads || spec.layer == Layer::kGaussianHeads; }
  bool multi_head() const { return spec.layer == Layer::kMultiHead || spec.layer == Layer::kMultiHeadAdditive; }
  // Layers whose key size follows the query size.
  bool without_parameters() const { return weights.empty(); }
  std::int64_t view_heads() const { return on_heads() ? spec.num_heads : 1; }
  // Heads of the attention weights; 1 also for layers that have none.
  std::int64_t weight_heads() const { return on_heads() || multi_head() ? spec.num_heads : 1; }
  std::int64_t key_size() const { return spec.same_sizes || without_parameters() ? spec.size : spec.size + 3; }
  std::int64_t value_size() const { return spec.same_sizes ? spec.size : spec.value_size; }
  std::int64_t output_size() const { return multi_head() ? spec.value_size + 2 : value_size(); }

  Inputs inputs() const {
    return {.queries = queries.view(),
            .keys = keys.view(),
            .values = values.view(),
            .valid_lens = lens.sizes.empty() ? TensorView<const std::int32_t>() : lens.view()};
  }

  // What a plan must be told for runs to give truth().
  PlanOptions plan_options() const {
    return {.causal = spec.causal, .padding = spec.padding, .pairs = spec.pairs, .parts = spec.parts};
  }

  // Queries of entry b that are computed: the first so many.
  std::int64_t computed_queries(std::int64_t b) const {
    if (spec.padding == Padding::kCompute || lens.sizes.empty()) return spec.num_queries;
    return std::min<std::int64_t>(spec.num_queries, lens.data[static_cast<std::size_t>(b)]);
  }
  // Keys that row m of entry b sees: the first so many.
  std::int64_t valid_len(std::int64_t b, std::int64_t m) const {
    if (m >= computed_queries(b)) return 0;
    std::int64_t len = spec.num_keys;
    if (!lens.sizes.empty()) {
      len = lens.data[static_cast<std::size_t>(lens.sizes.size() == 1 ? b : b * spec.num_queries + m)];
    }
    if (spec.causal == Causal::kTopLeft) len = std::min(len, m + 1);
    if (spec.causal == Causal::kBottomRight) len = std::min(len, spec.num_keys - spec.num_queries + m + 1);
    return std::max<std::int64_t>(len, 0);
  }
  std::int64_t visible_keys(std::int64_t b) const {
    std::int64_t visible = 0;
    for (std::int64_t m = 0; m < spec.num_queries; ++m) visible = std::max(visible, valid_len(b, m));
    return visible;
  }

  AdditiveParameters additive_parameters() const {
    return {.W_q = weight("W_q.weight"),
            .W_k = weight("W_k.weight"),
            .w_v = weight("w_v.weight"),
            .b_q = weight("W_q.bias"),
            .b_k = weight("W_k.bias")};
  }
  MultiHeadParameters multi_head_parameters() const {
    return {.W_q = weight("W_q.weight"),
            .W_k = weight("W_k.weight"),
            .W_v = weight("W_v.weight"),
            .W_o = weight("W_o.weight"),
            .b_q = weight("W_q.bias"),
            .b_k = weight("W_k.bias"),
            .b_v = weight("W_v.bias"),
            .b_o = weight("W_o.bias"),
            .w_v = weight("w_v.weight")};
  }
  MultiHeadOptions multi_head_options() const {
    return {.num_heads = spec.num_heads,
            .scoring = spec.layer == Layer::kMultiHead ? Scoring::kDot : Scoring::kAdditive,
            .scale = {},
            .num_kv_heads = spec.num_kv_heads};
  }
  float sigma() const { return 0.5f * std::sqrt(static_cast<float>(spec.size)); }

  reference::Result truth(const Inputs& in) const {
    const reference::Mask mask{.causal = spec.causal, .padding = spec.padding};
    switch (spec.layer) {
      case Layer::kAdditive:
        return reference::additive(additive_parameters(), in, mask);
      case Layer::kDot:
      case Layer::kDotHeads:
        return reference::dot({}, in, mask);
      case Layer::kBilinear:
        return reference::bilinear({.W = weight("W.weight")}, {.scale = 0.5f}, in, mask);
      case Layer::kGaussian:
      case Layer::kGaussianHeads:
        return reference::gaussian({.sigma = sigma()}, in, mask);
      case Layer::kMultiHead:
      case Layer::kMultiHeadAdditive:
        break;
    }
    return reference::multi_head(multi_head_options(), multi_head_parameters(), in, mask);
  }
  reference::Result truth() const { return truth(inputs()); }

  // For the case's own inputs, or others of the same magnitude.
  Bound bound(const reference::Result& result) const {
    switch (spec.layer) {
      case Layer::kAdditive: {
        const double slack = 4e-7 + error_of("W_q", queries) + error_of("W_k", keys);
        return contract_bound(result, slack * max_row_sum(weights.at("w_v.weight")));
      }
      case Layer::kBilinear: {
        const double size = std::sqrt(static_cast<double>(spec.size));
        return contract_bound(result, 0.5 * size * max_abs(queries) * projection_error(weights.at("W.weight"), keys));
      }
      case Layer::kMultiHead: {
        // scale * sqrt(D) = 1; a projected element is about as large as the spread.
        const double largest = 2 * static_cast<double>(spec.spread) + 0.5;
        return multi_head_bound(result, largest * (error_of("W_q", queries) + error_of("W_k", keys)));
      }
      case Layer::kMultiHeadAdditive: {
        const double slack = 4e-7 + error_of("W_q", queries) + error_of("W_k", keys);
        return multi_head_bound(result, slack * max_row_sum(weights.at("w_v.weight")));
      }
      default:
        return contract_bound(result);
    }
  }

  CaseSpec spec;
  std::map<std::string, Tensor> weights;
  Attention attention;
  Tensor queries, keys, values;
  LengthsTensor lens;  // no sizes: not given
  Shape shape;

 private:
  static std::int64_t kv_heads(const CaseSpec& s) { return s.num_kv_heads != 0 ? s.num_kv_heads : s.num_heads; }
  std::vector<std::int64_t> rows(std::int64_t heads, std::int64_t count, std::int64_t size) const {
    if (on_heads()) return {spec.batch, heads, count, size};
    return {spec.batch, count, size};
  }
  TensorView<const float> weight(const std::string& name) const {
    const auto found = weights.find(name);
    return found == weights.end() ? TensorView<const float>() : found->second.view();
  }
  double error_of(const std::string& projection, const Tensor& tensor) const {
    return projection_error(weights.at(projection + ".weight"), tensor);
  }
  // The output projection adds up the errors of all heads' values.
  Bound multi_head_bound(const reference::Result& result, double score_slack) const {
    Bound bound = contract_bound(result, score_slack);
    bound.output = (bound.output + error_of("W_v", values)) * max_row_sum(weights.at("W_o.weight")) + 2e-7;
    return bound;
  }

  static std::map<std::string, Tensor> make_weights(const CaseSpec& s) {
    Random random(s.seed + 2000);
    std::map<std::string, Tensor> made;
    const std::int64_t key_size = s.same_sizes ? s.size : s.size + 3;
    const std::int64_t value_size = s.same_sizes ? s.size : s.value_size;
    const auto matrix = [&](const std::string& name, std::int64_t out, std::int64_t in) {
      made[name + ".weight"] = random.normal({out, in}, 1 / std::sqrt(static_cast<float>(in)));
      if (s.biases) made[name + ".bias"] = random.normal({out}, 0.2f);
    };
    switch (s.layer) {
      case Layer::kAdditive:
        matrix("W_q", s.num_hiddens, s.size);
        matrix("W_k", s.num_hiddens, key_size);
        made["w_v.weight"] = random.normal({1, s.num_hiddens}, 0.7f);
        break;
      case Layer::kBilinear:
        made["W.weight"] = random.normal({s.size, key_size}, 1 / std::sqrt(static_cast<float>(key_size)));
        break;
      case Layer::kMultiHead:
      case Layer::kMultiHeadAdditive: {
        const std::int64_t pooled = s.num_hiddens + s.num_heads;  // heads' values are one wider than their keys
        matrix("W_q", s.num_hiddens, s.size);
        matrix("W_k", s.num_hiddens / s.num_heads * kv_heads(s), key_size);
        matrix("W_v", pooled / s.num_heads * kv_heads(s), value_size);
        matrix("W_o", s.value_size + 2, pooled);
        if (s.layer == Layer::kMultiHeadAdditive) {
          made["w_v.weight"] = random.normal({s.num_heads, s.num_hiddens / s.num_heads}, 0.7f);
        }
        break;
      }
      default:
        break;
    }
    return made;
  }

  Attention make_attention() const {
    switch (spec.layer) {
      case Layer::kAdditive:
        return AdditiveAttention(additive_parameters());
      case Layer::kDot:
      case Layer::kDotHeads:
        return DotAttention();
      case Layer::kBilinear:
        return BilinearAttention(BilinearParameters{.W = weight("W.weight")}, {.scale = 0.5f});
      case Layer::kGaussian:
      case Layer::kGaussianHeads:
        return GaussianAttention({.sigma = sigma()});
      case Layer::kMultiHead:
      case Layer::kMultiHeadAdditive:
        break;
    }
    return MultiHeadAttention(multi_head_options(), multi_head_parameters());
  }
};

}  // namespace attend::tests

#endif  // ATTEND_TESTS_SUPPORT_LAYER_CASES_H_
