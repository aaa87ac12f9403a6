// What the tests of the C API share: handles with owners, C structs from the C++ ones, calls that must succeed.
#ifndef ATTEND_TESTS_LAYERS_C_API_SUPPORT_H_
#define ATTEND_TESTS_LAYERS_C_API_SUPPORT_H_

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <initializer_list>
#include <iterator>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include "attend/attend.h"
#include "attend/attend_c.h"
#include "tests/support/layer_cases.h"
#include "tests/support/run.h"

namespace attend::tests {

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
using PreparedHandle = std::unique_ptr<attend_prepared_keys, Destroy<attend_prepared_keys_destroy>>;
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

// A call whose argument `name` is a null pointer.
struct NullCall {
  const char* name;
  std::function<attend_status(attend_error*)> call;
};

// Each says which pointer is missing, and does without an error to say it in.
inline void check_nulls_refused(std::initializer_list<NullCall> calls) {
  for (const NullCall& refused : calls) {
    INFO(refused.name);
    Said said;
    CHECK(refused.call(&said.error) == ATTEND_ERROR_INVALID);
    CHECK(said.message().starts_with(std::string(refused.name) + " is a null pointer, expected "));
    CHECK(refused.call(nullptr) == ATTEND_ERROR_INVALID);
  }
}

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
// Prepared keys have no C view of the C++ ones.
inline attend_inputs c_inputs(const Inputs& in, const attend_prepared_keys* prepared = nullptr) {
  return {.queries = c_view<attend_tensor>(in.queries),
          .keys = c_view<attend_tensor>(in.keys),
          .values = c_view<attend_tensor>(in.values),
          .valid_lens = c_view<attend_lengths>(in.valid_lens),
          .prepared = prepared};
}
inline attend_key_inputs c_key_inputs(const KeyInputs& in) {
  return {.keys = c_view<attend_tensor>(in.keys),
          .values = c_view<attend_tensor>(in.values),
          .valid_lens = c_view<attend_lengths>(in.valid_lens)};
}
inline attend_outputs c_outputs(const Outputs& out) {
  return {.output = c_view<attend_output_tensor>(out.output),
          .attention_weights = c_view<attend_output_tensor>(out.attention_weights)};
}

inline std::vector<attend_parameter> c_parameters(const LayerCase& c) {
  std::vector<attend_parameter> parameters;
  for (const auto& [name, tensor] : c.weights) {
    parameters.push_back({.name = name.c_str(), .tensor = c_view<attend_tensor>(tensor.view())});
  }
  return parameters;
}

inline LayerHandle c_layer(const LayerCase& c) {
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
      .scale = nullptr,
      .num_kv_heads = c.spec.num_kv_heads};
  return make<LayerHandle>(attend_layer_create_multi_head, &options, parameters.data(), parameters.size());
}

inline attend_shape c_shape(const Shape& s) {
  return {.batch = s.batch,
          .num_queries = s.num_queries,
          .num_keys = s.num_keys,
          .query_size = s.query_size,
          .key_size = s.key_size,
          .value_size = s.value_size,
          .num_heads = s.num_heads,
          .num_kv_heads = s.num_kv_heads};
}

// The text of a text-out function, asked for its length first.
template <class TextOut>
inline std::string text_of(const TextOut& text_out) {
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
inline std::string explanation(const attend_plan* plan) {
  return text_of([&](char* buffer, std::size_t capacity, std::size_t* length) {
    return attend_plan_explain(plan, buffer, capacity, length, nullptr);
  });
}
inline std::string run_explanation(const attend_plan* plan, const attend_workspace* workspace) {
  return text_of([&](char* buffer, std::size_t capacity, std::size_t* length) {
    return attend_plan_explain_run(plan, workspace, buffer, capacity, length, nullptr);
  });
}
inline std::string target_name(const attend_plan* plan) {
  return text_of([&](char* buffer, std::size_t capacity, std::size_t* length) {
    return attend_plan_target_name(plan, buffer, capacity, length, nullptr);
  });
}

// As run_plan() of tests/support/run.h, through C. cpp: the same plan, for the sizes of the outputs.
inline RunResult run_c(const attend_plan* plan, const Plan& cpp, const Inputs& in, bool with_weights,
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
  double least_seconds = -1;  // the smallest loops too
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
                },
            .least_seconds = least_seconds};
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

}  // namespace attend::tests

#endif  // ATTEND_TESTS_LAYERS_C_API_SUPPORT_H_
