// One multi-head layer under the names of every convention: the same bits, and the truth of the textbook's formula.
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "attend/attend.h"
#include "tests/support/compare.h"
#include "tests/support/layer_cases.h"
#include "tests/support/run.h"

namespace attend::tests {
namespace {

// What W_q, W_k, W_v and W_o are called, before .weight and .bias.
struct Convention {
  const char* name;
  const char *q, *k, *v, *o;
};
constexpr Convention kTextbook = {"textbook", "W_q", "W_k", "W_v", "W_o"};
constexpr Convention kBert = {"BERT", "query", "key", "value", "output.dense"};
constexpr Convention kBertSelf = {"BERT with self.", "self.query", "self.key", "self.value", "output.dense"};
constexpr Convention kBart = {"BART, OPT, CLIP, Whisper", "q_proj", "k_proj", "v_proj", "out_proj"};

// The tensors of a case under those names; without: one that is left out, by its textbook's name.
Parameters named(const LayerCase& c, const Convention& names, const std::string& without = "") {
  Parameters parameters("model.safetensors:layers.0.self_attn.");
  for (const auto& [from, to] :
       {std::pair{"W_q", names.q}, std::pair{"W_k", names.k}, std::pair{"W_v", names.v}, std::pair{"W_o", names.o}}) {
    for (const std::string part : {".weight", ".bias"}) {
      const auto found = c.weights.find(from + part);
      if (found != c.weights.end() && from + part != without) parameters.insert(to + part, found->second);
    }
  }
  if (c.weights.count("w_v.weight") != 0) parameters.insert("w_v.weight", c.weights.at("w_v.weight"));
  return parameters;
}

// torch.nn.MultiheadAttention, of sizes that differ.
Parameters named_as_in_torch(const LayerCase& c) {
  Parameters parameters("model.safetensors:layers.0.self_attn.");
  Tensor bias;
  for (const std::string stem : {"q", "k", "v"}) {
    parameters.insert(stem + "_proj_weight", c.weights.at("W_" + stem + ".weight"));
    const std::vector<float>& part = c.weights.at("W_" + stem + ".bias").data;
    bias.data.insert(bias.data.end(), part.begin(), part.end());
  }
  bias.sizes = {static_cast<std::int64_t>(bias.data.size())};
  parameters.insert("in_proj_bias", bias);
  parameters.insert("out_proj.weight", c.weights.at("W_o.weight"));
  parameters.insert("out_proj.bias", c.weights.at("W_o.bias"));
  return parameters;
}

}  // namespace

TEST_CASE("names: a layer is the same under every convention's names") {
  for (const std::int64_t num_kv_heads : {0, 1}) {
    CAPTURE(num_kv_heads);
    const LayerCase c({.layer = Layer::kMultiHead, .num_kv_heads = num_kv_heads, .seed = 140});
    const reference::Result truth = c.truth();
    const Bound bound = c.bound(truth);
    std::vector<std::pair<const char*, Parameters>> all = {{"torch", named_as_in_torch(c)}};
    for (const Convention& names : {kTextbook, kBert, kBertSelf, kBart}) all.emplace_back(names.name, named(c, names));
    for (const auto& each : all) {
      INFO(each.first);
      const MultiHeadAttention layer(c.multi_head_options(), each.second);
      for_each_target([&](const Target& target) {
        const PlanOptions options{.target = target, .attention_weights = true};
        const RunResult result = run_plan(layer.plan(c.shape, options), c.inputs(), true);
        check_within(result.output, result.attention_weights, truth, bound);
        CHECK(same_bits(result, run_plan(c.attention.plan(c.shape, options), c.inputs(), true)));
      });
    }
  }
}

TEST_CASE("names: BART's with per-head additive scoring") {
  const LayerCase c({.layer = Layer::kMultiHeadAdditive, .seed = 141});
  const MultiHeadAttention layer(c.multi_head_options(), named(c, kBart));
  const reference::Result truth = c.truth();
  const RunResult result = run_plan(layer.plan(c.shape), c.inputs());
  check_within(result.output, result.attention_weights, truth, c.bound(truth));
}

TEST_CASE("names: Whisper's keys have no bias, which is a bias of 0") {
  LayerCase c({.layer = Layer::kMultiHead, .seed = 142});
  for (float& x : c.weights.at("W_k.bias").data) x = 0;
  const Parameters parameters = named(c, kBart, "W_k.bias");
  CHECK(MultiHeadParameters::from(parameters).b_k.empty());
  const MultiHeadAttention layer(c.multi_head_options(), parameters);
  const reference::Result truth = c.truth();  // with the textbook's names, and that bias
  for_each_target([&](const Target& target) {
    const PlanOptions options{.target = target, .attention_weights = true};
    const RunResult result = run_plan(layer.plan(c.shape, options), c.inputs(), true);
    check_within(result.output, result.attention_weights, truth, c.bound(truth));
  });
}

TEST_CASE("names: a layer that lacks another of BART's biases is not taken for one of its kind") {
  const LayerCase c({.layer = Layer::kMultiHead, .seed = 143});
  struct {
    const char* textbook;
    std::string message;
  } const kMissing[] = {{"W_q.bias", "q_proj.bias is missing, expected (12)"},
                        {"W_v.bias", "v_proj.bias is missing, expected (15)"},
                        {"W_o.bias", "out_proj.bias is missing, expected (7)"}};
  for (const auto& missing : kMissing) {
    CHECK(missing_parts(error_message([&] { MultiHeadParameters::from(named(c, kBart, missing.textbook)); }),
                        {"model.safetensors:layers.0.self_attn.: " + missing.message, "GPT-J", "W_q.weight"}) == "");
  }
  // The textbook's names say that nothing is rotated.
  const LayerCase without({.layer = Layer::kMultiHead, .biases = false, .seed = 143});
  CHECK(missing_parts(error_message([&] { MultiHeadParameters::from(named(without, kBart)); }), {"q_proj.bias"}) == "");
  CHECK(error_message([&] { MultiHeadParameters::from(named(without, kTextbook)); }) == "");
}

TEST_CASE("names: layers that rotate queries and keys are refused, and told why") {
  const LayerCase c({.layer = Layer::kMultiHead, .seed = 144});
  const Convention llama = {"Llama", "q_proj", "k_proj", "v_proj", "o_proj"};
  const std::vector<std::string> parts = {"model.safetensors:layers.0.self_attn.: o_proj.weight is present",
                                          "out_proj.weight", "rotates queries and keys"};
  CHECK(missing_parts(error_message([&] { MultiHeadParameters::from(named(c, llama)); }), parts) == "");
  Parameters both = named(c, kBart);
  both.insert("o_proj.weight", c.weights.at("W_o.weight"));
  CHECK(missing_parts(error_message([&] { MultiHeadAttention layer({.num_heads = 3}, both); }), parts) == "");
}

}  // namespace attend::tests
