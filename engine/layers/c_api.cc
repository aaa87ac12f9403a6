// The C face: converts, calls the C++ face, turns exceptions into statuses. Nothing is decided here.
#include "attend/attend_c.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <exception>
#include <limits>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "attend/attend.h"
#include "engine/base/message.h"

struct attend_layer {
  attend::Attention attention;
};
struct attend_plan {
  attend::Plan plan;
};
struct attend_workspace {
  attend::Workspace workspace;
};
struct attend_executor {
  std::unique_ptr<attend::Executor> executor;
};

// Called by the parallel-for of a C caller, so it has C linkage.
extern "C" {
static void attend_run_task(void* task, size_t index) { (*static_cast<const attend::TaskRef*>(task))(index); }
}

namespace attend {
namespace {

static_assert(ATTEND_MAX_RANK == kMaxRank && sizeof(attend_tensor::sizes) == kMaxRank * sizeof(std::int64_t));

attend_status report(attend_error* error, attend_status status, const char* message) noexcept {
  if (error != nullptr) {
    const std::size_t length = std::min(std::strlen(message), sizeof error->message - 1);
    std::memcpy(error->message, message, length);
    error->message[length] = '\0';
  }
  return status;
}

// The door that no exception passes.
template <class Body>
attend_status guarded(attend_error* error, const Body& body) noexcept {
  try {
    body();
    return ATTEND_OK;
  } catch (const Error& e) {
    return report(error, ATTEND_ERROR_INVALID, e.what());
  } catch (const std::bad_alloc& e) {
    return report(error, ATTEND_ERROR_OUT_OF_MEMORY, e.what());
  } catch (const std::length_error& e) {  // a container asked for more than it could ever hold
    return report(error, ATTEND_ERROR_OUT_OF_MEMORY, e.what());
  } catch (const std::exception& e) {
    return report(error, ATTEND_ERROR_INTERNAL, e.what());
  } catch (...) {
    return report(error, ATTEND_ERROR_INTERNAL, "unknown exception");
  }
}

void require_pointer(const void* pointer, const char* name) {
  if (pointer == nullptr) fail(name, " is a null pointer, expected a valid one");
}

// Text out, as the header's opening comment says.
void copy_text(std::string_view text, char* buffer, std::size_t capacity, std::size_t* length) {
  if (capacity > 0) {
    require_pointer(buffer, "buffer");
    const std::size_t copied = std::min(text.size(), capacity - 1);
    std::memcpy(buffer, text.data(), copied);
    buffer[copied] = '\0';
  }
  if (length != nullptr) *length = text.size();
}

// What TensorView cannot check for us: it could not name the tensor, and counting elements must not overflow.
void check_rank_and_sizes(std::int32_t rank, const std::int64_t* sizes, const char* name) {
  if (rank < 0 || rank > kMaxRank) fail(name, " has rank ", rank, ", expected 0 to ", kMaxRank);
  const std::span<const std::int64_t> given(sizes, static_cast<std::size_t>(rank));
  std::int64_t count = 1;
  for (const std::int64_t size : given) {
    if (size < 0) fail(name, " is ", to_string(given), ", expected no negative size");
    if (size > 0 && count > std::numeric_limits<std::int64_t>::max() / size) {
      fail(name, " is ", to_string(given), ", expected fewer elements than that");
    }
    count *= std::max<std::int64_t>(size, 1);
  }
}

// View: attend_tensor, attend_output_tensor or attend_lengths.
template <class View>
auto view_of(const View& view, const char* name) {
  using T = std::remove_pointer_t<decltype(view.data)>;
  check_rank_and_sizes(view.rank, view.sizes, name);
  const auto rank = static_cast<std::size_t>(view.rank);
  const std::span<const std::int64_t> sizes(view.sizes, rank), strides(view.strides, rank);
  const bool dense = std::all_of(strides.begin(), strides.end(), [](std::int64_t stride) { return stride == 0; });
  return dense ? TensorView<T>(view.data, sizes) : TensorView<T>(view.data, sizes, strides);
}

// A dense copy of any view.
Tensor dense_copy(const TensorView<const float>& view, const char* name) {
  Tensor tensor{{view.sizes().begin(), view.sizes().end()}, {}};
  const std::int64_t count = view.num_elements();
  if (count == 0) return tensor;
  if (view.data() == nullptr) fail(name, " is ", to_string(view.sizes()), " at a null pointer, expected memory");
  std::array<std::int64_t, kMaxRank> sizes{1, 1, 1, 1}, strides{};
  const auto missing = static_cast<std::size_t>(kMaxRank - view.rank());
  std::copy(view.sizes().begin(), view.sizes().end(), sizes.begin() + missing);
  std::copy(view.strides().begin(), view.strides().end(), strides.begin() + missing);
  tensor.data.reserve(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < sizes[0]; ++i) {
    for (std::int64_t j = 0; j < sizes[1]; ++j) {
      for (std::int64_t k = 0; k < sizes[2]; ++k) {
        const float* row = view.data() + i * strides[0] + j * strides[1] + k * strides[2];
        for (std::int64_t l = 0; l < sizes[3]; ++l) tensor.data.push_back(row[l * strides[3]]);
      }
    }
  }
  return tensor;
}

Parameters parameters_of(const attend_parameter* parameters, std::size_t count) {
  if (count > 0) require_pointer(parameters, "parameters");
  Parameters result;
  for (std::size_t i = 0; i < count; ++i) {
    const attend_parameter& p = parameters[i];
    if (p.name == nullptr) fail("parameters[", i, "].name is a null pointer, expected a name");
    const TensorView<const float> view = view_of(p.tensor, p.name);
    if (!view.empty()) result.insert(p.name, dense_copy(view, p.name));
  }
  return result;
}

std::optional<float> optional_of(const float* value) { return value != nullptr ? std::optional(*value) : std::nullopt; }

// 0 in a zeroed struct stands for C++'s default of 1.
template <class Integer>
Integer or_one(Integer value) {
  return value != 0 ? value : 1;
}

Shape shape_of(const attend_shape& shape) {
  return {.batch = or_one(shape.batch),
          .num_queries = or_one(shape.num_queries),
          .num_keys = or_one(shape.num_keys),
          .query_size = shape.query_size,
          .key_size = shape.key_size,
          .value_size = shape.value_size,
          .num_heads = or_one(shape.num_heads)};
}

Target target_of(const char* name) {
  return name == nullptr || *name == '\0' ? Target::best() : Target::from_name(name);
}

Scoring scoring_of(std::int32_t scoring) {
  switch (scoring) {
    case ATTEND_SCORING_DOT:
      return Scoring::kDot;
    case ATTEND_SCORING_ADDITIVE:
      return Scoring::kAdditive;
    default:
      fail("scoring is ", scoring, ", expected one of ATTEND_SCORING_DOT, ATTEND_SCORING_ADDITIVE");
  }
}

ValidLens valid_lens_of(std::int32_t valid_lens) {
  switch (valid_lens) {
    case ATTEND_VALID_LENS_ANY:
      return ValidLens::kAny;
    case ATTEND_VALID_LENS_NONE:
      return ValidLens::kNone;
    case ATTEND_VALID_LENS_PER_BATCH:
      return ValidLens::kPerBatch;
    case ATTEND_VALID_LENS_PER_QUERY:
      return ValidLens::kPerQuery;
    default:
      fail("valid_lens is ", valid_lens, ", expected one of ATTEND_VALID_LENS_ANY, _NONE, _PER_BATCH, _PER_QUERY");
  }
}

PlanOptions options_of(const attend_plan_options& options) {
  return {.threads = or_one(options.threads),
          .target = target_of(options.target),
          .attention_weights = options.attention_weights != 0,
          .concat_queries = options.concat_queries != 0,
          .valid_lens = valid_lens_of(options.valid_lens),
          .path = options.path != nullptr ? options.path : ""};
}

class CallbackExecutor final : public Executor {
 public:
  explicit CallbackExecutor(const attend_executor_callbacks& callbacks) : callbacks_(callbacks) {}
  int concurrency() const noexcept override { return std::max(1, callbacks_.concurrency(callbacks_.context)); }
  void parallel_for(std::size_t num_tasks, TaskRef task) override {
    callbacks_.parallel_for(callbacks_.context, num_tasks, &attend_run_task, &task);
  }

 private:
  attend_executor_callbacks callbacks_;
};

// make() gives what the handle holds.
template <class Handle, class Make>
attend_status create(Handle** handle, const char* name, attend_error* error, const Make& make) noexcept {
  return guarded(error, [&] {
    require_pointer(handle, name);
    *handle = new Handle{make()};
  });
}

}  // namespace
}  // namespace attend

extern "C" {

attend_status attend_layer_create_additive(const attend_parameter* parameters, size_t num_parameters,
                                           attend_layer** layer, attend_error* error) {
  return attend::create(layer, "layer", error, [&]() -> attend::Attention {
    return attend::AdditiveAttention(attend::parameters_of(parameters, num_parameters));
  });
}

attend_status attend_layer_create_dot(const float* scale, attend_layer** layer, attend_error* error) {
  return attend::create(layer, "layer", error, [&]() -> attend::Attention {
    return attend::DotAttention({.scale = attend::optional_of(scale)});
  });
}

attend_status attend_layer_create_bilinear(const float* scale, const attend_parameter* parameters,
                                           size_t num_parameters, attend_layer** layer, attend_error* error) {
  return attend::create(layer, "layer", error, [&]() -> attend::Attention {
    attend::BilinearOptions options;
    if (scale != nullptr) options.scale = *scale;
    return attend::BilinearAttention(attend::parameters_of(parameters, num_parameters), options);
  });
}

attend_status attend_layer_create_gaussian(float sigma, attend_layer** layer, attend_error* error) {
  return attend::create(layer, "layer", error,
                        [&]() -> attend::Attention { return attend::GaussianAttention({.sigma = sigma}); });
}

attend_status attend_layer_create_multi_head(const attend_multi_head_options* options,
                                             const attend_parameter* parameters, size_t num_parameters,
                                             attend_layer** layer, attend_error* error) {
  return attend::create(layer, "layer", error, [&]() -> attend::Attention {
    attend::MultiHeadOptions given;
    if (options != nullptr) {
      given = {.num_heads = attend::or_one(options->num_heads),
               .scoring = attend::scoring_of(options->scoring),
               .scale = attend::optional_of(options->scale)};
    }
    return attend::MultiHeadAttention(given, attend::parameters_of(parameters, num_parameters));
  });
}

void attend_layer_destroy(attend_layer* layer) { delete layer; }

attend_status attend_plan_create(const attend_layer* layer, const attend_shape* shape,
                                 const attend_plan_options* options, attend_plan** plan, attend_error* error) {
  return attend::create(plan, "plan", error, [&] {
    attend::require_pointer(layer, "layer");
    attend::require_pointer(shape, "shape");
    return layer->attention.plan(attend::shape_of(*shape),
                                 options != nullptr ? attend::options_of(*options) : attend::PlanOptions());
  });
}

attend_status attend_plan_explain(const attend_plan* plan, char* buffer, size_t capacity, size_t* length,
                                  attend_error* error) {
  return attend::guarded(error, [&] {
    attend::require_pointer(plan, "plan");
    attend::copy_text(plan->plan.explain(), buffer, capacity, length);
  });
}

attend_status attend_plan_target_name(const attend_plan* plan, char* buffer, size_t capacity, size_t* length,
                                      attend_error* error) {
  return attend::guarded(error, [&] {
    attend::require_pointer(plan, "plan");
    attend::copy_text(plan->plan.target_name(), buffer, capacity, length);
  });
}

attend_status attend_plan_workspace_bytes(const attend_plan* plan, size_t* bytes, attend_error* error) {
  return attend::guarded(error, [&] {
    attend::require_pointer(plan, "plan");
    attend::require_pointer(bytes, "bytes");
    *bytes = plan->plan.workspace_bytes();
  });
}

attend_status attend_plan_output_size(const attend_plan* plan, int64_t* output_size, attend_error* error) {
  return attend::guarded(error, [&] {
    attend::require_pointer(plan, "plan");
    attend::require_pointer(output_size, "output_size");
    *output_size = plan->plan.output_size();
  });
}

void attend_plan_destroy(attend_plan* plan) { delete plan; }

attend_status attend_workspace_create(const attend_plan* plan, attend_workspace** workspace, attend_error* error) {
  return attend::create(workspace, "workspace", error, [&] {
    attend::require_pointer(plan, "plan");
    return attend::Workspace(plan->plan);
  });
}

attend_status attend_workspace_create_in(void* memory, size_t bytes, attend_workspace** workspace,
                                         attend_error* error) {
  return attend::create(workspace, "workspace", error, [&] {
    attend::require_pointer(memory, "memory");
    return attend::Workspace(std::span(static_cast<std::byte*>(memory), bytes));
  });
}

void attend_workspace_destroy(attend_workspace* workspace) { delete workspace; }

attend_status attend_executor_create(int32_t threads, attend_executor** executor, attend_error* error) {
  return attend::create(executor, "executor", error, [&] { return std::make_unique<attend::ThreadPool>(threads); });
}

attend_status attend_executor_create_from_callbacks(const attend_executor_callbacks* callbacks,
                                                    attend_executor** executor, attend_error* error) {
  return attend::create(executor, "executor", error, [&] {
    attend::require_pointer(callbacks, "callbacks");
    if (callbacks->concurrency == nullptr) attend::fail("concurrency is a null pointer, expected a callback");
    if (callbacks->parallel_for == nullptr) attend::fail("parallel_for is a null pointer, expected a callback");
    return std::make_unique<attend::CallbackExecutor>(*callbacks);
  });
}

void attend_executor_destroy(attend_executor* executor) { delete executor; }

attend_status attend_run(const attend_plan* plan, const attend_inputs* inputs, const attend_outputs* outputs,
                         attend_workspace* workspace, attend_executor* executor, attend_error* error) {
  return attend::guarded(error, [&] {
    attend::require_pointer(plan, "plan");
    attend::require_pointer(inputs, "inputs");
    attend::require_pointer(outputs, "outputs");
    attend::require_pointer(workspace, "workspace");
    const attend::Inputs in{.queries = attend::view_of(inputs->queries, "queries"),
                            .keys = attend::view_of(inputs->keys, "keys"),
                            .values = attend::view_of(inputs->values, "values"),
                            .valid_lens = attend::view_of(inputs->valid_lens, "valid_lens")};
    const attend::Outputs out{.output = attend::view_of(outputs->output, "output"),
                              .attention_weights = attend::view_of(outputs->attention_weights, "attention_weights")};
    if (executor != nullptr) {
      plan->plan.run(in, out, workspace->workspace, *executor->executor);
    } else {
      plan->plan.run(in, out, workspace->workspace);
    }
  });
}

attend_status attend_masked_softmax(const attend_tensor* input, const attend_lengths* valid_lens,
                                    const attend_output_tensor* output, const attend_masked_softmax_options* options,
                                    attend_error* error) {
  return attend::guarded(error, [&] {
    attend::require_pointer(input, "input");
    attend::require_pointer(output, "output");
    attend::MaskedSoftmaxOptions given;
    if (options != nullptr) {
      given.target = attend::target_of(options->target);
      if (options->executor != nullptr) given.executor = options->executor->executor.get();
    }
    attend::masked_softmax(attend::view_of(*input, "input"),
                           attend::view_of(valid_lens != nullptr ? *valid_lens : attend_lengths{}, "valid_lens"),
                           attend::view_of(*output, "output"), given);
  });
}

attend_status attend_target_count(size_t* count, attend_error* error) {
  return attend::guarded(error, [&] {
    attend::require_pointer(count, "count");
    *count = attend::Target::available().size();
  });
}

attend_status attend_target_name(size_t index, char* buffer, size_t capacity, size_t* length, attend_error* error) {
  return attend::guarded(error, [&] {
    const std::vector<attend::Target> targets = attend::Target::available();
    if (index >= targets.size()) attend::fail("index is ", index, ", expected 0 to ", targets.size() - 1);
    attend::copy_text(targets[index].name(), buffer, capacity, length);
  });
}

}  // extern "C"
