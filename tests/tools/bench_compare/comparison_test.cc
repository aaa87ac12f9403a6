// Which cases of two runs are compared, by what, and when a test can tell.
#include "tools/bench_compare/comparison.h"

#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "attend/error.h"
#include "tests/tools/bench_compare/build_runs.h"

namespace attend::tools {
namespace {

using tests::add_case;
using tests::context_json;
using tests::repetition_json;
using tests::run_json;

BenchmarkRun run_of(const std::vector<std::string>& entries, const std::string& context = context_json()) {
  return parse_benchmark_run(run_json(entries, context), "run.json");
}

// One case of each name, all alike.
BenchmarkRun run_of_names(const std::vector<std::string>& names, std::size_t repetitions, double time,
                          const std::string& extra = "") {
  std::vector<std::string> entries;
  for (const std::string& name : names) add_case(entries, name, repetitions, time, extra);
  return run_of(entries);
}

}  // namespace

TEST_CASE("comparison: real time where the name says that it was measured by it, else CPU time") {
  const BenchmarkRun run =
      run_of_names({"a/AVX2", "a/AVX2/real_time", "b/manual_time/threads:2", "real_times/x"}, 2, 5);
  CompareOptions options;
  const auto quantities = [&] {
    std::vector<Quantity> found;
    for (const ComparedCase& one : compare_runs(run, run, options).cases) found.push_back(one.quantity);
    return found;
  };
  const Quantity cpu = Quantity::kCpuTime, real = Quantity::kRealTime;
  CHECK(quantities() == std::vector<Quantity>{cpu, real, real, cpu});
  options.time = real;
  CHECK(quantities() == std::vector<Quantity>{real, real, real, real});
  CHECK(compare_runs(run, run, options).cases[0].a[0] == doctest::Approx(10e-9).epsilon(1e-12));
  options.time = cpu;
  CHECK(quantities() == std::vector<Quantity>{cpu, cpu, cpu, cpu});
  CHECK(compare_runs(run, run, options).cases[0].a[0] == doctest::Approx(5e-9).epsilon(1e-12));
}

TEST_CASE("comparison: each case is compared, listed or explained") {
  std::vector<std::string> a, b;
  add_case(a, "both", 5, 100);
  add_case(a, "gone", 5, 100);
  add_case(a, "zero", 5, 100);
  add_case(b, "new", 5, 100);
  add_case(b, "zero", 5, 0);
  add_case(b, "both", 5, 100);
  const Comparison comparison = compare_runs(run_of(a), run_of(b), {});
  REQUIRE(comparison.cases.size() == 1);
  CHECK(comparison.cases[0].name == "both");
  CHECK(comparison.only_in_a == std::vector<std::string>{"gone"});
  CHECK(comparison.only_in_b == std::vector<std::string>{"new"});
  REQUIRE(comparison.not_compared.size() == 1);
  CHECK(comparison.not_compared[0].name == "zero");
  CHECK(comparison.not_compared[0].reason == "cpu_time is not above 0 in B");
  CHECK_THROWS_AS(compare_runs(run_of(a), run_of({repetition_json("other", 1)}), {}), Error);
}

TEST_CASE("comparison: no verdict where the sample is too small, alone or among so many") {
  const auto compare = [](std::size_t repetitions, const std::vector<std::string>& names) {
    return compare_runs(run_of_names(names, repetitions, 100), run_of_names(names, repetitions, 200), {});
  };
  const Comparison three = compare(3, {"x"}), four = compare(4, {"x"}), among = compare(4, {"x", "y"});
  CHECK(three.cases[0].verdict == Verdict::kNoTest);
  CHECK(three.cases[0].no_test == "too few repetitions, 3 and 3");
  CHECK_FALSE(three.cases[0].p);
  CHECK(four.cases[0].verdict == Verdict::kSlower);
  CHECK(four.count(Verdict::kSlower) == 1);
  CHECK(among.cases[1].verdict == Verdict::kNoTest);
  CHECK(among.cases[1].no_test == "too few repetitions among 2 cases");
  CHECK(among.cases[1].estimate.interval.has_value());
  CHECK(compare(5, {"x", "y"}).count(Verdict::kSlower) == 2);
  CHECK(three.mean_ratio() == doctest::Approx(2).epsilon(1e-12));
  // 2 k / binomial(2 n, n) <= alpha.
  CHECK(needed_repetitions(1, 0.05) == 4);
  CHECK(needed_repetitions(2, 0.05) == 5);
  CHECK(needed_repetitions(50, 0.05) == 7);
  CHECK(needed_repetitions(1, 0.5) == 2);
}

TEST_CASE("comparison: the least effect holds either way, and Holm's correction spans the cases") {
  std::vector<std::string> a, b;
  for (const std::string name : {"same", "less", "more", "much"}) add_case(a, name, 10, 1000);
  add_case(b, "same", 10, 1000);
  add_case(b, "less", 10, 980);
  add_case(b, "more", 10, 1020);
  add_case(b, "much", 10, 1200);
  CompareOptions options;
  const auto verdicts = [&] {
    std::vector<Verdict> found;
    for (const ComparedCase& one : compare_runs(run_of(a), run_of(b), options).cases) found.push_back(one.verdict);
    return found;
  };
  const Verdict none = Verdict::kNoDifference, faster = Verdict::kFaster, slower = Verdict::kSlower;
  CHECK(verdicts() == std::vector<Verdict>{none, faster, slower, slower});
  options.min_effect = 0.05;
  CHECK(verdicts() == std::vector<Verdict>{none, none, none, slower});
  const Comparison comparison = compare_runs(run_of(a), run_of(b), options);
  CHECK(*comparison.cases[3].p == doctest::Approx(2.0 / 184756).epsilon(1e-9));
  CHECK(*comparison.cases[3].p_holm == doctest::Approx(8.0 / 184756).epsilon(1e-9));
}

TEST_CASE("comparison: across machines by the share of the peak, or else of the bandwidth; more is better") {
  std::vector<std::string> a, b;
  add_case(a, "peak", 10, 100, R"(, "peak_percent": 60, "read_percent": 90)");
  add_case(b, "peak", 10, 10, R"(, "peak_percent": 50, "read_percent": 90)");
  add_case(a, "read", 10, 100, R"(, "read_percent": 40)");
  add_case(b, "read", 10, 900, R"(, "read_percent": 80, "peak_percent": 3)");
  add_case(a, "none", 10, 100);
  add_case(b, "none", 10, 100);
  CompareOptions options;
  options.across_machines = true;
  const Comparison comparison = compare_runs(run_of(a), run_of(b), options);
  REQUIRE(comparison.cases.size() == 2);
  CHECK(comparison.cases[0].quantity == Quantity::kPeakPercent);
  CHECK(comparison.cases[0].verdict == Verdict::kSlower);
  CHECK(comparison.cases[0].estimate.ratio == doctest::Approx(50.0 / 60).epsilon(1e-12));
  CHECK(comparison.cases[1].quantity == Quantity::kReadPercent);
  CHECK(comparison.cases[1].verdict == Verdict::kFaster);
  CHECK(comparison.not_compared.size() == 1);
}

TEST_CASE("comparison: what tells machines apart") {
  const BenchmarkRun one = run_of({}, context_json("alpha", R"(, "commit": "1")"));
  const auto keys = [&](const std::string& context) {
    std::string names;
    for (const ContextDifference& difference : machine_differences(one, run_of({}, context)))
      names += difference.key + " ";
    return names;
  };
  std::string clock = context_json(), cpus = context_json(), caches = context_json();
  CHECK(keys(context_json("alpha", R"(, "commit": "2")")) == "");
  CHECK(keys(context_json("beta")) == "cpu host_name ");
  CHECK(keys(R"({"date": "then"})") == "");
  CHECK(keys(clock.replace(clock.find("2500"), 4, "2700")) == "");
  CHECK(keys(clock.replace(clock.find("2700"), 4, "3600")) == "mhz_per_cpu ");
  CHECK(keys(cpus.replace(cpus.find("\"num_cpus\": 2"), 13, "\"num_cpus\": 8")) == "num_cpus ");
  CHECK(keys(caches.replace(caches.find("32768"), 5, "49152")) == "caches ");
  const std::vector<ContextDifference> all = context_differences(one, run_of({}));
  REQUIRE(all.size() == 1);
  CHECK(all[0].key == "commit");
  CHECK(all[0].a == "1");
  CHECK(all[0].b == "-");
}

}  // namespace attend::tools
