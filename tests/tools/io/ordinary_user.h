// What permissions of files forbid, also where the tests are root's, to whom they forbid nothing.
#ifndef ATTEND_TESTS_TOOLS_IO_ORDINARY_USER_H_
#define ATTEND_TESTS_TOOLS_IO_ORDINARY_USER_H_

#include <grp.h>
#include <sys/wait.h>
#include <unistd.h>

#include <optional>

namespace attend::tests {

// Returns work() of a user who is not root: of a process of its own where we are. None: that cannot be had here.
// work throws nothing, and tells what it found by true or false: a check of its own would be lost with the process.
template <class Work>
std::optional<bool> as_ordinary_user(Work work) {
  if (::geteuid() != 0) return work();
  constexpr unsigned kNobody = 65534;
  enum : int { kTrue = 0, kFalse = 1, kStillRoot = 2 };
  const pid_t child = ::fork();
  if (child == 0) {
    if (::setgroups(0, nullptr) != 0 || ::setgid(kNobody) != 0 || ::setuid(kNobody) != 0) ::_exit(kStillRoot);
    ::_exit(work() ? kTrue : kFalse);
  }
  int status = 0;
  if (child < 0 || ::waitpid(child, &status, 0) != child) return std::nullopt;
  if (WIFEXITED(status) && WEXITSTATUS(status) == kStillRoot) return std::nullopt;
  return WIFEXITED(status) && WEXITSTATUS(status) == kTrue;
}

}  // namespace attend::tests

#endif  // ATTEND_TESTS_TOOLS_IO_ORDINARY_USER_H_
