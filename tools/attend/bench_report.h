// What attend bench-compare found, as text for people, as JSON and as CSV.
#ifndef ATTEND_TOOLS_ATTEND_BENCH_REPORT_H_
#define ATTEND_TOOLS_ATTEND_BENCH_REPORT_H_

#include <string>

#include "tools/bench_compare/comparison.h"

namespace attend::tools {

struct Compared {
  const BenchmarkRun& a;
  const BenchmarkRun& b;
  const CompareOptions& options;
  const Comparison& comparison;
};

// The two files and where their contexts differ, a table of the cases, what is in one file only, could not be compared
// or is less exact in B, and a last line that sums up.
std::string text_report(const Compared& compared);

// "a", "b": file and context; "options"; "cases": an object each, times in seconds, null for what a case has not;
// "only_in_a", "only_in_b", "not_compared"; "summary".
std::string json_report(const Compared& compared);

// A line of names, then one for each case; times in seconds, empty for what a case has not.
std::string csv_report(const Compared& compared);

}  // namespace attend::tools

#endif  // ATTEND_TOOLS_ATTEND_BENCH_REPORT_H_
