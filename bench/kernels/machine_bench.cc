// What bounds everything else: machine/fma_peak is the most multiply-adds one core does, machine/read_bandwidth* how
// fast it reads from L1, L2, L3 and memory. Every other family's peak_percent refers to the former. The loops are the
// library's own (engine/kernels/machine_speed.h), with which attend::Machine measures too. machine/copy is what a
// softmax of rows in memory cannot beat, masked_softmax/r4096_n1024: the C library's copy of as many bytes. GB: read
// and written, as there. machine/core_share tells whether other threads, of other virtual machines perhaps, run on the
// same core: by loads, additions and multiply-adds side by side, which they slow down where fma_peak goes on as before.
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <benchmark/benchmark.h>
#include <hwy/highway.h>

#include "bench/benchmarks.h"
#include "bench/facts.h"
#include "bench/support.h"
#include "engine/kernels/machine_speed.h"

namespace attend::bench {
namespace {

void bench_fma_peak(benchmark::State& state, const Target& target) {
  const kernels::MachineSpeedKernels loops = kernels::machine_speed_kernels(target.id());
  float sink = 0;
  double flops = 0;
  measure(state, [&] {
    flops = loops.fma(10000, &sink);
    benchmark::DoNotOptimize(sink);
  });
  state.counters["GFLOPS"] = per_second(flops * 1e-9);
}

void bench_read_bandwidth(benchmark::State& state, const Target& target, std::size_t bytes) {
  const kernels::MachineSpeedKernels loops = kernels::machine_speed_kernels(target.id());
  const AlignedFloats data(bytes / sizeof(float));
  measure(state, [&] {
    float sum = loops.read(data.data(), data.size());
    benchmark::DoNotOptimize(sum);
  });
  state.counters["GB"] = per_second(static_cast<double>(bytes) * 1e-9);
}

// The same loop in L1 again and again, for a microsecond or a few at a time: all that makes it slower at times is
// somebody else. Who is always there shows in peak_percent alone.
void bench_core_share(benchmark::State& state, const Target& target) {
  const kernels::MachineSpeedKernels loops = kernels::machine_speed_kernels(target.id());
  const AlignedFloats data((std::size_t{16} << 10) / sizeof(float), 1);
  std::vector<double> seconds;
  measure(state, [&] {
    const auto start = std::chrono::steady_clock::now();
    for (int repeat = 0; repeat < 10; ++repeat) {
      float sum = loops.read_and_multiply(data.data(), data.size());
      benchmark::DoNotOptimize(sum);
    }
    seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  });
  // Not of the very least: the clock has its steps.
  std::sort(seconds.begin(), seconds.end());
  const double alone = seconds[seconds.size() / 50], median = seconds[seconds.size() / 2];
  const double flops = 2.0 * 10 * static_cast<double>(data.size());
  state.counters["alone_percent"] = 100 * alone / median;
  state.counters["peak_percent"] = 100 * flops / median / fma_peak(target);
}

void bench_copy(benchmark::State& state) {
  constexpr std::size_t kElements = std::size_t{4096} * 1024;
  const AlignedFloats from(kElements, 1);
  AlignedFloats to(kElements);
  measure(state, [&] { std::memcpy(to.data(), from.data(), kElements * sizeof(float)); });
  state.counters["GB"] = per_second(2.0 * kElements * sizeof(float) * 1e-9);
}

}  // namespace

double fma_peak(const Target& target) {
  static std::map<std::int64_t, double> measured;
  double& peak = measured[target.id()];
  if (peak > 0) return peak;
  const kernels::MachineSpeedKernels loops = kernels::machine_speed_kernels(target.id());
  float sink = 0;
  // The best of many short loops: noise only ever slows one down. The first ones raise the clock of wide vectors.
  for (int repeat = 0; repeat < 60; ++repeat) {
    const auto start = std::chrono::steady_clock::now();
    const double flops = loops.fma(20000, &sink);
    benchmark::DoNotOptimize(sink);
    peak = std::max(peak, flops / std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  return peak;
}

double read_bandwidth(std::size_t bytes, const Target& target) {
  static std::map<std::pair<std::int64_t, std::size_t>, double> measured;
  constexpr std::size_t kStep = 64 * 1024;  // whole steps of the loop, and cases of nearly the same size share a number
  const std::size_t rounded = std::max(bytes / kStep, std::size_t{1}) * kStep;
  double& best = measured[{target.id(), rounded}];
  if (best > 0) return best;
  const kernels::MachineSpeedKernels loops = kernels::machine_speed_kernels(target.id());
  const AlignedFloats data(rounded / sizeof(float));
  for (int repeat = 0; repeat < 20; ++repeat) {
    const auto start = std::chrono::steady_clock::now();
    float sum = loops.read(data.data(), data.size());
    benchmark::DoNotOptimize(sum);
    const std::chrono::duration<double> time = std::chrono::steady_clock::now() - start;
    best = std::max(best, static_cast<double>(rounded) / time.count());
  }
  return best;
}

std::string highway_version() {
  return std::to_string(HWY_MAJOR) + "." + std::to_string(HWY_MINOR) + "." + std::to_string(HWY_PATCH);
}

void register_machine_benchmarks() {
  struct Level {
    const char* name;
    std::size_t bytes;
  };
  // Sizes well within each level of x86 servers since 2017; the last is twice the largest L3 we have met.
  constexpr Level kLevels[] = {{"machine/read_bandwidth_l1", 16u << 10},
                               {"machine/read_bandwidth_l2", 512u << 10},
                               {"machine/read_bandwidth", 32u << 20},
                               {"machine/read_bandwidth_dram", 512u << 20}};
  for (const Target& target : Target::available()) {
    register_case("machine/fma_peak", target.name(),
                  [target](benchmark::State& state) { bench_fma_peak(state, target); });
    register_case("machine/core_share", target.name(),
                  [target](benchmark::State& state) { bench_core_share(state, target); });
  }
  for (const Level& level : kLevels) {
    for (const Target& target : Target::available()) {
      register_case(level.name, target.name(), [target, bytes = level.bytes](benchmark::State& state) {
        bench_read_bandwidth(state, target, bytes);
      });
    }
  }
  register_case("machine/copy", "libc", bench_copy);
}

}  // namespace attend::bench
