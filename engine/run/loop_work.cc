#include "engine/run/loop_work.h"

#include <algorithm>

namespace attend::detail {

double LoopWork::seconds(std::size_t lanes) const {
  // A multiply-add and a half per cycle at 4 GHz: an EPYC (Zen 5) has 13.8e9 a lane, Zen 4 7.3e9 on AVX-512 and 14.6e9
  // on AVX2, Zen 3 12.9e9, a Xeon with AMX 14e9 (machine/fma_peak).
  constexpr double kFlopsPerLane = 12e9, kBytes = 50e9;
  return std::max(flops / (kFlopsPerLane * static_cast<double>(lanes)), bytes / kBytes);
}

int loop_threads(int most, const Executor& executor, double seconds) {
  most = std::max(1, std::min(most, executor.concurrency()));
  const double least = executor.least_seconds();
  if (!(seconds < least * most)) return most;  // NaN, too
  return std::max(1, static_cast<int>(seconds / least));
}

int loop_threads(const PlanImpl& plan, const Executor& executor, const LoopWork& work) {
  if (plan.options.threads <= 1) return 1;
  return loop_threads(plan.options.threads, executor, work.seconds(plan.kernels->query_lanes.lanes));
}

}  // namespace attend::detail
