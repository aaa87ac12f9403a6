#include "tools/attend/progress.h"

#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <utility>

#include "tools/attend/console.h"

namespace attend::tools {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr milliseconds kQuietTime{1000};  // what takes less needs no comment
constexpr milliseconds kRefreshTime{200};
constexpr const char* kClearLine = "\r\033[K";

}  // namespace

Progress::Progress(std::string what) : what_(std::move(what)) {
  if (::isatty(STDERR_FILENO) != 0) thread_ = std::thread([this] { show_until_ended(); });
}

Progress::~Progress() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
  }
  wake_.notify_one();
  thread_.join();
}

void Progress::say(std::string what) {
  const std::lock_guard lock(mutex_);
  what_ = std::move(what);
}

void Progress::show_until_ended() {
  const steady_clock::time_point start = steady_clock::now();
  std::unique_lock lock(mutex_);
  const auto ended = [this] { return ended_; };
  if (wake_.wait_for(lock, kQuietTime, ended)) return;
  do {
    const std::chrono::duration<double> elapsed = steady_clock::now() - start;
    std::fprintf(stderr, "%sattend: %s, %.0f s", kClearLine, one_line(what_).c_str(), elapsed.count());
    std::fflush(stderr);
  } while (!wake_.wait_for(lock, kRefreshTime, ended));
  std::fputs(kClearLine, stderr);
  std::fflush(stderr);
}

}  // namespace attend::tools
