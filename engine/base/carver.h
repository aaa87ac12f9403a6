// Cuts one block of memory into aligned parts. The same calls serve twice: at planning they only count bytes, and their
// offsets are kept in the plan.
#ifndef ATTEND_BASE_CARVER_H_
#define ATTEND_BASE_CARVER_H_

#include <cstddef>

#include "engine/base/checked.h"

namespace attend {

class Carver {
 public:
  // A cache line, and the widest vector of any target.
  static constexpr std::size_t kAlignment = 64;

  // what: is cut, for TooLarge.
  explicit Carver(const char* what) : what_(what) {}

  // Offset of a new part of count elements of size element_bytes.
  std::size_t take(std::size_t count, std::size_t element_bytes) {
    const std::size_t offset = bytes_;
    const std::size_t part = checked_add(checked_multiply(count, element_bytes, what_), kAlignment - 1, what_);
    bytes_ = checked_add(bytes_, part / kAlignment * kAlignment, what_);
    return offset;
  }

  std::size_t bytes() const noexcept { return bytes_; }

 private:
  const char* what_;
  std::size_t bytes_ = 0;
};

// The part of cut memory at an offset.
template <class T>
T* part(std::byte* memory, std::size_t offset) {
  return reinterpret_cast<T*>(memory + offset);
}

}  // namespace attend

#endif  // ATTEND_BASE_CARVER_H_
