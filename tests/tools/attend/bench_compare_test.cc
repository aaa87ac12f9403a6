// `attend bench-compare`: its table, its files, its exit codes.
#include "tests/tools/attend/process.h"

#ifdef ATTEND_CLI_PATH

#include <cmath>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "tests/support/npz_data.h"
#include "tests/tools/bench_compare/build_runs.h"

namespace attend::tests {
namespace {

using nlohmann::json;

Finished compare(const std::vector<std::string>& words) {
  std::vector<std::string> all = {"bench-compare"};
  all.insert(all.end(), words.begin(), words.end());
  return run_attend(all);
}

std::string last_line(const Finished& finished) {
  const std::vector<std::string> lines = lines_of(finished.out);
  return lines.empty() ? "" : lines.back();
}

// The line of a table that starts with the name; "" if there is none.
std::string line_of(const Finished& finished, const std::string& name) {
  for (const std::string& line : lines_of(finished.out)) {
    if (line.starts_with(name + " ")) return line;
  }
  return "";
}

// A file with one case, "dot/x/AVX2", of ten repetitions.
std::string write_case(const TempDir& dir, const std::string& file, double time,
                       const std::string& context = context_json(), const std::string& extra = "") {
  std::vector<std::string> entries;
  add_case(entries, "dot/x/AVX2", 10, time, extra);
  return dir.write(file, run_json(entries, context));
}

}  // namespace

TEST_CASE("attend bench-compare: a file against itself has no difference") {
  const std::string file = data_path("bench_compare/before.json");
  const Finished same = compare({file, file, "--fail-on-slower"});
  CHECK(same.exit_code == 0);
  CHECK(same.err == "");
  CHECK(last_line(same) == "3 cases: 0 faster, 0 slower, 3 no difference; geometric mean of ratios 1.000");
  CHECK(contains(line_of(same, "pack_keys/n512_d128/AVX3"), "1.000"));
  CHECK(line_of(same, "pack_keys/n512_d128/AVX3").ends_with("no difference"));
}

TEST_CASE("attend bench-compare: 20 % slower is slower, and fails where that is asked for") {
  const TempDir dir;
  const std::string a = write_case(dir, "a.json", 1000), b = write_case(dir, "b.json", 1200);
  const Finished slower = compare({a, b});
  CHECK(slower.exit_code == 0);
  CHECK(last_line(slower) == "1 case: 0 faster, 1 slower, 0 no difference; geometric mean of ratios 1.200");
  // Medians of 1000 (1 + 0 ... 9 / 1000) ns and the same of 1200; 2 of 184756 ways.
  CHECK(contains(line_of(slower, "dot/x/AVX2"), " 1 us "));
  CHECK(contains(line_of(slower, "dot/x/AVX2"), " 1.21 us "));
  CHECK(contains(line_of(slower, "dot/x/AVX2"), " 1.1e-05 "));
  const Finished failed = compare({a, b, "--fail-on-slower", "--output", dir.path("o.csv")});
  CHECK(failed.exit_code == 1);
  CHECK(failed.err == "attend: error: slower: 'dot/x/AVX2'\n");
  CHECK(failed.out == slower.out);
  CHECK(lines_of(dir.read("o.csv")).size() == 2);
  CHECK(compare({b, a, "--fail-on-slower"}).exit_code == 0);
  CHECK(last_line(compare({b, a})) == "1 case: 1 faster, 0 slower, 0 no difference; geometric mean of ratios 0.833");
  CHECK(compare({a, b, "--fail-on-slower", "--min-effect", "25"}).exit_code == 0);
}

TEST_CASE("attend bench-compare: two real runs, as SciPy judges them") {
  const TempDir dir;
  const std::string a = data_path("bench_compare/before.json"), b = data_path("bench_compare/after.json");
  struct Expected {
    double p, p_holm, ratio;
    const char* verdict;
  };
  const auto check = [&](const std::string& time, const std::vector<Expected>& expected) {
    CHECK(compare({a, b, "--time", time, "--output", dir.path("o.json")}).exit_code == 0);
    const json cases = json::parse(dir.read("o.json")).at("cases");
    REQUIRE(cases.size() == expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i) {
      CHECK(cases[i].at("p").get<double>() == doctest::Approx(expected[i].p).epsilon(1e-9));
      CHECK(cases[i].at("p_holm").get<double>() == doctest::Approx(expected[i].p_holm).epsilon(1e-9));
      CHECK(cases[i].at("ratio").get<double>() == doctest::Approx(expected[i].ratio).epsilon(1e-9));
      CHECK(cases[i].at("verdict") == expected[i].verdict);
    }
  };
  // scipy.stats.mannwhitneyu(method="exact"), numpy.median of the differences of logarithms; Holm by hand.
  check("cpu", {{0.00012990105869362836, 3 * 0.00012990105869362836, 0.9204548330509517, "faster"},
                {0.10512243174781875, 2 * 0.10512243174781875, 1.1208589684278718, "no difference"},
                {0.1230054774946416, 2 * 0.10512243174781875, 1.02432496211531, "no difference"}});
  check("real", {{0.014689644720604474, 2 * 0.014689644720604474, 0.929882122244316, "faster"},
                 {0.5288488601182101, 0.5288488601182101, 1.0408794849589915, "no difference"},
                 {0.00020567667626491154, 3 * 0.00020567667626491154, 1.4441529667867201, "slower"}});
}

TEST_CASE("attend bench-compare: the heading says where the contexts differ, the lists what was not compared") {
  const TempDir dir;
  std::vector<std::string> a, b;
  add_case(a, "kept", 10, 100, R"(, "max_error": 1e-7)");
  add_case(b, "kept", 10, 100, R"(, "max_error": 4e-7)");
  add_case(a, "exact", 10, 100, R"(, "max_error": 2e-7)");
  add_case(b, "exact", 10, 100, R"(, "max_error": 4e-7)");
  add_case(a, "old", 10, 100);
  add_case(b, "new", 10, 100);
  add_case(a, "broken", 10, 100);
  b.push_back(R"({"run_name": "broken", "run_type": "iteration", "error_occurred": true, "error_message": "oh"})");
  const Finished finished = compare({dir.write("a.json", run_json(a, context_json("h", R"(, "commit": "84e8d59")"))),
                                     dir.write("b.json", run_json(b, context_json("h", R"(, "commit": "b683869")")))});
  CHECK(finished.exit_code == 0);
  CHECK(contains(finished.out, "A: " + dir.path("a.json") + "\n   commit  84e8d59\nB: " + dir.path("b.json") +
                                   "\n   commit  b683869\n\n"));
  CHECK(contains(finished.out,
                 "\nless exact in B (1):\n  kept: max_error 1.0e-07 in A, 4.0e-07 in B, 4 times as large\n"));
  CHECK(contains(finished.out, "\nnot compared (1):\n  broken: failed in B: 'oh'\n"));
  CHECK(contains(finished.out, "\nonly in A (1):\n  old\nonly in B (1):\n  new\n"));
  CHECK(last_line(finished).starts_with("2 cases: "));
}

TEST_CASE("attend bench-compare: one repetition or aggregates have a ratio and no confidence") {
  const TempDir dir;
  const std::string a = dir.write("a.json", run_json({repetition_json("x", 100), aggregate_json("y", "median", 100)})),
                    b = dir.write("b.json", run_json({repetition_json("x", 300), aggregate_json("y", "median", 50)}));
  const Finished finished = compare({a, b, "--fail-on-slower"});
  CHECK(finished.exit_code == 0);
  CHECK(line_of(finished, "x").ends_with("1 repetition: no test"));
  CHECK(contains(line_of(finished, "x"), " 3.000 "));
  CHECK(line_of(finished, "y").ends_with("aggregates only: no test"));
  CHECK(contains(line_of(finished, "y"), " 0.500 "));
  CHECK(last_line(finished) ==
        "2 cases: 0 faster, 0 slower, 0 no difference, 2 no test; geometric mean of ratios 1.225");
  CHECK(contains(finished.err, "attend: note: no test for 2 of 2 cases: among so many, 0.05 takes 5 repetitions"));
}

TEST_CASE("attend bench-compare: what a file calls its facts is printed without control characters") {
  const TempDir dir;
  const std::string odd = R"(, "\u001b[31mred\n": "yes")";
  const Finished finished = compare({write_case(dir, "a.json", 1000, context_json("alpha", odd)),
                                     write_case(dir, "b.json", 900, context_json("alpha"))});
  CHECK(finished.exit_code == 0);
  CHECK(!contains(finished.out, "\x1b"));
  CHECK(contains(finished.out, "\\x1b[31mred\\x0a"));
}

TEST_CASE("attend bench-compare: times of two machines are refused, shares of their peaks are not") {
  const TempDir dir;
  const std::string a = write_case(dir, "a.json", 1000, context_json("alpha"), R"(, "peak_percent": 50)"),
                    b = write_case(dir, "b.json", 900, context_json("beta"), R"(, "peak_percent": 40)"),
                    bare = write_case(dir, "bare.json", 900, context_json("beta"));
  const Finished refused = compare({a, b});
  CHECK(is_error(refused, "different machines"));
  CHECK(contains(refused.err, "host_name 'alpha' and 'beta'"));
  CHECK(contains(refused.err, "cpu 'CPU of alpha' and 'CPU of beta'"));
  CHECK(contains(refused.err, "--across-machines"));
  const Finished across = compare({a, b, "--across-machines"});
  CHECK(across.exit_code == 0);
  CHECK(contains(across.out, "\nDIFFERENT MACHINES: "));
  CHECK(contains(across.err, "attend: note: A and B are of different machines"));
  CHECK(contains(line_of(across, "dot/x/AVX2"), " 50.0 % "));
  CHECK_FALSE(contains(across.out, " us"));
  CHECK(last_line(across) == "1 case: 0 higher, 1 lower, 0 no difference; geometric mean of ratios 0.800");
  CHECK(compare({a, b, "--across-machines", "--fail-on-slower"}).exit_code == 1);
  const Finished without = compare({a, bare, "--across-machines"});
  CHECK(without.exit_code == 1);
  CHECK(contains(without.err, "'dot/x/AVX2' has neither peak_percent nor read_percent in both files"));
  CHECK(contains(compare({a, a, "--across-machines"}).err, "are of one machine"));
}

TEST_CASE("attend bench-compare: --filter keeps the cases with it in their names") {
  const std::string a = data_path("bench_compare/before.json"), b = data_path("bench_compare/after.json");
  CHECK(last_line(compare({a, b, "--filter", "^pack_.*(d128|stride4096)/"})).starts_with("2 cases: "));
  CHECK(last_line(compare({a, b, "--filter", "tile"})).starts_with("1 case: "));
  CHECK(is_error(compare({a, b, "--filter", "^tile"}), "no case in common that matches --filter"));
}

TEST_CASE("attend bench-compare: --output as JSON and CSV, with names that need quotes") {
  const TempDir dir;
  const std::string a = dir.write("a.json", run_json({repetition_json("x<int, \\\"y\\\">", 100)}));
  REQUIRE(compare({a, a, "--output", dir.path("o.csv")}).exit_code == 0);
  const std::vector<std::string> lines = lines_of(dir.read("o.csv"));
  REQUIRE(lines.size() == 2);
  CHECK(lines[0] ==
        "name,quantity,a_median,b_median,a_repetitions,b_repetitions,ratio,ratio_low,ratio_high,p,p_holm,verdict,"
        "no_test,a_max_error,b_max_error");
  CHECK(lines[1].starts_with("\"x<int, \"\"y\"\">\",cpu_time,1"));
  CHECK(lines[1].ends_with(",1,1,1.0,,,,,no test,1 repetition,,"));
  REQUIRE(compare({a, a, "--output", dir.path("o.json")}).exit_code == 0);
  const json report = json::parse(dir.read("o.json"));
  CHECK(report.at("cases").at(0).at("name") == "x<int, \"y\">");
  CHECK(report.at("cases").at(0).at("p").is_null());
  CHECK(report.at("a").at("context").at("host_name") == "alpha");
  CHECK(report.at("summary").at("no test") == 1);
}

TEST_CASE("attend bench-compare: a measurement is not written over") {
  const TempDir dir;
  const std::string a = write_case(dir, "a.json", 1000), b = write_case(dir, "b.json", 1200);
  const std::string measured = dir.read("a.json");
  CHECK(is_wrong_usage(compare({a, b, "--output", a}), "--output and FILE_A are the same file"));
  CHECK(is_wrong_usage(compare({b, a, "--output", dir.path("./a.json")}), "--output and FILE_B are the same file"));
  CHECK(dir.read("a.json") == measured);
}

TEST_CASE("attend bench-compare: errors are one line, wrong usage is told, no file is half written") {
  const TempDir dir;
  const std::string a = write_case(dir, "a.json", 1000), text = dir.write("t.json", "Benchmark  Time\n"),
                    object = dir.write("o.json", "{\"runs\": []}"), other = dir.write("x.json", run_json({}));
  CHECK(is_error(compare({a, dir.path("none.json")}), "none.json"));
  CHECK(is_error(compare({dir.path(), a}), dir.path()));
  CHECK(is_error(compare({a, text}), "t.json: is not JSON"));
  CHECK(is_error(compare({object, a}), "o.json: has no \"context\" and \"benchmarks\""));
  std::string beyond = dir.read("a.json");
  beyond.replace(beyond.find("1000"), 4, "1e999");
  CHECK(is_error(compare({a, dir.write("e.json", beyond)}), "e.json: has a number beyond what a double holds"));
  CHECK(is_error(compare({a, other}), "no case in common"));
  CHECK(is_error(compare({a, text, "--output", dir.path("r.csv")}), "t.json"));
  CHECK(is_error(compare({a, a, "--output", dir.path("none/r.csv")}), "none/r.csv"));
  std::vector<std::string> many;
  add_case(many, "x", 1001, 1);
  CHECK(is_error(compare({dir.write("m.json", run_json(many)), a}), "m.json: 'x' has 1001 repetitions"));
  CHECK(is_wrong_usage(compare({a}), "attend: error: FILE_B is required"));
  CHECK(is_wrong_usage(compare({"", a}), "attend: error: FILE_A is empty"));
  CHECK(is_wrong_usage(compare({a, a, "--output", ""}), "attend: error: --output is empty"));
  CHECK(is_wrong_usage(compare({a, a, "--filter", "("}), "--filter: '('"));
  CHECK(is_wrong_usage(compare({a, a, "--time", "wall"}), "--time: 'wall', expected cpu or real"));
  CHECK(is_wrong_usage(compare({a, a, "--time", "cpu", "--across-machines"}), "--across-machines"));
  for (const char* alpha : {"0", "1", "nan", "many", "", "0.05x"}) {
    CHECK(is_wrong_usage(compare({a, a, "--alpha", alpha}),
                         std::string("--alpha: '") + alpha + "', expected a number from 1e-6 to below 0.5"));
  }
  for (const char* percent : {"-1", "100", "nan"}) {
    CHECK(is_wrong_usage(compare({a, a, std::string("--min-effect=") + percent}), "--min-effect"));
  }
  CHECK(is_wrong_usage(compare({a, a, "--output", dir.path("r.txt")}), "--output"));
  CHECK(dir.names() == std::vector<std::string>{"a.json", "e.json", "m.json", "o.json", "t.json", "x.json"});
}

}  // namespace attend::tests

#endif
