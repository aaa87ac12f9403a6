// Files as Google Benchmark 1.7 writes them, in memory.
#ifndef ATTEND_TESTS_TOOLS_BENCH_COMPARE_BUILD_RUNS_H_
#define ATTEND_TESTS_TOOLS_BENCH_COMPARE_BUILD_RUNS_H_

#include <cstddef>
#include <string>
#include <vector>

namespace attend::tests {

// What a machine with 2 CPUs says of itself; extra: more keys, each with a comma before it.
inline std::string context_json(const std::string& host = "alpha", const std::string& extra = "") {
  return R"({"date": "2026-01-02T03:04:05+00:00", "host_name": ")" + host +
         R"(", "executable": "attend_bench", "num_cpus": 2, "mhz_per_cpu": 2500, "cpu_scaling_enabled": false,
         "caches": [{"type": "Data", "level": 1, "size": 32768, "num_sharing": 1}], "load_avg": [0.5, 0.25],
         "library_build_type": "release", "compiler": "g++ 12.2.0", "cpu": "CPU of )" +
         host + "\"" + extra + "}";
}

// An entry of "benchmarks"; extra: counters and the like, each with a comma before it.
inline std::string repetition_json(const std::string& name, double cpu_time, const std::string& unit = "ns",
                                   const std::string& extra = "") {
  return R"({"name": ")" + name + R"(", "family_index": 0, "run_name": ")" + name +
         R"(", "run_type": "iteration", "threads": 1, "iterations": 10, "real_time": )" + std::to_string(2 * cpu_time) +
         R"(, "cpu_time": )" + std::to_string(cpu_time) + R"(, "time_unit": ")" + unit + "\"" + extra + "}";
}

inline std::string aggregate_json(const std::string& name, const std::string& aggregate, double cpu_time) {
  return R"({"name": ")" + name + "_" + aggregate + R"(", "run_name": ")" + name +
         R"(", "run_type": "aggregate", "repetitions": 3, "aggregate_name": ")" + aggregate +
         R"(", "aggregate_unit": "time", "iterations": 3, "real_time": )" + std::to_string(2 * cpu_time) +
         R"(, "cpu_time": )" + std::to_string(cpu_time) + R"(, "time_unit": "ns", "max_error": NaN})";
}

inline std::string run_json(const std::vector<std::string>& entries, const std::string& context = context_json()) {
  std::string text = R"({"context": )" + context + ", \"benchmarks\": [\n";
  for (std::size_t i = 0; i < entries.size(); ++i) text += (i == 0 ? "" : ",\n") + entries[i];
  return text + "\n]}\n";
}

// Adds repetitions whose times lie 0, 1, 2, ... thousandths above the first.
inline void add_case(std::vector<std::string>& entries, const std::string& name, std::size_t repetitions,
                     double cpu_time, const std::string& extra = "") {
  for (std::size_t i = 0; i < repetitions; ++i) {
    entries.push_back(repetition_json(name, cpu_time * (1 + 0.001 * static_cast<double>(i)), "ns", extra));
  }
}

}  // namespace attend::tests

#endif  // ATTEND_TESTS_TOOLS_BENCH_COMPARE_BUILD_RUNS_H_
