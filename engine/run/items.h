// Work items over an executor: the one mechanism of parallelism.
#ifndef ATTEND_RUN_ITEMS_H_
#define ATTEND_RUN_ITEMS_H_

#include <algorithm>
#include <atomic>
#include <cstddef>

#include "attend/executor.h"

namespace attend::detail {

struct Item {
  std::size_t index;
  std::size_t worker;  // picks a part of the workspace
  std::size_t next;    // the item that this worker probably goes on with, if there is such
};

// What a worker draws at a time: neighbouring items, since rows of neighbouring heads share a line where memory begins
// within one, as malloc's does. Fewer as the end nears, one at last, so that workers finish together. Against one by
// one, attend plan --layer dot --shape 8,32,32,64 --num-heads 8 --threads 2 --measure: 187 instead of 251 us;
// threads/dot_b64_h8_m32_n32_d64_t2, whose tensors begin with a line, is as fast either way.
struct Draw {
  std::size_t first, count;
};
inline Draw draw_items(std::atomic<std::size_t>& next, std::size_t num_items, std::size_t workers) {
  constexpr std::size_t kDrawsPerWorker = 4;  // of what is left
  std::size_t first = next.load(), count = 0;
  do {
    if (first >= num_items) return {first, 0};
    count = std::max<std::size_t>((num_items - first) / (kDrawsPerWorker * workers), 1);
  } while (!next.compare_exchange_weak(first, first + count));
  return {first, count};
}

// Calls work(const Item&) once for every item. At most `workers` calls run at a time, each with its own worker number.
// Items are drawn from a counter, so that an executor may run its tasks in any order, one after another included. What
// an item computes depends on its index alone.
template <class Work>
void run_items(Executor& executor, int workers, std::size_t num_items, const Work& work) {
  const std::size_t tasks = std::min(
      {num_items, static_cast<std::size_t>(workers), static_cast<std::size_t>(std::max(1, executor.concurrency()))});
  if (tasks <= 1) {
    for (std::size_t item = 0; item < num_items; ++item) work(Item{item, 0, item + 1});
    return;
  }
  std::atomic<std::size_t> next{0};
  executor.parallel_for(tasks, [&](std::size_t worker) {
    const auto draw = [&] { return draw_items(next, num_items, tasks); };
    for (Draw now = draw(), then; now.count > 0; now = then) {
      const std::size_t last = now.first + now.count - 1;
      for (std::size_t item = now.first; item < last; ++item) work(Item{item, worker, item + 1});
      // Drawn before the last item is done, so that this knows its next one. Near the end, where items go one by one,
      // drawn after it, so that an idle worker gets the next item; `next` is a guess then.
      if (now.count > 1) then = draw();
      work(Item{last, worker, now.count > 1 ? then.first : last + tasks});
      if (now.count == 1) then = draw();
    }
  });
}

}  // namespace attend::detail

#endif  // ATTEND_RUN_ITEMS_H_
