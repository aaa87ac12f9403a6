// length/*: how time grows with the number of keys, from 16 to 16384, everything else fixed; one thread.
//     length/dot_nN             one head of 64, N queries on N keys: products, N^2, and packing, N
//     length/additive_nN        64 queries on N keys, 128 hidden units: N
//     length/masked_softmax_nN  64 rows of N scores: N, until they leave a cache
//     length/decode_nN          one query, 8 heads of 128, N keys: N, at the speed of the memory that holds them
#include <cstdint>
#include <string>

#include <benchmark/benchmark.h>

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

constexpr std::int64_t kLeast = 16, kMost = 16384;
// The portable fallback does a few GFLOPS: 16384 x 16384 would take it half a minute a run.
constexpr std::int64_t kMostQuadraticOfFallback = 4096;
constexpr std::int64_t kAdditiveQueries = 64, kAdditiveHiddens = 128, kSoftmaxRows = 64;

void register_masked_softmax(const std::string& name, std::int64_t length, const Target& target) {
  register_case(name, target.name(), [=](benchmark::State& state) {
    run_masked_softmax(state, target, kSoftmaxRows, length, false);
  })->Unit(benchmark::kMicrosecond);
}

void count_length_additive(benchmark::State& state, const Problem& problem, const PlanOptions& options) {
  count_additive(state, problem, kAdditiveHiddens, options.target);
}

}  // namespace

void register_length_benchmarks() {
  for (std::int64_t length = kLeast; length <= kMost; length *= 2) {
    const std::string n = "_n" + std::to_string(length);
    const SharedProblem dot = shared_problem([=] { return dot_problem({1, 1, 1, length, length, 64}); });
    const SharedProblem decode = shared_problem([=] { return dot_problem({1, 8, 8, 1, length, 128}); });
    const SharedProblem additive =
        shared_problem([=] { return additive_problem(1, kAdditiveQueries, length, kAdditiveHiddens); });
    for (const Target& target : Target::available()) {
      const bool fallback = target == Target::available().back();
      if (!fallback || length <= kMostQuadraticOfFallback) {
        register_layer_for("length/dot" + n, {.target = target}, dot, count_dot);
      }
      register_layer_for("length/decode" + n, {.target = target}, decode, count_decode);
      register_layer_for("length/additive" + n, {.target = target}, additive, count_length_additive);
      register_masked_softmax("length/masked_softmax" + n, length, target);
    }
  }
}

}  // namespace attend::bench
