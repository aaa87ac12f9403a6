// Signals that end the command: nothing of its own stays beside the outputs, and its parent is told which it was.
#include "tests/tools/attend/process.h"

#ifdef ATTEND_CLI_PATH

#include <signal.h>  // NOLINT(modernize-deprecated-headers): kill is POSIX
#include <sys/resource.h>

#include <chrono>
#include <string>
#include <vector>

#include <doctest/doctest.h>

namespace attend::tests {
namespace {

using Names = std::vector<std::string>;

// SIGQUIT and SIGXCPU leave one, where limits let them.
class NoCoreFiles {
 public:
  NoCoreFiles() {
    ::getrlimit(RLIMIT_CORE, &before_);
    const rlimit none{0, before_.rlim_max};
    ::setrlimit(RLIMIT_CORE, &none);
  }
  ~NoCoreFiles() { ::setrlimit(RLIMIT_CORE, &before_); }
  NoCoreFiles(const NoCoreFiles&) = delete;

 private:
  rlimit before_{};
};

// Two outputs lie ready when the summary is printed, which a full pipe holds up. Then comes the signal.
Finished ended_by(int signal, const TempDir& dir, const Names& before_words = {}) {
  dir.write("o.npy", "old");
  const std::vector<std::string> words = run_words(dir, {"--attention-weights", dir.path("w.npy"), "--threads", "3"});
  const std::size_t before = dir.names().size();
  FullPipe pipe;
  Started run(words, pipe.writer(), before_words);
  pipe.close_writer();
  wait_for_outputs(run, dir, before + 2);
  ::kill(run.process(), signal);
  if (!before_words.empty() || !run.ends_within(std::chrono::seconds(30))) pipe.drain();  // it goes on
  return run.finish();
}

}  // namespace

TEST_CASE("attend: a signal that ends it leaves no file beside the outputs, which are what they were") {
  const NoCoreFiles no_core_files;
  for (const int signal : {SIGHUP, SIGINT, SIGTERM, SIGXCPU, SIGQUIT}) {
#ifdef ATTEND_EMULATOR
    if (signal == SIGQUIT || signal == SIGXCPU) continue;  // of which emulators write a line of their own
#endif
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
