// Decides: facts -> rules -> plan. Does no arithmetic on tensors.
#ifndef ATTEND_PLAN_PLANNER_H_
#define ATTEND_PLAN_PLANNER_H_

#include <cstdint>
#include <memory>
#include <string>

#include "attend/plan.h"
#include "engine/plan/plan_impl.h"

namespace attend::detail {

// Checks shape and options against the layer, chooses and explains. Throws Error.
std::shared_ptr<const PlanImpl> make_plan(std::shared_ptr<const LayerImpl> layer, const Shape& shape,
                                          const PlanOptions& options);

// Which layer parameters and sizes ask for. Throws Error where none does, naming what is missing.
enum class LayerChoice { kAdditive, kBilinear, kDot };
struct ParametersPresent {
  bool W_q = false, W_k = false, w_v = false, W = false;
  bool multi_head = false;  // names that it alone has
  bool any = false;
  std::string source;  // of the parameters, for messages
};
LayerChoice choose_layer(const ParametersPresent& present, std::int64_t query_size, std::int64_t key_size);

// "B 2, M 1, N 10, ...": the sizes of the planned problem.
std::string sizes_text(const PlanImpl& plan);

// The text of Plan::explain(). counts: of a run, or null.
std::string explain(const PlanImpl& plan, const TierCounts* counts);

}  // namespace attend::detail

#endif  // ATTEND_PLAN_PLANNER_H_
