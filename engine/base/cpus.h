// How much of this machine the process may use, as the system states it, and whose CPU it has.
#ifndef ATTEND_BASE_CPUS_H_
#define ATTEND_BASE_CPUS_H_

#include <cstddef>
#include <string>

namespace attend {

// CPUs in the affinity mask of the calling thread; where the system has no such mask, all of them.
int usable_cpus();

// CPUs' worth of time per period that the container may use, 1.5 for instance; 0 where there is no quota.
double quota_cpus();

// Bytes of data cache of a level, 1 to 3, that a core can use; 0: not known. Asked of the system once.
std::size_t cache_bytes(int level);

// The same from a directory like Linux's cpu0/cache, read anew; 0: it says nothing of that level.
std::size_t cache_bytes_in(const std::string& directory, int level);

// An L1 from this size on has room for what is asked for 16 KiB ahead, beside what is at work: Zen 5's, not that of Zen
// 4 and Cascade Lake (32 KiB).
inline constexpr std::size_t kRoomyL1 = std::size_t{48} << 10;

// Bytes from which on memory is not expected in a core's fair share of L3.
std::size_t least_far_bytes();

// Whether AMD made the CPU: its hardware prefetchers want other help than Intel's.
bool is_amd_cpu();

}  // namespace attend

#endif  // ATTEND_BASE_CPUS_H_
