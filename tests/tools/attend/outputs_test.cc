// Output files in directories that others write to: their names stay theirs, and all outputs appear or none.
#include "tools/attend/outputs.h"

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#if defined(__linux__) && __has_include(<linux/seccomp.h>)
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#endif

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "tests/tools/attend/process.h"
#include "tests/tools/io/build_files.h"
#include "tests/tools/io/ordinary_user.h"

namespace attend::tests {
namespace {

namespace fs = std::filesystem;
using Names = std::vector<std::string>;
using tools::OutputFiles;

constexpr fs::perms kPrivate = fs::perms::owner_read | fs::perms::owner_write;

fs::perms mode_of(const std::string& path) { return fs::status(path).permissions(); }

// What the next files beside an output would be called.
Names next_names() {
  const TempDir dir;
  OutputFiles files;
  files.add(dir.path("x"), "x");
  const std::string name = dir.names().front();
  const std::size_t count_at = name.rfind('-') + 1;
  const int count = std::stoi(name.substr(count_at));
  Names next;
  for (int i = 1; i <= 4; ++i) {
    next.push_back(name.substr(0, count_at) + std::to_string(count + i) + name.substr(name.rfind('.')));
  }
  return next;
}

// What they were called once: by the process and the place among its outputs alone.
Names guessed_names() {
  Names names;
  for (const char* ending : {"-0.staged", "-1.staged", "-0.old", "-1.old"}) {
    names.push_back(".attend-" + std::to_string(::getpid()) + ending);
  }
  return names;
}

}  // namespace

TEST_CASE("outputs: those of two in one directory, staged at once, hold their own data") {
  const TempDir dir;
  const Tensor ours = counting({2, 3}), theirs = counting({3, 2});
  for (int round = 0; round < 2; ++round) {  // new files, then replaced ones
    OutputFiles a, b;
    a.add(dir.path("a.npy"), ours.view());
    b.add(dir.path("b.npy"), theirs.view());
    a.add(dir.path("a.txt"), "a");
    b.add(dir.path("b.txt"), "b");
    a.commit();
    b.commit();
    CHECK(io::load_sizes(dir.path("a.npy")) == ours.sizes);
    CHECK(io::load_sizes(dir.path("b.npy")) == theirs.sizes);
    CHECK(dir.read("a.txt") == "a");
    CHECK(dir.read("b.txt") == "b");
    CHECK(dir.names() == Names{"a.npy", "a.txt", "b.npy", "b.txt"});
  }
}

TEST_CASE("outputs: links planted under the names beside them are neither followed nor taken") {
  const TempDir dir, others;
  others.write("victim", "theirs");
  fs::permissions(others.path("victim"), kPrivate);
  Names names = {"new", "old"};
  const auto plant = [&](const Names& planted) {
    for (std::size_t i = 0; i < planted.size(); ++i) {
      std::error_code taken;
      fs::create_symlink(others.path(i % 2 == 0 ? "victim" : "none"), dir.path(planted[i]), taken);
      if (!taken) names.push_back(planted[i]);
    }
  };
  dir.write("old", "old");
  plant(guessed_names());
  plant(next_names());
  OutputFiles files;
  files.add(dir.path("old"), "replaced");
  files.add(dir.path("new"), "made");
  plant(next_names());  // the old file has a second name from commit() on
  files.commit();
  CHECK(dir.read("old") == "replaced");
  CHECK(dir.read("new") == "made");
  CHECK(others.read("victim") == "theirs");
  CHECK(mode_of(others.path("victim")) == kPrivate);
  CHECK(others.names() == Names{"victim"});
  std::sort(names.begin(), names.end());
  CHECK(dir.names() == names);
  for (const std::string& name : names) CHECK(fs::is_symlink(dir.path(name)) == name.starts_with('.'));
}

TEST_CASE("outputs: files that a process left behind give no output their mode or bytes") {
  const TempDir dir;
  dir.write("private", "old");
  fs::permissions(dir.path("private"), kPrivate);
  Names left = guessed_names();
  for (const std::string& name : next_names()) left.push_back(name);
  for (const std::string& name : left) {
    fs::permissions(dir.write(name, "left behind, and longer than what is written"), fs::perms::owner_all);
  }
  const mode_t old_mask = ::umask(027);
  OutputFiles files;
  files.add(dir.path("new"), "made");
  files.add(dir.path("private"), "replaced");
  int num_private = 0;  // before it has its name, too
  for (const std::string& name : dir.names()) {
    num_private += dir.read(name) == "replaced" && mode_of(dir.path(name)) == kPrivate ? 1 : 0;
  }
  CHECK(num_private == 1);
  files.commit();
  ::umask(old_mask);
  CHECK(mode_of(dir.path("new")) == fs::perms{0640});
  CHECK(mode_of(dir.path("private")) == kPrivate);
  CHECK(dir.read("new") == "made");
  CHECK(dir.read("private") == "replaced");
  for (const std::string& name : left) {
    CHECK(dir.read(name).starts_with("left behind"));
    CHECK(mode_of(dir.path(name)) == fs::perms::owner_all);
  }
  CHECK(dir.names().size() == left.size() + 2);
}

TEST_CASE("outputs: a file that may not be written is refused before the work, and stays; so is a closed directory") {
  const TempDir dir;
  fs::permissions(dir.write("kept", "old"), fs::perms::owner_read | fs::perms::others_read);
  fs::create_symlink("kept", dir.path("link"));
  fs::create_directory(dir.path("closed"));
  fs::permissions(dir.write("closed/open", "old"), fs::perms::all);
  fs::permissions(dir.path("closed"), fs::perms::owner_read | fs::perms::owner_exec | fs::perms::others_exec);
  fs::permissions(dir.path(), fs::perms::all);
  const auto is_refused = [&](const std::string& name, const std::string& reason) {
    return error_in(dir, [&] { tools::check_writable(dir.path(name)); }) == name + ": cannot write: " + reason;
  };
  const std::optional<bool> as_it_should = as_ordinary_user([&] {
    OutputFiles files;
    return is_refused("kept", "Permission denied") && is_refused("link", "Permission denied") &&
           error_in(dir, [&] { files.add(dir.path("kept"), "new"); }) == "kept: cannot write: Permission denied" &&
           is_refused("closed/open", "no new file in its directory: Permission denied") &&
           is_refused("closed/new", "no new file in its directory: Permission denied") &&
           error_in(dir, [&] { tools::check_writable(dir.path("new")); }) == "no error";
  });
  if (as_it_should) {
    CHECK(*as_it_should);
  } else {
    MESSAGE("not tried: root, and no other user to be had");
  }
  fs::permissions(dir.path("closed"), fs::perms::owner_all);
  CHECK(dir.read("kept") == "old");
  CHECK(mode_of(dir.path("kept")) == (fs::perms::owner_read | fs::perms::others_read));
  CHECK(dir.names() == Names{"closed", "kept", "link"});
}

TEST_CASE("outputs: where one cannot be put in place, those before it are what they were") {
  for (const bool is_last : {true, false}) {
    const TempDir dir;
    dir.write("old", "old");
    fs::permissions(dir.path("old"), kPrivate);
    fs::create_hard_link(dir.path("old"), dir.path("same"));
    fs::create_symlink("goal", dir.path("link"));
    {
      OutputFiles files;
      files.add(dir.path("old"), "replaced");
      files.add(dir.path("link"), "made");
      files.add(dir.path("in_the_way"), "never");
      if (!is_last) files.add(dir.path("last"), "never");
      fs::create_directory(dir.path("in_the_way"));
      CHECK(error_in(dir, [&] { files.commit(); }).starts_with("in_the_way: cannot write: "));
    }
    CHECK(dir.read("old") == "old");
    CHECK(fs::equivalent(dir.path("old"), dir.path("same")));
    CHECK(fs::is_symlink(dir.path("link")));
    CHECK(dir.names() == Names{"in_the_way", "link", "old", "same"});
  }
}

#if defined(__linux__) && __has_include(<linux/seccomp.h>)
// From now on links to files are refused to this process, as some file systems refuse them to all. False where the
// system has no such filter.
bool refuse_links() {
  std::vector<sock_filter> filter = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr))};
  const auto refuse = [&](unsigned call) {
    filter.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1));
    filter.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM));
  };
#ifdef SYS_link
  refuse(SYS_link);
#endif
  refuse(SYS_linkat);
  filter.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
  sock_fprog program{static_cast<unsigned short>(filter.size()), filter.data()};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) == 0;
}

TEST_CASE("outputs: where files can have no second name, a copy of the old one is put back") {
  const TempDir dir;
  dir.write("old", std::string(100000, 'o'));
  fs::permissions(dir.path("old"), kPrivate);
  enum : int { kAsItShould = 0, kWasWritten = 1, kLinked = 2, kNoFilter = 3 };
  const pid_t child = ::fork();
  if (child == 0) {
    if (!refuse_links()) ::_exit(kNoFilter);
    std::error_code error;
    fs::create_hard_link(dir.path("old"), dir.path("same"), error);
    if (!error) ::_exit(kLinked);
    {
      OutputFiles files;
      files.add(dir.path("old"), "replaced");
      files.add(dir.path("in_the_way"), "never");
      files.add(dir.path("last"), "never");
      fs::create_directory(dir.path("in_the_way"));
      const std::string message = error_in(dir, [&] { files.commit(); });
      if (!message.starts_with("in_the_way: cannot write: ")) ::_exit(kWasWritten);
    }
    ::_exit(kAsItShould);
  }
  REQUIRE(child > 0);
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  REQUIRE(WIFEXITED(status));
  if (WEXITSTATUS(status) == kNoFilter) {
    MESSAGE("not tried: this system has no filter of calls");
    return;
  }
  CHECK(WEXITSTATUS(status) == kAsItShould);
  CHECK(dir.read("old") == std::string(100000, 'o'));
  CHECK(mode_of(dir.path("old")) == kPrivate);
  CHECK(dir.names() == Names{"in_the_way", "old"});
}
#endif

TEST_CASE("outputs: what cannot be written is not put in place with the others") {
  const TempDir dir;
  OutputFiles files;
  files.add(dir.path("a"), "a");
  CHECK(error_in(dir, [&] { files.add(dir.path("b.npy"), TensorView<const float>()); }) ==
        "b.npy: cannot write: the view is empty, expected 1 to 4 axes");
  CHECK(error_in(dir, [&] { files.add(dir.path("none/c"), "c"); }) ==
        "none/c: cannot create a file beside it: No such file or directory");
  files.add("", "d");
  files.commit();
  CHECK(dir.names() == Names{"a"});
}

}  // namespace attend::tests
