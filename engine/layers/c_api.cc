// The C face: converts, calls the C++ face, turns exceptions into statuses. Nothing is decided here.
#include "attend/attend_c.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <exception>
#include <memory>
#include <new>
#include <span>
#include <stdexcept>
#include <string_view>
#include <vector>

#include "attend/attend.h"
#include "engine/base/message.h"
#include "engine/layers/c_api_convert.h"

struct attend_layer {
  attend::Attention attention;
};
struct attend_plan {
  attend::Plan plan;
  std::int32_t threads;  // as planned, which the plan itself tells nobody
};
struct attend_workspace {
  attend::Workspace workspace;
};
struct attend_prepared_keys {
  attend::PreparedKeys keys;
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

// Of a list that is never empty.
template <class T>
const T& element_of(std::span<const T> all, std::size_t index) {
  if (index >= all.size()) fail("index is ", index, ", expected 0 to ", all.size() - 1);
  return all[index];
}

class CallbackExecutor final : public Executor {
 public:
  explicit CallbackExecutor(const attend_executor_callbacks& callbacks) : callbacks_(callbacks) {}
  int concurrency() const noexcept override { return std::max(1, callbacks_.concurrency(callbacks_.context)); }
  void parallel_for(std::size_t num_tasks, TaskRef task) override {
    callbacks_.parallel_for(callbacks_.context, num_tasks, &attend_run_task, &task);
  }
  double least_seconds() const noexcept override {
    return callbacks_.least_seconds == 0 ? Executor::least_seconds() : std::max(callbacks_.least_seconds, 0.0);
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

// Plan::prepare or Plan::append.
using AddKeys = void (Plan::*)(const KeyInputs&, PreparedKeys&, Workspace&, Executor&) const;
attend_status add_keys(AddKeys add, const attend_plan* plan, const attend_key_inputs* inputs,
                       attend_prepared_keys* prepared, attend_workspace* workspace, attend_executor* executor,
                       attend_error* error) noexcept {
  return guarded(error, [&] {
    require_pointer(plan, "plan");
    require_pointer(inputs, "inputs");
    require_pointer(prepared, "prepared");
    require_pointer(workspace, "workspace");
    const KeyInputs given = key_inputs_of(*inputs);
    SerialExecutor serial;
    Executor& chosen = executor != nullptr ? *executor->executor : serial;
    (plan->plan.*add)(given, prepared->keys, workspace->workspace, chosen);
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
    const attend::MultiHeadOptions given =
        options != nullptr ? attend::options_of(*options) : attend::MultiHeadOptions();
    return attend::MultiHeadAttention(given, attend::parameters_of(parameters, num_parameters));
  });
}

void attend_layer_destroy(attend_layer* layer) { delete layer; }

attend_status attend_plan_create(const attend_layer* layer, const attend_shape* shape,
                                 const attend_plan_options* options, attend_plan** plan, attend_error* error) {
  return attend::create(plan, "plan", error, [&] {
    attend::require_pointer(layer, "layer");
    attend::require_pointer(shape, "shape");
    const attend::PlanOptions given = options != nullptr ? attend::options_of(*options) : attend::PlanOptions();
    return attend_plan{layer->attention.plan(attend::shape_of(*shape), given), given.threads};
  });
}

attend_status attend_plan_explain(const attend_plan* plan, char* buffer, size_t capacity, size_t* length,
                                  attend_error* error) {
  return attend::guarded(error, [&] {
    attend::require_pointer(plan, "plan");
    attend::copy_text(plan->plan.explain(), buffer, capacity, length);
  });
}

attend_status attend_plan_explain_run(const attend_plan* plan, const attend_workspace* workspace, char* buffer,
                                      size_t capacity, size_t* length, attend_error* error) {
  return attend::guarded(error, [&] {
    attend::require_pointer(plan, "plan");
    attend::require_pointer(workspace, "workspace");
    attend::copy_text(plan->plan.explain(workspace->workspace), buffer, capacity, length);
  });
}

attend_status attend_plan_tier_counts(const attend_plan* plan, const attend_workspace* workspace,
                                      attend_tier_counts* counts, attend_error* error) {
  return attend::guarded(error, [&] {
    attend::require_pointer(plan, "plan");
    attend::require_pointer(workspace, "workspace");
    attend::require_pointer(counts, "counts");
    const attend::TierCounts counted = plan->plan.tier_counts(workspace->workspace);
    *counts = {.eight = counted.eight,
               .four = counted.four,
               .three = counted.three,
               .two = counted.two,
               .one = counted.one,
               .rational = counted.rational};
  });
}

attend_status attend_plan_path(const attend_plan* plan, char* buffer, size_t capacity, size_t* length,
                               attend_error* error) {
  return attend::guarded(error, [&] {
    attend::require_pointer(plan, "plan");
    attend::copy_text(plan->plan.path(), buffer, capacity, length);
  });
}

attend_status attend_plan_candidate_count(const attend_plan* plan, size_t* count, attend_error* error) {
  return attend::guarded(error, [&] {
    attend::require_pointer(plan, "plan");
    attend::require_pointer(count, "count");
    *count = plan->plan.candidates().size();
  });
}

attend_status attend_plan_candidate_name(const attend_plan* plan, size_t index, char* buffer, size_t capacity,
                                         size_t* length, attend_error* error) {
  return attend::guarded(error, [&] {
    attend::require_pointer(plan, "plan");
    attend::copy_text(attend::element_of(plan->plan.candidates(), index), buffer, capacity, length);
  });
}

attend_status attend_plan_target_name(const attend_plan* plan, char* buffer, size_t capacity, size_t* length,
                                      attend_error* error) {
  return attend::guarded(error, [&] {
    attend::require_pointer(plan, "plan");
    attend::copy_text(plan->plan.target_name(), buffer, capacity, length);
  });
}

attend_status attend_plan_shape(const attend_plan* plan, attend_shape* shape, attend_error* error) {
  return attend::guarded(error, [&] {
    attend::require_pointer(plan, "plan");
    attend::require_pointer(shape, "shape");
    *shape = attend::shape_of(plan->plan.shape());
  });
}

attend_status attend_plan_threads(const attend_plan* plan, int32_t* threads, attend_error* error) {
  return attend::guarded(error, [&] {
    attend::require_pointer(plan, "plan");
    attend::require_pointer(threads, "threads");
    *threads = plan->threads;
  });
}

attend_status attend_plan_workspace_bytes(const attend_plan* plan, size_t* bytes, attend_error* error) {
  return attend::guarded(error, [&] {
    attend::require_pointer(plan, "plan");
    attend::require_pointer(bytes, "bytes");
    *bytes = plan->plan.workspace_bytes();
  });
}

attend_status attend_plan_prepared_bytes(const attend_plan* plan, size_t* bytes, attend_error* error) {
  return attend::guarded(error, [&] {
    attend::require_pointer(plan, "plan");
    attend::require_pointer(bytes, "bytes");
    *bytes = plan->plan.prepared_bytes();
  });
}

attend_status attend_plan_output_size(const attend_plan* plan, int64_t* output_size, attend_error* error) {
  return attend::guarded(error, [&] {
    attend::require_pointer(plan, "plan");
    attend::require_pointer(output_size, "output_size");
    *output_size = plan->plan.output_size();
  });
}

attend_status attend_plan_weight_heads(const attend_plan* plan, int64_t* weight_heads, attend_error* error) {
  return attend::guarded(error, [&] {
    attend::require_pointer(plan, "plan");
    attend::require_pointer(weight_heads, "weight_heads");
    *weight_heads = plan->plan.weight_heads();
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
    if (std::isnan(callbacks->least_seconds)) attend::fail("least_seconds is nan, expected a number of seconds");
    return std::make_unique<attend::CallbackExecutor>(*callbacks);
  });
}

attend_status attend_executor_concurrency(const attend_executor* executor, int32_t* concurrency, attend_error* error) {
  return attend::guarded(error, [&] {
    attend::require_pointer(executor, "executor");
    attend::require_pointer(concurrency, "concurrency");
    *concurrency = executor->executor->concurrency();
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
                            .valid_lens = attend::view_of(inputs->valid_lens, "valid_lens"),
                            .prepared = inputs->prepared != nullptr ? &inputs->prepared->keys : nullptr};
    const attend::Outputs out = attend::outputs_of(*outputs);
    if (executor != nullptr) {
      plan->plan.run(in, out, workspace->workspace, *executor->executor);
    } else {
      plan->plan.run(in, out, workspace->workspace);
    }
  });
}

attend_status attend_prepared_keys_create(const attend_plan* plan, attend_prepared_keys** prepared,
                                          attend_error* error) {
  return attend::create(prepared, "prepared", error, [&] {
    attend::require_pointer(plan, "plan");
    return attend::PreparedKeys(plan->plan);
  });
}

attend_status attend_prepared_keys_create_in(const attend_plan* plan, void* memory, size_t bytes,
                                             attend_prepared_keys** prepared, attend_error* error) {
  return attend::create(prepared, "prepared", error, [&] {
    attend::require_pointer(plan, "plan");
    attend::require_pointer(memory, "memory");
    return attend::PreparedKeys(plan->plan, std::span(static_cast<std::byte*>(memory), bytes));
  });
}

attend_status attend_prepare(const attend_plan* plan, const attend_key_inputs* inputs, attend_prepared_keys* prepared,
                             attend_workspace* workspace, attend_executor* executor, attend_error* error) {
  return attend::add_keys(&attend::Plan::prepare, plan, inputs, prepared, workspace, executor, error);
}

attend_status attend_append(const attend_plan* plan, const attend_key_inputs* inputs, attend_prepared_keys* prepared,
                            attend_workspace* workspace, attend_executor* executor, attend_error* error) {
  return attend::add_keys(&attend::Plan::append, plan, inputs, prepared, workspace, executor, error);
}

attend_status attend_prepared_keys_batch(const attend_prepared_keys* prepared, int64_t* batch, attend_error* error) {
  return attend::guarded(error, [&] {
    attend::require_pointer(prepared, "prepared");
    attend::require_pointer(batch, "batch");
    *batch = prepared->keys.batch();
  });
}

attend_status attend_prepared_keys_num_keys(const attend_prepared_keys* prepared, int64_t* num_keys,
                                            attend_error* error) {
  return attend::guarded(error, [&] {
    attend::require_pointer(prepared, "prepared");
    attend::require_pointer(num_keys, "num_keys");
    *num_keys = prepared->keys.num_keys();
  });
}

attend_status attend_prepared_keys_len(const attend_prepared_keys* prepared, int64_t index, int64_t* len,
                                       attend_error* error) {
  return attend::guarded(error, [&] {
    attend::require_pointer(prepared, "prepared");
    attend::require_pointer(len, "len");
    *len = prepared->keys.len(index);
  });
}

void attend_prepared_keys_destroy(attend_prepared_keys* prepared) { delete prepared; }

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
    attend::copy_text(attend::element_of(std::span(targets), index).name(), buffer, capacity, length);
  });
}

const char* attend_version(void) { return attend::version(); }

}  // extern "C"
