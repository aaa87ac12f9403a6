#include "engine/base/cpus.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <string>
#include <thread>

#if defined(__x86_64__) || defined(__i386__)
#include <cpuid.h>
#endif

namespace attend {
namespace {

std::size_t system_cache_bytes(int level) {
  // First, for glibc's sysconf gives the L3 of all core complexes of AMD's processors: 320 MiB for the 32 of a core.
  const std::size_t listed = cache_bytes_in("/sys/devices/system/cpu/cpu0/cache", level);
  if (listed > 0) return listed;
  long bytes = 0;
#if defined(_SC_LEVEL1_DCACHE_SIZE) && defined(_SC_LEVEL2_CACHE_SIZE) && defined(_SC_LEVEL3_CACHE_SIZE)
  constexpr int kNames[] = {_SC_LEVEL1_DCACHE_SIZE, _SC_LEVEL2_CACHE_SIZE, _SC_LEVEL3_CACHE_SIZE};
  bytes = ::sysconf(kNames[level - 1]);
#endif
  return bytes > 0 ? static_cast<std::size_t>(bytes) : 0;
}

bool is_amd_cpu() {
#if defined(__x86_64__) || defined(__i386__)
  unsigned int leaves = 0, b = 0, c = 0, d = 0;  // "Auth" "cAMD" "enti" in b, c, d
  return __get_cpuid(0, &leaves, &b, &c, &d) != 0 && b == signature_AMD_ebx && c == signature_AMD_ecx &&
         d == signature_AMD_edx;
#else
  return false;
#endif
}

}  // namespace

int usable_cpus() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) return CPU_COUNT(&set);
  return static_cast<int>(std::thread::hardware_concurrency());
}

// cgroup v2 says "max 100000" or "200000 100000" in cpu.max; v1 has two files, and -1 for no quota.
double quota_cpus() {
  std::ifstream v2("/sys/fs/cgroup/cpu.max");
  std::string quota;
  double period = 0;
  if (v2 >> quota >> period) return quota == "max" || period <= 0 ? 0 : std::stod(quota) / period;
  std::ifstream v1_quota("/sys/fs/cgroup/cpu/cpu.cfs_quota_us"), v1_period("/sys/fs/cgroup/cpu/cpu.cfs_period_us");
  double limit = 0;
  if (v1_quota >> limit && v1_period >> period && limit > 0 && period > 0) return limit / period;
  return 0;
}

std::size_t cache_bytes(int level) {
  static const std::array<std::size_t, 3> bytes = {system_cache_bytes(1), system_cache_bytes(2), system_cache_bytes(3)};
  return level >= 1 && level <= 3 ? bytes[static_cast<std::size_t>(level - 1)] : 0;
}

std::size_t Cpu::least_far_bytes() const {
  constexpr std::size_t kLeast = std::size_t{8} << 20;
  return std::max(kLeast, l3_bytes / 4);
}

const Cpu& this_cpu() {
  // Kept: a virtual machine may trap the question for the maker.
  static const Cpu cpu{.is_amd = is_amd_cpu(), .l1_bytes = cache_bytes(1), .l3_bytes = cache_bytes(3)};
  return cpu;
}

// index0, index1 ...: level "2", type "Unified", size "1024K".
std::size_t cache_bytes_in(const std::string& directory, int level) {
  for (int index = 0;; ++index) {
    const std::string cache = directory + "/index" + std::to_string(index);
    int its_level = 0;
    if (!(std::ifstream(cache + "/level") >> its_level)) return 0;
    std::string type;
    std::ifstream(cache + "/type") >> type;
    if (its_level != level || type == "Instruction") continue;
    std::size_t size = 0;
    char unit = 0;
    std::ifstream(cache + "/size") >> size >> unit;
    return unit == 'K' ? size << 10 : unit == 'M' ? size << 20 : unit == 'G' ? size << 30 : size;
  }
}

}  // namespace attend
