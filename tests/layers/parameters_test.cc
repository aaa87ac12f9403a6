// Parameters by name: what is recognised, and errors that name the tensor, what was found and what was expected.
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "attend/attend.h"
#include "tests/support/compare.h"
#include "tests/support/random.h"
#include "tests/support/run.h"

namespace attend::tests {
namespace {

using Sizes = std::vector<std::int64_t>;
using Named = std::vector<std::pair<std::string, Sizes>>;

Parameters make(const Named& named, std::uint64_t seed = 70) {
  Parameters parameters("model.safetensors:layer.");
  for (const auto& [name, sizes] : named) {
    // The same tensor for the same name and size, whatever else there is.
    std::uint64_t hash = seed;
    for (const std::int64_t size : sizes) hash = hash * 131 + static_cast<std::uint64_t>(size);
    parameters.insert(name, Random(hash).normal(sizes, 0.3f));
  }
  return parameters;
}

Named without(Named named, const std::string& name) {
  std::erase_if(named, [&](const auto& entry) { return entry.first == name; });
  return named;
}
Named resized(Named named, const std::string& name, const Sizes& sizes) {
  for (auto& entry : named) {
    if (entry.first == name) entry.second = sizes;
  }
  return named;
}
Named with(Named named, const std::string& name, const Sizes& sizes) {
  named.emplace_back(name, sizes);
  return named;
}

const Named kAdditive = {{"W_q.weight", {8, 20}}, {"W_k.weight", {8, 2}}, {"w_v.weight", {1, 8}}};
const Named kTextbook = {
    {"W_q.weight", {12, 6}}, {"W_k.weight", {12, 7}}, {"W_v.weight", {15, 5}}, {"W_o.weight", {9, 15}}};
const Named kTorch = {
    {"in_proj_weight", {36, 12}}, {"in_proj_bias", {36}}, {"out_proj.weight", {12, 12}}, {"out_proj.bias", {12}}};
const Named kTorchSizes = {{"q_proj_weight", {12, 12}}, {"k_proj_weight", {12, 7}},    {"v_proj_weight", {12, 5}},
                           {"in_proj_bias", {36}},      {"out_proj.weight", {12, 12}}, {"out_proj.bias", {12}}};
const Named kBert = {{"query.weight", {12, 12}},        {"query.bias", {12}},
                     {"key.weight", {12, 12}},          {"key.bias", {12}},
                     {"value.weight", {12, 12}},        {"value.bias", {12}},
                     {"output.dense.weight", {12, 12}}, {"output.dense.bias", {12}},
                     {"output.LayerNorm.weight", {12}}};
const Named kBertSelf = {{"self.query.weight", {12, 12}},   {"self.query.bias", {12}},
                         {"self.key.weight", {12, 12}},     {"self.key.bias", {12}},
                         {"self.value.weight", {12, 12}},   {"self.value.bias", {12}},
                         {"output.dense.weight", {12, 12}}, {"output.dense.bias", {12}}};
const Named kBart = {{"q_proj.weight", {12, 12}},   {"q_proj.bias", {12}},       {"k_proj.weight", {12, 12}},
                     {"k_proj.bias", {12}},         {"v_proj.weight", {12, 12}}, {"v_proj.bias", {12}},
                     {"out_proj.weight", {12, 12}}, {"out_proj.bias", {12}}};

std::string additive_error(const Named& named) {
  return error_message([&] { AdditiveAttention layer(make(named)); });
}
std::string multi_head_error(const Named& named, MultiHeadOptions options = {.num_heads = 3}) {
  return error_message([&] { MultiHeadAttention layer(options, make(named)); });
}

}  // namespace

TEST_CASE("parameters: additive names, with or without biases") {
  CHECK(additive_error(kAdditive) == "");
  CHECK(additive_error(resized(kAdditive, "w_v.weight", {8})) == "");
  CHECK(additive_error(with(with(kAdditive, "W_q.bias", {8}), "W_k.bias", {8})) == "");
  CHECK(additive_error(with(kAdditive, "w_v.bias", {1})) == "");  // cancels in the softmax

  const Parameters parameters = make(with(with(kAdditive, "W_q.bias", {8}), "W_k.bias", {8}));
  const AdditiveParameters found = AdditiveParameters::from(parameters);
  CHECK(found.W_q.data() == parameters.find("W_q.weight").data());
  CHECK(found.W_k.data() == parameters.find("W_k.weight").data());
  CHECK(found.w_v.data() == parameters.find("w_v.weight").data());
  CHECK(found.b_q.data() == parameters.find("W_q.bias").data());
  CHECK(found.b_k.data() == parameters.find("W_k.bias").data());
}

TEST_CASE("parameters: bilinear names") {
  for (const char* name : {"W.weight", "W"}) {
    const Parameters parameters = make({{name, {4, 7}}});
    CHECK(BilinearParameters::from(parameters).W.data() == parameters.find(name).data());
    CHECK(error_message([&] { BilinearAttention layer(parameters); }) == "");
  }
  CHECK(missing_parts(error_message([] { BilinearAttention layer(make({{"V", {4, 7}}})); }), {"W.weight"}) == "");
  CHECK(missing_parts(error_message([] {
                        BilinearAttention layer(make({{"W", {4, 7, 2}}}));
                      }),
                      {"W", "(4, 7, 2)"}) == "");
}

TEST_CASE("parameters: multi-head names of the textbook, of torch, of BERT and of BART") {
  for (const Named& named : {kTextbook, kTorch, kTorchSizes, kBert, kBertSelf, kBart}) {
    CHECK(multi_head_error(named) == "");
  }
  CHECK(multi_head_error(without(kBart, "k_proj.bias")) == "");
  CHECK(multi_head_error(with(with(kTextbook, "W_q.bias", {12}), "W_o.bias", {9})) == "");
  CHECK(multi_head_error(without(without(kTorch, "in_proj_bias"), "out_proj.bias")) == "");
  CHECK(multi_head_error(with(kTextbook, "w_v.weight", {3, 4}), {.num_heads = 3, .scoring = Scoring::kAdditive}) == "");
}

TEST_CASE("parameters: torch's packed projection is query, key, value from top to bottom") {
  const Parameters parameters = make(kTorch);
  const MultiHeadParameters found = MultiHeadParameters::from(parameters);
  const float* packed = parameters.find("in_proj_weight").data();
  const float* bias = parameters.find("in_proj_bias").data();
  CHECK(found.W_q.data() == packed);
  CHECK(found.W_k.data() == packed + 12 * 12);
  CHECK(found.W_v.data() == packed + 2 * 12 * 12);
  CHECK(found.b_q.data() == bias);
  CHECK(found.b_k.data() == bias + 12);
  CHECK(found.b_v.data() == bias + 24);
  CHECK(found.W_v.size(0) == 12);
  CHECK(found.W_o.data() == parameters.find("out_proj.weight").data());
  CHECK(found.b_o.data() == parameters.find("out_proj.bias").data());
}

TEST_CASE("parameters: torch's one bias is cut by the rows of each matrix, which shared heads have fewer of") {
  const Named named =
      resized(resized(resized(kTorchSizes, "k_proj_weight", {4, 7}), "v_proj_weight", {4, 5}), "in_proj_bias", {20});
  CHECK(multi_head_error(named, {.num_heads = 3, .num_kv_heads = 1}) == "");
  const Parameters parameters = make(named);
  const MultiHeadParameters found = MultiHeadParameters::from(parameters);
  const float* bias = parameters.find("in_proj_bias").data();
  CHECK(found.b_k.data() == bias + 12);
  CHECK(found.b_v.data() == bias + 16);
  CHECK(found.b_v.size(0) == 4);
  CHECK(missing_parts(multi_head_error(resized(named, "in_proj_bias", {36}), {.num_heads = 3, .num_kv_heads = 1}),
                      {"in_proj_bias is (36), expected (20)"}) == "");
}

TEST_CASE("parameters: a missing tensor is named") {
  for (const auto& parameter : kAdditive) {
    const std::string& name = parameter.first;
    CAPTURE(name);
    CHECK(missing_parts(additive_error(without(kAdditive, name)), {name, "model.safetensors"}) == "");
  }
  for (const auto& parameter : kTextbook) {
    const std::string& name = parameter.first;
    CAPTURE(name);
    CHECK(missing_parts(multi_head_error(without(kTextbook, name)), {name, "model.safetensors"}) == "");
  }
  for (const char* name : {"k_proj_weight", "out_proj.weight"}) {
    CHECK(missing_parts(multi_head_error(without(kTorchSizes, name)), {name}) == "");
  }
  CHECK(missing_parts(multi_head_error(without(kTorch, "out_proj.weight")), {"out_proj.weight"}) == "");
  CHECK(missing_parts(multi_head_error(without(kBert, "value.weight")), {"value.weight"}) == "");
  CHECK(missing_parts(multi_head_error(without(kBertSelf, "output.dense.weight")), {"output.dense.weight"}) == "");
  for (const char* name : {"k_proj.weight", "v_proj.weight", "out_proj.weight", "q_proj.bias", "v_proj.bias"}) {
    CHECK(missing_parts(multi_head_error(without(kBart, name)), {std::string(name) + " is missing", "expected"}) == "");
  }
  CHECK(missing_parts(multi_head_error({}), {"W_q.weight", "in_proj_weight", "query.weight", "q_proj.weight"}) == "");
  CHECK(missing_parts(multi_head_error(kTextbook, {.num_heads = 3, .scoring = Scoring::kAdditive}), {"w_v"}) == "");
}

TEST_CASE("parameters: a mis-shaped tensor is named with what was found and what was expected") {
  struct {
    std::string message;
    std::vector<std::string> parts;
  } const kWrong[] = {
      {additive_error(resized(kAdditive, "W_k.weight", {9, 2})), {"W_k", "(9, 2)", "(8"}},
      {additive_error(resized(kAdditive, "W_q.weight", {8})), {"W_q", "(8)"}},
      {additive_error(resized(kAdditive, "w_v.weight", {1, 7})), {"w_v", "(1, 7)", "8"}},
      {additive_error(resized(kAdditive, "w_v.weight", {2, 8})), {"w_v", "(2, 8)", "8"}},
      {additive_error(with(kAdditive, "W_q.bias", {7})), {"W_q.bias", "(7)", "8"}},
      {additive_error(with(kAdditive, "W_k.bias", {8, 1})), {"W_k.bias", "(8, 1)", "8"}},
      {multi_head_error(resized(kTextbook, "W_k.weight", {11, 7})), {"W_k", "(11, 7)", "12"}},
      {multi_head_error(resized(kTextbook, "W_o.weight", {9, 14})), {"W_o", "(9, 14)", "15"}},
      {multi_head_error(with(kTextbook, "W_v.bias", {12})), {"W_v.bias", "(12)", "15"}},
      {multi_head_error(with(kTextbook, "W_o.bias", {12})), {"W_o.bias", "(12)", "9"}},
      {multi_head_error(resized(kTorch, "in_proj_weight", {35, 12})), {"in_proj_weight", "(35, 12)"}},
      {multi_head_error(resized(kTorch, "in_proj_bias", {24})), {"in_proj_bias is (24), expected (36)"}},
      {multi_head_error(resized(kTorch, "out_proj.weight", {12, 13})), {"out_proj.weight", "(12, 13)", "12"}},
      {multi_head_error(resized(kBert, "key.weight", {6, 12})), {"key.weight", "(6, 12)", "12"}},
      {multi_head_error(resized(kBert, "query.bias", {1, 12})), {"query.bias", "(1, 12)", "12"}},
      {multi_head_error(resized(kBart, "k_proj.weight", {6, 12})), {"k_proj.weight", "(6, 12)", "12"}},
      {multi_head_error(resized(kBart, "v_proj.bias", {11})), {"v_proj.bias", "(11)", "12"}},
      {multi_head_error(resized(kBart, "out_proj.weight", {12, 13})), {"out_proj.weight", "(12, 13)", "12"}},
      {multi_head_error(kTextbook, {.num_heads = 5}), {"num_heads", "5", "12"}},
      {multi_head_error(resized(resized(kTextbook, "W_v.weight", {13, 5}), "W_o.weight", {9, 13})), {"13", "3"}},
      {multi_head_error(kTextbook, {.num_heads = 0}), {"num_heads", "0"}},
      {multi_head_error(kTextbook, {.num_heads = -3}), {"num_heads", "-3"}},
      {multi_head_error(with(kTextbook, "w_v.weight", {4, 3}), {.num_heads = 3, .scoring = Scoring::kAdditive}),
       {"w_v", "(4, 3)", "(3, 4)"}},
  };
  for (const auto& wrong : kWrong) CHECK(missing_parts(wrong.message, wrong.parts) == "");
}

TEST_CASE("parameters: what the library does not have is refused, not ignored") {
  for (const Named& named : {kTorch, kBart}) {
    CHECK(missing_parts(multi_head_error(with(named, "bias_k", {1, 1, 12})), {"bias_k", "expected none"}) == "");
    CHECK(missing_parts(multi_head_error(with(named, "bias_v", {1, 1, 12})), {"bias_v", "expected none"}) == "");
  }
  for (const char* name :
       {"distance_embedding.weight", "relative_position_bias_table", "gru_rel_pos_const", "rotary_embeddings.inv_freq",
        "rotary_emb.inv_freq", "q_norm.weight", "k_norm.weight", "inner_attn_ln.weight"}) {
    CHECK(missing_parts(multi_head_error(with(kBart, name, {9, 4})), {name, "expected none"}) == "");
    CHECK(missing_parts(multi_head_error(with(kBert, name, {9, 4})), {name, "expected none"}) == "");
    CHECK(missing_parts(multi_head_error(with(kBertSelf, std::string("self.") + name, {9, 4})), {name}) == "");
    CHECK(missing_parts(multi_head_error(with(kTextbook, name, {9, 4})), {name}) == "");
  }
}

TEST_CASE("parameters: options that make no layer") {
  CHECK(missing_parts(error_message([] { GaussianAttention layer({.sigma = 0.0f}); }), {"sigma", "0"}) == "");
  CHECK(missing_parts(error_message([] { GaussianAttention layer({.sigma = -1.5f}); }), {"sigma", "-1.5"}) == "");
  CHECK(missing_parts(error_message([] { GaussianAttention layer({.sigma = std::nanf("")}); }), {"sigma", "nan"}) ==
        "");
  // 1 / sigma^2 is a float, but not what makes exponents of two of it.
  CHECK(missing_parts(error_message([] { GaussianAttention layer({.sigma = 5.6e-20f}); }), {"sigma", "5.6e-20"}) == "");
  CHECK(error_message([] { GaussianAttention layer({.sigma = 6.6e-20f}); }) == "");
  // 1 / sigma^2 is too small for a float.
  CHECK(missing_parts(error_message([] { GaussianAttention layer({.sigma = 1e23f}); }), {"sigma", "1e+23"}) == "");
  CHECK(error_message([] { GaussianAttention layer({.sigma = 2e22f}); }) == "");
  const std::vector<float> W = {1};
  for (const float scale : {std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(),
                            std::nanf(""), 3e38f, -2.4e38f}) {
    CAPTURE(scale);
    CHECK(missing_parts(error_message([&] { DotAttention layer({.scale = scale}); }), {"scale is", "finite"}) == "");
    CHECK(missing_parts(error_message([&] {
                          BilinearAttention layer({.W = {W.data(), {1, 1}}}, {.scale = scale});
                        }),
                        {"scale is", "finite"}) == "");
  }
  CHECK(error_message([] { DotAttention layer({.scale = 2.3e38f}); }) == "");
  const TensorView<const float> one(W.data(), {1, 1});
  CHECK(missing_parts(error_message([&] {
                        MultiHeadAttention layer({.num_heads = 1, .scoring = static_cast<Scoring>(2)},
                                                 {.W_q = one, .W_k = one, .W_v = one, .W_o = one});
                      }),
                      {"scoring is 2", "kAdditive"}) == "");
}

TEST_CASE("parameters: views are checked like loaded tensors") {
  const std::vector<float> memory(400, 0.0f);
  const float* p = memory.data();
  CHECK(missing_parts(error_message([&] { AdditiveAttention layer(AdditiveParameters{}); }), {"W_q"}) == "");
  AdditiveParameters wrong{.W_q = {p, {8, 20}}, .W_k = {p, {9, 2}}, .w_v = {p, {1, 8}}};
  CHECK(missing_parts(error_message([&] { AdditiveAttention layer(wrong); }), {"W_k", "(9, 2)", "8"}) == "");
  CHECK(missing_parts(error_message([&] { BilinearAttention layer(BilinearParameters{}); }), {"W"}) == "");
  CHECK(missing_parts(error_message([&] { MultiHeadAttention layer({.num_heads = 1}, MultiHeadParameters{}); }),
                      {"W_q"}) == "");
}

TEST_CASE("parameters: a tensor has the elements that its sizes say, and no more axes than a view") {
  constexpr std::int64_t kHuge = std::int64_t{1} << 62;
  const std::string name = "model.safetensors: W_q.weight is ";
  const struct {
    Tensor tensor;
    std::string message;
  } kWrong[] = {
      {{{8, 20}, std::vector<float>(159)}, name + "(8, 20) with data of 159 elements, expected 160"},
      {{{8, 20}, std::vector<float>(161)}, name + "(8, 20) with data of 161 elements, expected 160"},
      {{{8, 20}, {}}, name + "(8, 20) with data of 0 elements, expected 160"},
      {{{8, 0}, {1}}, name + "(8, 0) with data of 1 elements, expected 0"},
      {{{}, {1, 2}}, name + "() with data of 2 elements, expected 1"},
      {{{2, -3}, std::vector<float>(6)}, name + "(2, -3), expected no negative size"},
      {{{-2, -3}, std::vector<float>(6)}, name + "(-2, -3), expected no negative size"},
      {{{kHuge, 4}, {}}, name + "(4611686018427387904, 4), expected fewer elements than that"},
      {{{kHuge, 4, 0}, {}}, name + "(4611686018427387904, 4, 0), expected fewer elements than that"},
      {{{1, 1, 1, 1, 2}, {1, 2}}, name + "(1, 1, 1, 1, 2), expected at most 4 axes"},
  };
  Parameters parameters("model.safetensors");
  for (const auto& wrong : kWrong) {
    CHECK(error_message([&] { parameters.insert("W_q.weight", wrong.tensor); }) == wrong.message);
  }
  CHECK(parameters.empty());
  CHECK(missing_parts(error_message([&] { Parameters().insert("W", {{2}, {1}}); }), {"parameters: W is (2)"}) == "");

  parameters.insert("scalar", {{}, {1}});
  parameters.insert("nothing", {});
  parameters.insert("no rows", {{0, 4}, {}});
  parameters.insert("four axes", {{1, 2, 1, 2}, {1, 2, 3, 4}});
  CHECK(*parameters.find("scalar").data() == 1);
  CHECK(parameters.find("nothing").empty());
  CHECK(parameters.find("no rows").num_elements() == 0);
  CHECK(*parameters.find("four axes").at(0, 1, 0, 1) == 4);
}

TEST_CASE("parameters: a set of tensors by name") {
  Parameters parameters = make(kBertSelf);
  CHECK(parameters.names().size() == kBertSelf.size());
  CHECK(parameters.contains("self.key.bias"));
  CHECK(parameters.find("self.key").empty());
  CHECK(missing_parts(error_message([&] {
                        parameters.insert("self.key.bias", Tensor{{1}, {0}});
                      }),
                      {"self.key.bias"}) == "");
  // What find gave stays where it is beside tensors that are inserted later; with_prefix copies.
  const TensorView<const float> found = parameters.find("self.key.bias");
  for (int i = 0; i < 100; ++i) parameters.insert("another " + std::to_string(i), Tensor{{1}, {0}});
  CHECK(parameters.find("self.key.bias").data() == found.data());
  CHECK(parameters.with_prefix("self.").find("key.bias").data() != found.data());
  CHECK(parameters.with_prefix("self.").contains("key.bias"));
  CHECK(!parameters.with_prefix("self.").contains("output.dense.bias"));
  CHECK(missing_parts(error_message([&] { parameters.with_prefix("decoder."); }), {"decoder.", "model.safetensors"}) ==
        "");
}

}  // namespace attend::tests
