// Executors that find hidden dependencies between tasks. All of them share the smallest loops.
#ifndef ATTEND_TESTS_SUPPORT_EXECUTORS_H_
#define ATTEND_TESTS_SUPPORT_EXECUTORS_H_

#include <cstddef>

#include "attend/executor.h"

namespace attend::tests {

// The built-in pool.
class EagerPool final : public Executor {
 public:
  explicit EagerPool(int threads) : pool_(threads) {}
  int concurrency() const noexcept override { return pool_.concurrency(); }
  void parallel_for(std::size_t num_tasks, TaskRef task) override { pool_.parallel_for(num_tasks, task); }
  double least_seconds() const noexcept override { return 0; }

 private:
  ThreadPool pool_;
};

// Last task first, on the calling thread, while claiming to run several at once.
class ReverseExecutor final : public Executor {
 public:
  explicit ReverseExecutor(int concurrency = 1) : concurrency_(concurrency) {}
  int concurrency() const noexcept override { return concurrency_; }
  double least_seconds() const noexcept override { return 0; }
  void parallel_for(std::size_t num_tasks, TaskRef task) override {
    for (std::size_t i = num_tasks; i > 0; --i) task(i - 1);
  }

 private:
  int concurrency_;
};

// Every third task, then the rest: neither order nor neighbourhood is kept.
class ShuffledExecutor final : public Executor {
 public:
  explicit ShuffledExecutor(int concurrency = 1) : concurrency_(concurrency) {}
  int concurrency() const noexcept override { return concurrency_; }
  double least_seconds() const noexcept override { return 0; }
  void parallel_for(std::size_t num_tasks, TaskRef task) override {
    for (std::size_t first : {2, 0, 1}) {
      for (std::size_t i = first; i < num_tasks; i += 3) task(i);
    }
  }

 private:
  int concurrency_;
};

}  // namespace attend::tests

#endif  // ATTEND_TESTS_SUPPORT_EXECUTORS_H_
