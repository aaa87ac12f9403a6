// Every float16 and bfloat16, and float64 where rounding decides.
#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "attend/io.h"
#include "tests/tools/io/build_files.h"

namespace attend::tests {
namespace {

// The value that IEEE 754 gives to a number of these bits: the formula, in double.
double value_of_half(unsigned bits) {
  const double sign = (bits & 0x8000U) != 0 ? -1.0 : 1.0;
  const int exponent = static_cast<int>((bits >> 10U) & 0x1FU);
  const double fraction = (bits & 0x3FFU) / 1024.0;
  if (exponent == 31) return fraction == 0 ? sign * std::numeric_limits<double>::infinity() : std::nan("");
  return exponent == 0 ? sign * std::ldexp(fraction, -14) : sign * std::ldexp(1 + fraction, exponent - 15);
}

void check_same(float got, double expected, unsigned bits) {
  CAPTURE(bits);
  if (std::isnan(expected)) {
    CHECK(std::isnan(got));
    return;
  }
  CHECK(static_cast<double>(got) == expected);
  CHECK(std::signbit(got) == std::signbit(expected));
}

TEST_CASE("convert: all 65536 float16 are exact") {
  const TempDir dir;
  std::string data;
  for (unsigned bits = 0; bits < 0x10000; ++bits) data += le16(bits);
  const Tensor tensor = io::load_tensor(dir.write("x.npy", npy_array("<f2", "(65536,)", data)));
  for (unsigned bits = 0; bits < 0x10000; ++bits) check_same(tensor.data[bits], value_of_half(bits), bits);
}

TEST_CASE("convert: all 65536 bfloat16 keep their bits") {
  const TempDir dir;
  std::string data;
  for (unsigned bits = 0; bits < 0x10000; ++bits) data += le16(bits);
  const std::string json = R"({"a":{"dtype":"BF16","shape":[65536],"data_offsets":[0,131072]}})";
  const Tensor tensor = io::load_tensor(dir.write("m.safetensors", safetensors_file(json, data)) + ":a");
  std::size_t num_wrong = 0;
  for (unsigned bits = 0; bits < 0x10000; ++bits) {
    if (std::bit_cast<std::uint32_t>(tensor.data[bits]) != bits << 16U) ++num_wrong;
  }
  CHECK(num_wrong == 0);
}

TEST_CASE("convert: float64 rounds to nearest, and says when values leave the range") {
  const double ulp = std::ldexp(1.0, -23);
  const std::vector<double> values{
      1 + ulp / 2,          // a tie: to even, down
      1 + 3 * ulp / 2,      // a tie: to even, up
      1 + ulp * 0.5000001,  // just above a tie
      std::ldexp(1, -149),  // the least subnormal
      std::ldexp(1, -150),  // half of it: a tie to zero
      -0.0,
      3.4028234663852886e38,  // the greatest float32
      1e300,
      -1e300,
      std::numeric_limits<double>::infinity(),
      std::nan(""),
  };
  std::string data;
  for (const double value : values) data += le64(std::bit_cast<std::uint64_t>(value));
  const TempDir dir;
  io::Notices notices;
  const std::string path = dir.write("x.npy", npy_array("<f8", "(11,)", data));
  const std::vector<float> got = io::load_tensor(path, &notices).data;
  CHECK(got[0] == 1.0F);
  CHECK(got[1] == 1.0F + 0x1p-22F);
  CHECK(got[2] == 1.0F + 0x1p-23F);
  CHECK(got[3] == 0x1p-149F);
  CHECK(got[4] == 0.0F);
  CHECK(std::signbit(got[5]));
  CHECK(got[6] == std::numeric_limits<float>::max());
  CHECK(got[7] == std::numeric_limits<float>::infinity());
  CHECK(got[8] == -std::numeric_limits<float>::infinity());
  CHECK(got[9] == std::numeric_limits<float>::infinity());
  CHECK(std::isnan(got[10]));
  CHECK(notices == io::Notices{path + ": float64 converted to float32; 2 finite values became infinite"});
}

TEST_CASE("convert: float32 keeps its bits, NaN payloads too, across buffers") {
  const TempDir dir;
  constexpr std::uint32_t kCount = 100'000;  // more than one buffer
  std::string data;
  for (std::uint32_t i = 0; i < kCount; ++i) data += le32(i * 42949U);
  data.replace(0, 4, le32(0x7FA00001));  // a signalling NaN
  const Tensor tensor = io::load_tensor(dir.write("x.npy", npy_array("<f4", "(100000,)", data)));
  std::size_t num_wrong = std::bit_cast<std::uint32_t>(tensor.data[0]) == 0x7FA00001 ? 0 : 1;
  for (std::uint32_t i = 1; i < kCount; ++i) {
    if (std::bit_cast<std::uint32_t>(tensor.data[i]) != i * 42949U) ++num_wrong;
  }
  CHECK(num_wrong == 0);
}

}  // namespace
}  // namespace attend::tests
