// Runs the built command `attend` as people do: a process with words, two streams and an exit code.
#ifndef ATTEND_TESTS_TOOLS_ATTEND_PROCESS_H_
#define ATTEND_TESTS_TOOLS_ATTEND_PROCESS_H_

#include <fcntl.h>
#include <signal.h>  // NOLINT(modernize-deprecated-headers): sets of signals are POSIX
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "attend/io.h"
#include "tests/support/temp_dir.h"

extern char** environ;  // NOLINT(readability-redundant-declaration): POSIX leaves it to us

namespace attend::tests {

struct Finished {
  int exit_code;  // -1: a signal ended it
  std::string out, err;
  int signal = 0;
};

// Absent where the build has no command to try (ATTEND_BUILD_TOOLS off); the tests then are too.
#ifdef ATTEND_CLI_PATH
// The command while it runs.
class Started {
 public:
  // stdout_descriptor: one that takes what would be kept in `out`; -1: none. before: words of a command that runs it.
  explicit Started(std::vector<std::string> words, int stdout_descriptor = -1,
                   const std::vector<std::string>& before = {});

  pid_t process() const { return process_; }
  // Whether it ends by then; finish() is still to be called.
  bool ends_within(std::chrono::seconds time) const;
  // To be called once.
  Finished finish();

 private:
  TempDir streams_;
  pid_t process_ = 0;
};

inline Started::Started(std::vector<std::string> words, int stdout_descriptor, const std::vector<std::string>& before) {
  const std::string out = streams_.write("out", ""), err = streams_.write("err", "");
  words.insert(words.begin(), ATTEND_CLI_PATH);
#ifdef ATTEND_EMULATOR
  words.insert(words.begin(), ATTEND_EMULATOR);
#endif
  words.insert(words.begin(), before.begin(), before.end());
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);

  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, out.c_str(), O_WRONLY | O_TRUNC, 0);
  if (stdout_descriptor >= 0) posix_spawn_file_actions_adddup2(&actions, stdout_descriptor, STDOUT_FILENO);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, err.c_str(), O_WRONLY | O_TRUNC, 0);
  // Whatever the tests were started to ignore, under nohup say.
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t all;
  sigfillset(&all);
  posix_spawnattr_setsigdefault(&attributes, &all);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);
  const int failed = ::posix_spawn(&process_, arguments[0], &actions, &attributes, arguments.data(), environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  if (failed != 0) throw std::runtime_error("cannot start " ATTEND_CLI_PATH);
}

inline bool Started::ends_within(std::chrono::seconds time) const {
  const auto deadline = std::chrono::steady_clock::now() + time;
  for (siginfo_t ended{}; ended.si_pid == 0; std::this_thread::sleep_for(std::chrono::milliseconds(1))) {
    if (::waitid(P_PID, static_cast<id_t>(process_), &ended, WEXITED | WNOHANG | WNOWAIT) != 0) return false;
    if (ended.si_pid == 0 && std::chrono::steady_clock::now() > deadline) return false;
  }
  return true;
}

inline Finished Started::finish() {
  int status = 0;
  if (::waitpid(process_, &status, 0) != process_) throw std::runtime_error("lost " ATTEND_CLI_PATH);
  return {.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1,
          .out = streams_.read("out"),
          .err = streams_.read("err"),
          .signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0};
}

// As Started takes them.
inline Finished run_attend(std::vector<std::string> words, int stdout_descriptor = -1,
                           const std::vector<std::string>& before = {}) {
  return Started(std::move(words), stdout_descriptor, before).finish();
}

// Until the outputs of a command, of which nothing was there before, lie beside their goals, so that `dir` has so many
// entries. Where they do not come, the command is ended.
inline void wait_for_outputs(const Started& run, const TempDir& dir, std::size_t entries) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  while (dir.names().size() < entries) {
    if (std::chrono::steady_clock::now() > deadline) {
      ::kill(run.process(), SIGKILL);
      return;
    }
    std::this_thread::yield();
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(200));  // the last may be being written
}

// A pipe that is full: who writes into it waits until it is drained.
class FullPipe {
 public:
  FullPipe() {
    if (::pipe2(ends_, O_CLOEXEC) != 0) throw std::runtime_error("no pipe");
    ::fcntl(ends_[1], F_SETFL, O_NONBLOCK);
    const std::vector<char> filling(1 << 16, '.');
    for (const std::size_t bytes : {filling.size(), std::size_t{1}}) {
      while (::write(ends_[1], filling.data(), bytes) > 0) {
      }
    }
    ::fcntl(ends_[1], F_SETFL, 0);
  }
  ~FullPipe() {
    ::close(ends_[0]);
    close_writer();
  }
  FullPipe(const FullPipe&) = delete;
  FullPipe& operator=(const FullPipe&) = delete;

  int writer() const { return ends_[1]; }
  // Of this process.
  void close_writer() {
    if (ends_[1] >= 0) ::close(ends_[1]);
    ends_[1] = -1;
  }
  // Until nobody can write any more.
  void drain() {
    std::vector<char> buffer(1 << 16);
    while (::read(ends_[0], buffer.data(), buffer.size()) > 0) {
    }
  }

 private:
  int ends_[2];
};
#endif

inline std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (std::size_t start = 0; start < text.size();) {
    const std::size_t end = std::min(text.find('\n', start), text.size());
    lines.push_back(text.substr(start, end - start));
    start = end + 1;
  }
  return lines;
}

inline bool contains(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

// Exit code 1, nothing on stdout, and one line on stderr that starts as it must and holds part.
inline bool is_error(const Finished& finished, std::string_view part) {
  const std::vector<std::string> lines = lines_of(finished.err);
  return finished.exit_code == 1 && finished.out.empty() && lines.size() == 1 && finished.err.ends_with('\n') &&
         lines[0].starts_with("attend: error: ") && contains(lines[0], part);
}

// Exit code 2, nothing on stdout, the help on stderr and its last line about what is wrong.
inline bool is_wrong_usage(const Finished& finished, std::string_view part) {
  const std::vector<std::string> lines = lines_of(finished.err);
  return finished.exit_code == 2 && finished.out.empty() && lines.size() > 5 &&
         contains(finished.err, "Usage: attend") && contains(finished.err, "Example:") &&
         lines.back().starts_with("attend: error: ") && contains(lines.back(), part);
}

// A small tensor whose elements are all different; the same for the same sizes.
inline Tensor counting(std::vector<std::int64_t> sizes) {
  std::size_t count = 1;
  for (const std::int64_t size : sizes) count *= static_cast<std::size_t>(size);
  Tensor tensor{std::move(sizes), std::vector<float>(count)};
  for (std::size_t i = 0; i < count; ++i) tensor.data[i] = 0.25f * static_cast<float>(i * 7 % 13) - 1;
  return tensor;
}

inline std::string save(const TempDir& dir, std::string_view name, const Tensor& tensor) {
  io::save_npy(dir.path(name), tensor.view());
  return dir.path(name);
}

// Words for a run that would succeed, and more.
inline std::vector<std::string> run_words(const TempDir& dir, const std::vector<std::string>& more) {
  std::vector<std::string> words = {"run", "--queries", save(dir, "q.npy", counting({2, 3, 4})), "--output",
                                    dir.path("o.npy")};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

}  // namespace attend::tests

#endif  // ATTEND_TESTS_TOOLS_ATTEND_PROCESS_H_
