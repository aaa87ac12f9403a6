// The loops that measure the machine: that they do what they are timed for.
#include "engine/kernels/machine_speed.h"

#include <cmath>
#include <cstddef>
#include <new>

#include <doctest/doctest.h>

#include "engine/kernels/pack.h"
#include "tests/support/for_each_target.h"
#include "tests/support/guard_page.h"

namespace attend::tests {

TEST_CASE("machine speed: reading, alone and beside products, takes all floats and none beyond") {
  for_each_target([](const Target& target) {
    const kernels::MachineSpeedKernels kernels = kernels::machine_speed_kernels(target.id());
    for (const std::size_t steps : {0, 1, 2, 5}) {
      // Whole pages, so that the array begins and ends at an unmapped one and is aligned.
      GuardedArray<float> data(steps * kernels::kReadStep * 2);
      double sum = 0;
      for (std::size_t i = 0; i < data.size(); ++i) {
        data[i] = static_cast<float>(i % 19) - 7.5f;
        sum += static_cast<double>(data[i]);
      }
      const float read = kernels.read(data.data(), data.size());
      CHECK(std::abs(static_cast<double>(read) - sum) <= 1e-6 * static_cast<double>(data.size()) * 12);
      const double n = static_cast<double>(data.size());
      const float products = kernels.read_and_multiply(data.data(), data.size());
      CHECK(std::abs(1024 * static_cast<double>(products) - (sum + n)) <= 1e-6 * n * 12);
    }
  });
}

TEST_CASE("machine speed: multiply-adds are counted by lanes, and none is optimised away") {
  for_each_target([](const Target& target) {
    const kernels::MachineSpeedKernels kernels = kernels::machine_speed_kernels(target.id());
    float none = 0, sink = 0;
    kernels.fma(0, &none);
    const double flops = kernels.fma(100, &sink);
    // A panel is four vectors.
    const double lanes = flops / (100 * 12 * 2);
    CHECK(lanes == std::floor(lanes));
    CHECK(static_cast<std::size_t>(lanes) <= kernels::pack_kernels(target.id()).panel_width);
    // The scalar step, x = 0.999 x + 0.001 from 0, 0.1 ... 1.1, in every lane.
    double sum = 0;
    for (int i = 0; i < 12; ++i) {
      double x = 0.1 * i;
      for (int step = 0; step < 100; ++step) x = 0.999 * x + 0.001;
      sum += x;
    }
    CHECK(std::abs(static_cast<double>(sink) - lanes * sum) < 1e-4 * lanes * sum);
    CHECK(none != sink);
  });
}

TEST_CASE("machine speed: what is flushed stays as it is") {
  float some[64] = {1, 2, 3};
  kernels::flush_from_caches(some, sizeof some);
  CHECK(some[2] == 3);
}

}  // namespace attend::tests
