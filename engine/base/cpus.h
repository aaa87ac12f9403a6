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

// Bytes from which on memory is not expected in a core's fair share of L3: of this machine's, or of one of that size, 0
// where it is not known.
std::size_t least_far_bytes();
std::size_t least_far_bytes(std::size_t l3_bytes);

// Whether AMD made the CPU: its hardware prefetchers want other help than Intel's.
bool is_amd_cpu();

// Whether L1 is known to have room for 16 KiB that are on their way from memory, beside what is at work: that of AMD's
// CPUs from 48 KiB on (Zen 5). Zen 4's 32 KiB have none (choose_decoding in plan/rules.cc); Intel's of 48 KiB are not
// measured yet.
bool has_roomy_l1();

}  // namespace attend

#endif  // ATTEND_BASE_CPUS_H_
