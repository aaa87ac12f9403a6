// The tiers of an additive score: forced ones are right where the ranges allow them, and runs count what they used.
// The projections are the identity, so that the pre-activations are the inputs.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "attend/attend.h"
#include "engine/kernels/additive_score.h"
#include "engine/kernels/pack.h"
#include "engine/plan/score_tier_rules.h"
#include "tests/support/compare.h"
#include "tests/support/executors.h"
#include "tests/support/layer_cases.h"
#include "tests/support/prepared.h"
#include "tests/support/random.h"
#include "tests/support/run.h"

namespace attend::tests {
namespace {

constexpr int kRational = static_cast<int>(ScoreTier::kRational);
static_assert(kernels::kNumScoreTiers == kRational + 1);

Tensor identity(std::int64_t size) {
  Tensor tensor{{size, size}, std::vector<float>(static_cast<std::size_t>(size * size))};
  for (std::int64_t i = 0; i < size; ++i) tensor.data[static_cast<std::size_t>(i * size + i)] = 1;
  return tensor;
}

// Additive attention of one head or of several, whose parameters are the identity but for w_v.
struct Identity {
  std::int64_t heads, hidden;  // per head
  Tensor eye = identity(heads * hidden);
  Tensor w_v = Random(301).normal({heads, hidden}, 1 / std::sqrt(static_cast<float>(hidden)));

  AdditiveParameters additive() const { return {.W_q = eye.view(), .W_k = eye.view(), .w_v = w_v.view()}; }
  MultiHeadOptions options() const { return {.num_heads = heads, .scoring = Scoring::kAdditive, .scale = {}}; }
  MultiHeadParameters multi_head() const {
    return {.W_q = eye.view(), .W_k = eye.view(), .W_v = eye.view(), .W_o = eye.view(), .w_v = w_v.view()};
  }
  // The first tier that max|a| + max|b| is within the range of, from `first` on.
  int tier(std::int64_t h, float sum, int first) const {
    const auto size = static_cast<std::size_t>(hidden);
    std::vector<float> folded(kernels::folded_w_v_size(size));
    kernels::fold_w_v(w_v.data.data() + static_cast<std::size_t>(h) * size, size, folded.data());
    const float* ranges = folded.data() + folded.size() - kRational;
    int tier = first;
    while (tier < kRational && !(sum <= ranges[tier])) ++tier;
    return tier;
  }

  Attention layer() const {
    return heads == 1 ? static_cast<Attention>(AdditiveAttention(additive()))
                      : static_cast<Attention>(MultiHeadAttention(options(), multi_head()));
  }
  reference::Result truth(const Inputs& in) const {
    return heads == 1 ? reference::additive(additive(), in) : reference::multi_head(options(), multi_head(), in);
  }
};

Shape shape_of(const Tensor& queries, const Tensor& keys) {
  return {.batch = queries.sizes[0], .num_queries = queries.sizes[1], .num_keys = keys.sizes[1]};
}

// Calls check(plan, with_weights) for every target and path that has tiers.
template <class Check>
void for_each_factored_plan(const Attention& attention, const Shape& shape, PlanOptions options, Check&& check) {
  for_each_target([&](const Target& target) {
    options.target = target;
    for (const char* path : {"additive/factored", "additive/factored-materialised"}) {
      options.path = path;
      options.attention_weights = options.path != "additive/factored";
      check(attention.plan(shape, options), options.attention_weights);
    }
  });
}

std::uint64_t& count_of(TierCounts& counts, int tier) {
  std::uint64_t* const all[] = {&counts.eight, &counts.four, &counts.three, &counts.two, &counts.one, &counts.rational};
  return *all[tier];
}
std::uint64_t sum_of(const TierCounts& counts) {
  return counts.eight + counts.four + counts.three + counts.two + counts.one + counts.rational;
}
std::string text_of(const TierCounts& counts) {
  return std::to_string(counts.eight) + " by eight, " + std::to_string(counts.four) + " by four, " +
         std::to_string(counts.three) + " by three, " + std::to_string(counts.two) + " by two, " +
         std::to_string(counts.one) + " by one term per division, " + std::to_string(counts.rational) +
         " by rational tanh";
}

// A run into memory of its own that says what its workspace has counted.
struct Counted {
  RunResult result;
  TierCounts counts;
  std::string explained;
};
Counted run_counted(const Plan& plan, const Inputs& in, Workspace& workspace, bool with_weights,
                    Executor* executor = nullptr) {
  Counted run{{sentinels(output_sizes(plan, in)), {}}, {}, {}};
  Outputs out{.output = TensorView<float>(run.result.output.data(), output_sizes(plan, in))};
  if (with_weights) {
    run.result.attention_weights = sentinels(weights_sizes(plan, in));
    out.attention_weights = TensorView<float>(run.result.attention_weights.data(), weights_sizes(plan, in));
  }
  executor != nullptr ? plan.run(in, out, workspace, *executor) : plan.run(in, out, workspace);
  run.counts = plan.tier_counts(workspace);
  run.explained = plan.explain(workspace);
  return run;
}

// Queries and keys of every range, beside the lengths that decide who sees what. All numbers are far from the borders.
struct Mixed {
  Identity layer;
  Tensor queries, keys;
  LengthsTensor lens;
  std::int64_t panel;
  int first_tier;  // of this CPU

  static constexpr float kSmall = 1;    // two of them: the fastest tier that the weights allow
  static constexpr float kMiddle = 31;  // with a small one: one term per division
  static constexpr float kLarge = 150;  // rational with anything

  Mixed(const Target& target, std::int64_t heads, std::int64_t batch, std::int64_t num_queries, std::int64_t panels)
      : layer{heads, 12 / heads},
        panel(static_cast<std::int64_t>(kernels::pack_kernels(target.id()).panel_width)),
        first_tier(static_cast<int>(
            detail::first_score_tier(kernels::additive_score_kernels(target.id()), attend::this_cpu()))) {
    Random random(302);
    const std::int64_t num_keys = panels * panel + 3;
    queries = random.uniform({batch, num_queries, 12}, -kSmall, kSmall);
    keys = random.uniform({batch, num_keys, 12}, -kSmall, kSmall);
    lens = random.lengths({batch, num_queries}, 0, num_keys);
    for (std::int64_t b = 0; b < batch; ++b) {
      // Panels 0, 3, ... stay small. The large key is the last of its panel: shorter rows do not meet it.
      for (std::int64_t p = 1; p < panels; p += 3) key(b, p * panel + panel / 2, 5) = -kMiddle;
      for (std::int64_t p = 2; p < panels; p += 3) key(b, p * panel + panel - 1, 1) = kLarge;
      query(b, 1 % num_queries, 11) = kMiddle;
      query(b, 5 % num_queries, 0) = -kLarge;
      lens.data[static_cast<std::size_t>(b * num_queries)] = static_cast<std::int32_t>(num_keys);
      lens.data[static_cast<std::size_t>(b * num_queries + 2 % num_queries)] =
          static_cast<std::int32_t>(std::min(num_keys, 3 * panel - 1));  // all of panel 2 but its large key
      lens.data[static_cast<std::size_t>(b * num_queries + 3 % num_queries)] = b % 2 == 0 ? 0 : 1;
    }
  }
  float& query(std::int64_t b, std::int64_t m, std::int64_t u) {
    return queries.data[static_cast<std::size_t>((b * queries.sizes[1] + m) * 12 + u)];
  }
  float& key(std::int64_t b, std::int64_t n, std::int64_t u) {
    return keys.data[static_cast<std::size_t>((b * keys.sizes[1] + n) * 12 + u)];
  }
  Inputs inputs() const { return {.queries = queries.view(), .keys = keys.view(), .valid_lens = lens.view()}; }

  // Query by query and panel by panel, as plan.h says.
  TierCounts expected() {
    TierCounts counts;
    const auto largest = [&](auto&& at, std::int64_t h) {
      float max = 0;
      for (std::int64_t u = h * layer.hidden; u < (h + 1) * layer.hidden; ++u) max = std::max(max, std::abs(at(u)));
      return max;
    };
    for (std::int64_t row = 0; row < queries.sizes[0] * queries.sizes[1]; ++row) {
      const std::int64_t b = row / queries.sizes[1], m = row % queries.sizes[1];
      const std::int64_t len = lens.data[static_cast<std::size_t>(row)];
      for (std::int64_t h = 0; h < layer.heads; ++h) {
        const float query_max = largest([&](std::int64_t u) { return query(b, m, u); }, h);
        for (std::int64_t first = 0; first < len; first += panel) {
          float key_max = 0;
          for (std::int64_t n = first; n < std::min(first + panel, len); ++n) {
            key_max = std::max(key_max, largest([&](std::int64_t u) { return key(b, n, u); }, h));
          }
          ++count_of(counts, layer.tier(h, query_max + key_max, first_tier));
        }
      }
    }
    return counts;
  }
};

}  // namespace

TEST_CASE("tiers: each is within the bound where the ranges allow it") {
  const struct {
    ScoreTier tier;
    float magnitude;
  } kTiers[] = {{ScoreTier::kEight, 4.5f},    {ScoreTier::kFour, 1.0f},      {ScoreTier::kFour, 6.5f},
                {ScoreTier::kThree, 1.0f},    {ScoreTier::kThree, 8.5f},     {ScoreTier::kTwo, 1.0f},
                {ScoreTier::kTwo, 10.5f},     {ScoreTier::kOne, 1.0f},       {ScoreTier::kOne, 19.5f},
                {ScoreTier::kRational, 1.0f}, {ScoreTier::kRational, 40.0f}, {ScoreTier::kRational, 170.0f}};
  for (const std::int64_t heads : {1, 3}) {
    for (const auto& each : kTiers) {
      const ScoreTier tier = each.tier;
      const float magnitude = each.magnitude;
      CAPTURE(static_cast<int>(tier));
      CAPTURE(magnitude);
      const Identity layer{heads, heads == 1 ? 81 : 35};
      Random random(303);
      const Tensor queries = random.uniform({2, 19, heads * layer.hidden}, -magnitude, magnitude);
      const Tensor keys = random.spread_out({2, 75, heads * layer.hidden}, magnitude);
      const Tensor values = random.normal({2, 75, heads * layer.hidden});
      const Inputs in{.queries = queries.view(), .keys = keys.view(), .values = values.view()};
      const reference::Result truth = layer.truth(in);
      const Bound bound = contract_bound(truth, 4e-7 * max_row_sum(layer.w_v));
      PlanOptions options;
      options.score_tier = tier;
      options.count_tiers = true;
      for_each_factored_plan(layer.layer(), shape_of(queries, keys), options, [&](const Plan& plan, bool with_weights) {
        Workspace workspace(plan);
        poison(workspace);
        const Counted run = run_counted(plan, in, workspace, with_weights);
        check_within(run.result.output, run.result.attention_weights, truth, bound);
        TierCounts counts = run.counts;
        CHECK(sum_of(counts) > 0);
        CHECK(count_of(counts, static_cast<int>(tier)) == sum_of(counts));
      });
    }
  }
}

TEST_CASE("tiers: a run counts each query and panel that it sees by what their ranges ask for") {
  for_each_target([&](const Target& target) {
    for (const std::int64_t heads : {1, 3}) {
      for (const std::int64_t num_queries : {7, 40}) {
        Mixed mixed(target, heads, 2, num_queries, 6);
        const TierCounts expected = mixed.expected();
        REQUIRE(expected.eight + expected.four + expected.three + expected.two > 0);
        REQUIRE(expected.one > 0);
        REQUIRE(expected.rational > 0);
        const Attention layer = mixed.layer.layer();
        const reference::Result truth = mixed.layer.truth(mixed.inputs());
        const Bound bound = contract_bound(truth, 4e-7 * max_row_sum(mixed.layer.w_v));
        for (const bool weights : {false, true}) {
          const Plan plan = layer.plan(shape_of(mixed.queries, mixed.keys),
                                       {.target = target, .attention_weights = weights, .count_tiers = true});
          Workspace workspace(plan);
          poison(workspace);
          const Counted run = run_counted(plan, mixed.inputs(), workspace, weights);
          CHECK(text_of(run.counts) == text_of(expected));
          CHECK(missing_parts(run.explained, {plan.explain(), text_of(expected), "tiers"}) == "");
          check_within(run.result.output, run.result.attention_weights, truth, bound);

          // The next run starts from 0: on prepared keys, then with nothing to see.
          PoisonedKeys prepared(plan);
          prepare(plan, key_inputs(mixed.inputs()), prepared.keys);
          const Counted again = run_counted(plan, on_prepared(mixed.inputs(), prepared.keys), workspace, weights);
          CHECK(text_of(again.counts) == text_of(expected));
          CHECK(same_bits(run.result, again.result));
          Inputs none = mixed.inputs();
          const std::vector<std::int32_t> zeros(static_cast<std::size_t>(2 * num_queries), 0);
          none.valid_lens = TensorView<const std::int32_t>(zeros.data(), {2, num_queries});
          CHECK(text_of(run_counted(plan, none, workspace, weights).counts) == text_of({}));
          // Counting changes nothing else.
          const Plan silent =
              layer.plan(shape_of(mixed.queries, mixed.keys), {.target = target, .attention_weights = weights});
          CHECK(same_bits(run.result, run_plan(silent, mixed.inputs(), weights)));
        }
      }
    }
  });
}

TEST_CASE("tiers: the counts of several threads add up, chunks of keys included") {
  EagerPool pool(3);
  ReverseExecutor reverse(5);
  for_each_target([&](const Target& target) {
    for (const std::int64_t num_queries : {6, 40}) {
      const auto panel = static_cast<std::int64_t>(kernels::pack_kernels(target.id()).panel_width);
      Mixed mixed(target, 3, 3, num_queries, 1100 / panel + 1);
      const TierCounts expected = mixed.expected();
      for (const int threads : {1, 3, 5}) {
        const Plan plan = mixed.layer.layer().plan(shape_of(mixed.queries, mixed.keys),
                                                   {.threads = threads, .target = target, .count_tiers = true});
        Workspace workspace(plan);
        for (Executor* executor : std::initializer_list<Executor*>{&pool, &reverse, nullptr}) {
          const Counted run = run_counted(plan, mixed.inputs(), workspace, false, executor);
          CHECK(text_of(run.counts) == text_of(expected));
        }
      }
    }
  });
}

TEST_CASE("contract 10: tiers are counted and forced on path additive/factored alone") {
  const LayerCase additive({.layer = Layer::kAdditive});
  for (const Layer layer : kAllLayers) {
    const LayerCase c({.layer = layer});
    const bool is_additive = layer == Layer::kAdditive || layer == Layer::kMultiHeadAdditive;
    PlanOptions counting, forcing;
    counting.count_tiers = true;
    forcing.score_tier = ScoreTier::kOne;
    if (is_additive) {
      CHECK(error_message([&] { c.attention.plan(c.shape, counting); }) == "");
      CHECK(error_message([&] { c.attention.plan(c.shape, forcing); }) == "");
      counting.path = forcing.path = "additive/rational";
    }
    const std::string path(is_additive ? "additive/rational" : c.attention.plan(c.shape).path());
    CHECK(missing_parts(error_message([&] { c.attention.plan(c.shape, counting); }),
                        {"count_tiers", "additive/factored", path}) == "");
    CHECK(missing_parts(error_message([&] { c.attention.plan(c.shape, forcing); }),
                        {"score_tier", "additive/factored", path}) == "");
    const Plan plan = c.attention.plan(c.shape);
    Workspace workspace(plan);
    const std::vector<std::string> parts = {"count_tiers", "not set", "PlanOptions::count_tiers"};
    CHECK(missing_parts(error_message([&] { plan.tier_counts(workspace); }), parts) == "");
    CHECK(missing_parts(error_message([&] { plan.explain(workspace); }), parts) == "");
  }
  const Plan counting = additive.attention.plan(additive.shape, {.count_tiers = true});
  Workspace small(counting.workspace_bytes() - 1);
  const std::vector<std::string> sizes = {"workspace", std::to_string(counting.workspace_bytes() - 1),
                                          std::to_string(counting.workspace_bytes())};
  CHECK(missing_parts(error_message([&] { counting.tier_counts(small); }), sizes) == "");
}

}  // namespace attend::tests
