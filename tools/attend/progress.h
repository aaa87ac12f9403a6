// A line on the terminal while work takes long.
#ifndef ATTEND_TOOLS_ATTEND_PROGRESS_H_
#define ATTEND_TOOLS_ATTEND_PROGRESS_H_

#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

namespace attend::tools {

// Shows "attend: running, 3 s" on stderr, updated in place, from the first second of its life on, and takes it away
// when it ends. Does nothing when stderr is not a terminal. Print nothing else while one lives. No percentage: a run
// hands the executor one task per thread and draws its items itself, so nobody outside can count them.
class Progress {
 public:
  explicit Progress(std::string what);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void say(std::string what);

 private:
  void show_until_ended();

  std::mutex mutex_;  // of what_ and ended_
  std::condition_variable wake_;
  std::string what_;
  bool ended_ = false;
  std::thread thread_;
};

}  // namespace attend::tools

#endif  // ATTEND_TOOLS_ATTEND_PROGRESS_H_
