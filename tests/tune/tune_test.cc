// Tiles that are asked for, and plans that were tuned: within contract, and the same bits as any such plan.
#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "attend/attend.h"
#include "engine/base/cpus.h"
#include "engine/tune/choose.h"
#include "tests/support/compare.h"
#include "tests/support/layer_cases.h"
#include "tests/support/run.h"

namespace attend::tests {
namespace {

constexpr TuneOptions kQuick{.seconds = 0};

struct Tiles {
  std::int64_t queries, keys;
};

}  // namespace

TEST_CASE("tiles: whichever are asked for, results are within contract on every path and target") {
  for (const Layer layer : {Layer::kAdditive, Layer::kDotHeads, Layer::kGaussian, Layer::kMultiHeadAdditive}) {
    const LayerCase c({.layer = layer, .num_queries = 19, .num_keys = 700, .lens = Lens::kPerQuery, .seed = 130});
    const reference::Result truth = c.truth();
    for_each_plan(c, [&](const Plan& by_rules, bool with_weights) {
      for (const Tiles tiles :
           {Tiles{1, 0}, Tiles{7, 0}, Tiles{1024, 0}, Tiles{0, 128}, Tiles{0, 1024}, Tiles{5, 256}}) {
        PlanOptions options{.target = Target::from_name(by_rules.target_name()),
                            .attention_weights = with_weights,
                            .path = std::string(by_rules.path()),
                            .tile_queries = tiles.queries,
                            .tile_keys = tiles.keys};
        std::optional<Plan> plan;
        const std::string message = error_message([&] { plan = c.attention.plan(c.shape, options); });
        if (!plan) {
          CHECK(missing_parts(message, {"tile_", "expected 0: path " + options.path + " has no such tiles"}) == "");
          continue;
        }
        INFO("tiles ", tiles.queries, " x ", tiles.keys);
        const RunResult result = run_plan(*plan, c.inputs(), with_weights);
        check_within(result.output, result.attention_weights, truth, c.bound(truth));
        options.threads = 3;
        ThreadPool pool(3);
        CHECK(same_bits(result, run_plan(c.attention.plan(c.shape, options), c.inputs(), with_weights, &pool)));
      }
    });
  }
}

TEST_CASE("tiles: more keys than a level of accumulators holds, in the largest and smallest tiles") {
  const LayerCase c({.layer = Layer::kDot, .batch = 1, .num_queries = 50, .num_keys = 8192 + 300, .lens = Lens::kNone});
  const reference::Result truth = c.truth();
  for (const std::int64_t keys : {128, 1024}) {
    const Plan plan = c.attention.plan(c.shape, {.path = "dot/fused", .tile_keys = keys});
    const RunResult result = run_plan(plan, c.inputs());
    check_within(result.output, {}, truth, c.bound(truth));
  }
}

TEST_CASE("tiles: an error names the option, what it was and what was expected") {
  const DotAttention dot;
  const Shape shape{.batch = 1, .num_queries = 100, .num_keys = 1000, .query_size = 8};
  const auto message = [&](const PlanOptions& options) { return error_message([&] { dot.plan(shape, options); }); };
  CHECK(missing_parts(message({.tile_queries = -1}), {"tile_queries is -1", "expected 1 to 1024"}) == "");
  CHECK(missing_parts(message({.tile_queries = 1025}), {"tile_queries is 1025", "expected 1 to 1024"}) == "");
  for (const std::int64_t keys : {-128, 1, 64, 100, 192, 2048}) {
    CHECK(missing_parts(message({.tile_keys = keys}),
                        {"tile_keys is " + std::to_string(keys), "a power of two from 128 to 1024"}) == "");
  }
  CHECK(missing_parts(message({.path = "dot/materialised", .tile_keys = 128}),
                      {"tile_keys is 128, expected 0: path dot/materialised has no such tiles"}) == "");
  CHECK(message({.path = "dot/fused", .tile_queries = 1024, .tile_keys = 1024}) == "");
}

TEST_CASE("candidates: the paths that fit, the rules' choice first") {
  for (const Layer layer : kAllLayers) {
    const LayerCase c({.layer = layer});
    for (const bool weights : {false, true}) {
      const PlanOptions options{.attention_weights = weights};
      const Plan plan = c.attention.plan(c.shape, options);
      const std::vector<std::string> paths(plan.candidates().begin(), plan.candidates().end());
      CHECK(paths == fit_paths(c.attention, c.shape, options));
      REQUIRE(!paths.empty());
      CHECK(paths.front() == plan.path());
    }
  }
}

TEST_CASE("tune: every layer's tuned plan is within contract, and has the bits of its path and tiles") {
  for_each_target([](const Target& target) {
    for (const Layer layer : kAllLayers) {
      const LayerCase c({.layer = layer, .num_queries = 10, .num_keys = 150, .seed = 131});
      INFO(layer_name(layer));
      const PlanOptions options{.target = target, .valid_lens = ValidLens::kPerBatch};
      const Tuned tuned = Planner::tune(c.attention, c.shape, options, kQuick);
      REQUIRE(tuned.profile.entries().size() == 1);
      const ProfileEntry& entry = tuned.profile.entries().front();
      CHECK(tuned.plan.path() == entry.path);
      CHECK(tuned.plan.target_name() == target.name());
      CHECK(tuned.plan.explain().find("by the profile") != std::string::npos);
      CHECK(entry.microseconds > 0);

      const reference::Result truth = c.truth();
      const RunResult result = run_plan(tuned.plan, c.inputs());
      check_within(result.output, {}, truth, c.bound(truth));
      PlanOptions forced = options;
      forced.path = entry.path;
      forced.tile_queries = entry.tile_queries;
      forced.tile_keys = entry.tile_keys;
      forced.pairs = entry.pairs;
      CHECK(same_bits(result, run_plan(c.attention.plan(c.shape, forced), c.inputs())));
      // Saved and loaded.
      const Profile loaded = Profile::parse(tuned.profile.text());
      PlanOptions profiled = options;
      profiled.profile = &loaded;
      CHECK(same_bits(result, run_plan(c.attention.plan(c.shape, profiled), c.inputs())));
    }
  });
}

TEST_CASE("tune: the table holds every path that fits, the rules' choice, best first, no plan twice") {
  const LayerCase c({.layer = Layer::kDot, .num_queries = 60, .num_keys = 600});
  for (const bool weights : {false, true}) {
    const Tuned tuned = Planner::tune(c.attention, c.shape, {.attention_weights = weights}, kQuick);
    const Plan by_rules = c.attention.plan(c.shape, {.attention_weights = weights});
    int ruled = 0;
    for (const std::string& path : by_rules.candidates()) {
      CHECK(std::any_of(tuned.candidates.begin(), tuned.candidates.end(),
                        [&](const TunedCandidate& candidate) { return candidate.path == path; }));
    }
    for (std::size_t i = 0; i < tuned.candidates.size(); ++i) {
      const TunedCandidate& candidate = tuned.candidates[i];
      CHECK(candidate.seconds > 0);
      CHECK(candidate.median_seconds >= candidate.seconds);
      if (i > 0) CHECK(candidate.seconds >= tuned.candidates[i - 1].seconds);
      if (!candidate.by_rules) continue;
      ++ruled;
      CHECK(candidate.path == by_rules.path());
      CHECK(candidate.tile_queries == 0);
      CHECK(candidate.tile_keys == 0);
    }
    CHECK(ruled == 1);
    CHECK(tuned.candidates.size() > by_rules.candidates().size());
    CHECK(Planner::tune(c.attention, c.shape, {.attention_weights = weights}, {.seconds = 0, .tiles = false})
              .candidates.size() == by_rules.candidates().size());
  }
}

TEST_CASE("tune: another choice than that of the rules must be more than 2 % faster") {
  const auto chosen = [](std::vector<double> seconds) {
    std::vector<TunedCandidate> candidates;
    for (const double s : seconds) candidates.push_back({.path = {}, .seconds = s});
    return &detail::choose(candidates) - candidates.data();
  };
  CHECK(chosen({1}) == 0);
  CHECK(chosen({1, 2}) == 0);
  CHECK(chosen({1.019, 1, 1.01}) == 0);
  CHECK(chosen({1.021, 1.01, 1}) == 2);
  CHECK(chosen({5, 4, 1, 2}) == 2);
  // Median times do not count.
  std::vector<TunedCandidate> candidates(2);
  candidates[0] = {.path = {}, .seconds = 2, .median_seconds = 2};
  candidates[1] = {.path = {}, .seconds = 1, .median_seconds = 9};
  CHECK(&detail::choose(candidates) == &candidates[1]);
}

TEST_CASE("tune: what the profile and the plan have is what was chosen of the table") {
  for (const std::int64_t queries : {1, 20, 60, 200}) {
    const Shape shape{.batch = 1, .num_queries = queries, .num_keys = 600, .query_size = 16};
    const Tuned tuned = Planner::tune(DotAttention(), shape, {}, kQuick);
    std::vector<TunedCandidate> candidates = tuned.candidates;
    std::stable_partition(candidates.begin(), candidates.end(), [](const TunedCandidate& c) { return c.by_rules; });
    const TunedCandidate& chosen = detail::choose(candidates);
    const ProfileEntry& entry = tuned.profile.entries().front();
    CHECK(entry.path == chosen.path);
    CHECK(entry.tile_queries == chosen.tile_queries);
    CHECK(entry.tile_keys == chosen.tile_keys);
    CHECK(entry.pairs == chosen.pairs);
    CHECK(entry.microseconds == chosen.seconds * 1e6);
    CHECK(tuned.plan.path() == chosen.path);
  }
}

TEST_CASE(
    "tune: plain sums are measured beside pairs of terms, where the rules choose these and the caller lets them") {
  const auto num_plain = [](const Tuned& tuned) {
    return std::count_if(tuned.candidates.begin(), tuned.candidates.end(),
                         [](const TunedCandidate& candidate) { return candidate.pairs == Pairs::kNever; });
  };
  // A dot product's tiles, and a layer's projections.
  const Shape shape{.batch = 1, .num_queries = 200, .num_keys = 256, .query_size = 64};
  const LayerCase maps({.layer = Layer::kMultiHead, .num_queries = 3, .num_hiddens = 64, .num_heads = 4});
  const auto check = [&](const Attention& layer, const Shape& of, const std::string& path) {
    const PlanOptions options{.path = path};
    const bool pairs =
        layer.plan(of, options).explain() != layer.plan(of, {.path = path, .pairs = Pairs::kNever}).explain();
    const Tuned tuned = Planner::tune(layer, of, options, kQuick);
    CHECK(num_plain(tuned) == (pairs ? 1 : 0));
    CHECK(std::none_of(tuned.candidates.begin(), tuned.candidates.end(), [](const TunedCandidate& candidate) {
      return candidate.by_rules && candidate.pairs != Pairs::kWhereFaster;
    }));
    CHECK(num_plain(Planner::tune(layer, of, options, {.seconds = 0, .tiles = false})) == 0);
    const Tuned plainly = Planner::tune(layer, of, {.path = path, .pairs = Pairs::kNever}, kQuick);
    CHECK(num_plain(plainly) == static_cast<std::ptrdiff_t>(plainly.candidates.size()));
    const Tuned by_pairs = Planner::tune(layer, of, {.path = path, .pairs = Pairs::kAlways}, kQuick);
    CHECK(num_plain(by_pairs) == 0);
    return pairs;
  };
  const bool of_scores = check(DotAttention(), shape, "dot/fused");
  CHECK(of_scores ==
        (DotAttention().plan(shape, {.path = "dot/fused"}).explain().find("by pairs of terms") != std::string::npos));
  check(maps.attention, maps.shape, "dot/decode");
  // And plans say so where it depends on who else uses the core.
  const std::string said = DotAttention().plan(shape, {.path = "dot/fused"}).explain();
  CHECK((said.find("shares the core: Planner::tune measures both") != std::string::npos) ==
        (of_scores && this_cpu().is_zen5()));
  CHECK(DotAttention().plan(shape, {.path = "dot/fused", .pairs = Pairs::kAlways}).explain().find("shares the core") ==
        std::string::npos);
}

TEST_CASE("tune: options: a forced path restricts, forced tiles are an error, a profile is not looked at") {
  const DotAttention dot;
  const Shape shape{.batch = 1, .num_queries = 20, .num_keys = 200, .query_size = 8};
  const Tuned one = Planner::tune(dot, shape, {.path = "dot/materialised"}, kQuick);
  for (const TunedCandidate& candidate : one.candidates) CHECK(candidate.path == "dot/materialised");
  // Its tiles are those that were found, not the rules'.
  for (const std::string path : {"dot/fused", "dot/materialised"}) {
    for (const std::int64_t queries : {50, 90, 130, 200}) {
      const Shape large{.batch = 1, .num_queries = queries, .num_keys = 2000, .query_size = 8};
      const Tuned tuned = Planner::tune(dot, large, {.path = path}, kQuick);
      const ProfileEntry& entry = tuned.profile.entries().front();
      const Plan asked =
          dot.plan(large, {.path = path, .tile_queries = entry.tile_queries, .tile_keys = entry.tile_keys});
      CHECK(tuned.plan.workspace_bytes() == asked.workspace_bytes());
    }
  }
  CHECK(missing_parts(error_message([&] { Planner::tune(dot, shape, {.tile_keys = 128}, kQuick); }),
                      {"tile_keys is 128, expected 0"}) == "");
  CHECK(missing_parts(error_message([&] { Planner::tune(dot, shape, {.tile_queries = 6}, kQuick); }),
                      {"tile_queries is 6, expected 0"}) == "");
  CHECK(missing_parts(error_message([&] { Planner::tune(dot, {.batch = -1, .query_size = 8}, {}, kQuick); }),
                      {"batch"}) == "");
  const Tuned again = Planner::tune(dot, shape, {.profile = &one.profile}, kQuick);
  CHECK(again.candidates.size() >= one.candidates.size());
}

TEST_CASE("tune: options that one path alone follows leave the others out") {
  for (const Layer layer : {Layer::kAdditive, Layer::kMultiHeadAdditive}) {
    const LayerCase c({.layer = layer});
    for (const bool weights : {false, true}) {
      for (const bool counts : {true, false}) {
        const PlanOptions options{.attention_weights = weights,
                                  .score_tier = counts ? ScoreTier::kByRange : ScoreTier::kRational,
                                  .count_tiers = counts};
        const Tuned tuned = Planner::tune(c.attention, c.shape, options, kQuick);
        for (const TunedCandidate& candidate : tuned.candidates) CHECK(candidate.path.starts_with("additive/factored"));
        for (const std::string& path : tuned.plan.candidates()) CHECK(path.starts_with("additive/factored"));
      }
    }
  }
}

TEST_CASE("tune: lengths per query where queries are skipped, of which every run is given one per entry") {
  for (const Layer layer : kAllLayers) {
    const LayerCase c({.layer = layer});
    const PlanOptions options{.valid_lens = ValidLens::kPerQuery, .padding = Padding::kSkipQueries};
    const Tuned tuned = Planner::tune(c.attention, c.shape, options, {.seconds = 0, .tiles = false});
    CHECK(!tuned.candidates.empty());
    CHECK(Planner::measure(tuned.plan, kQuick) > 0);
  }
}

TEST_CASE("tune: keys that heads share, one head of them for all included") {
  for (const Layer layer : {Layer::kDotHeads, Layer::kGaussianHeads, Layer::kMultiHead}) {
    for (const std::int64_t kv_heads : {1, 2, 4}) {
      for (const std::int64_t queries : {1, 3, 30}) {
        INFO(layer_name(layer), ", ", kv_heads, " heads of keys, ", queries, " queries");
        const LayerCase c(
            {.layer = layer, .num_queries = queries, .num_hiddens = 16, .num_heads = 4, .num_kv_heads = kv_heads});
        for (const bool weights : {false, true}) {
          const PlanOptions options{.attention_weights = weights};
          const Tuned tuned = Planner::tune(c.attention, c.shape, options, {.seconds = 0, .tiles = false});
          CHECK(tuned.candidates.size() == tuned.plan.candidates().size());
          CHECK(Planner::measure(tuned.plan, kQuick) > 0);
        }
      }
    }
  }
}

TEST_CASE("tune: threads, an executor of the caller's, prepared keys, lengths, masks and empty problems") {
  const LayerCase c({.layer = Layer::kDotHeads, .num_queries = 5, .num_keys = 70});
  ThreadPool pool(2);
  for (Executor* executor : {static_cast<Executor*>(nullptr), static_cast<Executor*>(&pool)}) {
    const TuneOptions quick{.seconds = 0, .executor = executor};
    CHECK(!Planner::tune(c.attention, c.shape, {.threads = 2}, quick).candidates.empty());
    CHECK(Planner::measure(c.attention.plan(c.shape, {.threads = 2}), quick) > 0);
  }
  for (const ValidLens lens : {ValidLens::kAny, ValidLens::kNone, ValidLens::kPerBatch, ValidLens::kPerQuery}) {
    CHECK(Planner::measure(c.attention.plan(c.shape, {.valid_lens = lens, .prepared_keys = true}), kQuick) > 0);
    CHECK(Planner::measure(c.attention.plan(c.shape, {.valid_lens = lens, .causal = Causal::kTopLeft}), kQuick) > 0);
  }
  Shape empty = c.shape;
  empty.batch = 0;
  CHECK(Planner::tune(c.attention, empty, {}, kQuick).plan.shape().batch == 0);
  empty = c.shape;
  empty.num_keys = 0;
  CHECK(Planner::tune(c.attention, empty, {.valid_lens = ValidLens::kPerBatch}, kQuick).plan.shape().num_keys == 0);
}

namespace {

struct CountingExecutor final : Executor {
  int concurrency() const noexcept override { return 2; }
  void parallel_for(std::size_t num_tasks, TaskRef task) override {
    ++loops;
    for (std::size_t i = 0; i < num_tasks; ++i) task(i);
  }
  int loops = 0;
};

}  // namespace

TEST_CASE("tune: a plan is run four times at least and then as time allows, and a profile is not looked at") {
  const DotAttention dot;
  const Shape shape{.batch = 4, .num_queries = 60, .num_keys = 2000, .query_size = 64, .num_heads = 4};
  CountingExecutor executor;
  Planner::measure(dot.plan(shape, {.threads = 2, .path = "dot/fused"}), {.seconds = 0, .executor = &executor});
  CHECK(executor.loops >= 4);
  CHECK(executor.loops < 50);  // without time, five runs of some milliseconds and of a few loops each
  const std::string by_rules(dot.plan(shape).path());
  REQUIRE(by_rules != "dot/materialised");
  const Tuned one = Planner::tune(dot, shape, {.path = "dot/materialised"}, {.seconds = 0, .tiles = false});
  const Tuned again = Planner::tune(dot, shape, {.profile = &one.profile}, {.seconds = 0, .tiles = false});
  std::size_t num_by_rules = 0;
  for (const TunedCandidate& candidate : again.candidates) {
    if (!candidate.by_rules) continue;
    ++num_by_rules;
    CHECK(candidate.path == by_rules);
  }
  CHECK(num_by_rules == 1);
}

}  // namespace attend::tests
