// A regular file, read by position.
#ifndef ATTEND_TOOLS_IO_FILE_H_
#define ATTEND_TOOLS_IO_FILE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "tools/io/byte_stream.h"

namespace attend::io {

class File {
 public:
  // Opens a regular file, or a symbolic link to one. Throws Error for anything else; never blocks on a FIFO.
  explicit File(const std::string& path);
  ~File();
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  const std::string& path() const { return path_; }
  // The path as messages name it.
  const std::string& label() const { return label_; }
  std::uint64_t size() const { return size_; }

  // Fills out from offset on. Throws Error if the file ends before that or cannot be read.
  void read_at(std::uint64_t offset, std::span<std::byte> out) const;

 private:
  std::string path_;
  std::string label_;
  int descriptor_ = -1;
  std::uint64_t size_ = 0;
};

// The bytes [begin, begin + num_bytes) of a file, which must lie inside it.
class FileRange final : public ByteStream {
 public:
  FileRange(std::shared_ptr<const File> file, std::string label, std::uint64_t begin, std::uint64_t num_bytes);

  void read(std::span<std::byte> out) override;
  std::uint64_t remaining() const override { return end_ - position_; }
  void finish() override {}

 private:
  std::shared_ptr<const File> file_;
  std::string label_;
  std::uint64_t position_;
  std::uint64_t end_;
};

// All of a file as text.
std::string read_whole(const File& file);

}  // namespace attend::io

#endif  // ATTEND_TOOLS_IO_FILE_H_
