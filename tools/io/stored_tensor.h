// What the three formats come down to: a tensor that lies in a file, and a file of named tensors.
#ifndef ATTEND_TOOLS_IO_STORED_TENSOR_H_
#define ATTEND_TOOLS_IO_STORED_TENSOR_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tools/io/byte_stream.h"

namespace attend::io {

// The element types that are read; everything else is kOther.
enum class ElementType { kFloat16, kBfloat16, kFloat32, kFloat64, kInt32, kInt64, kOther };

// "float32" and so on; "other" for kOther.
std::string_view to_string(ElementType type);
std::uint64_t bits_per_element(ElementType type);  // not for kOther
bool is_float(ElementType type);

// More axes than any format's own reader takes (numpy 2: 64), so that a hostile shape costs little.
inline constexpr std::size_t kMaxStoredRank = 64;

struct StoredTensor {
  std::string label;  // "file.npz: tensor 'x'", for messages
  ElementType type = ElementType::kOther;
  std::string type_name;  // for messages, also where type is kOther: "float32", "dtype '<c8'"
  bool big_endian = false;
  bool fortran_order = false;
  std::vector<std::int64_t> sizes;   // as stored, none for a scalar; up to kMaxStoredRank
  std::unique_ptr<ByteStream> data;  // at the first element; where type is not kOther, exactly as long as sizes say
};

class TensorFile {
 public:
  virtual ~TensorFile() = default;
  // In alphabetical order.
  virtual std::vector<std::string> names() const = 0;
  // Throws Error, listing the names there are, if this is none of them.
  virtual StoredTensor open(const std::string& name) const = 0;
};

// Bytes that elements of so many bits take. Throws Error(label) if the product of the sizes other than zero exceeds
// 2^56 (views multiply these for strides, and must not overflow), or if the elements do not fill whole bytes.
std::uint64_t checked_num_bytes(const std::string& label, const std::vector<std::int64_t>& sizes, std::uint64_t bits);

// The openers, one per format. Each throws Error if the file is not what it should be.
StoredTensor open_npy(const std::string& path);
std::unique_ptr<TensorFile> open_npz(const std::string& path);
std::unique_ptr<TensorFile> open_safetensors(const std::string& path);

// The .npy file that a stream holds from its beginning to its end.
StoredTensor open_npy_stream(std::string label, std::unique_ptr<ByteStream> stream);

}  // namespace attend::io

#endif  // ATTEND_TOOLS_IO_STORED_TENSOR_H_
