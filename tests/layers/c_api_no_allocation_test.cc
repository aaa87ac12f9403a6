// The C API: runs, prepare and append allocate nothing, and neither do questions that are answered by numbers.
#include <cstddef>
#include <cstdint>
#include <vector>

#include <doctest/doctest.h>

#include "attend/attend_c.h"
#include "tests/layers/c_api_prepared_support.h"
#include "tests/layers/c_api_support.h"
#include "tests/support/allocations.h"
#include "tests/support/layer_cases.h"
#include "tests/support/run.h"

namespace attend::tests {
namespace {

// Several blocks of rows and several heads, so that threads share the work.
LayerCase shared_case(Layer layer) {
  return LayerCase({.layer = layer,
                    .batch = 3,
                    .num_queries = 20,
                    .num_keys = 330,
                    .size = 40,
                    .value_size = 30,
                    .num_hiddens = 48,
                    .lens = Lens::kNone,
                    .seed = 127});
}

// What every status is.
struct Statuses {
  bool all_ok = true;
  void take(attend_status status) { all_ok = all_ok && status == ATTEND_OK; }
};

}  // namespace

TEST_CASE("C API: runs, prepare and append allocate nothing, serial and on an executor with several threads" *
          doctest::skip(ATTEND_COUNTS_ALLOCATIONS == 0)) {
  const ExecutorHandle pool = make<ExecutorHandle>(attend_executor_create, 3);
  attend_plan_options options{};
  options.threads = 3;
  options.attention_weights = 1;
  for (const Layer layer : kAllLayers) {
    INFO(layer_name(layer));
    const LayerCase c = shared_case(layer);
    const Both both(c, {.threads = 3, .attention_weights = true}, &options);
    const attend_plan* plan = both.plan.get();
    const WorkspaceHandle workspace = make<WorkspaceHandle>(attend_workspace_create, plan);
    const PreparedHandle prepared = make<PreparedHandle>(attend_prepared_keys_create, plan);
    const attend_inputs in = c_inputs(c.inputs());
    const attend_inputs on_prepared = c_inputs({.queries = c.queries.view()}, prepared.get());
    const attend_key_inputs first = c_key_inputs(some_keys(c, 0, 200)), rest = c_key_inputs(some_keys(c, 200, 130));
    const std::vector<std::int64_t> sizes = output_sizes(both.cpp, c.inputs());
    const std::vector<std::int64_t> weight_sizes = weights_sizes(both.cpp, c.inputs());
    std::vector<float> output = sentinels(sizes), weights = sentinels(weight_sizes);
    const attend_outputs out =
        c_outputs({.output = {output.data(), sizes}, .attention_weights = {weights.data(), weight_sizes}});
    Said said;
    for (attend_executor* executor : {static_cast<attend_executor*>(nullptr), pool.get()}) {
      Statuses statuses;
      const Counts counts = allocations_of([&] {
        statuses.take(attend_run(plan, &in, &out, workspace.get(), executor, &said.error));
        statuses.take(attend_prepare(plan, &first, prepared.get(), workspace.get(), executor, &said.error));
        statuses.take(attend_append(plan, &rest, prepared.get(), workspace.get(), executor, &said.error));
        statuses.take(attend_run(plan, &on_prepared, &out, workspace.get(), executor, &said.error));
      });
      CHECK(statuses.all_ok);
      CHECK(counts.own == 0);
      if (c.without_parameters()) CHECK(counts.onednn == 0);
    }
  }
}

TEST_CASE("C API: what is answered by numbers or a plan's names allocates nothing" *
          doctest::skip(ATTEND_COUNTS_ALLOCATIONS == 0)) {
  attend_plan_options options{};
  options.count_tiers = 1;
  const Both both(shared_case(Layer::kAdditive), {.count_tiers = true}, &options);
  const attend_plan* plan = both.plan.get();
  const WorkspaceHandle workspace = make<WorkspaceHandle>(attend_workspace_create, plan);
  const PreparedHandle prepared = make<PreparedHandle>(attend_prepared_keys_create, plan);
  std::size_t bytes = 0;
  std::int64_t number = 0;
  std::int32_t small_number = 0;
  attend_tier_counts tiers{};
  attend_shape shape{};
  char text[64];
  Statuses statuses;
  const Counts counts = allocations_of([&] {
    statuses.take(attend_plan_workspace_bytes(plan, &bytes, nullptr));
    statuses.take(attend_plan_prepared_bytes(plan, &bytes, nullptr));
    statuses.take(attend_plan_output_size(plan, &number, nullptr));
    statuses.take(attend_plan_weight_heads(plan, &number, nullptr));
    statuses.take(attend_plan_shape(plan, &shape, nullptr));
    statuses.take(attend_plan_threads(plan, &small_number, nullptr));
    statuses.take(attend_plan_candidate_count(plan, &bytes, nullptr));
    statuses.take(attend_plan_candidate_name(plan, 0, text, sizeof text, &bytes, nullptr));
    statuses.take(attend_plan_path(plan, text, sizeof text, &bytes, nullptr));
    statuses.take(attend_plan_target_name(plan, text, sizeof text, &bytes, nullptr));
    statuses.take(attend_plan_tier_counts(plan, workspace.get(), &tiers, nullptr));
    statuses.take(attend_prepared_keys_batch(prepared.get(), &number, nullptr));
    statuses.take(attend_prepared_keys_num_keys(prepared.get(), &number, nullptr));
    statuses.take(attend_prepared_keys_len(prepared.get(), 0, &number, nullptr));
  });
  CHECK(statuses.all_ok);
  CHECK(counts.own == 0);
}

}  // namespace attend::tests
