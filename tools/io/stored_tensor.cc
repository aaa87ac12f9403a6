#include "tools/io/stored_tensor.h"

#include "attend/tensor_view.h"
#include "tools/io/message.h"

namespace attend::io {

std::string_view to_string(ElementType type) {
  switch (type) {
    case ElementType::kFloat16:
      return "float16";
    case ElementType::kBfloat16:
      return "bfloat16";
    case ElementType::kFloat32:
      return "float32";
    case ElementType::kFloat64:
      return "float64";
    case ElementType::kInt32:
      return "int32";
    case ElementType::kInt64:
      return "int64";
    case ElementType::kOther:
      break;
  }
  return "other";
}

std::uint64_t bits_per_element(ElementType type) {
  switch (type) {
    case ElementType::kFloat16:
    case ElementType::kBfloat16:
      return 16;
    case ElementType::kFloat32:
    case ElementType::kInt32:
      return 32;
    case ElementType::kFloat64:
    case ElementType::kInt64:
      return 64;
    case ElementType::kOther:
      break;
  }
  return 0;
}

bool is_float(ElementType type) {
  return type == ElementType::kFloat16 || type == ElementType::kBfloat16 || type == ElementType::kFloat32 ||
         type == ElementType::kFloat64;
}

std::uint64_t checked_num_bytes(const std::string& label, const std::vector<std::int64_t>& sizes, std::uint64_t bits) {
  // 2^56 elements of 64 bits are 2^62 bits; no file comes near.
  constexpr std::uint64_t kMaxElements = std::uint64_t{1} << 56U;
  std::uint64_t product = 1;  // of the sizes other than zero
  bool has_zero = false;
  for (const std::int64_t size : sizes) {
    has_zero = has_zero || size == 0;
    const std::uint64_t factor = size == 0 ? 1 : static_cast<std::uint64_t>(size);
    if (factor > kMaxElements / product) {
      fail(label, "shape " + attend::to_string(std::span<const std::int64_t>(sizes)) +
                      " overflows, expected fewer than 2^56 elements");
    }
    product *= factor;
  }
  const std::uint64_t num_bits = has_zero ? 0 : product * bits;
  if (num_bits % 8 != 0) {
    fail(label, "shape " + attend::to_string(std::span<const std::int64_t>(sizes)) + " of " + std::to_string(bits) +
                    "-bit elements does not fill whole bytes");
  }
  return num_bits / 8;
}

}  // namespace attend::io
