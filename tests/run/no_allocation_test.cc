// A run allocates nothing (tests/support/allocations.h).
#include <atomic>
#include <barrier>
#include <cstddef>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "attend/attend.h"
#include "engine/kernels/linear_rows.h"
#include "engine/matmul/linear.h"
#include "tests/support/allocations.h"
#include "tests/support/executors.h"
#include "tests/support/for_each_target.h"
#include "tests/support/layer_cases.h"
#include "tests/support/masks.h"
#include "tests/support/prepared.h"
#include "tests/support/run.h"

namespace attend::tests {

TEST_CASE("the counter counts" * doctest::skip(ATTEND_COUNTS_ALLOCATIONS == 0)) {
  std::unique_ptr<std::vector<float>> made;
  const Counts counts = allocations_of([&] { made = std::make_unique<std::vector<float>>(1000, 1.0f); });
  CHECK(made->size() == 1000);
  CHECK(counts.own == 2);
  CHECK(counts.onednn == 0);
}

namespace {

// Large enough that several threads really are at work at the same time.
CaseSpec large_case(Layer layer) {
  return {.layer = layer,
          .batch = 3,
          .num_queries = 70,
          .num_keys = 330,
          .size = 200,
          .num_hiddens = 240,
          .lens = Lens::kPerQuery,
          .seed = 120};
}

void check_runs_allocate_nothing(const LayerCase& c) {
  EagerPool pool(3);
  for_each_plan(c, [&](const Plan& serial, bool with_weights) {
    PlanOptions options = options_of(c, serial, with_weights);
    options.threads = 3;
    const Plan threaded = c.attention.plan(c.shape, options);
    for (const Plan& plan : {serial, threaded}) {
      const Inputs in = c.inputs();
      std::vector<float> output = sentinels(output_sizes(plan, in));
      std::vector<float> weights = sentinels(weights_sizes(plan, in));
      Outputs out{.output = TensorView<float>(output.data(), output_sizes(plan, in)), .attention_weights = {}};
      if (with_weights) out.attention_weights = TensorView<float>(weights.data(), weights_sizes(plan, in));
      Workspace workspace(plan);
      const Counts alone = allocations_of([&] { plan.run(in, out, workspace); });
      const Counts together = allocations_of([&] { plan.run(in, out, workspace, pool); });
      CHECK(alone.own == 0);
      CHECK(together.own == 0);
      if (c.without_parameters()) CHECK(alone.onednn + together.onednn == 0);
    }
  });
}

}  // namespace

TEST_CASE("run allocates nothing, from its first call on, serial and on an executor with several threads" *
          doctest::skip(ATTEND_COUNTS_ALLOCATIONS == 0)) {
  for (const Layer layer : kAllLayers) check_runs_allocate_nothing(LayerCase(large_case(layer)));
}

TEST_CASE("masks, skipped queries and heads that share keys allocate nothing, with several threads neither" *
          doctest::skip(ATTEND_COUNTS_ALLOCATIONS == 0)) {
  for (const Layer layer : kAllLayers) {
    CaseSpec spec = large_case(layer);
    spec.causal = Causal::kBottomRight;
    check_runs_allocate_nothing(LayerCase(spec));
    spec.padding = Padding::kSkipQueries;
    spec.lens = Lens::kPerBatch;
    spec.num_heads = 6;
    if (layer == Layer::kDotHeads || layer == Layer::kGaussianHeads || layer == Layer::kMultiHead) {
      spec.num_kv_heads = 2;
    }
    check_runs_allocate_nothing(LayerCase(spec));
  }
}

TEST_CASE("prepare, append and runs on prepared keys allocate nothing, serial and on an executor with several threads" *
          doctest::skip(ATTEND_COUNTS_ALLOCATIONS == 0)) {
  EagerPool pool(3);
  for (const Layer layer : kAllLayers) {
    const LayerCase c({.layer = layer,
                       .batch = 3,
                       .num_queries = 20,
                       .num_keys = 330,
                       .size = 40,
                       .value_size = 30,
                       .num_hiddens = 48,
                       .lens = Lens::kNone,
                       .seed = 122});
    for_each_plan(c, [&](const Plan& serial, bool with_weights) {
      PlanOptions options = options_of(serial, with_weights);
      options.threads = 3;
      for (const bool lean : {false, true}) {
        options.prepared_keys = lean;
        const Plan plan = c.attention.plan(c.shape, options);
        PreparedKeys prepared(plan);
        const Inputs in = on_prepared(c.inputs(), prepared);
        const KeyInputs first = piece_of(c.inputs(), 0, 200), rest = piece_of(c.inputs(), 200, 130);
        std::vector<float> output = sentinels(output_sizes(plan, in));
        const Outputs out{.output = TensorView<float>(output.data(), output_sizes(plan, in)), .attention_weights = {}};
        Workspace workspace(plan);
        const Counts alone = allocations_of([&] {
          plan.prepare(first, prepared, workspace);
          plan.append(rest, prepared, workspace);
          plan.run(in, out, workspace);
        });
        const std::vector<float> expected = std::exchange(output, std::vector<float>(output.size(), kSentinel));
        const Outputs again{.output = TensorView<float>(output.data(), output_sizes(plan, in)),
                            .attention_weights = {}};
        const Counts together = allocations_of([&] {
          plan.prepare(first, prepared, workspace, pool);
          plan.append(rest, prepared, workspace, pool);
          plan.run(in, again, workspace, pool);
        });
        CHECK(alone.own == 0);
        CHECK(together.own == 0);
        if (c.without_parameters()) CHECK(alone.onednn + together.onednn == 0);
        CHECK(same_bits(expected, output));
      }
    });
  }
}

namespace {

// Rows of a map, and a place for their results.
struct Call {
  explicit Call(const matmul::Linear& linear)
      : map(linear),
        rows_kernels(kernels::linear_rows_kernels(targets_under_test().front().id())),
        x(kRows * map.in_size(), 0.5f),
        y(kRows * map.out_size()),
        scratch(map.scratch_bytes()) {
    for (std::size_t r = 0; r < kRows; ++r) {
      rows.push_back(x.data() + r * map.in_size());
      results.push_back(y.data() + r * map.out_size());
    }
  }
  bool multiply() { return map.multiply(rows_kernels, rows.data(), results.data(), kRows, scratch.data()); }

  static constexpr std::size_t kRows = 70;
  const matmul::Linear& map;
  kernels::LinearRowsKernels rows_kernels;
  std::vector<float> x, y;
  std::vector<const float*> rows;
  std::vector<float*> results;
  Workspace scratch;
};

}  // namespace

TEST_CASE("what a plan's calls of oneDNN need is kept for the next plan, and has a limit" *
          doctest::skip(ATTEND_COUNTS_ALLOCATIONS == 0)) {
  const Tensor W = Random(123).normal({24, 16});
  const matmul::Linear map(W.view(), {}, "W");
  for (const int calls : {1, 33, 100, 256}) {
    map.prepare_for(calls);
    const Counts again = allocations_of([&] { map.prepare_for(calls); });
    CHECK(again.own + again.onednn == 0);
  }
  const Counts more = allocations_of([&] { map.prepare_for(20000); });
  CHECK(more.own + more.onednn == 0);
}

TEST_CASE("as many calls of a map as were prepared allocate nothing, however the threads meet" *
          doctest::skip(ATTEND_COUNTS_ALLOCATIONS == 0)) {
  constexpr int kCalls = 40;
  const Tensor W = Random(124).normal({200, 160});
  const matmul::Linear map(W.view(), {}, "W");
  map.prepare_for(kCalls);
  std::vector<Call> calls;
  for (int i = 0; i < kCalls; ++i) calls.emplace_back(map);
  std::atomic<int> failures{0};
  std::barrier together(kCalls + 1);
  std::vector<std::jthread> threads;
  for (Call& call : calls) {
    threads.emplace_back([&] {
      together.arrive_and_wait();
      for (int repeat = 0; repeat < 20; ++repeat) failures += call.multiply() ? 0 : 1;
      together.arrive_and_wait();
    });
  }
  const Counts counts = allocations_of([&] {
    together.arrive_and_wait();
    together.arrive_and_wait();
  });
  CHECK(counts.own == 0);
  CHECK(failures == 0);
}

TEST_CASE("a multiply that finds no memory says so, since a task must not throw, and the next one may find some" *
          doctest::skip(ATTEND_COUNTS_ALLOCATIONS == 0)) {
  const Tensor W = Random(125).normal({24, 16});
  const matmul::Linear map(W.view(), {}, "W");
  Call unprepared(map), later(map);
  bool done = true, threw = false;
  {
    const NoMemory no_memory;
    try {
      done = unprepared.multiply();
    } catch (...) {
      threw = true;
    }
  }
  CHECK(!threw);
  CHECK(done == map.implementation().starts_with("own kernel"));
  CHECK(later.multiply());
  CHECK(unprepared.multiply());
  CHECK(same_bits(unprepared.y, later.y));
}

TEST_CASE("masked_softmax and sequence_mask allocate nothing" * doctest::skip(ATTEND_COUNTS_ALLOCATIONS == 0)) {
  const Tensor scores = Random(121).normal({3, 20, 130});
  Tensor weights = scores;
  const std::int32_t lens[] = {20, 0, 7};
  masked_softmax(scores.view(), {}, weights.view());  // the first of a process asks the system for its caches
  for_each_target([&](const Target& target) {
    const Counts counts = allocations_of([&] {
      masked_softmax(scores.view(), TensorView<const std::int32_t>(lens, {3}), weights.view(), {.target = target});
      sequence_mask(weights.view(), TensorView<const std::int32_t>(lens, {3}));
    });
    CHECK(counts.own == 0);
  });
}

TEST_CASE("runs: chunks, concatenated queries, tiers, infinite queries and what plans say allocate nothing" *
          doctest::skip(ATTEND_COUNTS_ALLOCATIONS == 0)) {
  EagerPool pool(3);
  const Machine machine{1e11, 1e11, 1e11, 1e10, 1e10, 1 << 15, 1 << 20, 1 << 25};
  for (const Layer layer : kAllLayers) {
    LayerCase c({.layer = layer, .batch = 2, .num_queries = 5, .num_keys = 2100, .lens = Lens::kPerQuery, .seed = 126});
    c.queries.data[0] = std::numeric_limits<float>::infinity();
    const bool additive = layer == Layer::kAdditive || layer == Layer::kMultiHeadAdditive;
    for (const bool tiers : {false, true}) {
      if (tiers && !additive) continue;
      PlanOptions options = c.plan_options();
      options.threads = 3;
      options.concat_queries = true;
      options.count_tiers = tiers;
      for_each_plan(c.attention, c.shape, options, [&](const Plan& plan, bool with_weights) {
        const Inputs in = c.inputs();
        std::vector<float> output = sentinels(output_sizes(plan, in)), weights = sentinels(weights_sizes(plan, in));
        Outputs out{.output = TensorView<float>(output.data(), output_sizes(plan, in)), .attention_weights = {}};
        if (with_weights) out.attention_weights = TensorView<float>(weights.data(), weights_sizes(plan, in));
        Workspace workspace(plan);
        double sink = 0;
        const Counts counts = allocations_of([&] {
          plan.run(in, out, workspace);
          plan.run(in, out, workspace, pool);
          sink += plan.cost(machine).seconds + static_cast<double>(plan.candidates().size() + plan.path().size());
          if (tiers) sink += static_cast<double>(plan.tier_counts(workspace).one);
        });
        CHECK(sink > 0);
        CHECK(counts.own == 0);
      });
    }
  }
  Tensor scores = Random(121).normal({3, 200, 130});
  masked_softmax(scores.view(), {}, scores.view());
  CHECK(allocations_of([&] { masked_softmax(scores.view(), {}, scores.view(), {.executor = &pool}); }).own == 0);
}

}  // namespace attend::tests
