// attend turns: what its table says of times, and two builds of the library run by it.
#include <dlfcn.h>

#include <cmath>
#include <cstddef>
#include <filesystem>
#include <limits>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "tests/support/temp_dir.h"
#include "tests/tools/attend/process.h"
#include "tools/attend/turn_times.h"

namespace attend::tests {
namespace {

using tools::Turn;

// 1 s by A, and b / a from 1 to count.
std::vector<Turn> rising(std::size_t count) {
  std::vector<Turn> turns;
  for (std::size_t i = 1; i <= count; ++i) turns.push_back({1, static_cast<double>(i)});
  return turns;
}

}  // namespace

TEST_CASE("turns: the interval of the median is that of the sign test") {
  const tools::RatioOfTurns five = tools::ratio_of(rising(5));
  CHECK(five.count == 5);
  CHECK(five.ratio == 3);
  CHECK(five.b == 3);
  CHECK_FALSE(five.low.has_value());  // all of five on one side: 2 / 32
  CHECK_FALSE(five.high.has_value());
  // Ranks of tables (Hollander, Wolfe, Chicken, Nonparametric Statistical Methods, table of the sign test), and of
  // scipy.stats.binom.cdf: 2 P(X < k) is 0.031, 0.049, 0.035, 0.0488 for these k, and above 0.05 for the next ones.
  const struct {
    std::size_t count;
    double low;
  } known[] = {{6, 1}, {17, 5}, {100, 40}, {10000, 4902}};
  for (const auto& row : known) {
    const std::size_t count = row.count;
    CAPTURE(count);
    const tools::RatioOfTurns found = tools::ratio_of(rising(count));
    CHECK(found.ratio == 0.5 * static_cast<double>(count + 1));
    REQUIRE(found.low.has_value());
    CHECK(*found.low == row.low);
    CHECK(*found.high == static_cast<double>(count + 1) - row.low);
  }
}

TEST_CASE("turns: ratios are of the same turn, not of medians") {
  // B takes 0.9 of A in every turn, while others slow every second one.
  std::vector<Turn> turns;
  for (int i = 0; i < 40; ++i) {
    const double a = i % 2 == 0 ? 1 : 1.5 + 0.01 * i;
    turns.push_back({a, 0.9 * a});
  }
  const tools::RatioOfTurns found = tools::ratio_of(turns);
  CHECK(found.ratio == doctest::Approx(0.9));
  CHECK(*found.low == doctest::Approx(0.9));
  CHECK(*found.high == doctest::Approx(0.9));
}

TEST_CASE("turns: slowness counts both builds alike") {
  std::vector<Turn> turns(20, Turn{2, 3});
  turns.push_back({4, 3});
  turns.push_back({2, 6});
  turns.push_back({4, 6});
  const std::vector<double> slow = tools::slowness(turns);
  REQUIRE(slow.size() == 23);
  CHECK(slow[0] == doctest::Approx(1));
  CHECK(slow[20] == doctest::Approx(std::sqrt(2.0)));
  CHECK(slow[21] == doctest::Approx(std::sqrt(2.0)));
  CHECK(slow[22] == doctest::Approx(2));
}

TEST_CASE("turns: results differ by bits, by most, and infinitely where one alone is NaN") {
  constexpr float kNaN = std::numeric_limits<float>::quiet_NaN(), kInf = std::numeric_limits<float>::infinity();
  const auto of = [](std::vector<float> a, std::vector<float> b) { return tools::difference_of(a, b); };
  CHECK(of({1, kNaN, kInf}, {1, kNaN, kInf}).same_bits);
  CHECK(of({1, kNaN, kInf}, {1, kNaN, kInf}).most == 0);
  CHECK_FALSE(of({0.0f}, {-0.0f}).same_bits);
  CHECK(of({0.0f}, {-0.0f}).most == 0);
  CHECK(of({1, -4, 2}, {1.5f, -3, 2}).most == 1);
  CHECK(of({1, -4, 2}, {1.5f, -3, 2}).largest == 4);
  CHECK(std::isinf(of({1, kNaN}, {1, 2}).most));
  CHECK(std::isinf(of({1, 2}, {kNaN, 2}).most));
}

#ifdef ATTEND_CLI_PATH

TEST_CASE("attend turns: wrong usage and files that are no builds are told, and nothing is printed") {
  const TempDir dir;
  const std::string none = dir.path("none.so");
  const std::vector<std::string> layer = {"--layer", "dot", "--shape", "1,2,3,4"};
  const auto with = [&](std::vector<std::string> words) {
    words.insert(words.begin(), "turns");
    words.insert(words.end(), layer.begin(), layer.end());
    return run_attend(words);
  };
  CHECK(with({none}).exit_code == 2);
  CHECK(with({"", none}).exit_code == 2);
  CHECK(with({none, none, "--seconds", "-1"}).exit_code == 2);
  CHECK(run_attend({"turns", none, none}).exit_code == 2);
  const Finished missing = with({none, none});
  CHECK(missing.exit_code == 1);
  CHECK(missing.out.empty());
  CHECK(missing.err == "attend: error: LIBRARY_A: " + none + ": no such file\n");
}

#ifdef ATTEND_SHARED_LIBRARY

TEST_CASE("attend turns: a build agrees with itself, by every layer and option") {
  const TempDir dir;
  const std::string a = ATTEND_SHARED_LIBRARY, b = dir.path("b.so");
  std::filesystem::copy_file(a, b);  // or the loader would see one library
  const std::vector<std::vector<std::string>> layers = {
      {"--layer", "dot", "--shape", "2,5,9,8", "--attention-weights"},
      {"--layer", "dot", "--shape", "1,9,9,16", "--num-heads", "4", "--num-kv-heads", "2", "--causal", "top-left"},
      {"--layer", "dot", "--shape", "3,70,70,8", "--threads", "2", "--target", "SCALAR", "--scale", "0.5"},
      {"--layer", "dot", "--shape", "3,6,6,8", "--skip-padded-queries"},
      {"--layer", "gaussian", "--shape", "2,5,9,8", "--sigma", "2"},
      {"--layer", "additive", "--shape", "2,5,9,8,6,4", "--num-hiddens", "12", "--concat-queries"},
      {"--layer", "bilinear", "--shape", "2,5,9,8,6,4"},
      {"--layer", "multi-head", "--shape", "2,5,9,8", "--num-heads", "2"}};
  for (const std::vector<std::string>& layer : layers) {
    std::vector<std::string> words = {"turns", a, b, "--seconds", "0"};
    words.insert(words.end(), layer.begin(), layer.end());
    CAPTURE(layer[1]);
    const Finished finished = run_attend(words);
    CHECK(finished.exit_code == 0);
    CHECK(finished.err == "");
    const std::vector<std::string> lines = lines_of(finished.out);
    REQUIRE(lines.size() == 9);
    CHECK(lines[0] == "A: " + a);
    CHECK(lines[1] == lines[3]);
    CHECK(contains(lines[1], " attention, path "));
    CHECK(lines[2] == "B: " + b);
    CHECK(lines[4] == "results: the same bits");
    CHECK(contains(lines[6], "  20  "));
  }
}

TEST_CASE("attend turns: other libraries, other files and what a build refuses are errors that name the file") {
  const TempDir dir;
  const std::string text = dir.write("text.so", "no library");
  const auto error_of = [](const std::string& a, const std::vector<std::string>& layer) {
    std::vector<std::string> words = {"turns", a, ATTEND_SHARED_LIBRARY};
    words.insert(words.end(), layer.begin(), layer.end());
    const Finished finished = run_attend(words);
    CHECK(finished.exit_code == 1);
    CHECK(finished.out.empty());
    return finished.err;
  };
  const std::vector<std::string> layer = {"--layer", "dot", "--shape", "1,2,3,4"};
  CHECK(error_of(text, layer)
            .starts_with("attend: error: LIBRARY_A: " + text + ": not a shared library that can be loaded: "));
  Dl_info libc{};
  REQUIRE(::dladdr(reinterpret_cast<const void*>(&::posix_spawn), &libc) != 0);
  const std::string other = libc.dli_fname;
  CHECK(error_of(other, layer) == "attend: error: LIBRARY_A: " + other +
                                      ": no build of attend: it has no function attend_layer_create_additive\n");
}

#endif
#endif

}  // namespace attend::tests
