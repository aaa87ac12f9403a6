// How items are drawn: each once, neighbours together, and one at a time in the end.
#include <atomic>
#include <cstddef>
#include <memory>

#include <doctest/doctest.h>

#include "attend/executor.h"
#include "engine/run/items.h"

namespace attend::tests {

TEST_CASE("items: draws follow each other, never grow, and end with single items") {
  for (const std::size_t num_items : {0, 1, 7, 8, 9, 512, 100003}) {
    for (const std::size_t workers : {1, 2, 3, 64}) {
      CAPTURE(num_items);
      CAPTURE(workers);
      std::atomic<std::size_t> next{0};
      std::size_t drawn = 0, before = num_items;
      for (auto draw = detail::draw_items(next, num_items, workers); draw.count > 0;
           draw = detail::draw_items(next, num_items, workers)) {
        CHECK(draw.first == drawn);
        CHECK(draw.count <= before);
        // None is more than a quarter of a fair share of what is left.
        CHECK((draw.count == 1 || draw.count * 4 * workers <= num_items - drawn));
        drawn += draw.count;
        before = draw.count;
      }
      CHECK(drawn == num_items);
      CHECK((num_items == 0 || before == 1));
      CHECK(detail::draw_items(next, num_items, workers).count == 0);
    }
  }
}

TEST_CASE("items: each once on any number of threads, by a worker below their number; next is one of the later ones") {
  for (const int workers : {1, 2, 3, 7}) {
    ThreadPool pool(workers);
    constexpr std::size_t kItems = 1000;
    const auto times = std::make_unique<std::atomic<int>[]>(kItems);
    std::atomic<int> wrong{0};
    detail::run_items(pool, workers, kItems, [&](const detail::Item& item) {
      ++times[item.index];
      if (item.worker >= static_cast<std::size_t>(workers) || item.next <= item.index) ++wrong;
    });
    for (std::size_t i = 0; i < kItems; ++i) CHECK(times[i] == 1);
    CHECK(wrong == 0);
  }
}

TEST_CASE("items: a worker that draws several goes on with the one it was told") {
  // One thread runs both tasks, one after the other: the first finds all items, by draws as if for two.
  class OneAfterTheOther final : public Executor {
   public:
    int concurrency() const noexcept override { return 2; }
    void parallel_for(std::size_t num_tasks, TaskRef task) override {
      for (std::size_t i = 0; i < num_tasks; ++i) task(i);
    }
  } executor;
  constexpr std::size_t kItems = 64;
  std::size_t told = 0, done = 0, wrong = 0;
  detail::run_items(executor, 2, kItems, [&](const detail::Item& item) {
    // From the first draw of a single item on, next is a guess.
    if (item.index != told && kItems - item.index > 16) ++wrong;
    told = item.next;
    ++done;
  });
  CHECK(done == kItems);
  CHECK(wrong == 0);
}

TEST_CASE("items: nobody is told to go on with what another has drawn") {
  // The second task runs while the first is at its first item, and takes all that is left.
  class OneWithinTheOther final : public Executor {
   public:
    int concurrency() const noexcept override { return 2; }
    void parallel_for(std::size_t, TaskRef task) override {
      second = &task;
      task(0);
    }
    const TaskRef* second = nullptr;
  } executor;
  constexpr std::size_t kItems = 64;
  std::size_t done = 0, last_told = 0;
  detail::run_items(executor, 2, kItems, [&](const detail::Item& item) {
    ++done;
    if (item.index == 0) (*executor.second)(1);
    if (item.worker == 0) last_told = item.next;
  });
  CHECK(done == kItems);
  CHECK(last_told >= kItems);
}

}  // namespace attend::tests
