// Seeded test data. The same seed gives the same numbers on every machine: the generator and the distributions are
// written out here, the standard library's distributions differ between implementations.
#ifndef ATTEND_TESTS_SUPPORT_RANDOM_H_
#define ATTEND_TESTS_SUPPORT_RANDOM_H_

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "attend/tensor.h"

namespace attend::tests {

class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed * 0x9E3779B97F4A7C15u + 1) {}

  // splitmix64
  std::uint64_t bits() {
    std::uint64_t z = (state_ += 0x9E3779B97F4A7C15u);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
  }

  double unit() { return static_cast<double>(bits() >> 11) * 0x1p-53; }
  float uniform(float low, float high) { return low + (high - low) * static_cast<float>(unit()); }
  // Marsaglia and Bray 1964, two at a time: a logarithm and a root for two numbers, which where an emulator runs the
  // tests is much of their time.
  float normal() {
    if (has_spare_) {
      has_spare_ = false;
      return spare_;
    }
    for (;;) {
      const double x = 2 * unit() - 1, y = 2 * unit() - 1;
      const double s = std::fma(x, x, y * y);  // as compilers may do or not
      if (s >= 1 || s == 0) continue;
      const double factor = std::sqrt(-2 * std::log(s) / s);
      spare_ = static_cast<float>(factor * y);
      has_spare_ = true;
      return static_cast<float>(factor * x);
    }
  }
  // low <= result <= high
  std::int64_t integer(std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(bits() % static_cast<std::uint64_t>(high - low + 1));
  }

  Tensor normal(std::vector<std::int64_t> sizes, float spread = 1.0f) {
    Tensor tensor = make(std::move(sizes));
    for (float& x : tensor.data) x = spread * normal();
    return tensor;
  }

  Tensor uniform(std::vector<std::int64_t> sizes, float low, float high) {
    Tensor tensor = make(std::move(sizes));
    for (float& x : tensor.data) x = uniform(low, high);
    return tensor;
  }

  // Magnitudes from 1e-3 to `magnitude`, evenly in the logarithm, either sign: sums of two cancel now and then, most do
  // not.
  Tensor spread_out(std::vector<std::int64_t> sizes, float magnitude) {
    Tensor tensor = make(std::move(sizes));
    for (float& x : tensor.data) {
      const double size =
          std::exp(std::log(1e-3) + unit() * (std::log(static_cast<double>(magnitude)) - std::log(1e-3)));
      x = static_cast<float>((bits() & 1) != 0 ? size : -size);
    }
    return tensor;
  }

  LengthsTensor lengths(std::vector<std::int64_t> sizes, std::int64_t low, std::int64_t high) {
    LengthsTensor tensor{std::move(sizes), {}};
    std::int64_t count = 1;
    for (const std::int64_t size : tensor.sizes) count *= size;
    for (std::int64_t i = 0; i < count; ++i) tensor.data.push_back(static_cast<std::int32_t>(integer(low, high)));
    return tensor;
  }

 private:
  static Tensor make(std::vector<std::int64_t> sizes) {
    std::int64_t count = 1;
    for (const std::int64_t size : sizes) count *= size;
    return {std::move(sizes), std::vector<float>(static_cast<std::size_t>(count))};
  }

  std::uint64_t state_;
  bool has_spare_ = false;
  float spare_ = 0.0f;
};

// A number of some kind.
using Draw = std::function<float(Random&)>;
inline float draw_normal(Random& random) { return random.normal(); }

}  // namespace attend::tests

#endif  // ATTEND_TESTS_SUPPORT_RANDOM_H_
