// dot/lanes with more rows than are lanes at a time: group by group. The truth, and the bits of a plan for one group.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "attend/attend.h"
#include "engine/kernels/query_lanes.h"
#include "tests/support/compare.h"
#include "tests/support/for_each_target.h"
#include "tests/support/layer_cases.h"
#include "tests/support/masks.h"
#include "tests/support/prepared.h"
#include "tests/support/random.h"
#include "tests/support/ready.h"
#include "tests/support/run.h"

namespace attend::tests {
namespace {

constexpr const char* kPath = "dot/lanes";

std::vector<float> normal_numbers(Random& random, std::int64_t count) {
  std::vector<float> all(static_cast<std::size_t>(count));
  for (float& x : all) x = random.normal();
  return all;
}

}  // namespace

TEST_CASE("lanes in groups: the truth for any mask, group of heads and padding, alone, prepared and on any threads") {
  // Groups of queries of a head, of which 1 or 3 share keys; groups of some of 8, 20 and 90 heads.
  for (const auto& [num_heads, num_kv_heads, num_queries] :
       std::vector<std::array<std::int64_t, 3>>{{2, 2, 300}, {6, 2, 131}, {8, 1, 33}, {20, 1, 15}, {90, 1, 3}}) {
    for (const Lens lens : kAllLens) {
      for (const Padding padding : {Padding::kCompute, Padding::kSkipQueries}) {
        if (padding == Padding::kSkipQueries && lens != Lens::kPerBatch) continue;
        const LayerCase c({.layer = Layer::kDotHeads,
                           .batch = 3,
                           .num_queries = num_queries,
                           .num_keys = 77,
                           .size = 12,
                           .value_size = 70,
                           .num_heads = num_heads,
                           .num_kv_heads = num_kv_heads,
                           .padding = padding,
                           .lens = lens,
                           .seed = 611});
        const reference::Result truth = c.truth();
        for_each_target([&](const Target& target) {
          for (const bool with_weights : {false, true}) {
            PlanOptions options{.target = target, .attention_weights = with_weights, .path = kPath};
            options.padding = padding;
            const Plan plan = c.attention.plan(c.shape, options);
            REQUIRE(plan.explain().find("in groups of ") != std::string::npos);
            const RunResult result = run_plan(plan, c.inputs(), with_weights);
            check_within(result.output, result.attention_weights, truth, c.bound(truth));
            check_same_alone(c, plan, with_weights);
            check_same_for_threads(c, plan, with_weights);
            // Runs on prepared keys without lengths skip none.
            if (padding == Padding::kCompute) check_same_prepared(c, plan, with_weights);
          }
        });
      }
    }
  }
}

TEST_CASE("lanes in groups: a row has the bits that it has among a few") {
  constexpr std::int64_t kHeads = 2, kQueries = 290, kFew = 7, kKeys = 40, kSize = 20, kValueSize = 33;
  Random random(83);
  const std::vector<float> queries = normal_numbers(random, kHeads * kQueries * kSize);
  const std::vector<float> keys = normal_numbers(random, kHeads * kKeys * kSize);
  const std::vector<float> values = normal_numbers(random, kHeads * kKeys * kValueSize);
  std::vector<std::int32_t> lens;
  for (std::int64_t m = 0; m < kQueries; ++m) lens.push_back(static_cast<std::int32_t>(m * 7 % (kKeys + 1)));
  const auto run = [&](const Target& target, std::int64_t first, std::int64_t count) {
    const Plan plan = DotAttention().plan(
        {.num_queries = count, .num_keys = kKeys, .query_size = kSize, .value_size = kValueSize, .num_heads = kHeads},
        {.target = target, .attention_weights = true, .path = kPath});
    const std::vector<std::int64_t> sizes = {1, kHeads, count, kSize}, strides = {0, kQueries * kSize, kSize, 1};
    return run_plan(plan,
                    {.queries = TensorView<const float>(queries.data() + first * kSize, sizes, strides),
                     .keys = {keys.data(), {1, kHeads, kKeys, kSize}},
                     .values = {values.data(), {1, kHeads, kKeys, kValueSize}},
                     .valid_lens = {lens.data() + first, {1, count}}},
                    true);
  };
  for_each_target([&](const Target& target) {
    const RunResult all = run(target, 0, kQueries);
    for (const std::int64_t first : {0, 28, 61, 100, 283}) {
      const RunResult few = run(target, first, kFew);
      for (std::int64_t h = 0; h < kHeads; ++h) {
        const auto same = [&](const std::vector<float>& of_all, const std::vector<float>& of_few, std::int64_t size) {
          return same_bits(of_all.data() + (h * kQueries + first) * size, of_few.data() + h * kFew * size,
                           static_cast<std::size_t>(kFew * size));
        };
        CAPTURE(first);
        CAPTURE(h);
        CHECK(same(all.output, few.output, kValueSize));
        CHECK(same(all.attention_weights, few.attention_weights, kKeys));
      }
    }
  });
}

TEST_CASE("lanes in groups: threads share the groups of a head, and runs with fewer queries have fewer") {
  const LayerCase c({.layer = Layer::kDot,
                     .batch = 1,
                     .num_queries = 500,
                     .num_keys = 9,
                     .size = 8,
                     .value_size = 8,
                     .lens = Lens::kNone,
                     .seed = 612});
  for_each_target([&](const Target& target) {
    const Plan alone = c.attention.plan(c.shape, {.target = target, .path = kPath});
    const Plan shared = c.attention.plan(c.shape, {.threads = 4, .target = target, .path = kPath});
    CHECK(alone.explain().find("1 item for 1 thread") != std::string::npos);
    CHECK(shared.explain().find("ranges of queries per key-value head") != std::string::npos);
    const RunResult expected = run_plan(alone, c.inputs());
    for (const std::int64_t count : {1, 30, 64, 65, 200, 499}) {
      Inputs few = c.inputs();
      few.queries = TensorView<const float>(few.queries.data(), {1, count, 8});
      for (const Plan* plan : {&alone, &shared}) {
        const RunResult result = run_plan(*plan, few);
        REQUIRE(result.output.size() == static_cast<std::size_t>(count * 8));
        CHECK(same_bits(result.output.data(), expected.output.data(), result.output.size()));
      }
    }
  });
}

TEST_CASE("lanes in groups: threads cut what would be one group, against any number of keys, for the same bits") {
  struct Sizes {
    std::int64_t batch, num_heads, num_kv_heads, num_queries, num_keys;
  };
  // Three heads for two threads; heads that share one, of which more than one fills a vector, in chunks of keys too.
  for (const Sizes& s : {Sizes{1, 3, 3, 40, 300}, Sizes{1, 3, 1, 16, 2100}, Sizes{1, 8, 1, 7, 500},
                         Sizes{1, 6, 2, 11, 1100}, Sizes{1, 5, 1, 12, 300}}) {
    for (const Lens lens : {Lens::kNone, Lens::kPerQuery}) {
      const LayerCase c({.layer = Layer::kDotHeads,
                         .batch = s.batch,
                         .num_queries = s.num_queries,
                         .num_keys = s.num_keys,
                         .size = 12,
                         .value_size = 20,
                         .num_heads = s.num_heads,
                         .num_kv_heads = s.num_kv_heads,
                         .lens = lens,
                         .seed = 613});
      for_each_target([&](const Target& target) {
        for (const bool with_weights : {false, true}) {
          CAPTURE(s.num_keys);
          CAPTURE(with_weights);
          const PlanOptions options{.target = target, .attention_weights = with_weights, .path = kPath};
          check_same_for_threads(c, c.attention.plan(c.shape, options), with_weights);
        }
      });
    }
  }
}

TEST_CASE("lanes in groups: whole vectors of one head's queries, or heads that fill vectors; few rows stay together") {
  for_each_target([&](const Target& target) {
    const auto lanes = static_cast<std::int64_t>(kernels::query_lanes_kernels(target.id()).lanes);
    const auto tiles = [&](std::int64_t heads, std::int64_t queries, std::int64_t keys) {
      const Shape shape{
          .num_queries = queries, .num_keys = keys, .query_size = 8, .num_heads = heads, .num_kv_heads = 1};
      const std::string text = DotAttention().plan(shape, {.target = target, .path = kPath}).explain();
      const std::size_t at = text.find("  tiles");
      return text.substr(at, text.find('\n', at) - at);
    };
    const auto is_whole = [&](const std::string& line) { return line.find("in groups") == std::string::npos; };
    const std::int64_t rows = std::max<std::int64_t>(32, 4 * lanes), most = std::max<std::int64_t>(64, 16 * lanes);
    CHECK(is_whole(tiles(1, rows, 256)));
    CHECK(tiles(1, rows + 1, 256)
              .ends_with("in groups of " + std::to_string((rows / 2 + lanes) / lanes * lanes) + " queries of a head"));
    CHECK(is_whole(tiles(1, rows + 1, 257)));
    CHECK_THROWS_AS(tiles(1, most + 1, 257), Error);
    CHECK(is_whole(tiles(most / 8, 8, 77)));
    CHECK(tiles(most / 8 + 1, 8, 77).ends_with("in groups of " + std::to_string(rows / 8) + " heads"));
    if (lanes == 16) CHECK(tiles(8, 33, 77).ends_with("in groups of 4 heads"));
    if (lanes == 8) CHECK(tiles(20, 9, 77).ends_with("in groups of 4 heads"));
  });
}

}  // namespace attend::tests
