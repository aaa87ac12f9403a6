// Machine::measure: the loops of kernels/machine_speed.h, timed.
#include <algorithm>
#include <chrono>
#include <new>

#include "attend/planner.h"
#include "engine/base/cpus.h"
#include "engine/kernels/kernel_set.h"
#include "engine/kernels/machine_speed.h"

namespace attend {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kStepBytes = kernels::kReadStep * sizeof(float);
// Where the system does not say: what x86 servers have had at least since 2017.
constexpr std::size_t kSomeL1 = 32 * 1024, kSomeL2 = 1024 * 1024, kSomeL3 = 16 * 1024 * 1024;
// More than any L2, less than any L3 that a server has; flushed, it stands for memory.
constexpr std::size_t kLargeBytes = 32 * 1024 * 1024;
constexpr int kPeakRounds = 60, kL2Rounds = 40, kL3Rounds = 8, kMemoryRounds = 3;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

// Zeros that were written, so that they are pages of their own, on a cache line's border.
class Buffer {
 public:
  explicit Buffer(std::size_t bytes)
      : data_(static_cast<float*>(::operator new(bytes, kAlignment))), bytes_(bytes / kStepBytes * kStepBytes) {
    std::fill_n(data_, bytes / sizeof(float), 0.0f);
  }
  ~Buffer() { ::operator delete(data_, kAlignment); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  const float* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }

 private:
  static constexpr std::align_val_t kAlignment{64};
  float* data_;
  std::size_t bytes_;
};

// The first rounds raise the clock of wide vectors.
double peak(const kernels::MachineSpeedKernels& kernels) {
  constexpr std::size_t kSteps = 20000;
  double best = 0;
  volatile float sink = 0;
  for (int round = 0; round < kPeakRounds; ++round) {
    float sum = 0;
    const Clock::time_point start = Clock::now();
    const double flops = kernels.fma(kSteps, &sum);
    best = std::max(best, flops / seconds_since(start));
    sink = sum;
  }
  static_cast<void>(sink);
  return best;
}

double bandwidth(const kernels::MachineSpeedKernels& kernels, const Buffer& buffer, std::size_t bytes, int rounds,
                 bool from_memory) {
  bytes = std::clamp(bytes / kStepBytes * kStepBytes, kStepBytes, buffer.bytes());
  double best = 0;
  volatile float sink = 0;
  for (int round = 0; round <= rounds; ++round) {
    if (from_memory) kernels::flush_from_caches(buffer.data(), bytes);
    const Clock::time_point start = Clock::now();
    sink = kernels.read(buffer.data(), bytes / sizeof(float));
    const double seconds = seconds_since(start);
    if (round > 0 || from_memory)
      best = std::max(best, static_cast<double>(bytes) / seconds);  // the first one warms up
  }
  static_cast<void>(sink);
  return best;
}

std::size_t cache_or(int level, std::size_t fallback) {
  const std::size_t bytes = cache_bytes(level);
  return bytes > 0 ? bytes : fallback;
}

}  // namespace

Machine Machine::measure(const Target& target) {
  const kernels::MachineSpeedKernels kernels = kernels::machine_speed_kernels(target.id());
  const kernels::MachineSpeedKernels best = kernels::machine_speed_kernels(kernels::best_target());
  Machine machine;
  machine.l1_bytes = cache_or(1, kSomeL1);
  machine.l2_bytes = std::max(cache_or(2, kSomeL2), machine.l1_bytes);
  machine.l3_bytes = std::max(cache_or(3, kSomeL3), machine.l2_bytes);
  machine.flops = peak(kernels);
  machine.projection_flops = target == Target::best() ? machine.flops : peak(best);
  const Buffer buffer(kLargeBytes);
  machine.l2_bandwidth = bandwidth(kernels, buffer, machine.l2_bytes / 2, kL2Rounds, false);
  // Most of a small L3, of which others take their share too.
  machine.l3_bandwidth = bandwidth(kernels, buffer, machine.l3_bytes / 2, kL3Rounds, false);
  machine.memory_bandwidth = bandwidth(kernels, buffer, buffer.bytes(), kMemoryRounds, true);
  return machine;
}

}  // namespace attend
