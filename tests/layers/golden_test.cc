// Files made by PyTorch: tests/data/golden (results in double, see its README.md) and tests/data/dates (two trained
// models, results in f32). The reference must agree with the double results to their storage, the engine to its own
// accuracy.
#include <functional>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "attend/attend.h"
#include "attend/io.h"
#include "tests/support/compare.h"
#include "tests/support/layer_cases.h"
#include "tests/support/npz_data.h"
#include "tests/support/run.h"

namespace attend::tests {
namespace {

struct Golden {
  const char* npz;
  const char* weights;  // .safetensors, "" when the layer has none
  const char* prefix;
  Layer layer;
  std::int64_t num_heads;
  Causal causal = Causal::kNone;
  std::int64_t num_kv_heads = 0;
};

constexpr Golden kGolden[] = {
    {"golden/additive", "golden/additive", "", Layer::kAdditive, 1},
    {"golden/additive_lens2d", "golden/additive_lens2d", "", Layer::kAdditive, 1},
    {"golden/dot", "", "", Layer::kDot, 1},
    {"golden/dot_scale", "", "", Layer::kDot, 1},
    {"golden/bilinear", "golden/bilinear", "", Layer::kBilinear, 1},
    {"golden/gaussian", "", "", Layer::kGaussian, 1},
    {"golden/multi_head_textbook", "golden/multi_head_textbook", "", Layer::kMultiHead, 5},
    {"golden/multi_head_textbook_bias", "golden/multi_head_textbook_bias", "", Layer::kMultiHead, 5},
    {"golden/multi_head_torch", "golden/multi_head_torch", "", Layer::kMultiHead, 6},
    {"golden/multi_head_torch_self", "golden/multi_head_torch_self", "", Layer::kMultiHead, 6},
    {"golden/multi_head_torch_kdim", "golden/multi_head_torch_kdim", "", Layer::kMultiHead, 3},
    {"golden/multi_head_bert", "golden/multi_head_bert", "bert.encoder.layer.0.attention.", Layer::kMultiHead, 4},
    {"golden/multi_head_additive", "golden/multi_head_additive", "", Layer::kMultiHeadAdditive, 4},
    {"golden/multi_head_additive_self", "golden/multi_head_additive_self", "", Layer::kMultiHeadAdditive, 3},
    {"golden/dot_causal", "", "", Layer::kDot, 1, Causal::kBottomRight},
    {"golden/dot_causal_top_left", "", "", Layer::kDot, 1, Causal::kTopLeft},
    {"golden/gaussian_causal", "", "", Layer::kGaussian, 1, Causal::kBottomRight},
    {"golden/additive_causal", "golden/additive_causal", "", Layer::kAdditive, 1, Causal::kBottomRight},
    {"golden/multi_head_torch_causal", "golden/multi_head_torch_causal", "", Layer::kMultiHead, 3, Causal::kTopLeft},
    {"golden/dot_grouped", "", "", Layer::kDotHeads, 6, Causal::kNone, 2},
    {"golden/multi_head_grouped", "golden/multi_head_grouped", "", Layer::kMultiHead, 6, Causal::kNone, 2},
    {"golden/multi_head_grouped_causal", "golden/multi_head_grouped_causal", "", Layer::kMultiHead, 6,
     Causal::kBottomRight, 2},
    {"dates/recurrent.decoder.attention", "dates/recurrent", "decoder.attention.", Layer::kAdditive, 1},
    {"dates/transformer.encoder.self_attn", "dates/transformer", "encoder.layers.0.self_attn.", Layer::kMultiHead, 0},
    {"dates/transformer.decoder.self_attn", "dates/transformer", "decoder.layers.0.self_attn.", Layer::kMultiHead, 0},
    {"dates/transformer.decoder.cross_attn", "dates/transformer", "decoder.layers.0.cross_attn.", Layer::kMultiHead, 0},
};

// A layer and its truth from the files of one case.
struct Loaded {
  Attention layer;
  std::function<reference::Result(const Inputs&)> truth;
};

Loaded load_layer(const Golden& golden, const NpzData& data, const Parameters& parameters, std::int64_t num_heads) {
  const reference::Mask mask{.causal = golden.causal};
  switch (golden.layer) {
    case Layer::kAdditive: {
      const auto found = AdditiveParameters::from(parameters);
      return {AdditiveAttention(parameters), [=](const Inputs& in) { return reference::additive(found, in, mask); }};
    }
    case Layer::kBilinear: {
      const auto found = BilinearParameters::from(parameters);
      return {BilinearAttention(parameters),
              [=](const Inputs& in) { return reference::bilinear(found, {}, in, mask); }};
    }
    case Layer::kDot:
    case Layer::kDotHeads: {
      DotOptions options;
      if (data.contains("scale")) options.scale = data.tensor("scale").data.at(0);
      return {DotAttention(options), [=](const Inputs& in) { return reference::dot(options, in, mask); }};
    }
    case Layer::kGaussian: {
      const GaussianOptions options{.sigma = data.tensor("sigma").data.at(0)};
      return {GaussianAttention(options), [=](const Inputs& in) { return reference::gaussian(options, in, mask); }};
    }
    default:
      break;
  }
  const MultiHeadOptions options{.num_heads = num_heads,
                                 .scoring = golden.layer == Layer::kMultiHead ? Scoring::kDot : Scoring::kAdditive,
                                 .scale = {},
                                 .num_kv_heads = golden.num_kv_heads};
  const auto found = MultiHeadParameters::from(parameters);
  return {MultiHeadAttention(options, parameters),
          [=](const Inputs& in) { return reference::multi_head(options, found, in, mask); }};
}

}  // namespace

TEST_CASE("golden: layers agree with PyTorch") {
  for (const Golden& golden : kGolden) {
    INFO(std::string(golden.npz));
    const NpzData data(std::string(golden.npz) + ".npz");
    const Tensor queries = data.tensor("queries");
    const Tensor keys = data.tensor_or_none("keys");
    const Tensor values = data.tensor_or_none("values");
    const LengthsTensor lens = data.lengths("valid_lens");
    const Tensor output = data.tensor("output");
    const Tensor weights = data.tensor("attention_weights");
    Parameters parameters;
    if (*golden.weights != '\0') {
      parameters = io::load(data_path(std::string(golden.weights) + ".safetensors"), golden.prefix);
    }
    const bool split = golden.layer == Layer::kDotHeads;
    const bool heads = split || golden.layer == Layer::kMultiHead || golden.layer == Layer::kMultiHeadAdditive;
    REQUIRE(weights.sizes.size() == (heads ? 4 : 3));
    const std::int64_t num_heads = heads ? weights.sizes[1] : 1;
    if (golden.num_heads != 0) CHECK(num_heads == golden.num_heads);

    const Inputs in{.queries = queries.view(),
                    .keys = view_or_none(keys),
                    .values = view_or_none(values),
                    .valid_lens = lens.view()};
    const Loaded loaded = load_layer(golden, data, parameters, num_heads);
    const double largest = max_abs(output);

    const bool exact = std::string(golden.npz).starts_with("golden/");  // results stored from double
    const reference::Result truth = loaded.truth(in);
    CHECK(max_abs_error(output.data, truth.output) <= (exact ? 1e-7 : 1e-5) * largest);
    CHECK(max_abs_error(weights.data, truth.attention_weights) <= (exact ? 1e-7 : 4e-6));

    Shape shape{.batch = queries.sizes[0],
                .num_queries = in.queries.size(-2),
                .num_keys = in.keys.empty() ? in.queries.size(-2) : in.keys.size(-2),
                .query_size = queries.sizes.back()};
    if (!keys.sizes.empty()) shape.key_size = keys.sizes.back();
    if (!values.sizes.empty()) shape.value_size = values.sizes.back();
    if (split) shape.num_heads = num_heads;
    if (split) shape.num_kv_heads = golden.num_kv_heads;
    for_each_plan(loaded.layer, shape, {.causal = golden.causal}, [&](const Plan& plan, bool with_weights) {
      CHECK(output_sizes(plan, in) == output.sizes);
      const RunResult result = run_plan(plan, in, with_weights);
      CHECK(max_abs_error(result.output, truth.output) <= 4e-6 * largest);
      CHECK(max_abs_error(result.output, output.data) <= 1e-5 * largest);
      if (!with_weights) return;
      CHECK(weights_sizes(plan, in) == weights.sizes);
      CHECK(max_abs_error(result.attention_weights, weights.data) <= (exact ? 2e-6 : 5e-6));
    });
  }
}

TEST_CASE("golden: masked softmax agrees with PyTorch") {
  for (const char* name : {"golden/masked_softmax_1d.npz", "golden/masked_softmax_2d.npz"}) {
    INFO(name);
    const NpzData data(name);
    const Tensor input = data.tensor("input");
    const Tensor output = data.tensor("output");
    const LengthsTensor lens = data.lengths("valid_lens");
    CHECK(max_abs_error(output.data, reference::masked_softmax(input.view(), lens.view())) <= 1e-7);
    for_each_target([&](const Target& target) {
      Tensor weights = input;
      masked_softmax(input.view(), lens.view(), weights.view(), {.target = target});
      CHECK(max_abs_error(weights.data, output.data) <= 3e-7);
    });
  }
}

}  // namespace attend::tests
