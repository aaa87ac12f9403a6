// The C API, errors and memory: null pointers, long messages, memory of the caller and memory that there is not.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "attend/attend.h"
#include "attend/attend_c.h"
#include "tests/layers/c_api_support.h"
#include "tests/support/compare.h"
#include "tests/support/layer_cases.h"
#include "tests/support/run.h"
#include "tests/support/sanitized.h"

namespace attend::tests {

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
  std::int32_t count = -1;
  std::size_t bytes = 77;
  attend_shape said_shape{};
  const ExecutorHandle executor = make<ExecutorHandle>(attend_executor_create, 1);
  attend_tier_counts counts{.eight = 7, .four = 7, .three = 7, .two = 7, .one = 7, .rational = 7};
  OwnPool own;
  attend_executor_callbacks no_concurrency = own.callbacks(), no_loop = own.callbacks();
  no_concurrency.concurrency = nullptr;
  no_loop.parallel_for = nullptr;
  const auto parameter = std::make_unique<attend_parameter>();

  check_nulls_refused({
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
      {"plan", [&](attend_error* e) { return attend_plan_prepared_bytes(nullptr, &bytes, e); }},
      {"bytes", [&](attend_error* e) { return attend_plan_prepared_bytes(plan, nullptr, e); }},
      {"plan",
       [&](attend_error* e) { return attend_plan_explain_run(nullptr, workspace.get(), nullptr, 0, &bytes, e); }},
      {"workspace", [&](attend_error* e) { return attend_plan_explain_run(plan, nullptr, nullptr, 0, &bytes, e); }},
      {"plan", [&](attend_error* e) { return attend_plan_tier_counts(nullptr, workspace.get(), &counts, e); }},
      {"workspace", [&](attend_error* e) { return attend_plan_tier_counts(plan, nullptr, &counts, e); }},
      {"counts", [&](attend_error* e) { return attend_plan_tier_counts(plan, workspace.get(), nullptr, e); }},
      {"plan", [&](attend_error* e) { return attend_plan_output_size(nullptr, &size, e); }},
      {"output_size", [&](attend_error* e) { return attend_plan_output_size(plan, nullptr, e); }},
      {"plan", [&](attend_error* e) { return attend_plan_weight_heads(nullptr, &size, e); }},
      {"weight_heads", [&](attend_error* e) { return attend_plan_weight_heads(plan, nullptr, e); }},
      {"plan", [&](attend_error* e) { return attend_plan_shape(nullptr, &said_shape, e); }},
      {"shape", [&](attend_error* e) { return attend_plan_shape(plan, nullptr, e); }},
      {"plan", [&](attend_error* e) { return attend_plan_threads(nullptr, &count, e); }},
      {"threads", [&](attend_error* e) { return attend_plan_threads(plan, nullptr, e); }},
      {"plan", [&](attend_error* e) { return attend_plan_path(nullptr, nullptr, 0, &bytes, e); }},
      {"buffer", [&](attend_error* e) { return attend_plan_path(plan, nullptr, 9, &bytes, e); }},
      {"plan", [&](attend_error* e) { return attend_plan_candidate_count(nullptr, &bytes, e); }},
      {"count", [&](attend_error* e) { return attend_plan_candidate_count(plan, nullptr, e); }},
      {"plan", [&](attend_error* e) { return attend_plan_candidate_name(nullptr, 0, nullptr, 0, &bytes, e); }},
      {"buffer", [&](attend_error* e) { return attend_plan_candidate_name(plan, 0, nullptr, 9, &bytes, e); }},
      {"executor", [&](attend_error* e) { return attend_executor_concurrency(nullptr, &count, e); }},
      {"concurrency", [&](attend_error* e) { return attend_executor_concurrency(executor.get(), nullptr, e); }},
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
  });
  CHECK(new_layer == nullptr);
  CHECK(new_plan == nullptr);
  CHECK(new_workspace == nullptr);
  CHECK(new_executor == nullptr);
  CHECK(size == -1);
  CHECK(count == -1);
  CHECK(said_shape.batch == 0);
  CHECK(bytes == 77);
  CHECK((counts.eight == 7 && counts.four == 7 && counts.three == 7 && counts.two == 7 && counts.one == 7));
  CHECK(counts.rational == 7);
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

TEST_CASE("C API: messages are one line, whatever names hold") {
  const attend_parameter odd{.name = "W\n.\tweight\x7f", .tensor = {nullptr, 9, {0}, {}}};
  attend_layer* layer = nullptr;
  Said said;
  CHECK(attend_layer_create_bilinear(nullptr, &odd, 1, &layer, &said.error) == ATTEND_ERROR_INVALID);
  CHECK(said.message() == "W . weight  has rank 9, expected 0 to 4");
}

TEST_CASE("C API: a tensor of the wrong rank is named with what it was and what was expected") {
  const float memory[64] = {};
  std::vector<attend_parameter> parameters = {{.name = "W_q.weight", .tensor = {memory, 2, {4, 8}, {}}},
                                              {.name = "W_k.weight", .tensor = {memory, 2, {4, 8}, {}}},
                                              {.name = "w_v.weight", .tensor = {memory, 1, {4}, {}}}};
  attend_layer* layer = nullptr;
  Said said;
  const auto message_of = [&](std::size_t index, std::int32_t rank) {
    std::vector<attend_parameter> wrong = parameters;
    wrong[index].tensor.rank = rank;
    CHECK(attend_layer_create_additive(wrong.data(), wrong.size(), &layer, &said.error) == ATTEND_ERROR_INVALID);
    CHECK(layer == nullptr);
    return said.message();
  };
  CHECK(message_of(0, 0) == "W_q.weight is (), expected (U, Dq)");
  CHECK(message_of(1, 0) == "W_k.weight is (), expected (4, Dk)");
  CHECK(message_of(2, 0) == "w_v.weight is (), expected (4)");
  CHECK(message_of(1, 5) == "W_k.weight has rank 5, expected 0 to 4");
  CHECK(message_of(2, -1) == "w_v.weight has rank -1, expected 0 to 4");
  // One that nobody asks for is ignored, as other checkpoints' scalars are; one without data is not given.
  parameters.push_back({.name = "temperature", .tensor = {memory, 0, {}, {}}});
  parameters.push_back({.name = "W_q.bias", .tensor = {}});
  const LayerHandle good = make<LayerHandle>(attend_layer_create_additive, parameters.data(), parameters.size());
  parameters.back().tensor.data = memory;
  CHECK(attend_layer_create_additive(parameters.data(), parameters.size(), &layer, &said.error) ==
        ATTEND_ERROR_INVALID);
  CHECK(said.message() == "W_q.bias is (), expected (4)");

  // And what a run reads and writes.
  attend_shape shape{};
  shape.num_queries = shape.num_keys = 2;
  const PlanHandle plan = make<PlanHandle>(attend_plan_create, good.get(), &shape, nullptr);
  const WorkspaceHandle workspace = make<WorkspaceHandle>(attend_workspace_create, plan.get());
  std::vector<float> output(16, kSentinel);
  const std::vector<float> before = output;
  const std::int32_t lens[] = {1};
  attend_inputs in{};
  in.queries = in.keys = {memory, 3, {1, 2, 8}, {}};
  in.valid_lens = {lens, 1, {1}, {}};
  attend_outputs out{};
  out.output = {output.data(), 3, {1, 2, 8}, {}};
  const auto run_message = [&] {
    CHECK(attend_run(plan.get(), &in, &out, workspace.get(), nullptr, &said.error) == ATTEND_ERROR_INVALID);
    CHECK(same_bits(output, before));
    return said.message();
  };
  for (const std::int32_t rank : {0, 5}) {
    const auto expected = [&](const std::string& name, const std::string& sizes) {
      return rank == 0 ? name + " is (), expected " + sizes : name + " has rank 5, expected 0 to 4";
    };
    in.queries.rank = rank;
    CHECK(run_message() == expected("queries", "(B, M, 8)"));
    in.queries.rank = 3;
    in.keys.rank = rank;
    CHECK(run_message() == expected("keys", "(1, N, 8)"));
    in.keys.rank = 3;
    in.valid_lens.rank = rank;
    CHECK(run_message() == expected("valid_lens", "(1) or (1, 2)"));
    in.valid_lens.rank = 1;
    out.output.rank = rank;
    CHECK(run_message() == expected("output", "(1, 2, 8)"));
    out.output.rank = 3;
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
#if !ATTEND_IS_SANITIZED
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
  attend_prepared_keys* prepared = nullptr;
  CHECK(attend_prepared_keys_create(plan.get(), &prepared, &said.error) == ATTEND_ERROR_OUT_OF_MEMORY);
  CHECK(said.message() == "std::bad_alloc");
  CHECK(prepared == nullptr);
}
#endif

}  // namespace attend::tests
