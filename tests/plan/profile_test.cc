// Profiles: the text and back, what is wrong with a text, and when a plan takes an entry.
#include <clocale>
#include <limits>
#include <locale>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "attend/attend.h"
#include "tests/support/compare.h"
#include "tests/support/layer_cases.h"
#include "tests/support/run.h"

namespace attend::tests {
namespace {

const Shape kShape{.batch = 2, .num_queries = 40, .num_keys = 300, .query_size = 16, .value_size = 24};
constexpr TuneOptions kQuick{.seconds = 0, .tiles = false};

// The words of a problem, as a profile names it.
std::string problem_of(const Attention& layer, const Shape& shape, const PlanOptions& options = {}) {
  return Planner::tune(layer, shape, options, kQuick).profile.entries().at(0).problem;
}

Profile profile_of(const std::string& problem, const std::string& path, std::int64_t tile_queries = 0,
                   std::int64_t tile_keys = 0) {
  Profile profile;
  profile.add(
      {.problem = problem, .path = path, .tile_queries = tile_queries, .tile_keys = tile_keys, .microseconds = 12.25});
  return profile;
}

std::string plan_line(const Plan& plan, const std::string& what) {
  const std::string text = plan.explain();
  const std::size_t at = text.find("\n  " + what);
  return at == std::string::npos ? "" : text.substr(at + 1, text.find('\n', at + 1) - at - 1);
}

std::string parse_fault(const std::string& text) {
  return error_message([&] { Profile::parse(text); });
}

}  // namespace

TEST_CASE("profile: text and back, sorted by problem, one line each") {
  const DotAttention dot;
  const std::string few = problem_of(dot, {.num_queries = 1, .num_keys = 5, .query_size = 8});
  const std::string many = problem_of(dot, kShape, {.valid_lens = ValidLens::kPerBatch});
  Profile profile = profile_of(few, "dot/fused");
  profile.add({.problem = many, .path = "dot/materialised", .tile_queries = 24, .tile_keys = 0, .microseconds = 1234});
  const std::string text = profile.text();
  CHECK(text.starts_with("attend profile 3, library "));
  CHECK(text.find(", cpu " + profile.cpu() + "\n") != std::string::npos);
  CHECK(text.find(few + ": path=dot/fused tile_queries=0 tile_keys=0 pairs=where-faster us=12.2\n") !=
        std::string::npos);
  CHECK(text.find("us=1234\n") != std::string::npos);
  CHECK(text.find("B=1 M=1 N=5") < text.find("B=2 M=40 N=300"));

  const Profile again = Profile::parse(text);
  CHECK(again.text() == text);
  CHECK(again.cpu() == profile.cpu());
  CHECK(again.library() == profile.library());
  REQUIRE(again.entries().size() == 2);
  REQUIRE(again.find(many) != nullptr);
  CHECK(again.find(many)->path == "dot/materialised");
  CHECK(again.find(many)->tile_queries == 24);
  CHECK(again.find(many)->microseconds == 1234);
  CHECK(again.find(many + "0") == nullptr);
  CHECK(Profile::parse(Profile().text()).entries().empty());
}

TEST_CASE("profile: any time that an entry may have survives as text, and others are refused") {
  const std::string problem = problem_of(DotAttention(), kShape);
  for (const double microseconds : {0.0, 9.994, 9.996, 1e6, 123456789012345.0, 999999999999999.9, 1e15}) {
    Profile profile;
    profile.add({.problem = problem, .path = "dot/fused", .microseconds = microseconds});
    const Profile again = Profile::parse(profile.text());
    INFO(profile.text());
    CHECK(again.entries().at(0).microseconds == doctest::Approx(microseconds).epsilon(0.005));
    CHECK(again.text() == profile.text());
  }
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  for (const double microseconds : {1.001e15, 1e32, 1e300, kInfinity, -1.0, -kInfinity}) {
    Profile profile;
    const std::string message =
        error_message([&] { profile.add({.problem = problem, .path = "dot/fused", .microseconds = microseconds}); });
    CHECK(missing_parts(message, {"us=TIME", "at most 1e15"}) == "");
    CHECK(profile.entries().empty());
  }
}

TEST_CASE("profile: comments, empty lines and Windows' line ends are passed over") {
  const std::string problem = problem_of(DotAttention(), kShape);
  const Profile profile =
      Profile::parse("# tuned on Monday\r\n\r\nattend profile 3, library 9.9, cpu Some, CPU\r\n" + problem +
                     ": path=dot/fused tile_queries=0 tile_keys=256 pairs=never us=3e1\r\n# end");
  CHECK(profile.library() == "9.9");
  CHECK(profile.cpu() == "Some, CPU");
  CHECK(profile.entries().at(0).tile_keys == 256);
  CHECK(profile.entries().at(0).microseconds == 30);
  CHECK(profile.text().find('#') == std::string::npos);  // not kept
}

TEST_CASE("profile: what is wrong is said with its line") {
  const std::string header = "attend profile 3, library 0.1.0, cpu X\n";
  const std::string problem = problem_of(DotAttention(), kShape);
  const std::string good = problem + ": path=dot/fused tile_queries=0 tile_keys=0 pairs=never us=1\n";
  CHECK(parse_fault(header + good) == "");
  const struct {
    std::string text, part;
  } kFaults[] = {
      {"", "profile, line 1: expected \"attend profile 3, library VERSION, cpu NAME\", found nothing"},
      {"# only this\n", "line 2: expected \"attend profile 3"},
      {good, "line 1: expected \"attend profile 3"},
      {"attend profile 4, library 0.1.0, cpu X\n", "found \"attend profile 4, library 0.1.0, cpu X\""},
      {"attend profile 2, library 0.1.0, cpu X\n", "found \"attend profile 2, library 0.1.0, cpu X\""},
      {"attend profile 3, cpu X\n", "line 1"},
      {header + "\n" + "dot/fused\n", "line 3: expected \"PROBLEM: path="},
      {header + "dot/fused\n", "found \"dot/fused\""},
      {header + std::string(99, 'x') + "\n", ", found \"" + std::string(60, 'x') + "...\""},
      {header + good + good, "line 3: expected one entry per problem"},
      {header + "layer=dot: path=dot/fused tile_queries=0 tile_keys=0 pairs=never us=1",
       "line 2: expected B=a number in the problem, found nothing"},
      {header + "layer=dot B=x" + good.substr(13), "expected B=a number in the problem, found \"B=x\""},
      {header + "layer=dot M=1" + good.substr(13), "expected B=a number in the problem, found \"M=1\""},
      {header + "layer=\t" + good.substr(9), "expected layer=a word in the problem, found \"layer= \""},
      {header + problem + " more=1: path=dot/fused tile_queries=0 tile_keys=0 pairs=never us=1", "found \"more=1\""},
      {header + problem + ": tile_queries=0 tile_keys=0 pairs=never us=1",
       "expected path=PATH behind the problem, found \"tile_queries=0\""},
      {header + problem + ": path=dot,fused tile_queries=0 tile_keys=0 pairs=never us=1", "path is \"dot,fused\""},
      {header + problem + ": path=dot/fused tile_queries=-1 tile_keys=0 pairs=never us=1",
       "tile_queries is -1, expected 1 to 1024"},
      {header + problem + ": path=dot/fused tile_queries=two tile_keys=0 pairs=never us=1",
       "expected tile_queries=N behind path, found \"tile_queries=two\""},
      {header + problem + ": path=dot/fused tile_queries=0 tile_keys=100 pairs=never us=1",
       "tile_keys is 100, expected a power"},
      {header + problem + ": path=dot/fused tile_queries=0 tile_keys=0",
       "expected pairs=where-faster, never or always behind tile_keys, found nothing"},
      {header + problem + ": path=dot/fused tile_queries=0 tile_keys=0 us=1",
       "expected pairs=where-faster, never or always behind tile_keys, found \"us=1\""},
      {header + problem + ": path=dot/fused tile_queries=0 tile_keys=0 pairs=sometimes us=1",
       "found \"pairs=sometimes\""},
      {header + problem + ": path=dot/fused tile_queries=0 tile_keys=0 pairs=never",
       "expected us=TIME behind pairs, found nothing"},
      {header + problem + ": path=dot/fused tile_queries=0 tile_keys=0 pairs=never us=nan",
       "microseconds is nan, expected us=TIME, finite"},
      {header + problem + ": path=dot/fused tile_queries=0 tile_keys=0 pairs=never us=-1", "expected us=TIME, finite"},
      {header + problem + ": path=dot/fused tile_queries=0 tile_keys=0 pairs=never us=1e16",
       "microseconds is 1e+16, expected us=TIME, finite, not negative and at most 1e15"},
      // What is shown ends with a whole character.
      {std::string(59, 'x') + "\u00e9 and more", "found \"" + std::string(59, 'x') + "...\""},
      {header + problem + ": path=dot/fused tile_queries=0 tile_keys=0 pairs=never us=1 us=2", "found \"us=2\""},
  };
  for (const auto& fault : kFaults) {
    INFO(fault.text);
    CHECK(missing_parts(parse_fault(fault.text), {"profile, line ", fault.part}) == "");
    CHECK(parse_fault(fault.text).find('\n') == std::string::npos);
  }
  CHECK(missing_parts(error_message([] { Profile().add({.problem = "dot", .path = "dot/fused"}); }),
                      {"profile entry: expected layer=a word in the problem, found \"dot\""}) == "");
  const ProfileEntry unknown{.problem = problem, .path = "dot/fused", .pairs = static_cast<Pairs>(3)};
  CHECK(missing_parts(error_message([&] { Profile().add(unknown); }),
                      {"profile entry: pairs is 3, expected", "kNever"}) == "");
}

TEST_CASE("profile: many entries are the same in any order, and merged in theirs") {
  const std::string problem = problem_of(DotAttention(), kShape);
  const std::size_t size = problem.find(" M=");
  const auto text_of = [&](int first, int count, int step) {
    std::string text = "attend profile 3, library 0.1.0, cpu X\n";
    for (int i = 0; i < count; ++i) {
      text += problem.substr(0, size) + std::to_string(first + step * i) + problem.substr(size) +
              ": path=dot/fused tile_queries=0 tile_keys=0 pairs=never us=1\n";
    }
    return text;
  };
  constexpr int kMany = 2000;
  const auto same = [](const Profile& a, const Profile& b) { return a.text() == b.text(); };  // too long to be shown
  CHECK(same(Profile::parse(text_of(10000 + kMany - 1, kMany, -1)), Profile::parse(text_of(10000, kMany, 1))));
  Profile both = Profile::parse(text_of(10000, kMany, 2));  // each entry goes between two of the other
  both.merge(Profile::parse(text_of(10001, kMany, 2)));
  CHECK(same(both, Profile::parse(text_of(10000, 2 * kMany, 1))));
}

TEST_CASE("profile: merging replaces the same problems, and never mixes CPUs") {
  const DotAttention dot;
  const std::string a = problem_of(dot, kShape), b = problem_of(dot, kShape, {.attention_weights = true});
  Profile first = profile_of(a, "dot/fused");
  Profile second = profile_of(a, "dot/materialised");
  second.add({.problem = b, .path = "dot/materialised"});
  first.merge(second);
  CHECK(first.entries().size() == 2);
  CHECK(first.find(a)->path == "dot/materialised");
  first.merge(first);
  CHECK(first.entries().size() == 2);

  const Profile elsewhere = Profile::parse("attend profile 3, library 1, cpu Another\n" + a +
                                           ": path=dot/fused tile_queries=0 tile_keys=0 pairs=never us=1");
  CHECK(missing_parts(error_message([&] { first.merge(elsewhere); }), {"\"Another\"", first.cpu()}) == "");
  CHECK(first.find(a)->path == "dot/materialised");
  Profile fresh;
  fresh.merge(elsewhere);
  CHECK(fresh.cpu() == "Another");
}

TEST_CASE("profile: merging takes over the library of what was measured last") {
  const std::string entry =
      problem_of(DotAttention(), kShape) + ": path=dot/fused tile_queries=0 tile_keys=0 pairs=never us=1\n";
  Profile old = Profile::parse("attend profile 3, library 1, cpu X\n" + entry);
  const Profile later = Profile::parse("attend profile 3, library 2, cpu X\n" + entry);
  old.merge(Profile());  // of this library, but nothing was measured
  CHECK(old.library() == "1");
  old.merge(later);
  CHECK(old.library() == "2");
  CHECK(Profile::parse(old.text()).library() == "2");
  Profile fresh;
  fresh.merge(later);
  CHECK(fresh.library() == "2");
  CHECK(fresh.cpu() == "X");
}

TEST_CASE("profile: an entry for exactly this problem overrides the rules, and the plan says so") {
  const DotAttention dot;
  const Profile profile = profile_of(problem_of(dot, kShape), "dot/materialised", 12);
  const Plan plan = dot.plan(kShape, {.profile = &profile});
  CHECK(plan.path() == "dot/materialised");
  CHECK(missing_parts(plan_line(plan, "path"), {"dot/materialised: by the profile, 12.2 us when tuned", "dot/fused"}) ==
        "");
  CHECK(missing_parts(plan_line(plan, "tiles"), {"12 queries", "by the profile"}) == "");
  CHECK(dot.plan(kShape).path() != "dot/materialised");

  // Every other problem is served by the rules.
  const auto other = [&](const Shape& shape, PlanOptions options) {
    const std::string by_rules(dot.plan(shape, options).path());
    options.profile = &profile;
    const Plan other_plan = dot.plan(shape, options);
    CHECK(other_plan.path() == by_rules);
    CHECK(other_plan.explain().find("profile") == std::string::npos);
  };
  Shape shape = kShape;
  shape.batch = 3;
  other(shape, {});
  shape = kShape;
  shape.num_keys = 301;
  other(shape, {});
  shape = kShape;
  shape.num_heads = 2;
  other(shape, {});
  other(kShape, {.threads = 2});
  other(kShape, {.concat_queries = true});
  other(kShape, {.valid_lens = ValidLens::kPerQuery});
  other(kShape, {.causal = Causal::kBottomRight});
  other(kShape, {.prepared_keys = true});
  other(kShape, {.pairs = Pairs::kNever});
  other(kShape, {.parts = Parts::kAlways});
  if (Target::available().size() > 1) other(kShape, {.target = Target::available()[1]});
  CHECK(GaussianAttention().plan(kShape, {.profile = &profile}).explain().find("profile") == std::string::npos);
}

// The first of these C locales that is installed: in most containers none with a comma is, and only the C++ one tells.
TEST_CASE("profile, messages and reasons have a point and no groups of digits, whatever the program's locale") {
  struct Groups final : std::numpunct<char> {
    char do_thousands_sep() const override { return '.'; }
    char do_decimal_point() const override { return ','; }
    std::string do_grouping() const override { return "\3"; }
  };
  const Profile entry = profile_of(problem_of(DotAttention(), kShape), "dot/fused");
  const std::string c_locale = std::setlocale(LC_ALL, nullptr);
  const std::locale cpp_locale = std::locale::global(std::locale(std::locale::classic(), new Groups));
  for (const char* name : {"de_DE.UTF-8", "fr_FR.UTF-8", "de_DE", "C.UTF-8"}) {
    if (std::setlocale(LC_ALL, name) != nullptr) break;
  }
  const std::string profile = entry.text();
  Shape large = kShape;
  large.num_keys = 1'234'567'890'123;
  const std::string message = error_message([&] { DotAttention().plan(large); });
  const std::string reasons = DotAttention().plan(kShape).explain();
  std::locale::global(cpp_locale);
  std::setlocale(LC_ALL, c_locale.c_str());
  CHECK(profile.ends_with("us=12.2\n"));
  CHECK(message.find("1234567890123") != std::string::npos);
  CHECK(reasons == DotAttention().plan(kShape).explain());
}

TEST_CASE("profile: forced path and tiles override it") {
  const DotAttention dot;
  const Profile profile = profile_of(problem_of(dot, kShape), "dot/fused", 24, 256);
  const Plan path = dot.plan(kShape, {.path = "dot/materialised", .profile = &profile});
  CHECK(missing_parts(plan_line(path, "path"), {"dot/materialised: asked for"}) == "");
  CHECK(plan_line(path, "tiles").find("profile") == std::string::npos);
  // Its tiles are those of its path, whoever says that.
  const Plan same = dot.plan(kShape, {.path = "dot/fused", .profile = &profile});
  CHECK(missing_parts(plan_line(same, "path"), {"dot/fused: asked for"}) == "");
  CHECK(missing_parts(plan_line(same, "tiles"), {"24 queries x 256 keys", "by the profile"}) == "");
  const Plan tiles = dot.plan(kShape, {.tile_queries = 6, .profile = &profile});
  CHECK(missing_parts(plan_line(tiles, "tiles"), {"6 queries x 256 keys", "asked for"}) == "");
}

TEST_CASE("profile: pairs of terms go as an entry has it, where the caller leaves them to the rules") {
  const LayerCase c({.layer = Layer::kDot, .num_queries = 40, .num_keys = 300, .num_hiddens = 16});
  const auto problem = [&](Pairs pairs) { return problem_of(c.attention, c.shape, {.pairs = pairs}); };
  const auto entry = [&](Pairs asked, Pairs measured) {
    Profile profile;
    profile.add({.problem = problem(asked), .path = "dot/fused", .pairs = measured, .microseconds = 1});
    return Profile::parse(profile.text());
  };
  const auto result = [&](const PlanOptions& options) {
    return run_plan(c.attention.plan(c.shape, options), c.inputs());
  };
  const RunResult plain = result({.path = "dot/fused", .pairs = Pairs::kNever});
  const RunResult by_pairs = result({.path = "dot/fused", .pairs = Pairs::kAlways});
  REQUIRE(!same_bits(plain, by_pairs));
  const Profile never = entry(Pairs::kWhereFaster, Pairs::kNever), always = entry(Pairs::kWhereFaster, Pairs::kAlways);
  CHECK(same_bits(result({.profile = &never}), plain));
  CHECK(same_bits(result({.profile = &always}), by_pairs));
  const auto path_line = [&](const PlanOptions& options) {
    return plan_line(c.attention.plan(c.shape, options), "path");
  };
  CHECK(missing_parts(path_line({.profile = &never}), {"when tuned; pairs of terms never, by the profile"}) == "");
  CHECK(missing_parts(path_line({.profile = &always}), {"when tuned; pairs of terms always, by the profile"}) == "");
  CHECK(missing_parts(path_line({.path = "dot/fused", .profile = &always}), {"asked for; pairs of terms always"}) ==
        "");
  // Of that path alone; and what the caller says goes first.
  CHECK(path_line({.path = "dot/materialised", .profile = &always}).find("profile") == std::string::npos);
  const Profile contrary = entry(Pairs::kNever, Pairs::kAlways), silent = entry(Pairs::kNever, Pairs::kWhereFaster);
  for (const Profile* profile : {&contrary, &silent}) {
    CHECK(same_bits(result({.profile = profile, .pairs = Pairs::kNever}), plain));
    CHECK(path_line({.profile = profile, .pairs = Pairs::kNever}).find("pairs of terms") == std::string::npos);
  }
}

TEST_CASE("profile: a path that does not fit is passed over, and the plan says so") {
  const DotAttention dot;
  const Profile profile = profile_of(problem_of(dot, kShape), "dot/of-another-version", 24, 256);
  const Plan plan = dot.plan(kShape, {.profile = &profile}), by_rules = dot.plan(kShape);
  CHECK(plan.path() == by_rules.path());
  CHECK(plan_line(plan, "tiles") == plan_line(by_rules, "tiles"));
  CHECK(missing_parts(plan_line(plan, "path"), {"the profile's dot/of-another-version is not among the candidates"}) ==
        "");
}

TEST_CASE("profile: a path without what the options ask for is passed over, and the plan says so") {
  const std::vector<float> ones(64, 1.0f);
  const TensorView<const float> W(ones.data(), {8, 8});
  const AdditiveAttention additive(AdditiveParameters{.W_q = W, .W_k = W, .w_v = {ones.data(), {8}}});
  const Shape shape{.num_queries = 2, .num_keys = 8};
  const Profile rational = profile_of(problem_of(additive, shape), "additive/rational");
  for (const bool counts : {true, false}) {
    PlanOptions options{.profile = &rational};
    CHECK(additive.plan(shape, options).path() == "additive/rational");
    options.count_tiers = counts;
    options.score_tier = counts ? ScoreTier::kByRange : ScoreTier::kOne;
    const Plan plan = additive.plan(shape, options);
    CHECK(plan.path() == "additive/factored");
    CHECK(missing_parts(plan_line(plan, "path"), {"the profile's additive/rational is not among the candidates"}) ==
          "");
  }

  const DotAttention dot;
  const Shape few{.num_queries = 16, .num_keys = 300, .query_size = 16};
  const std::string problem = problem_of(dot, few);
  const Profile decode = profile_of(problem, "dot/decode"), lanes = profile_of(problem, "dot/lanes"),
                materialised = profile_of(problem, "dot/materialised", 24);
  REQUIRE(dot.plan(few).path() != "dot/decode");
  CHECK(dot.plan(few, {.profile = &decode}).path() == "dot/decode");
  const auto passed_over = [&](const Profile& profile, PlanOptions options) {
    const Plan by_rules = dot.plan(few, options);
    options.profile = &profile;
    const Plan plan = dot.plan(few, options);
    CHECK(plan.path() == by_rules.path());
    CHECK(plan_line(plan, "tiles") == plan_line(by_rules, "tiles"));
    const std::string said = "the profile's " + profile.entries().at(0).path + " does not have the tiles asked for";
    CHECK(missing_parts(plan_line(plan, "path"), {said}) == "");
  };
  passed_over(decode, {.tile_keys = 128});
  passed_over(materialised, {.tile_keys = 128});
  CHECK(dot.plan(few, {.tile_keys = 256, .profile = &lanes}).path() == "dot/lanes");
  // Tiles of queries, which the rules' choice has.
  const Shape more{.num_queries = 60, .num_keys = 300, .query_size = 16};
  PlanOptions options{.valid_lens = ValidLens::kPerQuery};
  const Profile lanes_of_more = profile_of(problem_of(dot, more, options), "dot/lanes");
  options.profile = &lanes_of_more;
  CHECK(dot.plan(more, options).path() == "dot/lanes");
  options.tile_queries = 24;
  CHECK(dot.plan(more, options).path() == "dot/fused");
}

TEST_CASE("profile: a plan does not need it once it is made") {
  const DotAttention dot;
  const std::string problem = problem_of(dot, kShape);
  const Plan plan = [&] {
    const Profile profile = profile_of(problem, "dot/fused", 12, 128);
    return dot.plan(kShape, {.profile = &profile});
  }();
  CHECK(missing_parts(plan_line(plan, "tiles"), {"12 queries x 128 keys"}) == "");
}

TEST_CASE("profile: every size and option makes another problem") {
  const auto problem = [](const Attention& layer, const Shape& shape, const PlanOptions& options) {
    PlanOptions one = options;
    one.path = std::string(layer.plan(shape, options).path());
    return Planner::tune(layer, shape, one, {.seconds = 0, .tiles = false}).profile.entries().front().problem;
  };
  const Shape base{.batch = 2,
                   .num_queries = 3,
                   .num_keys = 4,
                   .query_size = 5,
                   .key_size = 5,
                   .value_size = 6,
                   .num_heads = 4,
                   .num_kv_heads = 4};
  std::vector<std::string> all{problem(DotAttention(), base, {})};
  const auto add = [&](std::string p) {
    for (const std::string& other : all) CHECK(other != p);
    all.push_back(std::move(p));
  };
  for (std::int64_t Shape::*size : {&Shape::batch, &Shape::num_queries, &Shape::num_keys, &Shape::value_size}) {
    Shape shape = base;
    ++(shape.*size);
    add(problem(DotAttention(), shape, {}));
  }
  Shape shape = base;
  shape.num_kv_heads = 2;
  add(problem(DotAttention(), shape, {}));
  shape = base;
  shape.num_heads = shape.num_kv_heads = 2;
  add(problem(DotAttention(), shape, {}));
  shape = base;
  shape.query_size = shape.key_size = 7;
  add(problem(DotAttention(), shape, {}));
  add(problem(DotAttention(), base, {.threads = 2}));
  add(problem(DotAttention(), base, {.attention_weights = true}));
  add(problem(DotAttention(), base, {.concat_queries = true}));
  add(problem(DotAttention(), base, {.valid_lens = ValidLens::kPerBatch}));
  add(problem(DotAttention(), base, {.causal = Causal::kTopLeft}));
  add(problem(DotAttention(), base, {.padding = Padding::kSkipQueries}));
  add(problem(DotAttention(), base, {.prepared_keys = true}));
  add(problem(DotAttention(), base, {.pairs = Pairs::kNever}));
  add(problem(DotAttention(), base, {.parts = Parts::kNever}));
  const LayerCase heads({.layer = Layer::kMultiHead}), additive({.layer = Layer::kMultiHeadAdditive});
  CHECK(problem(heads.attention, heads.shape, {}) != problem(additive.attention, heads.shape, {}));
}

}  // namespace attend::tests
