// Fields read one after the other from bytes in memory; running out of bytes is an Error.
#ifndef ATTEND_TOOLS_IO_BYTE_CURSOR_H_
#define ATTEND_TOOLS_IO_BYTE_CURSOR_H_

#include <cstddef>
#include <span>
#include <string>

#include "tools/io/little_endian.h"
#include "tools/io/message.h"

namespace attend::io {

class ByteCursor {
 public:
  // what: what the bytes are, for the message: "zip directory".
  ByteCursor(std::span<const std::byte> bytes, std::string label, std::string what)
      : bytes_(bytes), label_(std::move(label)), what_(std::move(what)) {}

  template <std::unsigned_integral T>
  T take() {
    return load_le<T>(take_bytes(sizeof(T)).data());
  }

  std::span<const std::byte> take_bytes(std::size_t num_bytes) {
    if (num_bytes > bytes_.size()) {
      fail(label_, what_ + " is truncated: " + std::to_string(bytes_.size()) + " bytes left, expected " +
                       std::to_string(num_bytes));
    }
    const auto taken = bytes_.first(num_bytes);
    bytes_ = bytes_.subspan(num_bytes);
    return taken;
  }

  std::string take_text(std::size_t num_bytes) {
    const auto bytes = take_bytes(num_bytes);
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }

  std::size_t remaining() const { return bytes_.size(); }

 private:
  std::span<const std::byte> bytes_;
  std::string label_;
  std::string what_;
};

}  // namespace attend::io

#endif  // ATTEND_TOOLS_IO_BYTE_CURSOR_H_
