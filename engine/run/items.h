// Work items over an executor: the one mechanism of parallelism.
#ifndef ATTEND_RUN_ITEMS_H_
#define ATTEND_RUN_ITEMS_H_

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>

#include "attend/executor.h"

namespace attend::detail {

struct Item {
  std::size_t index;
  std::size_t worker;  // picks a part of the workspace
  std::size_t next;    // the item that this worker probably goes on with, if there is such
};

// The items of a loop, dealt out before it begins: neighbours to the same worker, since rows of neighbouring heads
// share a line where memory begins within one, as malloc's does (against one by one, attend plan --layer dot --shape
// 8,32,32,64 --num-heads 8 --threads 2 --measure: 187 instead of 251 us); and the same part of them in each loop of a
// run, and in the next run, so that a worker finds in its own cache what it wrote there. Who is done with its own helps
// the others.
class Deal {
 public:
  Deal(std::size_t num_items, std::size_t workers) : count_(std::min(workers, kMostHands)) {
    for (std::size_t i = 0; i < count_; ++i) {
      hands_[i].next.store(num_items * i / count_, std::memory_order_relaxed);
      hands_[i].last = num_items * (i + 1) / count_;
    }
  }

  // Calls work(item) for what one of so many workers draws until nothing is left.
  template <class Work>
  void draw_all(std::size_t worker, std::size_t workers, const Work& work) {
    const std::size_t own = worker * count_ / workers;
    for (std::size_t i = 0; i < count_; ++i) {
      Hand& hand = hands_[(own + i) % count_];
      for (std::size_t item = hand.draw(); item < hand.last; item = hand.draw()) work(item);
    }
  }

 private:
  // Of more workers several draw from one.
  static constexpr std::size_t kMostHands = 64;
  struct alignas(64) Hand {
    std::atomic<std::size_t> next;
    std::size_t last;

    // Below last, or nothing is left. A look first: those that are empty are looked into by all.
    std::size_t draw() { return next.load() < last ? next.fetch_add(1) : last; }
  };

  std::size_t count_;
  std::array<Hand, kMostHands> hands_;
};

// Calls work(const Item&) once for every item. At most `workers` calls run at a time, each with its own worker number.
// An executor may run its tasks in any order, one after another included. What an item computes depends on its index
// alone.
template <class Work>
void run_items(Executor& executor, int workers, std::size_t num_items, const Work& work) {
  const std::size_t tasks = std::min(
      {num_items, static_cast<std::size_t>(workers), static_cast<std::size_t>(std::max(1, executor.concurrency()))});
  if (tasks <= 1) {
    for (std::size_t item = 0; item < num_items; ++item) work(Item{item, 0, item + 1});
    return;
  }
  Deal deal(num_items, tasks);
  executor.parallel_for(tasks, [&](std::size_t worker) {
    deal.draw_all(worker, tasks, [&](std::size_t item) { work(Item{item, worker, item + 1}); });
  });
}

}  // namespace attend::detail

#endif  // ATTEND_RUN_ITEMS_H_
