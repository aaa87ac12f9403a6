// The header of a .npy file: https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html
#ifndef ATTEND_TOOLS_IO_NPY_HEADER_H_
#define ATTEND_TOOLS_IO_NPY_HEADER_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace attend::io {

struct NpyHeader {
  std::string descr;  // "<f4"; for a structured type the text of its list
  bool structured = false;
  bool fortran_order = false;
  std::vector<std::int64_t> shape;
};

// Parses the Python literal of a header: a dict of exactly the keys descr, fortran_order and shape. Strict, because
// numpy writes it in one way only, and small, because a Python parser is no place to receive strangers. Throws
// Error(label) with the byte where it stopped understanding.
NpyHeader parse_npy_header(std::string_view text, const std::string& label);

// Magic, version 1.0, length and header of a C-order float32 array, padded with spaces so that data begins at a
// multiple of 64 bytes.
std::string make_npy_header(std::span<const std::int64_t> sizes);

inline constexpr std::string_view kNpyMagic = "\x93NUMPY";

}  // namespace attend::io

#endif  // ATTEND_TOOLS_IO_NPY_HEADER_H_
