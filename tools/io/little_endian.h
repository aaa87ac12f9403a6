// Little-endian integers in byte arrays: all three formats are little-endian, the machine need not be.
#ifndef ATTEND_TOOLS_IO_LITTLE_ENDIAN_H_
#define ATTEND_TOOLS_IO_LITTLE_ENDIAN_H_

#include <algorithm>
#include <array>
#include <bit>
#include <concepts>
#include <cstddef>
#include <cstring>
#include <string>

namespace attend::io {

// On a little-endian machine both compile to one move.
template <std::unsigned_integral T>
T load_le(const std::byte* from) {
  std::array<std::byte, sizeof(T)> bytes;
  std::memcpy(bytes.data(), from, sizeof(T));
  if constexpr (std::endian::native == std::endian::big) std::reverse(bytes.begin(), bytes.end());
  return std::bit_cast<T>(bytes);
}

template <std::unsigned_integral T>
void store_le(std::byte* to, T value) {
  auto bytes = std::bit_cast<std::array<std::byte, sizeof(T)>>(value);
  if constexpr (std::endian::native == std::endian::big) std::reverse(bytes.begin(), bytes.end());
  std::memcpy(to, bytes.data(), sizeof(T));
}

template <std::unsigned_integral T>
void append_le(std::string& to, T value) {
  std::array<std::byte, sizeof(T)> bytes;
  store_le(bytes.data(), value);
  to.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

}  // namespace attend::io

#endif  // ATTEND_TOOLS_IO_LITTLE_ENDIAN_H_
