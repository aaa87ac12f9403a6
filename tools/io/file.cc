#include "tools/io/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "tools/io/message.h"

namespace attend::io {
namespace {

// Linux transfers at most 0x7ffff000 bytes per call; asking for less keeps the count inside ssize_t everywhere.
constexpr std::size_t kMaxBytesPerRead = std::size_t{1} << 30U;

std::string kind_of(mode_t mode) {
  if (S_ISDIR(mode)) return "a directory";
  if (S_ISFIFO(mode)) return "a FIFO";
  if (S_ISSOCK(mode)) return "a socket";
  return "a device";
}

}  // namespace

File::File(const std::string& path) : path_(path), label_(printable_path(path)) {
  if (path.find('\0') != std::string::npos) fail(label_, "cannot open: the path contains a NUL byte");
  // O_NONBLOCK: opening a FIFO that nobody writes to would otherwise wait for ever. It means nothing for regular files.
  descriptor_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (descriptor_ < 0) fail(label_, "cannot open: " + system_reason(errno));
  struct stat status {};
  const int result = ::fstat(descriptor_, &status);
  const int reason = errno;
  if (result == 0 && S_ISREG(status.st_mode)) {
    size_ = static_cast<std::uint64_t>(status.st_size);
    return;
  }
  ::close(descriptor_);  // the destructor does not run for a constructor that throws
  if (result != 0) fail(label_, "cannot open: " + system_reason(reason));
  fail(label_, "is " + kind_of(status.st_mode) + ", expected a regular file");
}

File::~File() { ::close(descriptor_); }

void File::read_at(std::uint64_t offset, std::span<std::byte> out) const {
  while (!out.empty()) {
    const std::size_t wanted = std::min(out.size(), kMaxBytesPerRead);
    const ssize_t got = ::pread(descriptor_, out.data(), wanted, static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail(label_, "cannot read: " + system_reason(errno));
    if (got == 0) {
      fail(label_,
           "ends at byte " + std::to_string(offset) + ", expected " + std::to_string(out.size()) + " bytes more");
    }
    out = out.subspan(static_cast<std::size_t>(got));
    offset += static_cast<std::uint64_t>(got);
  }
}

FileRange::FileRange(std::shared_ptr<const File> file, std::string label, std::uint64_t begin, std::uint64_t num_bytes)
    : file_(std::move(file)), label_(std::move(label)), position_(begin), end_(begin + num_bytes) {}

void FileRange::read(std::span<std::byte> out) {
  if (out.size() > remaining()) {
    fail(label_, "truncated: " + std::to_string(remaining()) + " bytes left, expected " + std::to_string(out.size()));
  }
  file_->read_at(position_, out);
  position_ += out.size();
}

std::string read_whole(const File& file) {
  std::string text(file.size(), '\0');
  file.read_at(0, std::as_writable_bytes(std::span<char>(text)));
  return text;
}

}  // namespace attend::io
