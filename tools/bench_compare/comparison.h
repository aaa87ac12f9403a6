// Two runs of a benchmark program, case by case.
#ifndef ATTEND_TOOLS_BENCH_COMPARE_COMPARISON_H_
#define ATTEND_TOOLS_BENCH_COMPARE_COMPARISON_H_

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tools/bench_compare/benchmark_file.h"
#include "tools/bench_compare/statistics.h"

namespace attend::tools {

enum class Quantity { kCpuTime, kRealTime, kPeakPercent, kReadPercent };

// The name of its field in the file.
const char* name_of(Quantity quantity);

struct CompareOptions {
  std::optional<Quantity> time;                    // kCpuTime or kRealTime; none: by the name of each case
  std::function<bool(const std::string&)> filter;  // of the names; none: all
  double alpha = 0.05;
  double min_effect = 0.01;  // of the ratio, against 1
  // Shares of what the machine can do, peak_percent or else read_percent, instead of times.
  bool across_machines = false;
};

// kFaster: B takes less time than A, or reaches more of the machine's peak.
enum class Verdict { kFaster, kSlower, kNoDifference, kNoTest };

struct ComparedCase {
  std::string name;
  Quantity quantity;
  std::vector<double> a, b;  // seconds or per cent, one for each repetition
  RatioEstimate estimate;    // of B to A. Without a test: the ratio of medians
  std::optional<double> p;   // two-sided Mann-Whitney, by itself; none: no test
  std::optional<double> p_holm;
  Verdict verdict = Verdict::kNoTest;
  std::string no_test;  // why there is none: "1 repetition"
  std::optional<double> max_error_a, max_error_b;

  // The result of B is less exact, by more than a factor of 2.
  bool has_larger_error() const { return max_error_a && max_error_b && *max_error_b > 2 * *max_error_a; }
};

struct Comparison {
  std::vector<ComparedCase> cases;  // in A's order
  std::vector<std::string> only_in_a, only_in_b;
  struct NotCompared {
    std::string name, reason;
  };
  std::vector<NotCompared> not_compared;

  std::size_t count(Verdict verdict) const;
  double mean_ratio() const;  // geometric, over all cases
};

// The times of a case are real_time if its name says that Google Benchmark measured by it (a part "real_time" or
// "manual_time"), else cpu_time. Holm's correction is over the cases that have a test, and there is one where both
// samples have two repetitions at least, as many as the level needs (4 against 4 for 0.05; what cannot be rejected
// needs no correction: R. E. Tarone, 1990), and as many as it needs among so many cases: else "no difference" would be
// a matter of course. Errors: no case in common, or none that can be compared.
Comparison compare_runs(const BenchmarkRun& a, const BenchmarkRun& b, const CompareOptions& options);

// How often each program must repeat, at least, for p to reach alpha among so many cases.
std::size_t needed_repetitions(std::size_t num_cases, double alpha);

struct ContextDifference {
  std::string key, a, b;  // "-": not in the file
};

// All keys with different values.
std::vector<ContextDifference> context_differences(const BenchmarkRun& a, const BenchmarkRun& b);

// What tells that the machines are two: different host_name, cpu, num_cpus or caches where both files have them, or
// mhz_per_cpu by more than a quarter (some kernels report the clock of the moment).
std::vector<ContextDifference> machine_differences(const BenchmarkRun& a, const BenchmarkRun& b);

}  // namespace attend::tools

#endif  // ATTEND_TOOLS_BENCH_COMPARE_COMPARISON_H_
