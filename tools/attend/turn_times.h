// Times and results of two builds that ran in turns, and what they say of each other.
//
// A machine's other tenants slow a process for milliseconds or for minutes, by more than most changes gain: two
// processes one after the other are told apart by them. What ran back to back on the same memory had the same
// neighbours, and the ratio of its two times is rid of them.
#ifndef ATTEND_TOOLS_ATTEND_TURN_TIMES_H_
#define ATTEND_TOOLS_ATTEND_TURN_TIMES_H_

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

namespace attend::tools {

// Seconds of one call of each, one right after the other.
struct Turn {
  double a, b;
};

struct RatioOfTurns {
  std::size_t count = 0;
  double a = 0, b = 0;                   // median seconds
  double ratio = 0;                      // median of b / a
  std::optional<double> low, high = {};  // of the ratio, at 95 %; none for fewer than six turns
};

// The interval: the k-th ratio from below and from above, k the largest for which chance puts the true median outside
// in at most one case of twenty, 2 P(X < k) <= 0.05 with X binomial (n, 1/2). It holds whatever the ratios'
// distribution is, for turns that do not depend on each other. turns: at least one.
RatioOfTurns ratio_of(std::span<const Turn> turns);

// By how much a turn was slowed: the geometric mean of a and b, each relative to the 5 % quantile of all. Both count
// alike, so that choosing turns by it favours neither.
std::vector<double> slowness(std::span<const Turn> turns);

// Turns up to kQuiet had the machine to themselves, those from kBusy on had not.
inline constexpr double kQuiet = 1.08, kBusy = 1.18;

struct Difference {
  bool same_bits = true;
  double most = 0;     // |a - b|; infinite where one of them alone is NaN
  double largest = 0;  // |a|
};

// As many of each.
Difference difference_of(std::span<const float> a, std::span<const float> b);

}  // namespace attend::tools

#endif  // ATTEND_TOOLS_ATTEND_TURN_TIMES_H_
