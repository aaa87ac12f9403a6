// The built-in pool beyond what every executor does (executor_test.cc): overlap, sharing, sleep, and how it fails.
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <exception>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include "attend/executor.h"
#include "tests/support/compare.h"
#include "tests/support/sanitized.h"

namespace attend::tests {
namespace {

using namespace std::chrono_literals;

double process_seconds() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

}  // namespace

TEST_CASE("pool of threads: the size asked for, the caller included; 0 takes all there are; negative is an Error") {
  CHECK(ThreadPool(1).concurrency() == 1);
  CHECK(ThreadPool(5).concurrency() == 5);
  CHECK(ThreadPool::available_threads() >= 1);
  CHECK(ThreadPool(0).concurrency() == ThreadPool::available_threads());
  CHECK(missing_parts(error_message([] { ThreadPool(-1); }), {"threads", "-1", "at least 0"}) == "");
}

TEST_CASE("pool of threads: tasks overlap, the caller works too, and no more threads than asked for take part") {
  for (const int threads : {2, 4}) {
    ThreadPool pool(threads);
    std::atomic<int> arrived{0};
    std::atomic<bool> gave_up{false};
    std::mutex mutex;
    std::set<std::thread::id> ids;
    // A loop that is over before other threads come to it leaves these as they were.
    pool.parallel_for(1, [](std::size_t) {});
    std::this_thread::sleep_for(5ms);
    // As many tasks as threads, each waiting for all others: possible only if every thread takes one.
    pool.parallel_for(static_cast<std::size_t>(threads), [&](std::size_t) {
      {
        const std::lock_guard lock(mutex);
        ids.insert(std::this_thread::get_id());
      }
      ++arrived;
      const auto deadline = std::chrono::steady_clock::now() + 30s;
      while (arrived < threads && !gave_up) {
        if (std::chrono::steady_clock::now() > deadline) gave_up = true;
        std::this_thread::yield();
      }
    });
    CHECK_FALSE(gave_up);
    CHECK(ids.size() == static_cast<std::size_t>(threads));
    CHECK(ids.count(std::this_thread::get_id()) == 1);
    for (int repeat = 0; repeat < 50; ++repeat) {
      pool.parallel_for(100, [&](std::size_t) {
        const std::lock_guard lock(mutex);
        ids.insert(std::this_thread::get_id());
      });
    }
    CHECK(ids.size() == static_cast<std::size_t>(threads));
  }
}

TEST_CASE("pool of threads: thread i begins with task i, so that loops after each other find their data in its cache") {
  constexpr std::size_t kThreads = 4;
  ThreadPool pool(kThreads);
  std::vector<std::thread::id> ids(kThreads);
  std::atomic<std::size_t> arrived{0};
  // Nobody takes a second task before all have their first one.
  const auto meet = [&] {
    const std::size_t round = arrived++ / kThreads;
    while (arrived < (round + 1) * kThreads) std::this_thread::yield();
  };
  pool.parallel_for(kThreads, [&](std::size_t task) {
    ids[task] = std::this_thread::get_id();
    meet();
  });
  CHECK(ids[0] == std::this_thread::get_id());
  for (int repeat = 0; repeat < 50; ++repeat) {
    std::atomic<int> wrong{0};
    pool.parallel_for(kThreads + repeat % 2, [&](std::size_t task) {
      if (task >= kThreads) return;
      if (ids[task] != std::this_thread::get_id()) ++wrong;
      meet();
    });
    CHECK(wrong == 0);
  }
}

TEST_CASE("pool of threads: far more tasks than threads, each once") {
  ThreadPool pool(3);
  std::vector<unsigned char> runs(200000, 0);
  pool.parallel_for(runs.size(), [&](std::size_t task) { ++runs[task]; });
  CHECK(runs == std::vector<unsigned char>(runs.size(), 1));
}

TEST_CASE("pool of threads: loops of unequal length follow each other without a lost or doubled task") {
  ThreadPool pool(4);
  std::size_t wrong = 0;
  for (std::size_t repeat = 0; repeat < 3000; ++repeat) {
    std::vector<int> runs(repeat % 7, 0);
    pool.parallel_for(runs.size(), [&](std::size_t task) { runs[task] += static_cast<int>(task) + 1; });
    for (std::size_t task = 0; task < runs.size(); ++task) wrong += runs[task] == static_cast<int>(task) + 1 ? 0 : 1;
  }
  CHECK(wrong == 0);
}

TEST_CASE("pool of threads: tasks of one pool may use another, from several threads at once") {
  ThreadPool outer(3), inner(2);
  std::vector<int> sums(12, 0);
  outer.parallel_for(sums.size(), [&](std::size_t task) {
    std::vector<int> parts(5, 0);
    inner.parallel_for(parts.size(), [&](std::size_t part) { parts[part] = static_cast<int>(part * task); });
    for (const int part : parts) sums[task] += part;
  });
  for (std::size_t task = 0; task < sums.size(); ++task) CHECK(sums[task] == static_cast<int>(10 * task));
}

TEST_CASE("pool of threads: calls from several threads take turns, each with all of its tasks") {
  ThreadPool pool(2);
  std::atomic<bool> first_runs{false}, second_calls{false}, second_ran{false};
  bool met = false;
  std::thread second([&] {
    while (!first_runs) std::this_thread::yield();
    second_calls = true;
    pool.parallel_for(2, [&](std::size_t) { second_ran = true; });
  });
  pool.parallel_for(1, [&](std::size_t) {
    first_runs = true;
    while (!second_calls) std::this_thread::yield();
    std::this_thread::sleep_for(20ms);  // in which the second loop would have run
    met = second_ran;
  });
  second.join();
  CHECK_FALSE(met);
  CHECK(second_ran);

  std::atomic<std::size_t> wrong{0};
  std::vector<std::thread> callers;
  for (std::size_t caller = 0; caller < 3; ++caller) {
    callers.emplace_back([&, caller] {
      for (std::size_t repeat = 0; repeat < 500; ++repeat) {
        std::vector<int> runs(1 + (repeat + caller) % 5, 0);
        pool.parallel_for(runs.size(), [&](std::size_t task) { ++runs[task]; });
        for (const int count : runs) wrong += count == 1 ? 0 : 1;
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  CHECK(wrong == 0);
}

TEST_CASE("pool of threads: destroyed while idle, never used, just used, and after a pause") {
  for (int repeat = 0; repeat < 100; ++repeat) {
    ThreadPool pool(1 + repeat % 4);
    std::atomic<int> runs{0};
    if (repeat % 3 != 0) pool.parallel_for(2, [&](std::size_t) { ++runs; });
    if (repeat % 10 == 1) std::this_thread::sleep_for(1ms);
    CHECK(runs == (repeat % 3 != 0 ? 2 : 0));
  }
}

TEST_CASE("pool of threads: sleeps while there is nothing to do") {
  ThreadPool pool(4);
  pool.parallel_for(8, [](std::size_t) {});
  std::this_thread::sleep_for(5ms);
  const double before = process_seconds();
  std::this_thread::sleep_for(100ms);
  CHECK(process_seconds() - before < 0.05);  // spinning workers would burn 0.1 s each
}

TEST_CASE("pool of threads: a caller sleeps while others take long to end, and is woken") {
  ThreadPool pool(2);
  const std::thread::id caller = std::this_thread::get_id();
  const double before = process_seconds();
  std::size_t ended = 0;
  for (int repeat = 0; repeat < 20; ++repeat) {
    std::atomic<bool> other_is_here{false};
    std::atomic<int> ends{0};
    pool.parallel_for(2, [&](std::size_t) {
      if (std::this_thread::get_id() == caller) {
        while (!other_is_here) std::this_thread::yield();
      } else {
        other_is_here = true;
        std::this_thread::sleep_for(10ms);
      }
      ++ends;
    });
    ended += ends == 2 ? 1 : 0;
  }
  CHECK(ended == 20);
  CHECK(process_seconds() - before < 0.1);  // of 0.2 that a spinning caller would burn
}

#if !ATTEND_IS_SANITIZED
TEST_CASE("pool of threads: threads that cannot be started are an Error, not the end of the process") {
  constexpr int kUnlimited = 77;
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    // Room for a few stacks of 8 MiB beside what is mapped already.
    const rlimit limit{512u << 20, 512u << 20};
    setrlimit(RLIMIT_AS, &limit);
    // Emulators grant what they like.
    if (mmap(nullptr, 1u << 30, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED) _exit(kUnlimited);
    std::set_terminate([] { _exit(2); });
    try {
      ThreadPool pool(4096);
      _exit(1);  // there was room after all
    } catch (const Error&) {
      _exit(0);
    } catch (...) {
      _exit(3);
    }
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  REQUIRE(WIFEXITED(status));
  if (WEXITSTATUS(status) == kUnlimited) {
    MESSAGE("memory cannot be limited here");
    return;
  }
  CHECK(WEXITSTATUS(status) == 0);  // 2: std::terminate; 3: another exception
}
#endif

}  // namespace attend::tests
