// The loops that measure what bounds everything else: how many multiply-adds one core does, how fast it reads.
#ifndef ATTEND_KERNELS_MACHINE_SPEED_H_
#define ATTEND_KERNELS_MACHINE_SPEED_H_

#include <cstddef>
#include <cstdint>

namespace attend::kernels {

struct MachineSpeedKernels {
  // steps times 12 independent multiply-adds of whole vectors; returns the FLOPs done, two each. sink keeps the results
  // alive.
  double (*fma)(std::size_t steps, float* sink);
  // The sum of count floats, a multiple of kReadStep, aligned to 64 bytes.
  float (*read)(const float* data, std::size_t count);
  // sum += (x + 1) / 1024 over these floats x: as many loads, additions and multiply-adds as they are vectors, which a
  // core that no other thread shares begins all beside each other, if it has units for them.
  float (*read_and_multiply)(const float* data, std::size_t count);
};

// Floats of a step of read: eight of the widest vectors we know of (2048 bits).
inline constexpr std::size_t kReadStep = 512;

MachineSpeedKernels machine_speed_kernels(std::int64_t target);

// Drops the lines that hold [data, data + bytes) from all caches, so that the next read is one of memory. On other
// architectures than x86 it does nothing.
void flush_from_caches(const void* data, std::size_t bytes);

}  // namespace attend::kernels

#endif  // ATTEND_KERNELS_MACHINE_SPEED_H_
