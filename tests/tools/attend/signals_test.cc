// Signals that end the command: nothing of its own stays beside the outputs, and its parent is told which it was.
#include "tests/tools/attend/process.h"

#ifdef ATTEND_CLI_PATH

#include <signal.h>  // NOLINT(modernize-deprecated-headers): kill is POSIX

#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

namespace attend::tests {
namespace {

using Names = std::vector<std::string>;

// Two outputs lie ready when the summary is printed, which a full pipe holds up. Then comes the signal.
Finished ended_by(int signal, const TempDir& dir, const Names& before_words = {}) {
  dir.write("o.npy", "old");
  const std::vector<std::string> words = run_words(dir, {"--attention-weights", dir.path("w.npy"), "--threads", "3"});
  const std::size_t before = dir.names().size();
  FullPipe pipe;
  Started run(words, pipe.writer(), before_words);
  pipe.close_writer();
  while (dir.names().size() < before + 2) std::this_thread::yield();
  std::this_thread::sleep_for(std::chrono::milliseconds(50));  // the second may be being written
  ::kill(run.process(), signal);
  if (!before_words.empty()) pipe.drain();
  return run.finish();
}

}  // namespace

TEST_CASE("attend: a signal that ends it leaves no file beside the outputs, which are what they were") {
  for (const int signal : {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGXCPU}) {
    INFO("signal ", signal);
    const TempDir dir;
    const Finished finished = ended_by(signal, dir);
    CHECK(finished.signal == signal);
    CHECK(finished.err == "");
    CHECK(dir.read("o.npy") == "old");
    CHECK(dir.names() == Names{"o.npy", "q.npy"});
  }
}

TEST_CASE("attend: a signal that it was started to ignore stays ignored, as under nohup") {
  const TempDir dir;
  const Finished finished = ended_by(SIGHUP, dir, {"/bin/sh", "-c", "trap '' HUP && exec \"$0\" \"$@\""});
  CHECK(finished.exit_code == 0);
  CHECK(finished.err == "");
  CHECK(io::load_sizes(dir.path("o.npy")) == std::vector<std::int64_t>{2, 3, 4});
  CHECK(dir.names() == Names{"o.npy", "q.npy", "w.npy"});
}

}  // namespace attend::tests

#endif  // ATTEND_CLI_PATH
