// From the elements of a file to those of a tensor.
#ifndef ATTEND_TOOLS_IO_CONVERT_H_
#define ATTEND_TOOLS_IO_CONVERT_H_

#include <cstdint>
#include <vector>

#include "attend/io.h"
#include "attend/tensor.h"
#include "tools/io/stored_tensor.h"

namespace attend::io {

// Reads all of a stored tensor, its data to the end and its checksum too. A scalar becomes a tensor of shape (1).
// Throws Error for an element type that does not become the one asked for, big-endian data, Fortran order, or more than
// kMaxRank axes. notices may be null.
Tensor read_floats(StoredTensor& stored, Notices* notices);
LengthsTensor read_lengths(StoredTensor& stored, Notices* notices);

// The sizes that reading would give, of any element type that is read; throws as the two above do.
std::vector<std::int64_t> read_sizes(const StoredTensor& stored);

// Exact: every float16 and bfloat16 is a float32. bits are the stored ones; NaN payloads are kept.
float float_from_half(std::uint16_t bits);
float float_from_bfloat16(std::uint16_t bits);

}  // namespace attend::io

#endif  // ATTEND_TOOLS_IO_CONVERT_H_
