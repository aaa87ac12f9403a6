// What attend check finds on one target: how far runs are from the truth, and whether threads change their bits.
#ifndef ATTEND_TOOLS_ATTEND_FINDING_H_
#define ATTEND_TOOLS_ATTEND_FINDING_H_

#include <functional>
#include <string>

#include "attend/plan.h"
#include "attend/reference.h"
#include "tools/attend/bound.h"
#include "tools/attend/problem.h"

namespace attend::tools {

// What a run gave, and by which path.
struct CheckedRun {
  Results results;
  std::string path;
};
using RunOnce = std::function<CheckedRun(const PlanOptions& options)>;

struct Finding {
  double output_error = 0;
  double weights_error = 0;
  bool same_bits = true;  // for one and for several threads
  std::string paths;
  Results results;  // of the run with attention weights

  bool holds(const Bound& bound) const;
};

// Runs without and with attention weights, since asking for them may take another path, each on one thread and, where
// options have more, on those.
Finding find_errors(const RunOnce& run, PlanOptions options, const Data& data, const reference::Result& truth);

}  // namespace attend::tools

#endif  // ATTEND_TOOLS_ATTEND_FINDING_H_
