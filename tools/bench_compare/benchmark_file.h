// A run of a Google Benchmark program, out of the JSON file that it wrote with --benchmark_out_format=json (1.7 or
// later).
#ifndef ATTEND_TOOLS_BENCH_COMPARE_BENCHMARK_FILE_H_
#define ATTEND_TOOLS_BENCH_COMPARE_BENCHMARK_FILE_H_

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace attend::tools {

// One repetition of a case. Of the counters those that are compared; none where the file has none, or no finite number.
struct Measurement {
  double cpu_seconds, real_seconds;
  std::optional<double> peak_percent, read_percent, max_error;
};

struct BenchmarkCase {
  std::string name;
  std::vector<Measurement> repetitions;
  // The file has aggregates of this case only: there is one repetition, the median, or the mean where that is absent.
  bool is_aggregate = false;
  std::string failure;  // what it said when it failed or was skipped, quoted; empty: it did not
};

struct BenchmarkRun {
  std::string label;  // the path, as messages name it
  // What the file says of machine and program, by the names of Google Benchmark and of the program's own
  // AddCustomContext; numbers and lists as text.
  std::map<std::string, std::string> context;
  std::vector<BenchmarkCase> cases;  // in the program's order; all repetitions of a name are one case
};

// Throws Error naming the file: it cannot be read, is no JSON, or not what Google Benchmark writes. NaN and Infinity,
// which it writes and JSON does not know, are taken for absent.
BenchmarkRun load_benchmark_run(const std::string& path);

// The same of the file's text; label: what messages call it.
BenchmarkRun parse_benchmark_run(std::string_view json, const std::string& label);

}  // namespace attend::tools

#endif  // ATTEND_TOOLS_BENCH_COMPARE_BENCHMARK_FILE_H_
