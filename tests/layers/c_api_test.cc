// The C API: the bits, the refusals and the messages of the C++ one, and nothing that crosses the border but a status.
#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include "attend/attend.h"
#include "attend/attend_c.h"
#include "tests/support/compare.h"
#include "tests/support/for_each_target.h"
#include "tests/support/layer_cases.h"
#include "tests/support/run.h"

// c_api_compiles_as_c.c
extern "C" {
attend_status attend_test_dot_from_c(const float* queries, const float* keys, const float* values,
                                     const int32_t* valid_lens, float* output, attend_error* error);
int attend_test_status_from_c(attend_error* error);
}

namespace attend::tests {
namespace {

template <auto destroy>
struct Destroy {
  template <class Handle>
  void operator()(Handle* handle) const {
    destroy(handle);
  }
};
using LayerHandle = std::unique_ptr<attend_layer, Destroy<attend_layer_destroy>>;
using PlanHandle = std::unique_ptr<attend_plan, Destroy<attend_plan_destroy>>;
using WorkspaceHandle = std::unique_ptr<attend_workspace, Destroy<attend_workspace_destroy>>;
using ExecutorHandle = std::unique_ptr<attend_executor, Destroy<attend_executor_destroy>>;

// What a call said, before and after: an error whose every byte is known.
struct Said {
  Said() { std::memset(error.message, '#', sizeof error.message); }
  std::string message() const { return error.message; }
  bool untouched() const {
    return std::all_of(std::begin(error.message), std::end(error.message), [](char c) { return c == '#'; });
  }
  attend_error error;
};

// Calls create(args..., &handle, &error), which must succeed.
template <class Owner, class... Parameters, class... Args>
Owner make(attend_status (*create)(Parameters...), Args... args) {
  typename Owner::pointer handle = nullptr;
  Said said;
  const attend_status status = create(args..., &handle, &said.error);
  INFO((status == ATTEND_OK ? "" : said.message()));
  REQUIRE(status == ATTEND_OK);
  REQUIRE(handle != nullptr);
  CHECK(said.untouched());
  return Owner(handle);
}

// The C view of a C++ one, strides written out.
template <class View, class T>
View c_view(const TensorView<T>& view) {
  View c{};
  c.data = view.data();
  c.rank = view.rank();
  std::copy(view.sizes().begin(), view.sizes().end(), c.sizes);
  std::copy(view.strides().begin(), view.strides().end(), c.strides);
  return c;
}
attend_inputs c_inputs(const Inputs& in) {
  return {.queries = c_view<attend_tensor>(in.queries),
          .keys = c_view<attend_tensor>(in.keys),
          .values = c_view<attend_tensor>(in.values),
          .valid_lens = c_view<attend_lengths>(in.valid_lens)};
}
attend_outputs c_outputs(const Outputs& out) {
  return {.output = c_view<attend_output_tensor>(out.output),
          .attention_weights = c_view<attend_output_tensor>(out.attention_weights)};
}

std::vector<attend_parameter> c_parameters(const LayerCase& c) {
  std::vector<attend_parameter> parameters;
  for (const auto& [name, tensor] : c.weights) {
    parameters.push_back({.name = name.c_str(), .tensor = c_view<attend_tensor>(tensor.view())});
  }
  return parameters;
}

LayerHandle c_layer(const LayerCase& c) {
  const std::vector<attend_parameter> parameters = c_parameters(c);
  const float half = 0.5f;
  switch (c.spec.layer) {
    case Layer::kAdditive:
      return make<LayerHandle>(attend_layer_create_additive, parameters.data(), parameters.size());
    case Layer::kDot:
    case Layer::kDotHeads:
      return make<LayerHandle>(attend_layer_create_dot, nullptr);
    case Layer::kBilinear:
      return make<LayerHandle>(attend_layer_create_bilinear, &half, parameters.data(), parameters.size());
    case Layer::kGaussian:
    case Layer::kGaussianHeads:
      return make<LayerHandle>(attend_layer_create_gaussian, c.sigma());
    case Layer::kMultiHead:
    case Layer::kMultiHeadAdditive:
      break;
  }
  const attend_multi_head_options options{
      .num_heads = c.spec.num_heads,
      .scoring = c.spec.layer == Layer::kMultiHead ? ATTEND_SCORING_DOT : ATTEND_SCORING_ADDITIVE,
      .scale = nullptr};
  return make<LayerHandle>(attend_layer_create_multi_head, &options, parameters.data(), parameters.size());
}

attend_shape c_shape(const Shape& s) {
  return {.batch = s.batch,
          .num_queries = s.num_queries,
          .num_keys = s.num_keys,
          .query_size = s.query_size,
          .key_size = s.key_size,
          .value_size = s.value_size,
          .num_heads = s.num_heads};
}

// The text of a text-out function, asked for its length first.
template <class TextOut>
std::string text_of(const TextOut& text_out) {
  std::size_t length = 0;
  REQUIRE(text_out(nullptr, 0, &length) == ATTEND_OK);
  std::string text(length + 1, '#');
  std::size_t again = 0;
  REQUIRE(text_out(text.data(), text.size(), &again) == ATTEND_OK);
  CHECK(again == length);
  CHECK(text.back() == '\0');
  text.pop_back();
  return text;
}
std::string explanation(const attend_plan* plan) {
  return text_of([&](char* buffer, std::size_t capacity, std::size_t* length) {
    return attend_plan_explain(plan, buffer, capacity, length, nullptr);
  });
}
std::string target_name(const attend_plan* plan) {
  return text_of([&](char* buffer, std::size_t capacity, std::size_t* length) {
    return attend_plan_target_name(plan, buffer, capacity, length, nullptr);
  });
}

// As run_plan() of tests/support/run.h, through C. cpp: the same plan, for the sizes of the outputs.
RunResult run_c(const attend_plan* plan, const Plan& cpp, const Inputs& in, bool with_weights,
                attend_executor* executor = nullptr) {
  const WorkspaceHandle workspace = make<WorkspaceHandle>(attend_workspace_create, plan);
  RunResult result{sentinels(output_sizes(cpp, in)), {}};
  Outputs out{.output = TensorView<float>(result.output.data(), output_sizes(cpp, in)), .attention_weights = {}};
  if (with_weights) {
    result.attention_weights = sentinels(weights_sizes(cpp, in));
    out.attention_weights = TensorView<float>(result.attention_weights.data(), weights_sizes(cpp, in));
  }
  const attend_inputs inputs = c_inputs(in);
  const attend_outputs outputs = c_outputs(out);
  Said said;
  const attend_status status = attend_run(plan, &inputs, &outputs, workspace.get(), executor, &said.error);
  CHECK(status == ATTEND_OK);
  CHECK(said.untouched());
  return result;
}

// The caller's pool: threads of its own, one per task, and a count of what it was asked for.
struct OwnPool {
  int concurrency = 3;
  std::atomic<int> loops{0};
  std::atomic<std::size_t> tasks{0};

  attend_executor_callbacks callbacks() {
    return {.context = this,
            .concurrency = [](void* self) { return static_cast<OwnPool*>(self)->concurrency; },
            .parallel_for =
                [](void* self, std::size_t num_tasks, void (*task)(void*, std::size_t), void* task_context) {
                  auto* pool = static_cast<OwnPool*>(self);
                  ++pool->loops;
                  pool->tasks += num_tasks;
                  std::vector<std::thread> threads;
                  for (std::size_t i = num_tasks; i-- > 0;) threads.emplace_back([=] { task(task_context, i); });
                  for (std::thread& thread : threads) thread.join();
                }};
  }
};

// Plans and runs of one problem in both languages.
struct Both {
  explicit Both(const LayerCase& c, const PlanOptions& options = {}, const attend_plan_options* c_options = nullptr)
      : cpp(c.attention.plan(c.shape, options)), layer(c_layer(c)) {
    const attend_shape shape = c_shape(c.shape);
    plan = make<PlanHandle>(attend_plan_create, layer.get(), &shape, c_options);
  }
  Plan cpp;
  LayerHandle layer;
  PlanHandle plan;
};

}  // namespace

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

TEST_CASE("C API: what plans say of themselves") {
  const LayerCase c({.layer = Layer::kMultiHead});
  attend_plan_options options{};
  options.threads = 3;
  options.concat_queries = 1;
  options.valid_lens = ATTEND_VALID_LENS_PER_BATCH;
  const Both both(c, {.threads = 3, .concat_queries = true, .valid_lens = ValidLens::kPerBatch}, &options);
  std::size_t bytes = 0;
  std::int64_t output_size = 0;
  CHECK(attend_plan_workspace_bytes(both.plan.get(), &bytes, nullptr) == ATTEND_OK);
  CHECK(attend_plan_output_size(both.plan.get(), &output_size, nullptr) == ATTEND_OK);
  CHECK(bytes == both.cpp.workspace_bytes());
  CHECK(output_size == both.cpp.output_size());
  CHECK(output_size == c.output_size() + c.spec.size);
  CHECK(explanation(both.plan.get()) == both.cpp.explain());
  CHECK(same_bits(run_c(both.plan.get(), both.cpp, c.inputs(), false), run_plan(both.cpp, c.inputs())));

  // Lengths promised, and the path.
  const LayerCase dot({.layer = Layer::kDot});
  const LayerHandle layer = c_layer(dot);
  const attend_shape shape = c_shape(dot.shape);
  for (const std::string& path : fit_paths(dot.attention, dot.shape, {})) {
    attend_plan_options forced{};
    forced.path = path.c_str();
    const PlanHandle plan = make<PlanHandle>(attend_plan_create, layer.get(), &shape, &forced);
    CHECK(explanation(plan.get()) == dot.attention.plan(dot.shape, {.path = path}).explain());
  }
}

TEST_CASE("C API: a zeroed struct means the defaults") {
  const LayerCase c({.layer = Layer::kDot, .batch = 1, .num_queries = 1, .num_keys = 1, .lens = Lens::kNone});
  const LayerHandle layer = c_layer(c);
  attend_shape shape{};
  shape.query_size = 8;
  const attend_plan_options zeroed{};
  const std::string expected = c.attention.plan({.query_size = 8}).explain();
  CHECK(explanation(make<PlanHandle>(attend_plan_create, layer.get(), &shape, &zeroed).get()) == expected);
  CHECK(explanation(make<PlanHandle>(attend_plan_create, layer.get(), &shape, nullptr).get()) == expected);
  attend_plan_options empty{};
  empty.target = empty.path = "";
  CHECK(explanation(make<PlanHandle>(attend_plan_create, layer.get(), &shape, &empty).get()) == expected);

  // One head by default.
  const LayerCase one({.layer = Layer::kMultiHead, .num_heads = 1});
  const std::vector<attend_parameter> parameters = c_parameters(one);
  const attend_multi_head_options options{};
  const attend_shape full = c_shape(one.shape);
  for (const attend_multi_head_options* given : {&options, static_cast<const attend_multi_head_options*>(nullptr)}) {
    const LayerHandle heads =
        make<LayerHandle>(attend_layer_create_multi_head, given, parameters.data(), parameters.size());
    const PlanHandle plan = make<PlanHandle>(attend_plan_create, heads.get(), &full, nullptr);
    CHECK(explanation(plan.get()) == one.attention.plan(one.shape).explain());
  }
}

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

TEST_CASE("C API: targets are listed as in C++") {
  std::size_t count = 0;
  REQUIRE(attend_target_count(&count, nullptr) == ATTEND_OK);
  const std::vector<Target> targets = Target::available();
  REQUIRE(count == targets.size());
  for (std::size_t i = 0; i < count; ++i) {
    CHECK(text_of([&](char* buffer, std::size_t capacity, std::size_t* length) {
            return attend_target_name(i, buffer, capacity, length, nullptr);
          }) == targets[i].name());
  }
  Said said;
  char buffer[8] = "same";
  CHECK(attend_target_name(count, buffer, sizeof buffer, nullptr, &said.error) == ATTEND_ERROR_INVALID);
  CHECK(missing_parts(said.message(), {"index", std::to_string(count), std::to_string(count - 1)}) == "");
  CHECK(std::string(buffer) == "same");
}

TEST_CASE("C API: text is cut to the caller's buffer") {
  const Both both(LayerCase({.layer = Layer::kDot}));
  const std::string whole = both.cpp.explain();
  for (const std::size_t capacity : {std::size_t{1}, std::size_t{2}, std::size_t{20}, whole.size(), whole.size() + 1}) {
    std::string buffer(whole.size() + 9, '#');
    std::size_t length = 0;
    CHECK(attend_plan_explain(both.plan.get(), buffer.data(), capacity, &length, nullptr) == ATTEND_OK);
    CHECK(length == whole.size());
    CHECK(buffer == whole.substr(0, capacity - 1) + '\0' + std::string(buffer.size() - capacity, '#'));
  }
  CHECK(attend_plan_explain(both.plan.get(), nullptr, 0, nullptr, nullptr) == ATTEND_OK);
  Said said;
  std::size_t length = 77;
  CHECK(attend_plan_explain(both.plan.get(), nullptr, 5, &length, &said.error) == ATTEND_ERROR_INVALID);
  CHECK(missing_parts(said.message(), {"buffer", "null"}) == "");
  CHECK(length == 77);
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

TEST_CASE("C API: refusals of layers and plans carry the C++ message and leave the handle") {
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
  attend_multi_head_options unknown{};
  unknown.scoring = 2;
  CHECK(attend_layer_create_multi_head(&unknown, parameters.data(), parameters.size(), &layer, &said.error) ==
        ATTEND_ERROR_INVALID);
  CHECK(missing_parts(said.message(), {"scoring", "2", "ATTEND_SCORING_DOT"}) == "");

  // Plans.
  const LayerCase dot({.layer = Layer::kDot});
  const LayerHandle good = c_layer(dot);
  struct {
    std::function<void(Shape&, PlanOptions&)> make;
  } const kMistakes[] = {
      {[](Shape& s, PlanOptions&) { s.batch = -1; }},
      {[](Shape& s, PlanOptions&) { s.key_size = 64; }},
      {[](Shape& s, PlanOptions&) { s.num_keys = std::int64_t{1} << 40; }},
      {[](Shape& s, PlanOptions&) { s.num_heads = -3; }},
      {[](Shape&, PlanOptions& o) { o.threads = -4; }},
      {[](Shape&, PlanOptions& o) { o.path = "dot/imaginary"; }},
  };
  for (const auto& mistake : kMistakes) {
    Shape shape = dot.shape;
    PlanOptions options;
    mistake.make(shape, options);
    const attend_shape c = c_shape(shape);
    attend_plan_options c_options{};
    c_options.threads = options.threads;
    c_options.path = options.path.c_str();
    attend_plan* plan = nullptr;
    CHECK(attend_plan_create(good.get(), &c, &c_options, &plan, &said.error) == ATTEND_ERROR_INVALID);
    CHECK(said.message() == error_message([&] { dot.attention.plan(shape, options); }));
    CHECK(plan == nullptr);
  }
  const attend_shape shape = c_shape(dot.shape);
  attend_plan* plan = nullptr;
  attend_plan_options options{};
  options.valid_lens = 4;
  CHECK(attend_plan_create(good.get(), &shape, &options, &plan, &said.error) == ATTEND_ERROR_INVALID);
  CHECK(missing_parts(said.message(), {"valid_lens", "4", "ATTEND_VALID_LENS_ANY"}) == "");
  options = {};
  options.target = "Z80";
  CHECK(attend_plan_create(good.get(), &shape, &options, &plan, &said.error) == ATTEND_ERROR_INVALID);
  CHECK(said.message() == error_message([] { Target::from_name("Z80"); }));
  CHECK(plan == nullptr);

  attend_executor* executor = nullptr;
  CHECK(attend_executor_create(-2, &executor, &said.error) == ATTEND_ERROR_INVALID);
  CHECK(said.message() == error_message([] { ThreadPool pool(-2); }));
  CHECK(executor == nullptr);
}

TEST_CASE("C API: null where a pointer is required is invalid, null to destroy is fine") {
  attend_layer_destroy(nullptr);
  attend_plan_destroy(nullptr);
  attend_workspace_destroy(nullptr);
  attend_executor_destroy(nullptr);

  const LayerCase c({.layer = Layer::kDot});
  const Both both(c);
  const attend_plan* const plan = both.plan.get();
  const WorkspaceHandle workspace = make<WorkspaceHandle>(attend_workspace_create, plan);
  const attend_shape shape = c_shape(c.shape);
  const attend_inputs in = c_inputs(c.inputs());
  std::vector<float> memory(30, kSentinel);
  const attend_outputs out = c_outputs({.output = {memory.data(), {2, 3, 5}}, .attention_weights = {}});
  attend_layer* new_layer = nullptr;
  attend_plan* new_plan = nullptr;
  attend_workspace* new_workspace = nullptr;
  attend_executor* new_executor = nullptr;
  std::int64_t size = -1;
  std::size_t bytes = 77;
  OwnPool own;
  attend_executor_callbacks no_concurrency = own.callbacks(), no_loop = own.callbacks();
  no_concurrency.concurrency = nullptr;
  no_loop.parallel_for = nullptr;
  const auto parameter = std::make_unique<attend_parameter>();

  const struct {
    const char* name;
    std::function<attend_status(attend_error*)> call;
  } kCalls[] = {
      {"layer", [](attend_error* e) { return attend_layer_create_dot(nullptr, nullptr, e); }},
      {"layer", [](attend_error* e) { return attend_layer_create_gaussian(1, nullptr, e); }},
      {"layer", [&](attend_error* e) { return attend_layer_create_additive(parameter.get(), 1, nullptr, e); }},
      {"layer", [&](attend_error* e) { return attend_layer_create_bilinear(nullptr, parameter.get(), 1, nullptr, e); }},
      {"layer",
       [&](attend_error* e) { return attend_layer_create_multi_head(nullptr, parameter.get(), 1, nullptr, e); }},
      {"parameters", [&](attend_error* e) { return attend_layer_create_additive(nullptr, 3, &new_layer, e); }},
      {"parameters", [&](attend_error* e) { return attend_layer_create_bilinear(nullptr, nullptr, 3, &new_layer, e); }},
      {"parameters",
       [&](attend_error* e) { return attend_layer_create_multi_head(nullptr, nullptr, 3, &new_layer, e); }},
      {"layer", [&](attend_error* e) { return attend_plan_create(nullptr, &shape, nullptr, &new_plan, e); }},
      {"shape", [&](attend_error* e) { return attend_plan_create(both.layer.get(), nullptr, nullptr, &new_plan, e); }},
      {"plan", [&](attend_error* e) { return attend_plan_create(both.layer.get(), &shape, nullptr, nullptr, e); }},
      {"plan", [&](attend_error* e) { return attend_plan_explain(nullptr, nullptr, 0, &bytes, e); }},
      {"plan", [&](attend_error* e) { return attend_plan_target_name(nullptr, nullptr, 0, &bytes, e); }},
      {"plan", [&](attend_error* e) { return attend_plan_workspace_bytes(nullptr, &bytes, e); }},
      {"bytes", [&](attend_error* e) { return attend_plan_workspace_bytes(plan, nullptr, e); }},
      {"plan", [&](attend_error* e) { return attend_plan_output_size(nullptr, &size, e); }},
      {"output_size", [&](attend_error* e) { return attend_plan_output_size(plan, nullptr, e); }},
      {"plan", [&](attend_error* e) { return attend_workspace_create(nullptr, &new_workspace, e); }},
      {"workspace", [&](attend_error* e) { return attend_workspace_create(plan, nullptr, e); }},
      {"memory", [&](attend_error* e) { return attend_workspace_create_in(nullptr, 64, &new_workspace, e); }},
      {"workspace", [&](attend_error* e) { return attend_workspace_create_in(memory.data(), 64, nullptr, e); }},
      {"executor", [](attend_error* e) { return attend_executor_create(1, nullptr, e); }},
      {"callbacks", [&](attend_error* e) { return attend_executor_create_from_callbacks(nullptr, &new_executor, e); }},
      {"concurrency",
       [&](attend_error* e) { return attend_executor_create_from_callbacks(&no_concurrency, &new_executor, e); }},
      {"parallel_for",
       [&](attend_error* e) { return attend_executor_create_from_callbacks(&no_loop, &new_executor, e); }},
      {"plan", [&](attend_error* e) { return attend_run(nullptr, &in, &out, workspace.get(), nullptr, e); }},
      {"inputs", [&](attend_error* e) { return attend_run(plan, nullptr, &out, workspace.get(), nullptr, e); }},
      {"outputs", [&](attend_error* e) { return attend_run(plan, &in, nullptr, workspace.get(), nullptr, e); }},
      {"workspace", [&](attend_error* e) { return attend_run(plan, &in, &out, nullptr, nullptr, e); }},
      {"input", [&](attend_error* e) { return attend_masked_softmax(nullptr, nullptr, &out.output, nullptr, e); }},
      {"output", [&](attend_error* e) { return attend_masked_softmax(&in.queries, nullptr, nullptr, nullptr, e); }},
      {"count", [](attend_error* e) { return attend_target_count(nullptr, e); }},
      {"buffer", [&](attend_error* e) { return attend_target_name(0, nullptr, 9, &bytes, e); }},
  };
  for (const auto& refused : kCalls) {
    INFO(refused.name);
    Said said;
    CHECK(refused.call(&said.error) == ATTEND_ERROR_INVALID);
    CHECK(said.message().starts_with(std::string(refused.name) + " is a null pointer, expected "));
    CHECK(refused.call(nullptr) == ATTEND_ERROR_INVALID);
  }
  CHECK(new_layer == nullptr);
  CHECK(new_plan == nullptr);
  CHECK(new_workspace == nullptr);
  CHECK(new_executor == nullptr);
  CHECK(size == -1);
  CHECK(bytes == 77);
  CHECK(std::all_of(memory.begin(), memory.end(), [](float x) { return x == kSentinel; }));
}

TEST_CASE("C API: long messages are cut to the error, whatever their bytes") {
  // Euro signs, three bytes each, before and after the cut, at every offset of the sequence.
  for (std::size_t offset = 0; offset < 3; ++offset) {
    std::string name(offset, 'x');
    while (name.size() < 2000) name += "\xE2\x82\xAC";
    const attend_parameter twice[] = {{.name = name.c_str(), .tensor = {nullptr, 1, {0}, {}}},
                                      {.name = name.c_str(), .tensor = {nullptr, 1, {0}, {}}}};
    attend_layer* layer = nullptr;
    struct {
      Said said;
      char after[8] = "intact.";
    } memory;
    CHECK(attend_layer_create_additive(twice, 2, &layer, &memory.said.error) == ATTEND_ERROR_INVALID);
    const std::string whole = "parameters: two tensors are named " + name;
    CHECK(memory.said.message() == whole.substr(0, sizeof(attend_error::message) - 1));
    CHECK(std::string(memory.after) == "intact.");
    CHECK(layer == nullptr);
  }
}

TEST_CASE("C API: a workspace in the caller's memory serves, one that is too small is refused") {
  const LayerCase c({.layer = Layer::kAdditive});
  const Both both(c);
  const RunResult expected = run_plan(both.cpp, c.inputs());
  const attend_inputs in = c_inputs(c.inputs());
  std::vector<float> output(expected.output.size(), kSentinel);
  const std::vector<float> before = output;
  const attend_outputs out = c_outputs({.output = {output.data(), {2, 3, 5}}, .attention_weights = {}});
  const std::size_t bytes = both.cpp.workspace_bytes();
  std::vector<std::byte> memory(bytes + 64 + 7);
  const WorkspaceHandle lent = make<WorkspaceHandle>(attend_workspace_create_in, memory.data() + 7, bytes + 64);
  CHECK(attend_run(both.plan.get(), &in, &out, lent.get(), nullptr, nullptr) == ATTEND_OK);
  CHECK(same_bits(output, expected.output));

  output = before;
  Workspace cpp_small(std::span<std::byte>(memory.data(), bytes - 1));
  const WorkspaceHandle small = make<WorkspaceHandle>(attend_workspace_create_in, memory.data(), bytes - 1);
  Said said;
  CHECK(attend_run(both.plan.get(), &in, &out, small.get(), nullptr, &said.error) == ATTEND_ERROR_INVALID);
  CHECK(said.message() == error_message([&] {
          std::vector<float> other(output.size());
          both.cpp.run(c.inputs(), {.output = {other.data(), {2, 3, 5}}, .attention_weights = {}}, cpp_small);
        }));
  CHECK(same_bits(output, before));
}

// Sanitizers' allocators end the process where others say no.
#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define ATTEND_TESTS_ALLOCATOR_ABORTS
#endif
#elif defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define ATTEND_TESTS_ALLOCATOR_ABORTS
#endif
#ifndef ATTEND_TESTS_ALLOCATOR_ABORTS
TEST_CASE("C API: no memory is a status") {
  const LayerHandle layer = make<LayerHandle>(attend_layer_create_dot, nullptr);
  attend_shape shape{};
  shape.batch = std::int64_t{1} << 48;  // one length per entry: more than any machine has
  shape.query_size = 1;
  const PlanHandle plan = make<PlanHandle>(attend_plan_create, layer.get(), &shape, nullptr);
  attend_workspace* workspace = nullptr;
  Said said;
  CHECK(attend_workspace_create(plan.get(), &workspace, &said.error) == ATTEND_ERROR_OUT_OF_MEMORY);
  CHECK(said.message() == "std::bad_alloc");
  CHECK(workspace == nullptr);
}
#endif

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
