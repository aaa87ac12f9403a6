// What bounds everything else: machine/fma_peak is the most multiply-adds one core does, machine/read_bandwidth* how
// fast it reads from L1, L2, L3 and memory. Every other family's peak_percent refers to the former.
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

#include <benchmark/benchmark.h>

#include "bench/benchmarks.h"
#include "bench/kernels/machine_loops.h"
#include "bench/support.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "bench/kernels/machine_bench.cc"
#include <hwy/foreach_target.h>  // before highway.h
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace attend {
namespace bench {
namespace HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

// 12 sums in flight cover a latency of 4 cycles on two ports (8) with room, and fit 16 registers beside the two
// factors. x = 0.999 x + 0.001 stays near 1: no denormals, nothing the compiler can drop. Every sum starts elsewhere,
// lest it finds that all are the same and computes one (g++ 12 does, and 285 GFLOPS result where 180 are possible).
double Fma(std::size_t steps, float* sink) {
  const hn::ScalableTag<float> d;
  using V = hn::Vec<decltype(d)>;
  const V factor = hn::Set(d, 0.999f), term = hn::Set(d, 0.001f);
  V x0 = hn::Set(d, 0.0f), x1 = hn::Set(d, 0.1f), x2 = hn::Set(d, 0.2f), x3 = hn::Set(d, 0.3f);
  V x4 = hn::Set(d, 0.4f), x5 = hn::Set(d, 0.5f), x6 = hn::Set(d, 0.6f), x7 = hn::Set(d, 0.7f);
  V x8 = hn::Set(d, 0.8f), x9 = hn::Set(d, 0.9f), x10 = hn::Set(d, 1.0f), x11 = hn::Set(d, 1.1f);
  for (std::size_t i = 0; i < steps; ++i) {
    x0 = hn::MulAdd(x0, factor, term);
    x1 = hn::MulAdd(x1, factor, term);
    x2 = hn::MulAdd(x2, factor, term);
    x3 = hn::MulAdd(x3, factor, term);
    x4 = hn::MulAdd(x4, factor, term);
    x5 = hn::MulAdd(x5, factor, term);
    x6 = hn::MulAdd(x6, factor, term);
    x7 = hn::MulAdd(x7, factor, term);
    x8 = hn::MulAdd(x8, factor, term);
    x9 = hn::MulAdd(x9, factor, term);
    x10 = hn::MulAdd(x10, factor, term);
    x11 = hn::MulAdd(x11, factor, term);
  }
  const V low = hn::Add(hn::Add(hn::Add(x0, x1), hn::Add(x2, x3)), hn::Add(x4, x5));
  const V high = hn::Add(hn::Add(hn::Add(x6, x7), hn::Add(x8, x9)), hn::Add(x10, x11));
  *sink = hn::GetLane(hn::SumOfLanes(d, hn::Add(low, high)));
  return static_cast<double>(steps) * 12 * 2 * static_cast<double>(hn::Lanes(d));
}

float Read(const float* data, std::size_t count) {
  const hn::ScalableTag<float> d;
  using V = hn::Vec<decltype(d)>;
  const std::size_t lanes = hn::Lanes(d);
  const V zero = hn::Zero(d);
  V x0 = zero, x1 = zero, x2 = zero, x3 = zero, x4 = zero, x5 = zero, x6 = zero, x7 = zero;
  for (std::size_t i = 0; i < count; i += 8 * lanes) {
    x0 = hn::Add(x0, hn::Load(d, data + i));
    x1 = hn::Add(x1, hn::Load(d, data + i + lanes));
    x2 = hn::Add(x2, hn::Load(d, data + i + 2 * lanes));
    x3 = hn::Add(x3, hn::Load(d, data + i + 3 * lanes));
    x4 = hn::Add(x4, hn::Load(d, data + i + 4 * lanes));
    x5 = hn::Add(x5, hn::Load(d, data + i + 5 * lanes));
    x6 = hn::Add(x6, hn::Load(d, data + i + 6 * lanes));
    x7 = hn::Add(x7, hn::Load(d, data + i + 7 * lanes));
  }
  const V sum = hn::Add(hn::Add(hn::Add(x0, x1), hn::Add(x2, x3)), hn::Add(hn::Add(x4, x5), hn::Add(x6, x7)));
  return hn::GetLane(hn::SumOfLanes(d, sum));
}

MachineLoops Loops() { return {&Fma, &Read}; }

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace bench
}  // namespace attend
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "engine/kernels/for_target.h"

namespace attend::bench {
namespace {

MachineLoops machine_loops(std::int64_t target) { ATTEND_RETURN_FOR_TARGET(target, Loops) }

void bench_fma_peak(benchmark::State& state, const Target& target) {
  const MachineLoops loops = machine_loops(target.id());
  float sink = 0;
  double flops = 0;
  for (auto _ : state) {
    flops = loops.fma(10000, &sink);
    benchmark::DoNotOptimize(sink);
  }
  state.counters["GFLOPS"] = per_second(flops * 1e-9);
}

void bench_read_bandwidth(benchmark::State& state, const Target& target, std::size_t bytes) {
  const MachineLoops loops = machine_loops(target.id());
  const AlignedFloats data(bytes / sizeof(float));
  for (auto _ : state) {
    float sum = loops.read(data.data(), data.size());
    benchmark::DoNotOptimize(sum);
  }
  state.counters["GB"] = per_second(static_cast<double>(bytes) * 1e-9);
}

}  // namespace

double fma_peak(const Target& target) {
  static std::map<std::int64_t, double> measured;
  double& peak = measured[target.id()];
  if (peak > 0) return peak;
  const MachineLoops loops = machine_loops(target.id());
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

double read_bandwidth(std::size_t bytes) {
  static std::map<std::size_t, double> measured;
  constexpr std::size_t kStep = 64 * 1024;  // whole steps of the loop, and cases of nearly the same size share a number
  const std::size_t rounded = std::max(bytes / kStep, std::size_t{1}) * kStep;
  double& best = measured[rounded];
  if (best > 0) return best;
  const MachineLoops loops = machine_loops(Target::best().id());
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
  }
  for (const Level& level : kLevels) {
    for (const Target& target : Target::available()) {
      register_case(level.name, target.name(), [target, bytes = level.bytes](benchmark::State& state) {
        bench_read_bandwidth(state, target, bytes);
      });
    }
  }
}

}  // namespace attend::bench
#endif
