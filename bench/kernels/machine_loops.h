#ifndef ATTEND_BENCH_KERNELS_MACHINE_LOOPS_H_
#define ATTEND_BENCH_KERNELS_MACHINE_LOOPS_H_

#include <cstddef>

namespace attend::bench {

// The loops of one target that measure the machine.
struct MachineLoops {
  // steps times 12 independent multiply-adds of whole vectors; returns the FLOPs done. sink keeps the results alive.
  double (*fma)(std::size_t steps, float* sink);
  // The sum of count floats, a multiple of 8 vectors, aligned.
  float (*read)(const float* data, std::size_t count);
};

}  // namespace attend::bench

#endif  // ATTEND_BENCH_KERNELS_MACHINE_LOOPS_H_
