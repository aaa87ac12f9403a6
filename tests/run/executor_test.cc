// The parallel-for contract of executor.h.
#include <atomic>
#include <cstddef>
#include <functional>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "attend/executor.h"
#include "tests/support/executors.h"

namespace attend::tests {
namespace {

std::vector<std::size_t> called;
void note(std::size_t task) { called.push_back(task); }
void note_noexcept(std::size_t task) noexcept { note(task); }
std::size_t note_and_count(unsigned long long task) {
  note(task);
  return called.size();
}

// What a TaskRef of that calls, with tasks 0 to 2.
template <class F>
std::vector<std::size_t> calls_of(F&& f) {
  called.clear();
  SerialExecutor().parallel_for(3, std::forward<F>(f));
  return called;
}

struct TwiceAsMuch {
  void operator()(std::size_t task) { note(2 * task); }
};

}  // namespace

TEST_CASE("executor: a task is whatever can be called with its number, functions and pointers to them included") {
  const std::vector<std::size_t> expected = {0, 1, 2}, doubled = {0, 2, 4};
  CHECK(calls_of(note) == expected);
  CHECK(calls_of(&note) == expected);
  CHECK(calls_of(note_noexcept) == expected);
  CHECK(calls_of(note_and_count) == expected);
  CHECK(calls_of(std::function<void(std::size_t)>(note)) == expected);
  CHECK(calls_of([](std::size_t task) { note(task); }) == expected);
  CHECK(calls_of(TwiceAsMuch()) == doubled);
  int sum = 0;
  const auto add = [&sum](std::size_t task) { sum += static_cast<int>(task); };
  CHECK(calls_of(add).empty());
  CHECK(sum == 3);

  // A function is kept itself, not the pointer that it came in.
  void (*pointer)(std::size_t) = note;
  const TaskRef task = pointer;
  pointer = nullptr;
  called.clear();
  task(7);
  CHECK(called == std::vector<std::size_t>{7});

  static_assert(!std::is_constructible_v<TaskRef, void (*)()>);
  static_assert(!std::is_constructible_v<TaskRef, int>);
  static_assert(std::is_trivially_copyable_v<TaskRef>);
}

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
