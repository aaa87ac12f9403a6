// Which of the candidates that were measured is planned with.
#ifndef ATTEND_TUNE_CHOOSE_H_
#define ATTEND_TUNE_CHOOSE_H_

#include <algorithm>
#include <vector>

#include "attend/planner.h"

namespace attend::detail {

// What another choice must be faster by than that of the rules, lest noise decides.
inline constexpr double kWorthIt = 1.02;

inline bool is_faster(const TunedCandidate& a, const TunedCandidate& b) { return a.seconds < b.seconds; }

// The fastest, or the first, which is by the rules, if that is about as fast.
inline const TunedCandidate& choose(const std::vector<TunedCandidate>& candidates) {
  const TunedCandidate& fastest = *std::min_element(candidates.begin(), candidates.end(), is_faster);
  return candidates.front().seconds <= kWorthIt * fastest.seconds ? candidates.front() : fastest;
}

}  // namespace attend::detail

#endif  // ATTEND_TUNE_CHOOSE_H_
