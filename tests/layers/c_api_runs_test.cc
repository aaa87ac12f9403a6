// The C API, runs and views: strides, executors, refusals, masked_softmax, and all of it from C.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
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
#include "tests/support/random.h"
#include "tests/support/run.h"

// c_api_compiles_as_c.c
extern "C" {
attend_status attend_test_dot_from_c(const float* queries, const float* keys, const float* values,
                                     const int32_t* valid_lens, float* output, attend_error* error);
int attend_test_status_from_c(attend_error* error);
}

namespace attend::tests {

TEST_CASE("C API: strides that are all zero mean dense, others are what they are") {
  const LayerCase c({.layer = Layer::kAdditive, .lens = Lens::kPerQuery});
  const Both both(c);
  const RunResult expected = run_plan(both.cpp, c.inputs());
  const WorkspaceHandle workspace = make<WorkspaceHandle>(attend_workspace_create, both.plan.get());
  attend_inputs in = c_inputs(c.inputs());
  for (attend_tensor* tensor : {&in.queries, &in.keys, &in.values}) std::fill_n(tensor->strides, 4, 0);
  std::fill_n(in.valid_lens.strides, 4, 0);
  // Beyond rank nothing is read.
  in.queries.sizes[3] = -5;
  in.queries.strides[3] = 1;
  std::vector<float> output(expected.output.size(), kSentinel);
  attend_outputs out = c_outputs({.output = {output.data(), {2, 3, 5}}, .attention_weights = {}});
  std::fill_n(out.output.strides, 4, 0);
  REQUIRE(attend_run(both.plan.get(), &in, &out, workspace.get(), nullptr, nullptr) == ATTEND_OK);
  CHECK(same_bits(output, expected.output));

  // The first batch entry for all, last key first.
  Inputs strided = c.inputs();
  strided.queries = {c.queries.data.data(), {2, 3, 8}, {0, 8, 1}};
  strided.keys = {c.keys.data.data() + 8 * 11, {2, 9, 11}, {99, -11, 1}};
  CHECK(same_bits(run_c(both.plan.get(), both.cpp, strided, false), run_plan(both.cpp, strided)));

  // Parameters may lie in any order: a transposed W_q, and every second element.
  const auto& w = c.weights.at("W_q.weight");
  std::vector<float> transposed(2 * w.data.size());
  for (std::size_t u = 0; u < 12; ++u) {
    for (std::size_t d = 0; d < 8; ++d) transposed[2 * (d * 12 + u)] = w.data[u * 8 + d];
  }
  std::vector<attend_parameter> parameters = c_parameters(c);
  for (attend_parameter& p : parameters) {
    if (std::strcmp(p.name, "W_q.weight") == 0) p.tensor = {transposed.data(), 2, {12, 8}, {2, 24}};
  }
  parameters.push_back({.name = "not.given", .tensor = {}});
  const LayerHandle layer = make<LayerHandle>(attend_layer_create_additive, parameters.data(), parameters.size());
  const attend_shape shape = c_shape(c.shape);
  const PlanHandle plan = make<PlanHandle>(attend_plan_create, layer.get(), &shape, nullptr);
  CHECK(same_bits(run_c(plan.get(), both.cpp, c.inputs(), false), expected));
}

TEST_CASE("C API: executor of the library and executor of callbacks, the same bits") {
  for (const Layer layer : {Layer::kDot, Layer::kMultiHead, Layer::kMultiHeadAdditive}) {
    INFO(layer_name(layer));
    const LayerCase c({.layer = layer, .batch = 5, .num_queries = 70, .num_keys = 90});
    attend_plan_options options{};
    options.threads = 3;
    const Both both(c, {.threads = 3}, &options);
    const RunResult expected = run_plan(both.cpp, c.inputs());
    const ExecutorHandle pool = make<ExecutorHandle>(attend_executor_create, 3);
    CHECK(same_bits(run_c(both.plan.get(), both.cpp, c.inputs(), false, pool.get()), expected));

    OwnPool own;
    attend_executor_callbacks callbacks = own.callbacks();
    const ExecutorHandle lent = make<ExecutorHandle>(attend_executor_create_from_callbacks, &callbacks);
    callbacks = {};  // copied
    CHECK(same_bits(run_c(both.plan.get(), both.cpp, c.inputs(), false, lent.get()), expected));
    CHECK(own.loops > 0);
    CHECK(own.tasks > 1);
    own.concurrency = -7;  // counts as 1
    CHECK(same_bits(run_c(both.plan.get(), both.cpp, c.inputs(), false, lent.get()), expected));

    // Softmax over the same executor.
    own.concurrency = 3;
    const int loops = own.loops;
    const std::int64_t rows = 200, columns = 10;
    std::vector<float> scores(2000);
    for (std::size_t i = 0; i < scores.size(); ++i) scores[i] = static_cast<float>(i % 17) - 8;
    std::vector<float> truth(scores.size()), weights(scores.size());
    masked_softmax(TensorView<const float>(scores.data(), {1, rows, columns}), {},
                   TensorView<float>(truth.data(), {1, rows, columns}));
    const attend_tensor input{scores.data(), 3, {1, rows, columns}, {}};
    const attend_output_tensor output{weights.data(), 3, {1, rows, columns}, {}};
    const attend_masked_softmax_options softmax{.target = nullptr, .executor = lent.get()};
    CHECK(attend_masked_softmax(&input, nullptr, &output, &softmax, nullptr) == ATTEND_OK);
    CHECK(same_bits(weights, truth));
    CHECK(own.loops > loops);
  }
}

TEST_CASE("C API: loops that are not worth a callback stay on the calling thread") {
  const LayerCase c({.layer = Layer::kMultiHead, .batch = 1, .num_queries = 2, .num_keys = 3});
  attend_plan_options options{};
  options.threads = 3;
  const Both both(c, {.threads = 3}, &options);
  const RunResult expected = run_plan(both.cpp, c.inputs());
  for (const double least : {-1.0, 0.0, 1e-12, 1.0}) {
    CAPTURE(least);
    OwnPool own;
    own.least_seconds = least;  // 0: as the built-in pool's
    const attend_executor_callbacks callbacks = own.callbacks();
    const ExecutorHandle lent = make<ExecutorHandle>(attend_executor_create_from_callbacks, &callbacks);
    CHECK(same_bits(run_c(both.plan.get(), both.cpp, c.inputs(), false, lent.get()), expected));
    CHECK((own.loops > 0) == (least < 0 || least == 1e-12));
  }
  attend_executor_callbacks callbacks = OwnPool().callbacks();
  callbacks.least_seconds = std::numeric_limits<double>::quiet_NaN();
  attend_executor* executor = nullptr;
  Said said;
  CHECK(attend_executor_create_from_callbacks(&callbacks, &executor, &said.error) == ATTEND_ERROR_INVALID);
  CHECK(missing_parts(said.message(), {"least_seconds", "nan", "number of seconds"}) == "");
  CHECK(executor == nullptr);
}

TEST_CASE("C API: masked_softmax, every target, in place too") {
  for_each_target([](const Target& target) {
    const std::string name = target.name();
    Random random(5);
    const Tensor scores = random.normal({2, 3, 4, 11}, 3);
    const LengthsTensor lens = random.lengths({2, 4}, 0, 11);
    Tensor expected = scores, actual = scores;
    masked_softmax(scores.view(), lens.view(), expected.view(), {.target = target});
    const attend_tensor input = c_view<attend_tensor>(static_cast<const Tensor&>(actual).view());
    const attend_output_tensor output = c_view<attend_output_tensor>(actual.view());
    const attend_lengths lengths = c_view<attend_lengths>(lens.view());
    const attend_masked_softmax_options options{.target = name.c_str(), .executor = nullptr};
    CHECK(attend_masked_softmax(&input, &lengths, &output, &options, nullptr) == ATTEND_OK);
    CHECK(same_bits(actual.data, expected.data));

    // Refusals.
    const std::vector<float> before = actual.data;
    attend_lengths bad = lengths;
    bad.sizes[0] = 7;
    Said said;
    CHECK(attend_masked_softmax(&input, &bad, &output, &options, &said.error) == ATTEND_ERROR_INVALID);
    CHECK(said.message() == error_message([&] {
            masked_softmax(scores.view(), TensorView<const std::int32_t>(lens.data.data(), {7, 4}), actual.view());
          }));
    attend_masked_softmax_options unknown{};
    unknown.target = "Z80";
    CHECK(attend_masked_softmax(&input, &lengths, &output, &unknown, &said.error) == ATTEND_ERROR_INVALID);
    CHECK(said.message() == error_message([] { Target::from_name("Z80"); }));
    CHECK(same_bits(actual.data, before));
  });
}

TEST_CASE("C API: a run's refusals carry the C++ message and change no output") {
  static const std::int32_t negative[] = {2, -1};
  static const float zeros[4096] = {};
  struct Mistake {
    const char* name;
    std::function<void(Inputs& in, Outputs& out)> make;
  };
  const std::vector<Mistake> mistakes = {
      {"no queries", [](Inputs& in, Outputs&) { in.queries = {}; }},
      {"queries of rank 2",
       [](Inputs& in, Outputs&) {
         in.queries = TensorView<const float>(zeros, {3, 8});
       }},
      {"keys of another size",
       [](Inputs& in, Outputs&) {
         in.keys = TensorView<const float>(zeros, {2, 9, 64});
       }},
      {"values at null",
       [](Inputs& in, Outputs&) {
         in.values = TensorView<const float>(nullptr, {2, 9, 5});
       }},
      {"values' stride",
       [](Inputs& in, Outputs&) {
         in.values = TensorView<const float>(zeros, {2, 9, 5}, {500, 50, 2});
       }},
      {"negative length", [](Inputs& in, Outputs&) { in.valid_lens = TensorView<const std::int32_t>(negative, {2}); }},
      {"lengths of rank 3",
       [](Inputs& in, Outputs&) {
         in.valid_lens = TensorView<const std::int32_t>(negative, {2, 1, 1});
       }},
      {"no output", [](Inputs&, Outputs& out) { out.output = {}; }},
      {"output's stride",
       [](Inputs&, Outputs& out) {
         out.output = TensorView<float>(out.output.data(), out.output.sizes(), std::vector<std::int64_t>{0, 30, 1});
       }},
      {"weights not planned",
       [](Inputs&, Outputs& out) {
         out.attention_weights = TensorView<float>(out.output.data(), {2, 3, 9});
       }},
      {"too many queries",
       [](Inputs& in, Outputs&) {
         in.queries = TensorView<const float>(zeros, {2, 13, 8});
       }},
  };
  for (const Layer layer : {Layer::kAdditive, Layer::kDot, Layer::kBilinear, Layer::kGaussian, Layer::kMultiHead}) {
    const LayerCase c({.layer = layer});
    const Both both(c);
    const WorkspaceHandle workspace = make<WorkspaceHandle>(attend_workspace_create, both.plan.get());
    Workspace cpp_workspace(both.cpp);
    std::vector<float> scratch(1 << 10, kSentinel);
    const std::vector<float> before = scratch;
    for (const Mistake& mistake : mistakes) {
      INFO(layer_name(layer), ": ", mistake.name);
      Inputs in = c.inputs();
      Outputs out{.output = TensorView<float>(scratch.data(), {2, 3, both.cpp.output_size()}), .attention_weights = {}};
      mistake.make(in, out);
      const std::string expected = error_message([&] { both.cpp.run(in, out, cpp_workspace); });
      REQUIRE(expected != "");
      const attend_inputs inputs = c_inputs(in);
      const attend_outputs outputs = c_outputs(out);
      Said said;
      CHECK(attend_run(both.plan.get(), &inputs, &outputs, workspace.get(), nullptr, &said.error) ==
            ATTEND_ERROR_INVALID);
      CHECK(said.message() == expected);
      CHECK(attend_run(both.plan.get(), &inputs, &outputs, workspace.get(), nullptr, nullptr) == ATTEND_ERROR_INVALID);
      CHECK(same_bits(scratch, before));
    }

    // What no C++ view can be, named.
    struct {
      std::function<void(attend_inputs& in, attend_outputs& out)> make;
      std::vector<std::string> parts;
    } const kNotViews[] = {
        {[](attend_inputs& in, attend_outputs&) { in.keys.rank = 5; }, {"keys", "rank 5", "4"}},
        {[](attend_inputs& in, attend_outputs&) { in.queries.rank = -1; }, {"queries", "rank -1", "0"}},
        {[](attend_inputs& in, attend_outputs&) { in.values.sizes[1] = -9; }, {"values", "(2, -9, ", "negative"}},
        {[](attend_inputs& in, attend_outputs&) { in.valid_lens.rank = 99; }, {"valid_lens", "rank 99"}},
        {[](attend_inputs&, attend_outputs& out) { out.output.rank = std::numeric_limits<std::int32_t>::min(); },
         {"output", "rank -2147483648"}},
        {[](attend_inputs&, attend_outputs& out) {
           out.attention_weights.rank = 2;
           out.attention_weights.sizes[0] = out.attention_weights.sizes[1] = std::int64_t{1} << 40;
         },
         {"attention_weights", "(1099511627776, 1099511627776)"}},
    };
    for (const auto& wrong : kNotViews) {
      attend_inputs inputs = c_inputs(c.inputs());
      attend_outputs outputs = c_outputs(
          {.output = TensorView<float>(scratch.data(), {2, 3, both.cpp.output_size()}), .attention_weights = {}});
      wrong.make(inputs, outputs);
      Said said;
      CHECK(attend_run(both.plan.get(), &inputs, &outputs, workspace.get(), nullptr, &said.error) ==
            ATTEND_ERROR_INVALID);
      CHECK(missing_parts(said.message(), wrong.parts) == "");
      CHECK(same_bits(scratch, before));
    }
  }
}

TEST_CASE("C API: called from C") {
  Random random(3);
  const Tensor queries = random.normal({2, 1, 4}), keys = random.normal({2, 5, 4}), values = random.normal({2, 5, 3});
  const std::int32_t lens[] = {3, 5};
  std::vector<float> output(6, kSentinel);
  Said said;
  CHECK(attend_test_dot_from_c(queries.data.data(), keys.data.data(), values.data.data(), lens, output.data(),
                               &said.error) == ATTEND_OK);
  const Plan plan =
      DotAttention().plan({.batch = 2, .num_queries = 1, .num_keys = 5, .query_size = 4, .value_size = 3});
  CHECK(same_bits(output, run_plan(plan, {.queries = queries.view(),
                                          .keys = keys.view(),
                                          .values = values.view(),
                                          .valid_lens = TensorView<const std::int32_t>(lens, {2})})
                              .output));
  CHECK(attend_test_status_from_c(&said.error) == 1);
  CHECK(missing_parts(said.message(), {"sigma", "0"}) == "");
}

}  // namespace attend::tests
