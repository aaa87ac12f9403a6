// How much of this machine the process may use, as the system states it, and whose CPU it has.
#ifndef ATTEND_BASE_CPUS_H_
#define ATTEND_BASE_CPUS_H_

#include <cstddef>
#include <string>

namespace attend {

// CPUs in the affinity mask of the calling thread; where the system has no such mask, all of them.
int usable_cpus();

// CPUs' worth of time per period that the process may use, 1.5 for instance: the least quota of its control group and
// those above it, a container's or a service's. 0 where there is none.
double quota_cpus();

// The same from a directory like Linux's /sys/fs/cgroup and a file like /proc/self/cgroup.
double quota_cpus_in(const std::string& cgroups, const std::string& membership);

// Threads that keep so many CPUs and such a quota busy: a part of a CPU's time takes a thread of its own. At least 1.
int threads_for(int cpus, double quota);

// Bytes of data cache of a level, 1 to 3, that a core can use; 0: not known. Asked of the system once.
std::size_t cache_bytes(int level);

// The same from a directory like Linux's cpu0/cache, read anew; 0: it says nothing of that level.
std::size_t cache_bytes_in(const std::string& directory, int level);

// AMD's cores share an L3 in complexes of up to 16. Where a virtual machine keeps from its guests which, the CPU still
// states the sum of all complexes, 508 MiB on an EPYC (Zen 5): of so many bytes, those that a core can use at most.
std::size_t l3_bytes_of_complex(std::size_t whole);

// What decides how memory is prefetched (plan/prefetch_rules.h) and how layers multiply (matmul/linear.h).
struct Cpu {
  bool is_amd = false;                                   // whose hardware prefetchers want other help than Intel's
  bool has_avx512 = false;                               // any of it, whatever a plan's target; AMD's from Zen 4 on
  bool has_tiles = false;                                // AMX for bfloat16, and the system lets this process use it
  std::size_t l1_bytes = 0, l2_bytes = 0, l3_bytes = 0;  // cache_bytes(1), (2) and (3)

  // Adds in units of its own, and has them and loads enough for products by pairs of terms (kernels/pairs.h): Zen 4 and
  // later, which are told by L2 where a virtual machine keeps AVX-512 from its guests.
  bool adds_beside_products() const { return is_amd && (has_avx512 || l2_bytes >= std::size_t{1} << 20); }

  // Zen 5 and later. L1 has room for 16 KiB that are on their way from memory, beside what is at work: Zen 4's 32 KiB
  // have none (decode_prefetch, plan/prefetch_rules.h), 48 have. Intel's of 48 KiB are not measured yet. And units take
  // 512 bits at a time, where Zen 4's take two turns, so that starting instructions is what bounds products by pairs.
  bool is_zen5() const { return is_amd && l1_bytes >= std::size_t{48} << 10; }

  // Bytes from which on memory is not expected in a core's fair share of L3.
  std::size_t least_far_bytes() const;
};

// This machine's; asked once. Where the CPU has AMX, that asks Linux for its use on behalf of the process, which from
// then on lets all its threads use it (arch_prctl ARCH_REQ_XCOMP_PERM, as oneDNN does); nothing else changes by it.
const Cpu& this_cpu();

// What the CPU calls itself; "unknown" where there is no instruction to ask.
std::string cpu_name();

}  // namespace attend

#endif  // ATTEND_BASE_CPUS_H_
