#include "engine/kernels/machine_speed.h"

#if defined(__x86_64__) || defined(__i386__)
#include <cpuid.h>
#endif

#include <algorithm>
#include <cstdint>
#include <cstring>

#include <hwy/cache_control.h>

// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/kernels/machine_speed.cc"
#include <hwy/foreach_target.h>  // before highway.h
#include <hwy/highway.h>
#include "engine/kernels/for_target.h"
#include "engine/kernels/machine_speed-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace attend {
namespace kernels {
namespace HWY_NAMESPACE {
namespace {

double Fma(std::size_t steps, float* sink) { return MultiplyAdds(hn::ScalableTag<float>(), steps, sink); }
float Read(const float* data, std::size_t count) { return SumInOrder(hn::ScalableTag<float>(), data, count); }

MachineSpeedKernels Kernels() {
  MachineSpeedKernels kernels;
  kernels.fma = &Fma;
  kernels.read = &Read;
  return kernels;
}

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

std::string cpu_name() {
#if defined(__x86_64__) || defined(__i386__)
  constexpr unsigned kBrandString = 0x80000002;  // and the two leaves behind it: 48 characters
  unsigned most = 0, ignored = 0;
  if (__get_cpuid(0x80000000, &most, &ignored, &ignored, &ignored) != 0 && most >= kBrandString + 2) {
    char text[49] = {};
    for (unsigned leaf = 0; leaf < 3; ++leaf) {
      unsigned registers[4] = {};
      __get_cpuid(kBrandString + leaf, &registers[0], &registers[1], &registers[2], &registers[3]);
      std::memcpy(text + leaf * sizeof registers, registers, sizeof registers);
    }
    const std::string name(text);
    const std::size_t first = name.find_first_not_of(' '), last = name.find_last_not_of(' ');
    if (first != std::string::npos) return name.substr(first, last - first + 1);
  }
#endif
  return "unknown";
}

}  // namespace attend::kernels
#endif
