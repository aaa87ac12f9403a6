// Where parallelism comes from: nowhere unless the caller says so.
//
// Simplest correct call: none; a run without an executor uses the calling thread alone.
// Recommended: one attend::ThreadPool for the process, or your own pool behind Executor:
//     attend::ThreadPool pool(4);
//     plan.run(inputs, outputs, workspace, pool);      // planned with {.threads = 4}
#ifndef ATTEND_EXECUTOR_H_
#define ATTEND_EXECUTOR_H_

#include <cstddef>
#include <memory>
#include <type_traits>

namespace attend {

// A reference to what can be called with a task's number, a std::size_t: a function object, such as a lambda, that
// outlives it, or a function or pointer to one, which is kept itself. What the call returns is dropped. Allocates
// nothing.
class TaskRef {
 public:
  template <class F, class = std::enable_if_t<!std::is_same_v<std::remove_cvref_t<F>, TaskRef> &&
                                              std::is_invocable_v<std::remove_reference_t<F>&, std::size_t>>>
  // NOLINTNEXTLINE(google-explicit-constructor,bugprone-forwarding-reference-overload): made to be passed a lambda
  TaskRef(F&& f) noexcept {
    using Function = std::remove_pointer_t<std::decay_t<F>>;
    if constexpr (std::is_function_v<Function>) {
      // By value: a function has no address that void* is sure to hold, and a pointer to one may be gone before it.
      callee_.function = reinterpret_cast<void (*)()>(static_cast<Function*>(f));
      call_ = [](Callee callee, std::size_t task) { reinterpret_cast<Function*>(callee.function)(task); };
    } else {
      callee_.object = const_cast<void*>(static_cast<const void*>(std::addressof(f)));
      call_ = [](Callee callee, std::size_t task) { (*static_cast<std::remove_reference_t<F>*>(callee.object))(task); };
    }
  }

  void operator()(std::size_t task) const { call_(callee_, task); }

 private:
  union Callee {
    void* object;
    void (*function)();
  };
  Callee callee_;
  void (*call_)(Callee, std::size_t);
};

// A parallel-for. Implement it over the pool you have: two functions, or three.
class Executor {
 public:
  virtual ~Executor() = default;

  // How many tasks can run at the same time, at least 1.
  virtual int concurrency() const noexcept = 0;

  // Calls task(0) ... task(num_tasks - 1), each once, in any order, on any threads, and returns when all have returned;
  // what the tasks wrote is then visible to the caller. Tasks do not throw and do not call parallel_for.
  // No promise about overlap is needed: an executor that runs all tasks one after another is correct. Runs on several
  // threads that are given the same executor call it from all of them.
  virtual void parallel_for(std::size_t num_tasks, TaskRef task) = 0;

  // Seconds of work, by a rough estimate, that make another thread worth its part of a loop: loops of less take fewer,
  // and the least ones the calling thread alone. The built-in pool's: handing a loop on takes it 1.4 us between cores
  // without a common cache (threads/empty_loop_t2), and data follow. 0: loops always take all threads.
  virtual double least_seconds() const noexcept { return 2.5e-6; }
};

// Runs everything on the calling thread.
class SerialExecutor final : public Executor {
 public:
  int concurrency() const noexcept override { return 1; }
  void parallel_for(std::size_t num_tasks, TaskRef task) override {
    for (std::size_t i = 0; i < num_tasks; ++i) task(i);
  }
};

// The built-in pool: threads are started by the constructor, sleep when there has been nothing to do for 100 us, and
// end with the pool. The calling thread works too, so ThreadPool(n) starts n - 1 threads. parallel_for may be called
// from several threads; the calls then take turns. Within a task, calls of the same pool wait for ever, runs with it
// included.
class ThreadPool final : public Executor {
 public:
  // threads: how many work at once, the caller included; 0 takes available_threads(). Throws Error when negative, and
  // when the system starts fewer threads than that; those that it did start have then ended.
  explicit ThreadPool(int threads = 0);
  ~ThreadPool() override;
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int concurrency() const noexcept override;
  void parallel_for(std::size_t num_tasks, TaskRef task) override;

  // CPUs this process may use: its affinity mask, cut to the container's CPU quota where there is one. At least 1.
  static int available_threads();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace attend

#endif  // ATTEND_EXECUTOR_H_
