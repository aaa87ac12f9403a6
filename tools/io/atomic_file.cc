#include "tools/io/atomic_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <system_error>
#include <utility>
#include <vector>

#include "tools/io/links.h"
#include "tools/io/message.h"

namespace attend::io {
namespace {

namespace fs = std::filesystem;

constexpr int kMaxAttempts = 1000;
constexpr std::size_t kMaxBytesPerWrite = std::size_t{1} << 30U;
constexpr std::size_t kBytesPerCopy = std::size_t{1} << 16U;

// Unlike the goal's name with a suffix, this one never becomes too long for the file system.
std::string temporary_name() {
  static std::atomic<unsigned> counter{0};
  return ".attend-" + std::to_string(::getpid()) + "-" + std::to_string(counter.fetch_add(1)) + ".tmp";
}

// Gives make() names beside the goal until one is free. It returns and fails as open() with O_EXCL and link() do, which
// take a link for what it is, not for where it leads. Without success the name is empty and errno says why.
template <class Make>
int make_beside(const std::string& goal, std::string& name, Make make) {
  int result = -1;
  // Another process may have left a file of that name, or a namesake of it may run on another machine.
  for (int i = 0; i < kMaxAttempts && result < 0; ++i) {
    name = (fs::path(goal).parent_path() / temporary_name()).string();
    result = make(name.c_str());
    if (result < 0 && errno != EEXIST && errno != EINTR) break;
  }
  if (result < 0) name.clear();
  return result;
}

std::string goal_of(const std::string& path) {
  if (path.empty() || path.find('\0') != std::string::npos) fail(printable_path(path), "cannot write: not a path");
  std::error_code error;
  const fs::path goal = follow_links(path, error);
  if (error) fail(printable_path(path), "cannot write: " + error.message());
  return goal.string();
}

}  // namespace

AtomicFile::AtomicFile(const std::string& path) : AtomicFile(printable_path(path), goal_of(path)) {}

AtomicFile::AtomicFile(std::string label, std::string goal) : label_(std::move(label)), goal_(std::move(goal)) {
  if (fs::path(goal_).filename().empty()) fail(label_, "cannot write: names a directory, expected a file");
  struct stat status {};
  const bool exists = ::stat(goal_.c_str(), &status) == 0;
  if (exists && S_ISDIR(status.st_mode)) fail(label_, "cannot write: is a directory, expected a file");
  if (exists && !S_ISREG(status.st_mode)) fail(label_, "cannot write: is not a regular file");
  // Renaming would replace what its owner has protected.
  if (exists && ::access(goal_.c_str(), W_OK) != 0) fail_to("write", errno);
  // What was private stays private, from the first moment on. Where modes cannot be set, the umask's will do.
  const ::mode_t mode = exists ? status.st_mode & 0777U : 0666U;
  descriptor_ = make_beside(goal_, temporary_, [mode](const char* name) {
    return ::open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
  });
  if (descriptor_ < 0) fail_to("create a file beside it", errno);
  if (!exists) return;
  // First the owner, since that may clear bits of the mode. Mostly root alone may: else the file becomes the writer's.
  static_cast<void>(::fchown(descriptor_, status.st_uid, status.st_gid) == 0);
  static_cast<void>(::fchmod(descriptor_, mode));
}

AtomicFile::~AtomicFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
  discard();
}

void AtomicFile::discard() const noexcept {
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
  if (!old_.empty()) ::unlink(old_.c_str());
}

void AtomicFile::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor_, bytes.data(), std::min(bytes.size(), kMaxBytesPerWrite));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail_to("write", errno);
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
}

void AtomicFile::close() {
  if (descriptor_ < 0) return;
  const int closed = ::close(descriptor_);
  const int reason = errno;  // some file systems report a full disk only here
  descriptor_ = -1;
  if (closed != 0) fail_to("write", reason);
}

void AtomicFile::commit() {
  close();
  if (std::rename(temporary_.c_str(), goal_.c_str()) != 0) fail_to("write", errno);
  temporary_.clear();
}

void AtomicFile::keep_old() {
  if (make_beside(goal_, old_, [&](const char* name) { return ::link(goal_.c_str(), name); }) < 0) copy_old();
}

void AtomicFile::take_back() {
  if (old_.empty()) {
    ::unlink(goal_.c_str());
  } else {
    static_cast<void>(std::rename(old_.c_str(), goal_.c_str()));
    old_.clear();  // where that fails, too: all that is left of the old file is not removed
  }
}

// For file systems without hard links, and for files of others, to which Linux may refuse them.
void AtomicFile::copy_old() {
  AtomicFile copy(label_, goal_);
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(goal_.c_str(), "rbe"), &std::fclose);
  if (!file && errno == ENOENT) return;  // nothing is there yet
  if (!file) fail_to("write", errno);
  std::vector<char> buffer(kBytesPerCopy);
  while (const std::size_t count = std::fread(buffer.data(), 1, buffer.size(), file.get())) {
    copy.write(std::string_view(buffer.data(), count));
  }
  if (std::ferror(file.get()) != 0) fail_to("write", errno);
  copy.close();
  old_ = std::exchange(copy.temporary_, {});
}

void AtomicFile::fail_to(const std::string& doing, int reason) const {
  fail(label_, "cannot " + doing + ": " + system_reason(reason));
}

}  // namespace attend::io
