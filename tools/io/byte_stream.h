// Bytes in order, from wherever they are: a file, a range of it, or what a range of it inflates to.
#ifndef ATTEND_TOOLS_IO_BYTE_STREAM_H_
#define ATTEND_TOOLS_IO_BYTE_STREAM_H_

#include <cstddef>
#include <cstdint>
#include <span>

namespace attend::io {

class ByteStream {
 public:
  virtual ~ByteStream() = default;

  // Fills all of out, or throws Error. Asking for more than remaining() is an Error.
  virtual void read(std::span<std::byte> out) = 0;

  // Bytes not read yet. It bounds what readers allocate, so it is never more than the file could hold.
  virtual std::uint64_t remaining() const = 0;

  // To be called when remaining() is 0: throws Error if a checksum or a trailing byte says that the bytes were wrong.
  virtual void finish() = 0;
};

}  // namespace attend::io

#endif  // ATTEND_TOOLS_IO_BYTE_STREAM_H_
