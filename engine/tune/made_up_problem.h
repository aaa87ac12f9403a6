// Numbers for plans to run on where only their time is wanted.
#ifndef ATTEND_TUNE_MADE_UP_PROBLEM_H_
#define ATTEND_TUNE_MADE_UP_PROBLEM_H_

#include <cstdint>

#include "attend/plan.h"
#include "attend/planner.h"
#include "attend/tensor.h"
#include "engine/plan/plan_impl.h"

namespace attend::detail {

// Inputs and outputs of what a plan is for, which all plans for the same may share: normal numbers, and lengths where
// the plan has them, any but 0. The same numbers every time.
class MadeUpProblem {
 public:
  MadeUpProblem(const PlanImpl& plan, HeadLayout layout);

  Inputs inputs() const;
  Outputs outputs();

 private:
  // Where queries have heads, keys have, if only one: (B, 1, N, D).
  template <class T>
  TensorView<T> on_heads(const TensorView<T>& rows, std::int64_t heads) const;

  std::int64_t heads_, kv_heads_;
  HeadLayout layout_;
  Tensor queries_, keys_, values_, output_, weights_;
  LengthsTensor lens_;
};

}  // namespace attend::detail

#endif  // ATTEND_TUNE_MADE_UP_PROBLEM_H_
