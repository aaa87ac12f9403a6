// The C API, layers and parameters: the bits of the C++ ones, and their refusals.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "attend/attend.h"
#include "attend/attend_c.h"
#include "tests/layers/c_api_support.h"
#include "tests/support/compare.h"
#include "tests/support/for_each_target.h"
#include "tests/support/layer_cases.h"
#include "tests/support/run.h"

namespace attend::tests {

TEST_CASE("C API: the bits of the C++ one, for every layer, target and kind of lengths") {
  for_each_target([](const Target& target) {
    for (const Layer layer : kAllLayers) {
      for (const Lens lens : kAllLens) {
        for (const bool with_weights : {false, true}) {
          INFO(layer_name(layer), ", lens ", static_cast<int>(lens), ", attention weights ", with_weights);
          const LayerCase c({.layer = layer, .lens = lens});
          const std::string name = target.name();
          attend_plan_options options{};
          options.attention_weights = with_weights ? 1 : 0;
          options.target = name.c_str();
          Both both(c, {.target = target, .attention_weights = with_weights}, &options);
          both.layer.reset();  // a plan keeps what it needs
          CHECK(explanation(both.plan.get()) == both.cpp.explain());
          CHECK(target_name(both.plan.get()) == name);
          CHECK(same_bits(run_c(both.plan.get(), both.cpp, c.inputs(), with_weights),
                          run_plan(both.cpp, c.inputs(), with_weights)));
        }
      }
    }
  });
}

TEST_CASE("C API: heads of keys that queries share are those of C++") {
  for (const Layer layer : {Layer::kDotHeads, Layer::kGaussianHeads, Layer::kMultiHead}) {
    for (const std::int64_t num_kv_heads : {1, 2, 6}) {
      INFO(layer_name(layer), ", heads of keys ", num_kv_heads);
      const LayerCase c({.layer = layer, .num_heads = 6, .num_kv_heads = num_kv_heads});
      attend_plan_options options{};
      options.attention_weights = 1;
      const Both both(c, {.attention_weights = true}, &options);
      CHECK(explanation(both.plan.get()) == both.cpp.explain());
      CHECK(same_bits(run_c(both.plan.get(), both.cpp, c.inputs(), true), run_plan(both.cpp, c.inputs(), true)));
    }
  }
}

TEST_CASE("C API: refusals of layers carry the C++ message and leave the handle") {
  Said said;
  auto* const no_layer = reinterpret_cast<attend_layer*>(&said);  // a value to be left alone
  attend_layer* layer = no_layer;
  const auto refused = [&](attend_status status, const std::string& expected) {
    CHECK(status == ATTEND_ERROR_INVALID);
    CHECK(expected != "");
    CHECK(said.message() == expected);
    CHECK(layer == no_layer);
  };
  const float infinite = std::numeric_limits<float>::infinity();
  refused(attend_layer_create_gaussian(0.0f, &layer, &said.error),
          error_message([] { GaussianAttention({.sigma = 0.0f}); }));
  refused(attend_layer_create_dot(&infinite, &layer, &said.error),
          error_message([&] { DotAttention({.scale = infinite}); }));

  const LayerCase additive({.layer = Layer::kAdditive});
  std::vector<attend_parameter> parameters = c_parameters(additive);
  refused(attend_layer_create_additive(nullptr, 0, &layer, &said.error),
          error_message([] { AdditiveAttention{Parameters()}; }));
  refused(attend_layer_create_bilinear(nullptr, nullptr, 0, &layer, &said.error),
          error_message([] { BilinearAttention{Parameters()}; }));
  refused(attend_layer_create_multi_head(nullptr, nullptr, 0, &layer, &said.error),
          error_message([] { MultiHeadAttention({}, Parameters()); }));

  // The wrong shape for w_v, a name twice, a parameter at null.
  Parameters wrong;
  for (const auto& [name, tensor] : additive.weights) wrong.insert(name, tensor);
  CHECK(std::strcmp(parameters.back().name, "w_v.weight") == 0);
  refused(
      [&] {
        std::vector<attend_parameter> bad = parameters;
        bad.back().tensor.sizes[1] = 11;
        return attend_layer_create_additive(bad.data(), bad.size(), &layer, &said.error);
      }(),
      error_message([&] {
        AdditiveParameters p = additive.additive_parameters();
        p.w_v = TensorView<const float>(p.w_v.data(), {1, 11});
        AdditiveAttention{p};
      }));
  refused(
      [&] {
        std::vector<attend_parameter> bad = parameters;
        bad.push_back(bad.front());
        return attend_layer_create_additive(bad.data(), bad.size(), &layer, &said.error);
      }(),
      error_message([&] { wrong.insert(parameters.front().name, {}); }));
  refused(
      [&] {
        std::vector<attend_parameter> bad = parameters;
        bad.back().tensor.data = nullptr;
        return attend_layer_create_additive(bad.data(), bad.size(), &layer, &said.error);
      }(),
      "w_v.weight is (1, 12) at a null pointer, expected memory");
  {
    std::vector<attend_parameter> bad = parameters;
    bad[1].name = nullptr;
    refused(attend_layer_create_additive(bad.data(), bad.size(), &layer, &said.error),
            "parameters[1].name is a null pointer, expected a name");
    bad[1] = parameters[1];
    bad[1].tensor.sizes[0] = -12;
    CHECK(attend_layer_create_additive(bad.data(), bad.size(), &layer, &said.error) == ATTEND_ERROR_INVALID);
    CHECK(missing_parts(said.message(), {bad[1].name, "-12"}) == "");
  }
  const LayerCase heads({.layer = Layer::kMultiHead});
  parameters = c_parameters(heads);
  for (const std::int64_t num_heads : {std::int64_t{-1}, std::int64_t{5}}) {
    attend_multi_head_options options{};
    options.num_heads = num_heads;
    refused(attend_layer_create_multi_head(&options, parameters.data(), parameters.size(), &layer, &said.error),
            error_message([&] { MultiHeadAttention({.num_heads = num_heads}, heads.multi_head_parameters()); }));
  }
  for (const std::int64_t num_kv_heads : {std::int64_t{-1}, std::int64_t{2}, std::int64_t{1}}) {
    const attend_multi_head_options options{
        .num_heads = 3, .scoring = 0, .scale = nullptr, .num_kv_heads = num_kv_heads};
    refused(attend_layer_create_multi_head(&options, parameters.data(), parameters.size(), &layer, &said.error),
            error_message([&] {
              MultiHeadAttention({.num_heads = 3, .num_kv_heads = num_kv_heads}, heads.multi_head_parameters());
            }));
  }
  attend_multi_head_options unknown{};
  unknown.scoring = 2;
  CHECK(attend_layer_create_multi_head(&unknown, parameters.data(), parameters.size(), &layer, &said.error) ==
        ATTEND_ERROR_INVALID);
  CHECK(missing_parts(said.message(), {"scoring", "2", "ATTEND_SCORING_DOT"}) == "");
}

}  // namespace attend::tests
