// How much a plan has to do, and how long that takes by estimate.
#ifndef ATTEND_PLAN_COST_H_
#define ATTEND_PLAN_COST_H_

#include "attend/planner.h"
#include "engine/plan/plan_impl.h"

namespace attend::detail {

// Of the full shape, all keys valid that a causal mask leaves, by the path, tiles and ranges that were chosen. No speed
// of a machine enters.
struct Work {
  double score_flops = 0, pool_flops = 0;  // products of queries and keys, of weights and values
  double projection_flops = 0;             // maps of queries, keys, values, heads
  double exps = 0;                         // of softmaxes, and of the factored additive score
  double tanhs = 0;                        // terms w tanh(a + b) of additive scores
  double bytes_read = 0, bytes_written = 0;
  double bytes_packed = 0;  // of keys and values, for the kernels
  double items = 1;         // of pooling
};
Work count_work(const PlanImpl& plan);

Cost estimate_cost(const PlanImpl& plan, const Machine& machine);

}  // namespace attend::detail

#endif  // ATTEND_PLAN_COST_H_
