// How many threads a loop is worth: handing it to another core takes a microsecond or two, and some loops take less.
// EPYC (Zen 5), one thread, two always, and two where they are worth it, us: one head of 4 queries and keys of size 32,
// 4 entries, 0.8, 2.7, 0.8; a layer of 64 with 4 heads and 4 rows 2.1, 9.0, 2.1; 8 heads of 8 queries and 64 keys of 64
// 10.4, 8.8, 5.9 (attend plan --layer multi-head --num-heads 4 --shape 1,4,4,64 --threads 2 --measure).
#ifndef ATTEND_RUN_LOOP_WORK_H_
#define ATTEND_RUN_LOOP_WORK_H_

#include "attend/executor.h"
#include "engine/plan/plan_impl.h"

namespace attend::detail {

// What a loop computes, and what it reads and writes at most. Masks are left out: nothing is worth more threads by it.
struct LoopWork {
  double flops = 0, bytes = 0;

  // By rates that any core has to within two or three times: of multiply-adds, and of L3. lanes: floats of a vector.
  double seconds(std::size_t lanes) const;
};

// At least 1, at most what the plan is for and the executor has.
int loop_threads(const PlanImpl& plan, const Executor& executor, const LoopWork& work);
// Of so many, for work of so many seconds.
int loop_threads(int most, const Executor& executor, double seconds);

}  // namespace attend::detail

#endif  // ATTEND_RUN_LOOP_WORK_H_
