// The statistics of bench-compare against SciPy's numbers (tools/make_golden_stats.py) and numbers of textbooks.
#include "tools/bench_compare/statistics.h"

#include <cmath>
#include <fstream>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "tests/support/npz_data.h"

namespace attend::tools {
namespace {

const nlohmann::json& golden_cases() {
  static const nlohmann::json kGolden = [] {
    std::ifstream file(tests::data_path("golden_stats.json"));
    return nlohmann::json::parse(file).at("cases");
  }();
  return kGolden;
}

template <class Check>
void for_each_golden(Check&& check) {
  REQUIRE(golden_cases().size() >= 25);
  for (const nlohmann::json& golden : golden_cases()) {
    INFO(golden.at("name").get<std::string>());
    check(golden, golden.at("x").get<std::vector<double>>(), golden.at("y").get<std::vector<double>>());
  }
}

bool near(double actual, double expected) { return std::abs(actual - expected) <= 1e-10 * std::abs(expected); }

}  // namespace

TEST_CASE("mann_whitney: U and p are SciPy's, exact, with ties and approximated, either way round") {
  for_each_golden([](const nlohmann::json& golden, const std::vector<double>& x, const std::vector<double>& y) {
    const MannWhitney forth = mann_whitney(x, y), back = mann_whitney(y, x);
    CHECK(forth.u == golden.at("u").get<double>());
    CHECK(forth.u + back.u == static_cast<double>(x.size() * y.size()));
    CHECK(near(forth.p, golden.at("p").get<double>()));
    CHECK(near(back.p, golden.at("p").get<double>()));
  });
}

TEST_CASE("hodges_lehmann: the ratio is NumPy's, the interval what SciPy's test does not reject") {
  int intervals = 0, without = 0;
  for_each_golden([&](const nlohmann::json& golden, const std::vector<double>& x, const std::vector<double>& y) {
    const double alpha = golden.at("alpha").get<double>();
    const RatioEstimate forth = hodges_lehmann(x, y, alpha), back = hodges_lehmann(y, x, alpha);
    CHECK(near(forth.ratio, golden.at("ratio").get<double>()));
    CHECK(near(back.ratio, 1 / forth.ratio));
    if (golden.at("has_ties").get<bool>()) return;
    const bool expected = !golden.at("low").is_null();
    REQUIRE(forth.interval.has_value() == expected);
    REQUIRE(back.interval.has_value() == expected);
    ++(expected ? intervals : without);
    if (!expected) return;
    CHECK(near(forth.interval->low, golden.at("low").get<double>()));
    CHECK(near(forth.interval->high, golden.at("high").get<double>()));
    CHECK(near(back.interval->low, 1 / forth.interval->high));
    CHECK(near(back.interval->high, 1 / forth.interval->low));
  });
  CHECK(intervals >= 10);
  CHECK(without >= 2);
}

TEST_CASE("smallest_p: what full separation gives, or less than any level") {
  CHECK(smallest_p(1, 1) == 1);
  CHECK(near(smallest_p(3, 3), 0.1));
  CHECK(near(smallest_p(4, 4), 2.0 / 70));
  CHECK(near(smallest_p(10, 10), 2.0 / 184756));
  CHECK(near(smallest_p(2, 5), 2.0 / 21));
  CHECK(smallest_p(5, 2) == smallest_p(2, 5));
  CHECK(smallest_p(1000, 1000) < 1e-300);
}

TEST_CASE("holm: worked examples, in the order given") {
  const auto check = [](const std::vector<double>& p, const std::vector<double>& expected) {
    const std::vector<double> adjusted = holm(p);
    REQUIRE(adjusted.size() == expected.size());
    for (std::size_t i = 0; i < p.size(); ++i) CHECK(near(adjusted[i], expected[i]));
  };
  check({0.01, 0.04, 0.03, 0.005}, {0.03, 0.06, 0.06, 0.02});
  check({0.02}, {0.02});
  check({0.5, 0.6, 0.001}, {1, 1, 0.003});
  check({0.02, 0.02, 0.02}, {0.06, 0.06, 0.06});
  check({}, {});
}

TEST_CASE("median: of odd and even counts, in any order") {
  CHECK(median({3}) == 3);
  CHECK(median({9, 1, 5}) == 5);
  CHECK(median({8, 1, 3, 2}) == 2.5);
  CHECK(median({2, 2, 2, 7}) == 2);
}

}  // namespace attend::tools
