#include "tools/io/atomic_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <system_error>

#include "tools/io/links.h"
#include "tools/io/message.h"

namespace attend::io {
namespace {

namespace fs = std::filesystem;

constexpr int kMaxAttempts = 1000;
constexpr std::size_t kMaxBytesPerWrite = std::size_t{1} << 30U;

// Unlike the goal's name with a suffix, this one never becomes too long for the file system.
std::string temporary_name() {
  static std::atomic<unsigned> counter{0};
  return ".attend-" + std::to_string(::getpid()) + "-" + std::to_string(counter.fetch_add(1)) + ".tmp";
}

}  // namespace

AtomicFile::AtomicFile(const std::string& path) : label_(printable_path(path)) {
  if (path.empty() || path.find('\0') != std::string::npos) fail(label_, "cannot write: not a path");
  std::error_code error;
  const fs::path goal = follow_links(path, error);
  if (error) fail(label_, "cannot write: " + error.message());
  goal_ = goal.string();
  if (goal.filename().empty()) fail(label_, "cannot write: names a directory, expected a file");
  struct stat status {};
  const bool exists = ::stat(goal_.c_str(), &status) == 0;
  if (exists && S_ISDIR(status.st_mode)) fail(label_, "cannot write: is a directory, expected a file");
  if (exists && !S_ISREG(status.st_mode)) fail(label_, "cannot write: is not a regular file");

  // Another process may have left a file of that name, or a namesake of it may run on another machine.
  for (int i = 0; i < kMaxAttempts && descriptor_ < 0; ++i) {
    temporary_ = (goal.parent_path() / temporary_name()).string();
    descriptor_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (descriptor_ < 0 && errno != EEXIST && errno != EINTR) break;
  }
  if (descriptor_ < 0) fail_to("create a file beside it", errno);
  // What was private stays private. Where modes cannot be set, the umask's will do.
  if (exists) static_cast<void>(::fchmod(descriptor_, status.st_mode & 0777U));
}

AtomicFile::~AtomicFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

void AtomicFile::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor_, bytes.data(), std::min(bytes.size(), kMaxBytesPerWrite));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail_to("write", errno);
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
}

void AtomicFile::commit() {
  const int closed = ::close(descriptor_);
  const int reason = errno;  // some file systems report a full disk only here
  descriptor_ = -1;
  if (closed != 0) fail_to("write", reason);
  if (std::rename(temporary_.c_str(), goal_.c_str()) != 0) fail_to("rename the new file", errno);
  temporary_.clear();
}

void AtomicFile::fail_to(const std::string& doing, int reason) const {
  fail(label_, "cannot " + doing + ": " + system_reason(reason));
}

}  // namespace attend::io
