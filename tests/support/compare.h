// Comparing results: errors against the truth, and bits.
#ifndef ATTEND_TESTS_SUPPORT_COMPARE_H_
#define ATTEND_TESTS_SUPPORT_COMPARE_H_

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "attend/error.h"
#include "attend/reference.h"

namespace attend::tests {

// The larger of two errors, infinite if one is NaN: std::max(worst, NaN) is `worst`.
inline double worse(double a, double b) {
  return std::isnan(a) || std::isnan(b) ? std::numeric_limits<double>::infinity() : std::max(a, b);
}

// max |actual - expected|. NaN agrees with NaN and infinity with the same infinity; other disagreements, sizes
// included, are infinitely wrong.
template <class Actual, class Expected>
double max_abs_error(const std::vector<Actual>& actual, const std::vector<Expected>& expected) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (actual.size() != expected.size()) return kInfinity;
  double error = 0;
  for (std::size_t i = 0; i < actual.size(); ++i) {
    const double a = static_cast<double>(actual[i]);
    const double e = static_cast<double>(expected[i]);
    if ((std::isnan(a) && std::isnan(e)) || a == e) continue;
    error = worse(error, std::abs(a - e));
  }
  return error;
}

// Absolute tolerances of one result.
struct Bound {
  double weights = 0;
  double output = 0;
};

// The contract (engine/README.md), line 6: 2e-7 (4 + max|score|), for outputs relative to max|v|. score_slack: how far
// the f32 scores may be from the exact ones on top of that, which is what an additive score or a projection in f32
// adds.
inline Bound contract_bound(const reference::Result& truth, double score_slack = 0) {
  const double relative = 2e-7 * (4 + truth.max_abs_score) + score_slack;
  return {relative, relative * truth.max_abs_value};
}

inline void check_within(const std::vector<float>& output, const std::vector<float>& weights,
                         const reference::Result& truth, const Bound& bound) {
  CHECK(max_abs_error(output, truth.output) <= bound.output);
  if (!weights.empty()) CHECK(max_abs_error(weights, truth.attention_weights) <= bound.weights);
}

inline bool same_bits(const float* a, const float* b, std::size_t count) {
  return count == 0 || std::memcmp(a, b, count * sizeof(float)) == 0;
}
inline bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && same_bits(a.data(), b.data(), a.size());
}

// The message of the attend::Error that f throws; "" when it throws none.
template <class F>
std::string error_message(F&& f) {
  try {
    f();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

// Says which of the parts a message lacks; "" when it has them all.
inline std::string missing_parts(const std::string& message, const std::vector<std::string>& parts) {
  if (message.empty()) return "no attend::Error was thrown";
  std::string missing;
  for (const std::string& part : parts) {
    if (message.find(part) == std::string::npos) missing += (missing.empty() ? "lacks '" : ", '") + part + "'";
  }
  return missing.empty() ? "" : missing + " in: " + message;
}

}  // namespace attend::tests

#endif  // ATTEND_TESTS_SUPPORT_COMPARE_H_
