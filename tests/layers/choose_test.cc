// The rule of layers: the planner picks the layer from the parameters and sizes.
#include <string>

#include <doctest/doctest.h>

#include "attend/attend.h"
#include "tests/support/compare.h"
#include "tests/support/layer_cases.h"
#include "tests/support/run.h"

namespace attend::tests {
namespace {

Parameters parameters_of(const LayerCase& c) {
  Parameters parameters("model.npz");
  for (const auto& [name, tensor] : c.weights) parameters.insert(name, tensor);
  return parameters;
}

}  // namespace

TEST_CASE("choose: W_q, W_k and w_v mean additive, W means bilinear, no parameters and equal sizes mean dot") {
  for (const auto& [layer, name] : {std::pair{Layer::kAdditive, "additive"}, std::pair{Layer::kBilinear, "bilinear"},
                                    std::pair{Layer::kDot, "dot"}}) {
    const LayerCase c({.layer = layer, .seed = 80});
    const Attention chosen = Attention::choose(parameters_of(c), c.shape.query_size, c.shape.key_size);
    CHECK(chosen.name() == name);
    CHECK(c.attention.name() == name);
    if (layer == Layer::kBilinear) continue;  // the case has a scale of its own
    CHECK(same_bits(run_plan(chosen.plan(c.shape), c.inputs()), run_plan(c.attention.plan(c.shape), c.inputs())));
  }
}

TEST_CASE("choose: the other layers know their names") {
  CHECK(LayerCase({.layer = Layer::kGaussian}).attention.name() == "gaussian");
  CHECK(LayerCase({.layer = Layer::kMultiHead}).attention.name() == "multi-head");
  CHECK(LayerCase({.layer = Layer::kMultiHeadAdditive}).attention.name() == "multi-head");
}

TEST_CASE("choose: no parameters and unequal sizes is an error that says what to use instead") {
  CHECK(missing_parts(error_message([] { Attention::choose({}, 48, 64); }), {"48", "64", "additive", "bilinear"}) ==
        "");
}

TEST_CASE("choose: parameters that make no layer are named") {
  Parameters some("model.npz");
  some.insert("W_q.weight", Random(81).normal({4, 4}));
  CHECK(missing_parts(error_message([&] { Attention::choose(some, 4, 4); }), {"model.npz", "W_k", "w_v"}) == "");
}

TEST_CASE("choose: parameters of multi-head attention are told from those of additive attention") {
  for (const Layer layer : {Layer::kMultiHead, Layer::kMultiHeadAdditive}) {
    const LayerCase c({.layer = layer, .seed = 82});
    CHECK(
        missing_parts(error_message([&] { Attention::choose(parameters_of(c), c.shape.query_size, c.shape.key_size); }),
                      {"model.npz", "multi-head", "num_heads"}) == "");
  }
}

TEST_CASE("choose: one name that multi-head attention alone has is enough, whatever else is there") {
  const LayerCase additive({.layer = Layer::kAdditive, .seed = 83}), bilinear({.layer = Layer::kBilinear, .seed = 84});
  for (const char* name : {"W_v.weight", "W_o.weight", "in_proj_weight", "q_proj_weight", "query.weight",
                           "self.query.weight", "q_proj.weight"}) {
    for (const LayerCase* c : {&additive, &bilinear}) {
      INFO(name, " beside ", layer_name(c->spec.layer));
      Parameters parameters = parameters_of(*c);
      parameters.insert(name, Random(85).normal({12, 8}));
      CHECK(missing_parts(error_message([&] { Attention::choose(parameters, c->shape.query_size, c->shape.key_size); }),
                          {"model.npz", "multi-head", "num_heads"}) == "");
    }
  }
}

TEST_CASE("choose: parameters of two layers are named, not passed over") {
  const LayerCase c({.layer = Layer::kAdditive, .seed = 86});
  for (const char* bilinear : {"W", "W.weight"}) {
    Parameters both = parameters_of(c);
    both.insert(bilinear, Random(87).normal({8, 11}));
    CHECK(missing_parts(error_message([&] { Attention::choose(both, 8, 11); }),
                        {"model.npz: " + std::string(bilinear) + " and W_q.weight are both present", "one layer"}) ==
          "");
    Parameters half("model.npz");
    half.insert(bilinear, Random(87).normal({8, 11}));
    half.insert("w_v.weight", Random(88).normal({1, 12}));
    CHECK(missing_parts(error_message([&] { Attention::choose(half, 8, 11); }),
                        {std::string(bilinear) + " and w_v.weight are both present"}) == "");
  }
}

TEST_CASE("choose: sizes that contradict the parameters are an error") {
  const LayerCase c({.layer = Layer::kAdditive, .seed = 80});
  const std::string message = error_message([&] { Attention::choose(parameters_of(c), 48, c.shape.key_size); });
  if (message.empty()) {  // or planning finds it
    Shape shape = c.shape;
    shape.query_size = 48;
    const std::string later =
        error_message([&] { Attention::choose(parameters_of(c), 48, c.shape.key_size).plan(shape); });
    CHECK(missing_parts(later, {"48", "8"}) == "");
  } else {
    CHECK(missing_parts(message, {"48", "8"}) == "");
  }
}

}  // namespace attend::tests
