// Reading what Google Benchmark writes, and refusing what it does not.
#include "tools/bench_compare/benchmark_file.h"

#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "attend/error.h"
#include "tests/tools/bench_compare/build_runs.h"

namespace attend::tools {
namespace {

using tests::aggregate_json;
using tests::context_json;
using tests::repetition_json;
using tests::run_json;

BenchmarkRun parse(const std::string& json) { return parse_benchmark_run(json, "a.json"); }

std::string message_of(const std::string& json) {
  try {
    parse(json);
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

bool refused(const std::string& json, const std::string& part) {
  const std::string message = message_of(json);
  INFO(message);
  return message.starts_with("a.json: ") && message.find(part) != std::string::npos &&
         message.find('\n') == std::string::npos;
}

}  // namespace

TEST_CASE("benchmark file: repetitions of a name are one case, times are in seconds") {
  const BenchmarkRun run =
      parse(run_json({repetition_json("x", 3, "ns"), repetition_json("y", 3, "ms"),
                      repetition_json("x", 5, "us", R"(, "max_error": 1e-7, "peak_percent": 81.5)"),
                      repetition_json("y", 4, "s", R"(, "read_percent": 7, "max_error": NaN)")}));
  REQUIRE(run.cases.size() == 2);
  CHECK(run.label == "a.json");
  CHECK(run.cases[0].name == "x");
  REQUIRE(run.cases[0].repetitions.size() == 2);
  CHECK(run.cases[0].repetitions[0].cpu_seconds == doctest::Approx(3e-9).epsilon(1e-12));
  CHECK(run.cases[0].repetitions[0].real_seconds == doctest::Approx(6e-9).epsilon(1e-12));
  CHECK_FALSE(run.cases[0].repetitions[0].max_error);
  CHECK(run.cases[0].repetitions[1].cpu_seconds == doctest::Approx(5e-6).epsilon(1e-12));
  CHECK(run.cases[0].repetitions[1].max_error == 1e-7);
  CHECK(run.cases[0].repetitions[1].peak_percent == 81.5);
  CHECK(run.cases[1].repetitions[0].cpu_seconds == doctest::Approx(3e-3).epsilon(1e-12));
  CHECK(run.cases[1].repetitions[1].cpu_seconds == 4);
  CHECK(run.cases[1].repetitions[1].read_percent == 7);
  CHECK_FALSE(run.cases[1].repetitions[1].max_error);
  CHECK_FALSE(run.cases[1].is_aggregate);
}

TEST_CASE("benchmark file: aggregates count only where there is nothing else, the median first") {
  const BenchmarkRun run = parse(run_json(
      {repetition_json("both", 3), aggregate_json("both", "median", 7), aggregate_json("m", "mean", 9),
       aggregate_json("m", "median", 8), aggregate_json("m", "stddev", 1), aggregate_json("mean", "mean", 9),
       R"({"name": "o_BigO", "run_name": "o", "run_type": "aggregate", "aggregate_name": "BigO", "big_o": "N"})"}));
  REQUIRE(run.cases.size() == 3);
  CHECK_FALSE(run.cases[0].is_aggregate);
  CHECK(run.cases[0].repetitions.size() == 1);
  CHECK(run.cases[1].name == "m");
  CHECK(run.cases[1].is_aggregate);
  REQUIRE(run.cases[1].repetitions.size() == 1);
  CHECK(run.cases[1].repetitions[0].cpu_seconds == doctest::Approx(8e-9).epsilon(1e-12));
  CHECK(run.cases[2].repetitions[0].cpu_seconds == doctest::Approx(9e-9).epsilon(1e-12));
}

TEST_CASE("benchmark file: cases of a run in random order are sorted as the program has them") {
  const auto entry = [](const std::string& name, int family, int instance) {
    return R"({"run_name": ")" + name + R"(", "run_type": "iteration", "time_unit": "ns", "cpu_time": 1, "real_time": 1,
              "family_index": )" +
           std::to_string(family) + R"(, "per_family_instance_index": )" + std::to_string(instance) + "}";
  };
  const BenchmarkRun run = parse(run_json({entry("c", 2, 0), entry("b", 1, 1), entry("a", 1, 0), entry("b", 1, 1)}));
  REQUIRE(run.cases.size() == 3);
  CHECK(run.cases[0].name == "a");
  CHECK(run.cases[1].name == "b");
  CHECK(run.cases[1].repetitions.size() == 2);
  CHECK(run.cases[2].name == "c");
}

TEST_CASE("benchmark file: failed and skipped cases keep what they said") {
  const BenchmarkRun run = parse(run_json({repetition_json("x", 3),
                                           R"({"name": "x", "run_name": "x", "run_type": "iteration",
                                               "error_occurred": true, "error_message": "no oneDNN"})",
                                           R"({"name": "y", "run_name": "y", "run_type": "iteration",
                                               "skipped": true, "skip_message": "no\nAVX"})"}));
  REQUIRE(run.cases.size() == 2);
  CHECK(run.cases[0].failure == "'no oneDNN'");
  CHECK(run.cases[1].failure.find("no") != std::string::npos);
  CHECK(run.cases[1].failure.find('\n') == std::string::npos);
}

TEST_CASE("benchmark file: the context as text, NaN in strings left alone") {
  const BenchmarkRun run =
      parse(run_json({repetition_json("NaN \\\" Infinity", 1)}, context_json("h", R"(, "x": -Infinity, "on": true)")));
  CHECK(run.cases[0].name == "NaN \" Infinity");
  CHECK(run.context.at("host_name") == "h");
  CHECK(run.context.at("num_cpus") == "2");
  CHECK(run.context.at("caches") == "Data L1 32 KiB shared by 1");
  CHECK(run.context.at("load_avg") == "0.5, 0.25");
  CHECK(run.context.at("x") == "null");
  CHECK(run.context.at("on") == "true");
}

TEST_CASE("benchmark file: what is none is refused, with the file and the place") {
  CHECK(refused("", "is not JSON"));
  const std::string whole = run_json({repetition_json("x", 1)});
  CHECK(refused(whole.substr(0, whole.size() / 2), "a run that has not finished"));
  CHECK(refused("[1, 2]", "has no \"context\" and \"benchmarks\""));
  CHECK(refused(R"({"context": {}, "benchmarks": {}})", "has no \"context\""));
  CHECK(refused(R"({"context": [], "benchmarks": []})", "has no \"context\""));
  CHECK(refused(run_json({"7"}), "benchmarks[0]: is not an object"));
  CHECK(refused(run_json({repetition_json("x", 1), "{}"}), "benchmarks[1]: run_name is absent, expected a string"));
  CHECK(refused(run_json({repetition_json(std::string(1001, 'x'), 1)}), "expected at most 1000 bytes"));
  CHECK(refused(run_json({R"({"run_name": "x"})"}), "run_type is absent"));
  CHECK(refused(run_json({R"({"run_name": "x", "run_type": "walk"})"}), "run_type is \"walk\""));
  CHECK(refused(run_json({repetition_json("x", 1, "hours")}), "time_unit is \"hours\", expected ns, us, ms or s"));
  CHECK(refused(run_json({R"({"run_name": "x", "run_type": "iteration", "time_unit": "ns", "cpu_time": "1"})"}),
                "cpu_time is \"1\", expected a number"));
  CHECK(refused(run_json({R"({"run_name": "x", "run_type": "iteration", "time_unit": "ns", "cpu_time": NaN})"}),
                "cpu_time is null, expected a number"));
  CHECK(refused(run_json({std::string(100000, '[') + std::string(100000, ']')}), "16 levels"));
}

}  // namespace attend::tools
