// Whether one sample of times lies below another, and by how much, without assuming how times are distributed. Times of
// repetitions have long tails to one side and at times two peaks, which a t-test does not forgive; ranks do.
//
// The test: H. B. Mann and D. R. Whitney, On a test of whether one of two random variables is stochastically larger
// than the other, Annals of Mathematical Statistics 18 (1947).
// The estimate and its interval: J. L. Hodges and E. L. Lehmann, Estimates of location based on rank tests, Annals of
// Mathematical Statistics 34 (1963); with exact quantiles as in M. Hollander, D. A. Wolfe and E. Chicken, Nonparametric
// Statistical Methods, section 4.3.
// Several cases: S. Holm, A simple sequentially rejective multiple test procedure, Scandinavian Journal of Statistics 6
// (1979).
//
// Google Benchmark's compare.py prints scipy's Mann-Whitney p-value of each case, held against alpha case by case,
// beside the differences of repetitions paired by number. Beyond that there are here: an interval of the ratio, since a
// small p says nothing of the size; a correction for the number of cases, as of a hundred equal ones five have p <
// 0.05; p exact for ties too; no verdict where the sample is too small for one; and no ratio of times of different
// machines.
#ifndef ATTEND_TOOLS_BENCH_COMPARE_STATISTICS_H_
#define ATTEND_TOOLS_BENCH_COMPARE_STATISTICS_H_

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

namespace attend::tools {

// Up to as many pairs, m n, the distribution of U is counted: 20 repetitions against 20. Beyond, it is approximated:
// from two samples of 20 on that is off by at most 0.0012 where p is below 0.1 (0.018 for 2 against 201).
inline constexpr std::size_t kMaxExactPairs = 400;

// Of the middle two if there are two. values: at least one.
double median(std::vector<double> values);

struct MannWhitney {
  double u;  // pairs (x, y) with x > y, those with x = y counted half
  double p;  // two-sided
};

// For m elements x and n elements y: U = R - m (m + 1) / 2, R the sum of the ranks of x among all, ties sharing the
// mean of theirs. Up to kMaxExactPairs, p = min(1, 2 min(P(U <= u), P(U >= u))), P counted over all ways to deal the
// ranks there are to samples of these sizes: exact with and without ties (the shift algorithm of B. Streitberg and J.
// Röhmel, 1986). The normal approximation, common where there are ties, will not do for few: of three equal numbers
// against three larger equal ones it makes 0.047; in truth it is 2 of the 20 ways, 0.1. Otherwise p = erfc(z /
// sqrt(2)), z = (|u - m n / 2| - 1/2) / s (continuity correction), s^2 = m n / 12 (N + 1 - sum(t^3 - t) / (N (N - 1))),
// N = m + n, t the sizes of the groups of ties. x and y: at least one element each, no NaN.
MannWhitney mann_whitney(std::span<const double> x, std::span<const double> y);

// The least p that samples of these sizes can have: 2 / binomial(m + n, m), and at most 1.
double smallest_p(std::size_t m, std::size_t n);

struct Interval {
  double low, high;
};

struct RatioEstimate {
  double ratio;                      // of y to x
  std::optional<Interval> interval;  // none: samples of these sizes are too small for the level
};

// exp of the median of the m n differences log y - log x; the ends are those differences, in order of size, that are
// k-th from below and k-th from above, k the largest with 2 P(U <= k - 1) <= alpha: all ratios r for which the test of
// x r against y has p > alpha. P is that without ties (with them the interval is a little too wide), approximated as
// above beyond kMaxExactPairs. x and y: at least one element each, all positive.
RatioEstimate hodges_lehmann(std::span<const double> x, std::span<const double> y, double alpha);

// p-values that may be held against alpha one by one, in the order given: the chance that any of the true hypotheses is
// rejected is at most alpha, whatever their dependence. The i-th smallest of k (from 1) becomes the largest of
// min(1, (k - j + 1) p_j) over j <= i.
std::vector<double> holm(std::span<const double> p);

}  // namespace attend::tools

#endif  // ATTEND_TOOLS_BENCH_COMPARE_STATISTICS_H_
