// Files: .npy, .npz and .safetensors in, .npy and .npz out. A library of its own (attend::io), so that the core keeps
// its two dependencies.
//
// Simplest correct call:    attend::Tensor queries = attend::io::load_tensor("queries.npy");
// Recommended for weights:
//     attend::Parameters parameters = attend::io::load("checkpoint.safetensors", "encoder.layers.0.self_attn.");
//
// Every reader treats its file as hostile: sizes are checked against the file before memory is taken, a truncated or
// lying file is an Error that names the file and what is wrong with it. Every writer writes beside its goal and renames
// when all is written, so that no reader ever sees half a file and a failure leaves what was there.
//
// All functions are thread-safe and allocate. Of two writers of one path, the last to rename its file wins.
#ifndef ATTEND_IO_H_
#define ATTEND_IO_H_

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "attend/tensor.h"

namespace attend::io {

// What a reader changed on the way in, one sentence each ("queries.npy: float64 converted to float32"). Collected only
// if given; the library never prints.
using Notices = std::vector<std::string>;

// One float tensor. spec: "file.npy", "file.npz:name" or "file.safetensors:name"; the file ends at the first ".npz:" or
// ".safetensors:", what follows is the name, colons and all.
//   Element types: float32; float64, float16 and bfloat16 are converted, with a notice. It counts the finite float64
//   values beyond float32's range, which become infinite. Little-endian, C order. A scalar is loaded as shape (1).
//   Allocates the tensor and small buffers, for a compressed .npz member too. Its CRC is checked.
//   Errors: Error naming the file (and tensor) for anything else: missing file or name (listing the names there are),
//   truncated data, other element types, Fortran order, big-endian, more than kMaxRank axes, negative or overflowing
//   sizes.
Tensor load_tensor(const std::string& spec, Notices* notices = nullptr);

// Valid lengths: int32, or int64 whose values fit (converted without loss). Same specs and errors as load_tensor.
LengthsTensor load_lengths(const std::string& spec, Notices* notices = nullptr);

// The sizes of a tensor, of floats or lengths, without reading its data. Same specs and errors as load_tensor.
std::vector<std::int64_t> load_sizes(const std::string& spec);

// All float tensors of a .safetensors or .npz file whose name starts with prefix, which is cut off. Only they are read.
//   Tensors of other element types under the prefix are left out with a notice.
//   Errors: as load_tensor; Error if nothing starts with prefix, naming the file, the prefix and some names there are,
//   or if nothing that does is of floats.
Parameters load(const std::string& path, std::string_view prefix = "", Notices* notices = nullptr);

// Writes one tensor as .npy (version 1.0, C order). view: any strides, any rank up to kMaxRank.
//   A new file gets the permissions of the umask, a replaced one keeps its own, and its owner and group where the
//   system lets it. A symbolic link stays and its target is replaced.
//   Errors: Error naming the path and the system's reason; the file that was there is then untouched. One that may not
//   be written is never replaced, even where its directory would let it be.
void save_npy(const std::string& path, TensorView<const float> view);

// Writes several tensors as an uncompressed .npz, in the order given.
//   Errors: as save_npy; a duplicate name is an Error.
void save_npz(const std::string& path, const std::vector<std::pair<std::string, TensorView<const float>>>& tensors);

// A file's lines without their ends, "\n" or "\r\n", for labels: blocks separated by blank lines, one per batch entry.
//   Blank is a line without any character: a space is a label. Several blank lines separate as one does.
//   Errors: Error for a missing file, a NUL byte or bytes that are not UTF-8, naming the line.
std::vector<std::vector<std::string>> load_labels(const std::string& path);

// Text to a file, beside and then renamed, like every writer here.
//   Permissions and links: as save_npy.
//   Errors: as save_npy.
void save_bytes(const std::string& path, std::string_view bytes);

}  // namespace attend::io

#endif  // ATTEND_IO_H_
