// Work items over an executor: the one mechanism of parallelism.
#ifndef ATTEND_RUN_ITEMS_H_
#define ATTEND_RUN_ITEMS_H_

#include <algorithm>
#include <atomic>
#include <cstddef>

#include "attend/executor.h"

namespace attend::detail {

// Calls work(item, worker) once for every item. At most `workers` calls run at a time, each with its own worker number,
// which picks a part of the workspace. Items are drawn from a counter, so that an executor may run its tasks in any
// order, one after another included. What an item computes depends on the item alone.
template <class Work>
void run_items(Executor& executor, int workers, std::size_t num_items, const Work& work) {
  const std::size_t tasks = std::min(
      {num_items, static_cast<std::size_t>(workers), static_cast<std::size_t>(std::max(1, executor.concurrency()))});
  if (tasks <= 1) {
    for (std::size_t item = 0; item < num_items; ++item) work(item, 0);
    return;
  }
  std::atomic<std::size_t> next{0};
  executor.parallel_for(tasks, [&](std::size_t worker) {
    for (std::size_t item = next.fetch_add(1); item < num_items; item = next.fetch_add(1)) work(item, worker);
  });
}

}  // namespace attend::detail

#endif  // ATTEND_RUN_ITEMS_H_
