// Where oneDNN fails in a projection: an Error, keys that were being prepared are gone, and the next call finds all as
// it should be. Made to fail by having no memory for what planning makes ahead.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "attend/attend.h"
#include "engine/layers/score_weights.h"
#include "engine/plan/planner.h"
#include "tests/support/allocations.h"
#include "tests/support/compare.h"
#include "tests/support/for_each_target.h"
#include "tests/support/prepared.h"
#include "tests/support/random.h"
#include "tests/support/run.h"

namespace attend::tests {
namespace {

using detail::LayerImpl;
using detail::PlanImpl;
using Map = const matmul::Linear* PlanImpl::*;

constexpr std::int64_t kSize = 32, kHeads = 2;
constexpr Shape kShape{.batch = 2, .num_queries = 40, .num_keys = 50, .query_size = kSize};
const char* const kFailed = "oneDNN failed to execute a product";

// Whether a map can be held to oneDNN: not without it, nor where it has only its reference implementation.
constexpr bool kHasOneDnn =
#if defined(ATTEND_WITH_ONEDNN) && defined(__x86_64__)
    true;
#else
    false;
#endif

// Held to oneDNN, whatever this CPU would choose.
std::shared_ptr<const matmul::Linear> dnnl_map(std::uint64_t seed) {
  const Tensor W = Random(seed).normal({kSize, kSize}, 0.2f);
  return std::make_shared<matmul::Linear>(W.view(), TensorView<const float>(), "W", matmul::Implementation::kOneDnn);
}

// Multi-head attention by maps that all go through oneDNN.
std::shared_ptr<const LayerImpl> dnnl_layer(detail::Score score) {
  auto layer = std::make_shared<LayerImpl>();
  layer->name = "multi-head";
  layer->score = score;
  layer->is_multi_head = true;
  layer->num_heads = layer->num_kv_heads = kHeads;
  layer->query_size = layer->key_size = layer->value_size = layer->output_size = kSize;
  layer->score_size = layer->head_value_size = kSize / kHeads;
  layer->query = dnnl_map(1);
  layer->key = dnnl_map(2);
  layer->value = dnnl_map(3);
  layer->output = dnnl_map(4);
  if (score == detail::Score::kAdditive) set_score_weights(*layer, Random(5).normal({kSize}).data);
  return layer;
}

// The plan with one of its maps made anew, so that calls of it find nothing made ahead.
class Unprepared {
 public:
  Unprepared(const PlanImpl& plan, Map map, std::uint64_t seed) : map_(dnnl_map(seed)) {
    auto changed = std::make_shared<PlanImpl>(plan);
    (*changed).*map = map_.get();
    plan_.emplace(changed);
  }
  const Plan& plan() const { return *plan_; }

 private:
  std::shared_ptr<const matmul::Linear> map_;
  std::optional<Plan> plan_;
};

// Its tasks find no memory.
class PoorExecutor final : public Executor {
 public:
  int concurrency() const noexcept override { return 2; }
  double least_seconds() const noexcept override { return 0; }
  void parallel_for(std::size_t num_tasks, TaskRef task) override {
    const NoMemory no_memory;
    for (std::size_t i = 0; i < num_tasks; ++i) task(i);
  }
};

struct Problem {
  explicit Problem(std::int64_t batch = kShape.batch, std::int64_t num_keys = kShape.num_keys)
      : queries(Random(6).normal({batch, kShape.num_queries, kSize})),
        keys(Random(7).normal({batch, num_keys, kSize})),
        values(Random(8).normal({batch, num_keys, kSize})) {}

  Inputs inputs() const { return {.queries = queries.view(), .keys = keys.view(), .values = values.view()}; }
  KeyInputs key_inputs() const { return {.keys = keys.view(), .values = values.view()}; }

  Tensor queries, keys, values;
};

struct NamedMap {
  const char* name;
  Map map;
  std::uint64_t seed;  // of dnnl_layer
};
constexpr NamedMap kMaps[] = {{"query", &PlanImpl::query_map, 1},
                              {"key", &PlanImpl::key_map, 2},
                              {"value", &PlanImpl::value_map, 3},
                              {"output", &PlanImpl::output_map, 4}};

}  // namespace

TEST_CASE("failed products: a run says so, whichever map it is, and the next run is as if nothing had been" *
          doctest::skip(!kHasOneDnn || ATTEND_COUNTS_ALLOCATIONS == 0)) {
  const Problem problem;
  for (const detail::Score score : {detail::Score::kDot, detail::Score::kAdditive}) {
    const auto plan = detail::make_plan(dnnl_layer(score), kShape, {.threads = 2});
    const RunResult expected = run_plan(Plan(plan), problem.inputs());
    for (const NamedMap& named : kMaps) {
      INFO(named.name);
      const Unprepared unprepared(*plan, named.map, named.seed);
      PoorExecutor poor;
      CHECK(missing_parts(error_message([&] { run_plan(unprepared.plan(), problem.inputs(), false, &poor); }),
                          {kFailed}) == "");
      CHECK(same_bits(run_plan(unprepared.plan(), problem.inputs()), expected));
    }
  }
}

TEST_CASE("failed products: keys that are projected where they are pooled" *
          doctest::skip(!kHasOneDnn || ATTEND_COUNTS_ALLOCATIONS == 0)) {
  auto layer = std::make_shared<LayerImpl>(*dnnl_layer(detail::Score::kAdditive));
  layer->name = "additive";
  layer->is_multi_head = false;
  layer->num_heads = 1;
  layer->num_kv_heads = layer->value_size = layer->output_size = layer->head_value_size = 0;
  layer->score_size = kSize;
  layer->value = layer->output = nullptr;
  layer->w_v_scales.clear();
  set_score_weights(*layer, layer->w_v);
  for_each_target([&](const Target& target) {
    // Entries enough for two threads: whole ones projected by an item, and of many keys some at a time.
    for (const std::int64_t num_keys : {50, 5000}) {
      const std::int64_t batch = num_keys == 50 ? 40 : 8;
      INFO(batch, " x ", num_keys);
      Shape shape = kShape;
      shape.batch = batch;
      shape.num_keys = num_keys;
      const auto plan = detail::make_plan(layer, shape, {.threads = 2, .target = target});
      REQUIRE(plan->window_keys > 0);
      CHECK((plan->window_keys >= plan->key_capacity) == (num_keys == 50));
      const Problem problem(batch, num_keys);
      const Unprepared unprepared(*plan, &PlanImpl::key_map, 2);
      PoorExecutor poor;
      CHECK(missing_parts(error_message([&] { run_plan(unprepared.plan(), problem.inputs(), false, &poor); }),
                          {kFailed}) == "");
      CHECK(same_bits(run_plan(unprepared.plan(), problem.inputs()), run_plan(Plan(plan), problem.inputs())));
    }
  });
}

TEST_CASE("failed products: what is prepared or appended to is left empty, and can be prepared again" *
          doctest::skip(!kHasOneDnn || ATTEND_COUNTS_ALLOCATIONS == 0)) {
  const Problem problem;
  const auto original = detail::make_plan(dnnl_layer(detail::Score::kDot), kShape, {.threads = 2});
  const RunResult expected = run_plan(Plan(original), problem.inputs());
  for (const NamedMap& named : {kMaps[1], kMaps[2]}) {
    for (const bool append : {false, true}) {
      INFO(named.name, ", append ", append);
      const Unprepared unprepared(*original, named.map, named.seed);
      const Plan& plan = unprepared.plan();
      Workspace workspace(plan);
      PreparedKeys prepared(plan);
      // Ten keys, none of them valid: nothing is projected.
      KeyInputs first = piece_of(problem.inputs(), 0, 10);
      const std::int32_t no_lens[] = {0, 0};
      first.valid_lens = {no_lens, {2}};
      plan.prepare(first, prepared, workspace);
      REQUIRE(prepared.batch() == 2);
      REQUIRE(prepared.num_keys() == 10);
      const KeyInputs more = piece_of(problem.inputs(), 10, 40);
      PoorExecutor poor;
      CHECK(missing_parts(error_message([&] {
                            append ? plan.append(more, prepared, workspace, poor)
                                   : plan.prepare(more, prepared, workspace, poor);
                          }),
                          {kFailed}) == "");
      CHECK(prepared.batch() == 0);
      CHECK(prepared.num_keys() == 0);
      CHECK(prepared.len(0) == 0);
      const Inputs in{.queries = problem.queries.view(), .prepared = &prepared};
      CHECK(missing_parts(error_message([&] { run_plan(plan, in); }), {"prepared", "nothing"}) == "");
      CHECK(missing_parts(error_message([&] { plan.append(more, prepared, workspace); }), {"nothing"}) == "");
      plan.prepare(problem.key_inputs(), prepared, workspace);
      CHECK(prepared.num_keys() == 50);
      CHECK(same_bits(run_plan(plan, in), expected));
    }
  }
}

}  // namespace attend::tests
