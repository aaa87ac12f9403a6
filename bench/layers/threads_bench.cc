// threads/*: the same runs on 1, 2, ... threads, as many as this process may use; best target only. Real time.
//     threads/CASE_tT/TARGET/real_time    T: threads that the plan was made for and the pool has
//     threads/empty_loop_tT/real_time     a loop of the pool, a task per thread that does nothing
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <benchmark/benchmark.h>

#include "attend/executor.h"
#include "attend/plan.h"
#include "attend/target.h"
#include "bench/additive.h"
#include "bench/benchmarks.h"
#include "bench/layers/layer_cases.h"
#include "bench/layers/run_layer.h"
#include "bench/problem.h"

namespace attend::bench {
namespace {

// Every number up to 8, from there on four in each doubling, and all threads.
std::vector<int> thread_counts(int most) {
  std::vector<int> counts;
  for (int threads = 1; threads < most; threads += std::max(1, threads / 4)) counts.push_back(threads);
  counts.push_back(most);
  return counts;
}

struct Family {
  const char* name;
  SharedProblem problem;
  Count count;
};

void empty_loop(benchmark::State& state, int threads) {
  ThreadPool pool(threads);
  measure(state, [&] { pool.parallel_for(static_cast<std::size_t>(threads), [](std::size_t) {}); });
}

}  // namespace

void register_threads_benchmarks() {
  for (const int threads : thread_counts(ThreadPool::available_threads())) {
    benchmark::RegisterBenchmark(("threads/empty_loop_t" + std::to_string(threads)).c_str(),
                                 [=](benchmark::State& state) { empty_loop(state, threads); })
        ->UseRealTime();
  }
  // A constant: clang minds that a lambda captures what it need not, g++ that it does not what it must.
  static constexpr const AdditiveCase& kAdditive = kAdditiveCases[0];
  const auto dot = [](const DotCase& c) { return shared_problem([c] { return dot_problem(c); }); };
  const SharedProblem multi_head = shared_problem([] { return multi_head_problem(8, 128, 768, 12, {}); });
  const SharedProblem additive = shared_problem([] { return additive_problem(kAdditive); });
  const Count count_additive_case = [](benchmark::State& state, const Problem& problem, const PlanOptions& options) {
    count_additive(state, problem, kAdditive.num_hiddens, options.target, options.threads);
  };
  const Family families[] = {{"dot_b1_h12_m512_n512_d64", dot({1, 12, 12, 512, 512, 64}), count_dot},
                             {"dot_b64_h8_m32_n32_d64", dot({64, 8, 8, 32, 32, 64}), count_dot},
                             {"dot_b8_h32_kv8_m1_n1024_d128", dot({8, 32, 8, 1, 1024, 128}), count_decode},
                             {"dot_b1_h32_kv8_m1_n1024_d128", dot({1, 32, 8, 1, 1024, 128}), count_decode},
                             {"multi_head_b8_s128_e768_h12", multi_head, count_multi_head},
                             {"additive_b8_m64_n512_u256", additive, count_additive_case}};
  for (const Family& family : families) {
    for (const int threads : thread_counts(ThreadPool::available_threads())) {
      auto* registered =
          register_layer_for(std::string("threads/") + family.name + "_t" + std::to_string(threads),
                             {.threads = threads, .target = Target::best()}, family.problem, family.count);
      if (threads == 1) registered->UseRealTime();  // as the others
    }
  }
}

}  // namespace attend::bench
