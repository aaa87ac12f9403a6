// additive/*: the whole layer, projections and pooling included.
//     additive/CASE           all keys valid
//     additive/CASE_lens      random lengths: time over that of CASE should be the counter valid_share, within 15 %
//     additive/b8_m64_n512_u256_query_lens  a random length per query
//     additive/CASE_prepared  what depends on keys and values alone done beforehand, untimed: a decoder's step
//     additive/CASE_threads2  two threads: real time over that of CASE says how they scale
//     additive_rational/CASE  tanh of each sum, the fused baseline; CASE_lens too
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

// One query of one entry: only chunks of its keys can be shared out.
constexpr AdditiveCase kLongCase = {"b1_m1_n16384_u256", 1, 1, 16384, 256};

Count count_of(const AdditiveCase& c) {
  return [&c](benchmark::State& state, const Problem& problem, const PlanOptions& options) {
    count_additive(state, problem, c.num_hiddens, options.target, options.threads);
  };
}

// What a decoder's step must read, and for one query what bounds it: exponentials and values of valid keys, once.
Count count_of_prepared(const AdditiveCase& c) {
  return [&c](benchmark::State& state, const Problem& problem, const PlanOptions& options) {
    count_of(c)(state, problem, options);
    const std::int64_t row = c.num_hiddens + problem.values.sizes[2];
    count_bytes(state, static_cast<double>(problem.visible_keys() * row) * sizeof(float), options.threads);
  };
}

void register_prepared(const AdditiveCase& c, const SharedProblem& problem) {
  const std::string name = std::string("additive/") + c.name + "_prepared";
  register_layer(name, {.prepared_keys = true}, problem, count_of_prepared(c));
  register_layer(name + "_threads2", {.threads = 2, .prepared_keys = true}, problem, count_of_prepared(c));
}

}  // namespace

void register_additive_benchmarks() {
  for (const AdditiveCase& c : kAdditiveCases) {
    const std::string name = std::string("additive/") + c.name;
    const Count count = count_of(c);
    const SharedProblem full = shared_problem([&c] { return additive_problem(c); });
    const SharedProblem lens = shared_problem([&c] { return padded_additive_problem(c); });
    register_layer(name, {}, full, count);
    register_layer(name + "_lens", {}, lens, count);
    register_prepared(c, full);
    register_layer(name + "_threads2", {.threads = 2}, full, count);
    const std::string rational = std::string("additive_rational/") + c.name;
    register_layer(rational, {.path = "additive/rational"}, full, count);
    register_layer(rational + "_lens", {.path = "additive/rational"}, lens, count);
  }
  constexpr const AdditiveCase& kSome = kAdditiveCases[0];
  const SharedProblem lens_per_query = shared_problem(
      [] { return additive_problem(kSome, random_lens(kSome.batch * kSome.num_queries, kSome.num_keys, kLensSeed)); });
  register_layer(std::string("additive/") + kSome.name + "_query_lens", {}, lens_per_query, count_of(kSome));
  const SharedProblem long_keys = shared_problem([] { return additive_problem(kLongCase); });
  register_layer(std::string("additive/") + kLongCase.name, {}, long_keys, count_of(kLongCase));
  register_layer(std::string("additive/") + kLongCase.name + "_threads2", {.threads = 2}, long_keys,
                 count_of(kLongCase));
  register_prepared(kLongCase, long_keys);
}

}  // namespace attend::bench
