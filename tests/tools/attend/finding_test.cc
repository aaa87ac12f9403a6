// attend check: what it runs, and what it holds against the library.
#include "tools/attend/finding.h"

#include <functional>
#include <limits>
#include <string>
#include <vector>

#include <doctest/doctest.h>

namespace attend::tests {
namespace {

using tools::CheckedRun;
using tools::Finding;

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

// Two entries of two queries of size 2, values of size 1, three keys; of the second entry one is valid.
const reference::Result kTruth{.output = {1, 2, 3, 4},
                               .attention_weights = {0.5, 0.25, 0.25, 0.25, 0.5, 0.25, 1, 0, 0, 1, 0, 0}};
const tools::Bound kBound{.attention_weights = 0.01, .output = 0.25};
const tools::Data kData{
    .queries = {{2, 2, 2}, {10, 11, 12, 13, 14, 15, 16, 17}}, .keys = {}, .values = {}, .valid_lens = {{2}, {3, 1}}};

// What a library without fault gives.
CheckedRun faultless(const PlanOptions& options) {
  CheckedRun run{.results = {.output = {{2, 2, 1}, {1, 2, 3, 4}}, .attention_weights = {}}, .path = "a/path"};
  if (options.concat_queries) {
    run.results.output = {{2, 2, 3}, {1, 10, 11, 2, 12, 13, 3, 14, 15, 4, 16, 17}};
    if (options.padding == Padding::kSkipQueries) {
      for (std::size_t i : {10, 11}) run.results.output.data[i] = 0;
    }
  }
  if (options.attention_weights) {
    const std::vector<double>& weights = kTruth.attention_weights;
    run.results.attention_weights = {{2, 2, 3}, {weights.begin(), weights.end()}};
  }
  return run;
}

// What is found of a library that is without fault but for what spoil does to some of its results.
Finding found(const PlanOptions& options, const std::function<void(const PlanOptions&, CheckedRun&)>& spoil = {}) {
  const auto run = [&](const PlanOptions& o) {
    CheckedRun result = faultless(o);
    if (spoil) spoil(o, result);
    return result;
  };
  return tools::find_errors(run, options, kData, kTruth);
}

bool holds(const PlanOptions& options, const std::function<void(const PlanOptions&, CheckedRun&)>& spoil) {
  return found(options, spoil).holds(kBound);
}

}  // namespace

TEST_CASE("finding: runs are without and with weights, on one and on all threads, otherwise as the options say") {
  std::vector<std::string> runs;
  const auto note = [&](const PlanOptions& o, CheckedRun&) {
    CHECK(o.causal == Causal::kTopLeft);
    CHECK(o.path == "forced");
    runs.push_back(std::to_string(o.threads) + (o.attention_weights ? " weights" : ""));
  };
  found({.threads = 3, .causal = Causal::kTopLeft, .path = "forced"}, note);
  CHECK(runs == std::vector<std::string>{"1", "3", "1 weights", "3 weights"});
  runs.clear();
  found({.attention_weights = true, .causal = Causal::kTopLeft, .path = "forced"}, note);
  CHECK(runs == std::vector<std::string>{"1", "1 weights"});
}

TEST_CASE("finding: a library without fault holds, and what is kept are its results with weights") {
  for (const int threads : {1, 2}) {
    const Finding finding = found({.threads = threads});
    CHECK(finding.output_error == 0);
    CHECK(finding.weights_error == 0);
    CHECK(finding.same_bits);
    CHECK(finding.holds({.attention_weights = 0, .output = 0}));
    CHECK(finding.results.output.data == std::vector<float>{1, 2, 3, 4});
    CHECK(finding.results.attention_weights.data.size() == 12);
  }
}

TEST_CASE("finding: each result is held to its own bound, in either kind of run") {
  for (const bool weights : {false, true}) {
    const auto output = [&](float x) {
      return holds({}, [&](const PlanOptions& o, CheckedRun& run) {
        if (o.attention_weights == weights) run.results.output.data[3] = x;
      });
    };
    CHECK(output(4.25f));
    CHECK(output(3.75f));
    CHECK_FALSE(output(4.3f));
    CHECK_FALSE(output(3.7f));
    CHECK_FALSE(output(kNaN));
  }
  const auto weight = [&](float x) {
    return holds({}, [&](const PlanOptions& o, CheckedRun& run) {
      if (o.attention_weights) run.results.attention_weights.data[11] = x;
    });
  };
  CHECK(weight(0.009f));
  CHECK_FALSE(weight(0.011f));
  CHECK_FALSE(weight(-0.011f));
  CHECK_FALSE(weight(kNaN));
}

TEST_CASE("finding: NaN where the truth is NaN is no error") {
  reference::Result truth = kTruth;
  truth.output[0] = std::numeric_limits<double>::quiet_NaN();
  const auto run = [](const PlanOptions& o) {
    CheckedRun result = faultless(o);
    result.results.output.data[0] = kNaN;
    return result;
  };
  CHECK(tools::find_errors(run, {.threads = 2}, kData, truth).holds(kBound));
  CHECK_FALSE(tools::find_errors(faultless, {}, kData, truth).holds(kBound));
}

TEST_CASE("finding: bits that differ on several threads are out of contract, however small the difference") {
  for (const bool weights : {false, true}) {
    const Finding finding = found({.threads = 2}, [&](const PlanOptions& o, CheckedRun& run) {
      if (o.threads == 2 && o.attention_weights == weights) run.results.output.data[1] = 2.0000002f;
    });
    CHECK_FALSE(finding.same_bits);
    CHECK_FALSE(finding.holds(kBound));
  }
  CHECK_FALSE(holds({.threads = 2}, [](const PlanOptions& o, CheckedRun& run) {
    if (o.threads == 2 && o.attention_weights) run.results.attention_weights.data[11] = -0.0f;
  }));
}

TEST_CASE("finding: queries beside the context are held to the bit, those that are skipped to 0") {
  for (const Padding padding : {Padding::kCompute, Padding::kSkipQueries}) {
    const PlanOptions options{.concat_queries = true, .padding = padding};
    CHECK(found(options).holds({.attention_weights = 0, .output = 0}));
    for (std::size_t i = 0; i < 12; ++i) {
      INFO("element ", i);
      const Finding finding =
          found(options, [&](const PlanOptions&, CheckedRun& run) { run.results.output.data[i] += 0.5f; });
      CHECK(finding.output_error == 0.5);
    }
  }
}

TEST_CASE("finding: paths are told once where they are the same") {
  CHECK(found({}).paths == "a/path");
  CHECK(found({.threads = 2}, [](const PlanOptions& o, CheckedRun& run) {
          if (o.attention_weights) run.path = "another";
        }).paths == "a/path, with weights another");
}

}  // namespace attend::tests
