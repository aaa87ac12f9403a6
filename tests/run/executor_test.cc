// The parallel-for contract of executor.h.
#include <atomic>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include "attend/executor.h"
#include "tests/support/executors.h"

namespace attend::tests {

TEST_CASE("executor: every task runs exactly once and is finished when parallel_for returns") {
  ThreadPool pools[] = {ThreadPool(1), ThreadPool(2), ThreadPool(7), ThreadPool()};
  SerialExecutor serial;
  ReverseExecutor reverse;
  ShuffledExecutor shuffled;
  std::vector<Executor*> executors = {&serial, &reverse, &shuffled};
  for (ThreadPool& pool : pools) executors.push_back(&pool);
  for (Executor* executor : executors) {
    CHECK(executor->concurrency() >= 1);
    for (const std::size_t num_tasks : {0u, 1u, 2u, 6u, 7u, 8u, 1000u}) {
      for (int repeat = 0; repeat < 20; ++repeat) {
        std::vector<int> runs(num_tasks, 0);  // not atomic: visible to the caller by contract
        executor->parallel_for(num_tasks, [&](std::size_t task) { ++runs[task]; });
        CHECK(runs == std::vector<int>(num_tasks, 1));
      }
    }
  }
}

TEST_CASE("executor: one pool serves callers on several threads") {
  ThreadPool pool(3);
  std::atomic<int> total{0};
  {
    std::vector<std::jthread> callers;
    for (int caller = 0; caller < 4; ++caller) {
      callers.emplace_back([&] {
        for (int repeat = 0; repeat < 100; ++repeat) {
          int sum = 0;
          std::vector<int> parts(9, 0);
          pool.parallel_for(9, [&](std::size_t task) { parts[task] = static_cast<int>(task); });
          for (const int part : parts) sum += part;
          total += sum;
        }
      });
    }
  }
  CHECK(total == 4 * 100 * 36);
}

TEST_CASE("executor: pools of threads come and go") {
  for (int repeat = 0; repeat < 50; ++repeat) {
    ThreadPool pool(1 + repeat % 5);
    CHECK(pool.concurrency() == 1 + repeat % 5);
    if (repeat % 2 == 0) pool.parallel_for(3, [](std::size_t) {});
  }
  CHECK(ThreadPool::available_threads() >= 1);
  CHECK(ThreadPool::available_threads() <= static_cast<int>(std::thread::hardware_concurrency()));
}

}  // namespace attend::tests
