// additive/*: the whole layer, projections and pooling included.
//     additive/CASE           all keys valid
//     additive/CASE_lens      random lengths: time over that of CASE should be the counter valid_share, within 15 %
//     additive/CASE_prepared  what depends on keys and values alone done beforehand, untimed: a decoder's step
//     additive/CASE_threads2  two threads: real time over that of CASE says how they scale
//     additive_rational/CASE  tanh of each sum, the fused baseline
#include <cstdint>
#include <string>

#include <benchmark/benchmark.h>

#include "attend/plan.h"
#include "bench/additive.h"
#include "bench/benchmarks.h"
#include "bench/layers/run_layer.h"
#include "bench/problem.h"
#include "bench/support.h"

namespace attend::bench {
namespace {

constexpr std::uint64_t kLensSeed = 7;

}  // namespace

void register_additive_benchmarks() {
  for (const AdditiveCase& c : kAdditiveCases) {
    const std::string name = std::string("additive/") + c.name;
    const Count count = [&c](benchmark::State& state, const Problem& problem, const PlanOptions& options) {
      count_additive(state, problem, c.num_hiddens, options.target, options.threads);
    };
    const SharedProblem full = shared_problem([&c] { return additive_problem(c); });
    const SharedProblem lens =
        shared_problem([&c] { return additive_problem(c, random_lens(c.batch, c.num_keys, kLensSeed)); });
    register_layer(name, {}, full, count);
    register_layer(name + "_lens", {}, lens, count);
    register_layer(name + "_prepared", {.prepared_keys = true}, full, count);
    register_layer(name + "_threads2", {.threads = 2}, full, count);
    register_layer(std::string("additive_rational/") + c.name, {.path = "additive/rational"}, full, count);
  }
}

}  // namespace attend::bench
