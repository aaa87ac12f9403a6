// How items are dealt: each once, neighbours to one worker, and what is left to whoever is done.
#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <memory>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include "attend/executor.h"
#include "engine/run/items.h"

namespace attend::tests {

TEST_CASE("items: each once on any number of threads, by a worker below their number; next is one of the later ones") {
  for (const int workers : {1, 2, 3, 7, 70}) {
    for (const std::size_t num_items : {0, 1, 2, 69, 1000}) {
      ThreadPool pool(workers);
      const auto times = std::make_unique<std::atomic<int>[]>(num_items);
      std::atomic<int> wrong{0};
      detail::run_items(pool, workers, num_items, [&](const detail::Item& item) {
        ++times[item.index];
        if (item.worker >= static_cast<std::size_t>(workers) || item.next <= item.index) ++wrong;
      });
      CAPTURE(workers);
      CAPTURE(num_items);
      for (std::size_t i = 0; i < num_items; ++i) CHECK(times[i] == 1);
      CHECK(wrong == 0);
    }
  }
}

namespace {

// Says that it is several, and calls tasks one after another.
class OneAfterTheOther : public Executor {
 public:
  explicit OneAfterTheOther(int tasks) : tasks_(tasks) {}
  int concurrency() const noexcept override { return tasks_; }
  void parallel_for(std::size_t num_tasks, TaskRef task) override {
    for (std::size_t i = num_tasks; i-- > 0;) task(i);
  }

 private:
  int tasks_;
};

}  // namespace

TEST_CASE("items: a worker begins with its own part of them and goes on with the next part") {
  for (const std::size_t workers : {2, 3, 7, 64, 100}) {
    OneAfterTheOther executor(static_cast<int>(workers));
    constexpr std::size_t kItems = 1000;
    std::vector<std::size_t> order;
    detail::run_items(executor, static_cast<int>(workers), kItems, [&](const detail::Item& item) {
      CHECK(item.worker == workers - 1);  // who comes first finds them all
      order.push_back(item.index);
    });
    const std::size_t parts = std::min<std::size_t>(workers, 64), first = kItems * (parts - 1) / parts;
    CAPTURE(workers);
    REQUIRE(order.size() == kItems);
    for (std::size_t i = 0; i < kItems; ++i) CHECK(order[i] == (first + i) % kItems);
  }
}

TEST_CASE("items: two who work at the same pace have halves") {
  // Each task waits for the other before each of its items.
  ThreadPool pool(2);
  constexpr std::size_t kItems = 64;
  std::array<std::atomic<std::size_t>, 2> at{};
  std::atomic<int> wrong{0};
  detail::run_items(pool, 2, kItems, [&](const detail::Item& item) {
    ++at[item.worker];
    while (at[1 - item.worker] < at[item.worker]) std::this_thread::yield();
    if (item.index / (kItems / 2) != item.worker) ++wrong;
  });
  CHECK(wrong == 0);
  CHECK(at[0] == kItems / 2);
}

}  // namespace attend::tests
