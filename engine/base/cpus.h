// How much of this machine the process may use, as the system states it.
#ifndef ATTEND_BASE_CPUS_H_
#define ATTEND_BASE_CPUS_H_

namespace attend {

// CPUs in the affinity mask of the calling thread; where the system has no such mask, all of them.
int usable_cpus();

// CPUs' worth of time per period that the container may use, 1.5 for instance; 0 where there is no quota.
double quota_cpus();

}  // namespace attend

#endif  // ATTEND_BASE_CPUS_H_
