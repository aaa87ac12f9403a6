#include "engine/base/cpus.h"

#include <sched.h>
#if defined(__x86_64__) && defined(__linux__)
#include <sys/syscall.h>
#endif
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <fstream>
#include <limits>
#include <string>
#include <thread>

#if defined(__x86_64__) || defined(__i386__)
#include <cpuid.h>
#endif

namespace attend {
namespace {

bool is_amd_cpu() {
#if defined(__x86_64__) || defined(__i386__)
  unsigned int leaves = 0, b = 0, c = 0, d = 0;  // "Auth" "cAMD" "enti" in b, c, d
  return __get_cpuid(0, &leaves, &b, &c, &d) != 0 && b == signature_AMD_ebx && c == signature_AMD_ecx &&
         d == signature_AMD_edx;
#else
  return false;
#endif
}

std::size_t system_cache_bytes(int level) {
  // First, for glibc's sysconf gives the L3 of all core complexes of AMD's processors: 320 MiB, of which a core can use
  // 32.
  const std::size_t listed = cache_bytes_in("/sys/devices/system/cpu/cpu0/cache", level);
  if (listed > 0) return listed;
  long bytes = 0;
#if defined(_SC_LEVEL1_DCACHE_SIZE) && defined(_SC_LEVEL2_CACHE_SIZE) && defined(_SC_LEVEL3_CACHE_SIZE)
  constexpr int kNames[] = {_SC_LEVEL1_DCACHE_SIZE, _SC_LEVEL2_CACHE_SIZE, _SC_LEVEL3_CACHE_SIZE};
  bytes = ::sysconf(kNames[level - 1]);
#endif
  const std::size_t whole = bytes > 0 ? static_cast<std::size_t>(bytes) : 0;
  return level == 3 && is_amd_cpu() ? l3_bytes_of_complex(whole) : whole;
}

constexpr double kNoQuota = std::numeric_limits<double>::infinity();

// Of one control group: version 2 says "max 100000" or "200000 100000" in cpu.max; version 1 has two files, and -1 for
// no quota.
double quota_of(const std::string& group) {
  double quota = 0, period = 0;
  if (!(std::ifstream(group + "/cpu.max") >> quota >> period) &&
      !(std::ifstream(group + "/cpu.cfs_quota_us") >> quota && std::ifstream(group + "/cpu.cfs_period_us") >> period)) {
    return kNoQuota;
  }
  return quota > 0 && period > 0 ? quota / period : kNoQuota;
}

bool has_avx512() {
#if defined(__x86_64__) || defined(__i386__)
  return __builtin_cpu_supports("avx512f") != 0;  // the system must keep its registers, too
#else
  return false;
#endif
}

// Whether the CPU multiplies tiles of bfloat16 numbers and the system keeps a thread's tiles. A process has to ask for
// them: they make the frames that signals leave on a stack larger, which is refused where a thread has set up a stack
// for signals that is too small.
bool has_usable_tiles() {
#if defined(__x86_64__) && defined(__linux__)
  constexpr unsigned kBf16 = 1u << 22, kTiles = 1u << 24;
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0 || (d & kBf16) == 0 || (d & kTiles) == 0) return false;
  constexpr long kAskForPermission = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
  return ::syscall(SYS_arch_prctl, kAskForPermission, kTileData) == 0;
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

double quota_cpus() { return quota_cpus_in("/sys/fs/cgroup", "/proc/self/cgroup"); }

// "0::/a/b" names a group of version 2, "4:cpu,cpuacct:/a/b" one of version 1.
double quota_cpus_in(const std::string& cgroups, const std::string& membership) {
  // A container sees its own groups at the root, whatever it is told to be a member of.
  double least = std::min(quota_of(cgroups), quota_of(cgroups + "/cpu"));
  std::ifstream groups(membership);
  for (std::string line; std::getline(groups, line);) {
    const std::size_t controllers = line.find(':'), path = line.find(':', controllers + 1);
    if (controllers == std::string::npos || path == std::string::npos) continue;
    const std::string names = "," + line.substr(controllers + 1, path - controllers - 1) + ",";
    if (names != ",," && names.find(",cpu,") == std::string::npos) continue;
    const std::string root = cgroups + (names == ",," ? "" : "/cpu");
    for (std::string group = line.substr(path + 1); group.size() > 1; group.erase(group.rfind('/'))) {
      if (group.front() != '/') break;
      least = std::min(least, quota_of(root + group));
    }
  }
  return least < kNoQuota ? least : 0;
}

int threads_for(int cpus, double quota) {
  // Compared as they are: a quota may be larger than any int.
  const double least = quota > 0 ? std::min(std::ceil(quota), static_cast<double>(cpus)) : cpus;
  return std::max(1, static_cast<int>(least));
}

std::size_t cache_bytes(int level) {
  static const std::array<std::size_t, 3> bytes = {system_cache_bytes(1), system_cache_bytes(2), system_cache_bytes(3)};
  return level >= 1 && level <= 3 ? bytes[static_cast<std::size_t>(level - 1)] : 0;
}

std::size_t Cpu::least_far_bytes() const {
  constexpr std::size_t kMin = std::size_t{8} << 20;
  return std::max(kMin, l3_bytes / 4);
}

const Cpu& this_cpu() {
  // Kept: a virtual machine may trap the question for the maker.
  static const Cpu cpu{.is_amd = is_amd_cpu(),
                       .has_avx512 = has_avx512(),
                       .has_tiles = has_avx512() && has_usable_tiles(),
                       .l1_bytes = cache_bytes(1),
                       .l2_bytes = cache_bytes(2),
                       .l3_bytes = cache_bytes(3)};
  return cpu;
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

std::size_t l3_bytes_of_complex(std::size_t whole) {
  // Zen 2 to Zen 5 have 16 or 32 MiB in each, but for those with stacked caches, 96.
  constexpr std::size_t kMax = std::size_t{32} << 20;
  return std::min(whole, kMax);
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
