// How a whole layer is measured: planned once, run many times, from and to the memory of a service.
#ifndef ATTEND_BENCH_LAYERS_RUN_LAYER_H_
#define ATTEND_BENCH_LAYERS_RUN_LAYER_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <benchmark/benchmark.h>

#include "attend/executor.h"
#include "attend/layers.h"
#include "attend/plan.h"
#include "bench/problem.h"
#include "bench/support.h"

namespace attend::bench {

// Sets a case's counters from its problem and the options it was planned with.
using Count = std::function<void(benchmark::State&, const Problem&, const PlanOptions&)>;

// A problem that several registrations share, made when the first of them runs.
using SharedProblem = std::function<const Problem&()>;
inline SharedProblem shared_problem(std::function<Problem()> make) {
  return [problem = std::make_shared<Lazy<Problem>>(), make = std::move(make)]() -> const Problem& {
    return problem->get(make);
  };
}

inline void run_layer(benchmark::State& state, const Problem& problem, const PlanOptions& options, const Count& count) {
  const Plan plan = problem.layer.plan(problem.shape, options);
  Workspace workspace(plan);
  SerialExecutor serial;
  ThreadPool pool(options.threads);  // of one thread: starts none
  Executor& executor = options.threads > 1 ? static_cast<Executor&>(pool) : serial;
  Inputs in = problem.inputs();
  const Shape& shape = plan.shape();
  const std::int64_t heads = plan.weight_heads();
  const std::int64_t keys = shape.num_keys, queries = shape.num_queries, columns = plan.output_size() * problem.split;
  const std::size_t off = problem.queries.off;
  AlignedVector output(off + static_cast<std::size_t>(shape.batch * queries * columns));
  AlignedVector pairs;
  Outputs out{.output = TensorView<float>(output.data() + off, {shape.batch, queries, columns}),
              .attention_weights = {}};
  if (problem.split > 1) out.output = split_heads(out.output, problem.split);
  if (options.attention_weights) {
    pairs.resize(static_cast<std::size_t>(shape.batch * (heads > 0 ? heads : 1) * queries * keys));
    out.attention_weights = heads > 0 ? TensorView<float>(pairs.data(), {shape.batch, heads, queries, keys})
                                      : TensorView<float>(pairs.data(), {shape.batch, queries, keys});
  }
  std::optional<PreparedKeys> prepared;
  if (options.prepared_keys) {
    prepared.emplace(plan);
    plan.prepare({.keys = in.keys, .values = in.values, .valid_lens = in.valid_lens}, *prepared, workspace);
    in.keys = in.values = {};
    in.valid_lens = {};
    in.prepared = &*prepared;
  }
  measure(state, [&] { plan.run(in, out, workspace, executor); });
  count(state, problem, options);
  state.counters["workspace"] = bytes(plan.workspace_bytes());
  state.counters["max_error"] = problem.max_error(out.output);
  state.SetLabel(std::string(plan.path()));
}

// name/TARGET; the target is one of the options. Several threads: real time, and Google Benchmark appends "/real_time"
// to the name.
inline benchmark::internal::Benchmark* register_layer_for(const std::string& name, const PlanOptions& options,
                                                          const SharedProblem& problem, const Count& count) {
  auto* registered = register_case(name, options.target.name(),
                                   [=](benchmark::State& state) { run_layer(state, problem(), options, count); });
  registered->Unit(benchmark::kMicrosecond);
  if (options.threads > 1) registered->UseRealTime();
  return registered;
}

// The same for every target; options hold the rest.
inline void register_layer(const std::string& name, const PlanOptions& options, const SharedProblem& problem,
                           const Count& count) {
  for (const Target& target : Target::available()) {
    PlanOptions with_target = options;
    with_target.target = target;
    register_layer_for(name, with_target, problem, count);
  }
}

}  // namespace attend::bench

#endif  // ATTEND_BENCH_LAYERS_RUN_LAYER_H_
