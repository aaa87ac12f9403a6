// The built-in executor. The caller works too; workers look out for the next loop for a moment, then sleep.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "attend/executor.h"
#include "engine/base/cpus.h"
#include "engine/base/message.h"

namespace attend {
namespace {

// Tells the core that this is a loop of waiting.
void pause_briefly() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// How long a thread looks for the next loop, or for the end of this one, before it sleeps. Being woken takes some 50
// us, which is what a run of a millisecond would lose at each of its loops; between requests nobody spins.
constexpr auto kSpin = std::chrono::microseconds(100);

// Whether condition() came true while looking.
template <class Condition>
bool spin_until(const Condition& condition) {
  const auto end = std::chrono::steady_clock::now() + kSpin;
  do {
    for (int i = 0; i < 64; ++i) {
      if (condition()) return true;
      pause_briefly();
    }
  } while (std::chrono::steady_clock::now() < end);
  return false;
}

}  // namespace

int ThreadPool::available_threads() { return threads_for(usable_cpus(), quota_cpus()); }

// One loop at a time. A loop is a generation: workers notice when it changes, take tasks until none is left, and the
// caller returns when the last task has. Thread i begins with task i: what loops that follow each other do in the same
// task is in the cache of one core.
struct ThreadPool::Impl {
  std::mutex one_loop;  // parallel_for calls take turns
  std::mutex mutex;     // of everything below but what is atomic, which may be read without
  std::condition_variable wake, idle;
  std::vector<std::thread> threads;
  const TaskRef* task = nullptr;
  std::size_t num_tasks = 0;
  std::atomic<std::size_t> generation{0};
  std::atomic<int> working{0};  // threads inside the current loop
  std::atomic<bool> caller_sleeps{false}, stopping{false};
  std::atomic<std::size_t> next{0};      // of the tasks that are no thread's own
  std::vector<std::atomic<bool>> taken;  // whether those that are one's own are, by task

  bool take(std::size_t own) { return !taken[own].load() && !taken[own].exchange(true); }

  void draw(std::size_t thread, const TaskRef& run, std::size_t tasks) {
    const std::size_t own = std::min(tasks, taken.size());
    if (thread < own && take(thread)) run(thread);
    for (std::size_t i = next.fetch_add(1); i < tasks; i = next.fetch_add(1)) run(i);
    for (std::size_t i = 0; i < own; ++i) {  // of threads that are late
      if (take(i)) run(i);
    }
  }

  // A worker is done with its loop. It takes the mutex only for a caller who sleeps: one who spins would find it taken,
  // and sleep after all. bench: threads/empty_loop_t*
  void leave() {
    if (--working > 0 || !caller_sleeps) return;
    { const std::lock_guard lock(mutex); }  // a caller who is about to sleep does so before
    idle.notify_one();
  }

  void stop() {
    {
      const std::lock_guard lock(mutex);
      stopping = true;
    }
    wake.notify_all();
    for (std::thread& thread : threads) thread.join();
  }

  void work(std::size_t thread) {
    std::size_t seen = 0;
    const auto called = [&] { return stopping.load() || generation.load() != seen; };
    while (true) {
      spin_until(called);
      std::unique_lock lock(mutex);
      wake.wait(lock, called);
      if (stopping) return;
      seen = generation;
      if (task == nullptr) continue;  // that loop is over
      const TaskRef run = *task;
      const std::size_t tasks = num_tasks;
      ++working;
      lock.unlock();
      draw(thread, run, tasks);
      leave();
    }
  }
};

ThreadPool::ThreadPool(int threads) : impl_(std::make_unique<Impl>()) {
  if (threads < 0) fail("threads is ", threads, ", expected at least 0");
  const std::size_t count = static_cast<std::size_t>(threads == 0 ? available_threads() : threads);
  try {
    for (std::size_t i = 1; i < count; ++i) impl_->threads.emplace_back([impl = impl_.get(), i] { impl->work(i); });
    impl_->taken = std::vector<std::atomic<bool>>(count);
  } catch (const std::exception& error) {
    impl_->stop();
    fail("threads is ", threads, ", but thread ", impl_->threads.size() + 2, " cannot be started: ", error.what());
  }
}

ThreadPool::~ThreadPool() { impl_->stop(); }

int ThreadPool::concurrency() const noexcept { return static_cast<int>(impl_->threads.size()) + 1; }

void ThreadPool::parallel_for(std::size_t num_tasks, TaskRef task) {
  const std::lock_guard turn(impl_->one_loop);
  {
    const std::lock_guard lock(impl_->mutex);
    impl_->task = &task;
    impl_->num_tasks = num_tasks;
    impl_->next.store(std::min(num_tasks, impl_->taken.size()));
    for (std::atomic<bool>& taken : impl_->taken) taken.store(false);
    ++impl_->generation;
  }
  impl_->wake.notify_all();
  impl_->draw(0, task, num_tasks);
  // All tasks are drawn; wait for those that other threads still run. A thread that comes from now on finds no task.
  {
    const std::lock_guard lock(impl_->mutex);
    impl_->task = nullptr;
  }
  const auto done = [&] { return impl_->working.load() == 0; };
  if (spin_until(done)) return;
  std::unique_lock lock(impl_->mutex);
  impl_->caller_sleeps = true;
  impl_->idle.wait(lock, done);
  impl_->caller_sleeps = false;
}

}  // namespace attend
