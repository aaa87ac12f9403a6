#include "engine/kernels/machine_speed.h"

#include <cstddef>
#include <cstdint>

#include <hwy/cache_control.h>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/kernels/machine_speed.cc"
#include <hwy/foreach_target.h>  // before highway.h
#include <hwy/highway.h>

#include "engine/kernels/for_target.h"
#include "engine/kernels/machine_speed-inl.h"

HWY_BEFORE_NAMESPACE();
namespace attend {
namespace kernels {
namespace HWY_NAMESPACE {
namespace {

double Fma(std::size_t steps, float* sink) { return MultiplyAdds(hn::ScalableTag<float>(), steps, sink); }
float Read(const float* data, std::size_t count) { return SumInOrder(hn::ScalableTag<float>(), data, count); }
float ReadAndMultiply(const float* data, std::size_t count) {
  return SumOfProducts(hn::ScalableTag<float>(), data, count);
}

MachineSpeedKernels Kernels() { return {.fma = &Fma, .read = &Read, .read_and_multiply = &ReadAndMultiply}; }

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace kernels
}  // namespace attend
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace attend::kernels {

MachineSpeedKernels machine_speed_kernels(std::int64_t target) { ATTEND_RETURN_FOR_TARGET(target, Kernels); }

void flush_from_caches(const void* data, std::size_t bytes) {
  constexpr std::size_t kLine = 64;
  const auto* start = static_cast<const char*>(data);
  for (std::size_t i = 0; i < bytes; i += kLine) hwy::FlushCacheline(start + i);
}

}  // namespace attend::kernels
#endif
