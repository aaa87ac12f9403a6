#include "tools/io/convert.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <exception>
#include <limits>

#include "tools/io/little_endian.h"
#include "tools/io/message.h"

namespace attend::io {
namespace {

// Elements pass through a buffer of this size on their way, so that a conversion never holds a tensor twice.
constexpr std::size_t kBufferBytes = std::size_t{1} << 16U;

std::vector<std::int64_t> checked_sizes(const StoredTensor& stored) {
  if (stored.big_endian) fail(stored.label, "big-endian " + stored.type_name + ", expected little-endian");
  // Of one axis, or of others of size 1, both orders are the same.
  const auto long_axes = std::count_if(stored.sizes.begin(), stored.sizes.end(), [](std::int64_t n) { return n > 1; });
  if (stored.fortran_order && long_axes > 1) fail(stored.label, "Fortran order, expected C order");
  if (stored.sizes.size() > static_cast<std::size_t>(kMaxRank)) {
    fail(stored.label, std::to_string(stored.sizes.size()) + " axes, expected at most " + std::to_string(kMaxRank));
  }
  if (stored.sizes.empty()) return {1};  // views have no scalars
  return stored.sizes;
}

// Reads num_elements stored as unsigned integers of type Stored and gives each to decode(stored bits, index).
template <class Stored, class Decode>
void for_each_element(StoredTensor& stored, std::size_t num_elements, Decode decode) {
  constexpr std::size_t kPerBuffer = kBufferBytes / sizeof(Stored);
  std::vector<std::byte> buffer(std::min(kPerBuffer, num_elements) * sizeof(Stored));
  for (std::size_t begin = 0; begin < num_elements; begin += kPerBuffer) {
    const std::size_t count = std::min(kPerBuffer, num_elements - begin);
    stored.data->read(std::span(buffer).first(count * sizeof(Stored)));
    for (std::size_t i = 0; i < count; ++i) decode(load_le<Stored>(buffer.data() + i * sizeof(Stored)), begin + i);
  }
  stored.data->finish();
}

// An empty tensor of the right size. The stream's length was checked against the sizes: memory is bounded by the file.
template <class T>
BasicTensor<T> make_tensor(const StoredTensor& stored) {
  BasicTensor<T> tensor;
  tensor.sizes = checked_sizes(stored);
  const std::uint64_t count = stored.data->remaining() * 8 / bits_per_element(stored.type);
  try {
    tensor.data.resize(static_cast<std::size_t>(count));
  } catch (const std::exception&) {  // or no vector can be as large
    fail(stored.label, "not enough memory for " + attend::to_string(std::span<const std::int64_t>(tensor.sizes)) +
                           ": " + std::to_string(count * sizeof(T)) + " bytes");
  }
  return tensor;
}

void read_doubles(StoredTensor& stored, Tensor& tensor, std::size_t& num_overflows) {
  for_each_element<std::uint64_t>(stored, tensor.data.size(), [&](std::uint64_t bits, std::size_t i) {
    const auto value = std::bit_cast<double>(bits);
    tensor.data[i] = static_cast<float>(value);  // IEC 559: rounds to nearest, beyond the range gives infinity
    if (std::isfinite(value) && std::isinf(tensor.data[i])) ++num_overflows;
  });
}

void note_conversion(const StoredTensor& stored, std::string_view to, std::size_t num_overflows, Notices* notices) {
  if (notices == nullptr) return;
  std::string notice = stored.label + ": " + stored.type_name + " converted to " + std::string(to);
  if (num_overflows > 0) notice += "; " + std::to_string(num_overflows) + " finite values became infinite";
  notices->push_back(std::move(notice));
}

}  // namespace

Tensor read_floats(StoredTensor& stored, Notices* notices) {
  if (!is_float(stored.type)) {
    fail(stored.label, stored.type_name + ", expected float32, float64, float16 or bfloat16");
  }
  Tensor tensor = make_tensor<float>(stored);
  std::size_t num_overflows = 0;
  switch (stored.type) {
    case ElementType::kFloat16:
      for_each_element<std::uint16_t>(stored, tensor.data.size(), [&](std::uint16_t bits, std::size_t i) {
        tensor.data[i] = float_from_half(bits);
      });
      break;
    case ElementType::kBfloat16:
      for_each_element<std::uint16_t>(stored, tensor.data.size(), [&](std::uint16_t bits, std::size_t i) {
        tensor.data[i] = float_from_bfloat16(bits);
      });
      break;
    case ElementType::kFloat64:
      read_doubles(stored, tensor, num_overflows);
      break;
    default:
      for_each_element<std::uint32_t>(stored, tensor.data.size(), [&](std::uint32_t bits, std::size_t i) {
        tensor.data[i] = std::bit_cast<float>(bits);
      });
  }
  if (stored.type != ElementType::kFloat32) note_conversion(stored, "float32", num_overflows, notices);
  return tensor;
}

LengthsTensor read_lengths(StoredTensor& stored, Notices* notices) {
  if (stored.type != ElementType::kInt32 && stored.type != ElementType::kInt64) {
    fail(stored.label, stored.type_name + ", expected int32 or int64");
  }
  LengthsTensor tensor = make_tensor<std::int32_t>(stored);
  if (stored.type == ElementType::kInt32) {
    for_each_element<std::uint32_t>(stored, tensor.data.size(), [&](std::uint32_t bits, std::size_t i) {
      tensor.data[i] = std::bit_cast<std::int32_t>(bits);
    });
    return tensor;
  }
  for_each_element<std::uint64_t>(stored, tensor.data.size(), [&](std::uint64_t bits, std::size_t i) {
    const auto value = std::bit_cast<std::int64_t>(bits);
    if (value < std::numeric_limits<std::int32_t>::min() || value > std::numeric_limits<std::int32_t>::max()) {
      fail(stored.label, "element " + std::to_string(i) + " is " + std::to_string(value) + ", expected to fit int32");
    }
    tensor.data[i] = static_cast<std::int32_t>(value);
  });
  note_conversion(stored, "int32", 0, notices);
  return tensor;
}

std::vector<std::int64_t> read_sizes(const StoredTensor& stored) {
  if (stored.type == ElementType::kOther)
    fail(stored.label, stored.type_name + ", expected floats, or of lengths int32 or int64");
  return checked_sizes(stored);
}

float float_from_half(std::uint16_t bits) {
  constexpr std::uint32_t kExponentShift = 112;  // float32's exponent bias 127 less float16's 15
  const std::uint32_t sign = (bits & 0x8000U) << 16U;
  const std::uint32_t exponent = (bits >> 10U) & 0x1FU;
  const std::uint32_t fraction = bits & 0x3FFU;
  if (exponent == 0) {  // zero and subnormals: fraction * 2^-24
    const float magnitude = static_cast<float>(fraction) * 0x1p-24F;
    return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(magnitude));
  }
  const std::uint32_t widened = exponent == 0x1F ? 0xFFU : exponent + kExponentShift;
  return std::bit_cast<float>(sign | (widened << 23U) | (fraction << 13U));
}

float float_from_bfloat16(std::uint16_t bits) { return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16U); }

}  // namespace attend::io
