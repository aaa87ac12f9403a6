// length/*: how time grows with the number of keys, from 16 to 16384, everything else fixed; one thread.
//     length/dot_nN             one head of 64, N queries on N keys: products, N^2, and packing, N
//     length/additive_nN        64 queries on N keys, 128 hidden units: N
//     length/masked_softmax_nN  64 rows of N scores: N, until they leave a cache
//     length/decode_nN          one query, 8 heads of 128, N keys: N, at the speed of the memory that holds them
//     length/decode_nN_turns    the same, but runs over others' keys and values pass in between, 67 MB in all, as in a
//                               model of many layers: N, from memory
#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>

#include <benchmark/benchmark.h>

#include "attend/executor.h"
#include "attend/layers.h"
#include "attend/plan.h"
#include "attend/target.h"
#include "bench/additive.h"
#include "bench/benchmarks.h"
#include "bench/layers/layer_cases.h"
#include "bench/layers/run_layer.h"
#include "bench/problem.h"
#include "bench/support.h"

namespace attend::bench {
namespace {

constexpr std::int64_t kMin = 16, kMax = 16384;
// The portable fallback does a few GFLOPS: 16384 x 16384 would take it half a minute a run.
constexpr std::int64_t kMaxQuadraticOfFallback = 4096;
constexpr std::int64_t kAdditiveQueries = 64, kAdditiveHiddens = 128, kSoftmaxRows = 64;

void register_masked_softmax(const std::string& name, std::int64_t length, const Target& target) {
  register_case(name, target.name(), [=](benchmark::State& state) {
    run_masked_softmax(state, target, kSoftmaxRows, length, false);
  })->Unit(benchmark::kMicrosecond);
}

void count_length_additive(benchmark::State& state, const Problem& problem, const PlanOptions& options) {
  count_additive(state, problem, kAdditiveHiddens, options.target);
}

constexpr std::int64_t kTurnsHeads = 8, kTurnsSize = 128, kTurnsBytes = std::int64_t{64} << 20;

// Each entry of the problem's batch is a run of its own.
void run_in_turns(benchmark::State& state, const Problem& problem, const Target& target) {
  const std::int64_t turns = problem.shape.batch;
  Shape shape = problem.shape;
  shape.batch = 1;
  const Plan plan = problem.layer.plan(shape, {.target = target});
  Workspace workspace(plan);
  SerialExecutor serial;
  AlignedVector result(static_cast<std::size_t>(turns * kTurnsHeads * kTurnsSize));
  const TensorView<float> output =
      split_heads(TensorView<float>(result.data(), {turns, 1, kTurnsHeads * kTurnsSize}), kTurnsHeads);
  const Inputs in = problem.inputs();
  const auto entry = [](const auto& view, std::int64_t b) {
    const std::int64_t sizes[] = {1, view.size(1), view.size(2), view.size(3)};
    return std::decay_t<decltype(view)>(view.at(b), sizes, view.strides());
  };
  const auto run = [&](std::int64_t b) {
    plan.run({.queries = entry(in.queries, b), .keys = entry(in.keys, b), .values = entry(in.values, b)},
             {.output = entry(output, b)}, workspace, serial);
  };
  for (std::int64_t b = 0; b < turns; ++b) run(b);
  std::int64_t b = 0;
  measure(state, [&] {
    run(b);
    b = b + 1 < turns ? b + 1 : 0;
  });
  const double bytes_read = static_cast<double>(2 * shape.num_keys * kTurnsHeads * kTurnsSize) * sizeof(float);
  state.counters["GB"] = per_second(bytes_read * 1e-9);
  state.counters["read_percent"] = per_second(100 * bytes_read / read_bandwidth(kTurnsBytes));
  state.counters["max_error"] = problem.max_error(output);
  state.SetLabel(std::string(plan.path()));
}

}  // namespace

void register_length_benchmarks() {
  for (const std::int64_t length : {128, 1024}) {
    const std::int64_t turns = kTurnsBytes / (2 * length * kTurnsHeads * kTurnsSize * std::int64_t{sizeof(float)});
    const SharedProblem problem = shared_problem([=] {
      return dot_problem({turns, kTurnsHeads, kTurnsHeads, 1, length, kTurnsSize});
    });
    for (const Target& target : Target::available()) {
      register_case("length/decode_n" + std::to_string(length) + "_turns", target.name(), [=](benchmark::State& state) {
        run_in_turns(state, problem(), target);
      })->Unit(benchmark::kMicrosecond);
    }
  }
  for (std::int64_t length = kMin; length <= kMax; length *= 2) {
    const std::string n = "_n" + std::to_string(length);
    const SharedProblem dot = shared_problem([=] { return dot_problem({1, 1, 1, length, length, 64}); });
    const SharedProblem decode = shared_problem([=] { return dot_problem({1, 8, 8, 1, length, 128}); });
    const SharedProblem additive =
        shared_problem([=] { return additive_problem(1, kAdditiveQueries, length, kAdditiveHiddens); });
    for (const Target& target : Target::available()) {
      const bool fallback = target == Target::available().back();
      if (!fallback || length <= kMaxQuadraticOfFallback) {
        register_layer_for("length/dot" + n, {.target = target}, dot, count_dot);
      }
      register_layer_for("length/decode" + n, {.target = target}, decode, count_decode);
      register_layer_for("length/additive" + n, {.target = target}, additive, count_length_additive);
      register_masked_softmax("length/masked_softmax" + n, length, target);
    }
  }
}

}  // namespace attend::bench
