// Queries with lengths of their own are met by these, the most keys first: every query once, neighbours together, and
// no bit of any row depends on it.
#include "engine/run/query_order.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "attend/attend.h"
#include "tests/support/compare.h"
#include "tests/support/for_each_target.h"
#include "tests/support/layer_cases.h"
#include "tests/support/random.h"
#include "tests/support/run.h"

namespace attend::tests {
namespace {

using detail::QueryOrder;

struct PerQuery {
  std::vector<std::int32_t> data;
  std::int64_t batch, num_queries;
  TensorView<const std::int32_t> view() const { return {data.data(), {batch, num_queries}}; }
};

QueryOrder order_of(const PerQuery& lens, std::int64_t num_keys, std::vector<std::int32_t>& memory,
                    Causal causal = Causal::kNone) {
  memory.assign(lens.data.size(), -1);
  const VisibleKeys visible(lens.view(), lens.num_queries, num_keys, causal);
  return {visible, lens.batch, lens.num_queries, num_keys, memory.data()};
}

struct Stretch {
  std::int64_t query;
  std::size_t row, count;
  bool operator==(const Stretch&) const = default;
};
std::vector<Stretch> stretches_of(const QueryOrder& order, std::int64_t b, std::int64_t first, std::int64_t last) {
  std::vector<Stretch> stretches;
  order.for_each_stretch(b, first, last, [&](std::int64_t query, std::size_t row, std::size_t count) {
    stretches.push_back({query, row, count});
  });
  return stretches;
}

// The places of rows of rising lengths.
std::vector<std::size_t> by_length(const LengthsTensor& lens, std::size_t num_queries) {
  std::vector<std::size_t> rows(num_queries);
  for (std::size_t m = 0; m < num_queries; ++m) rows[m] = m;
  std::stable_sort(rows.begin(), rows.end(), [&](std::size_t a, std::size_t b) { return lens.data[a] < lens.data[b]; });
  return rows;
}

}  // namespace

TEST_CASE("query order: the most keys first, equal lengths as they lie, each query once") {
  std::vector<std::int32_t> memory;
  const QueryOrder order = order_of({{5, 0, 9, 5, 6, 9, 1, 1, 2, 3, 4, 5, 6, 7}, 2, 7}, 9, memory);
  CHECK(order.is_changed());
  CHECK(memory == std::vector<std::int32_t>{2, 5, 4, 0, 3, 6, 1, 6, 5, 4, 3, 2, 1, 0});
  for (std::int64_t place = 0; place < 7; ++place) CHECK(order.at(1, place) == 6 - place);
  CHECK(stretches_of(order, 0, 0, 7) ==
        std::vector<Stretch>{{2, 0, 1}, {5, 1, 1}, {4, 2, 1}, {0, 3, 1}, {3, 4, 1}, {6, 5, 1}, {1, 6, 1}});
  const QueryOrder blocks = order_of({{1, 1, 1, 8, 8, 8, 8, 2}, 1, 8}, 9, memory);
  CHECK(stretches_of(blocks, 0, 1, 7) == std::vector<Stretch>{{4, 0, 4}, {0, 4, 2}});
  CHECK(stretches_of(blocks, 0, 4, 4).empty());
}

TEST_CASE("query order: a long row of any lengths is sorted to within a 256th of the keys") {
  constexpr std::int64_t kQueries = 3000, kKeys = 100000;
  Random random(3);
  PerQuery lens{{}, 1, kQueries};
  for (std::int64_t m = 0; m < kQueries; ++m)
    lens.data.push_back(static_cast<std::int32_t>(random.uniform(0, 1) * kKeys));
  lens.data[7] = kKeys;
  std::vector<std::int32_t> memory;
  const QueryOrder order = order_of(lens, kKeys, memory);
  std::vector<std::int32_t> all = memory;
  std::sort(all.begin(), all.end());
  for (std::int64_t m = 0; m < kQueries; ++m) REQUIRE(all[static_cast<std::size_t>(m)] == m);
  for (std::int64_t place = 1; place < kQueries; ++place) {
    const auto len = [&](std::int64_t at) { return lens.data[static_cast<std::size_t>(order.at(0, at))]; };
    REQUIRE(len(place) <= len(place - 1) + kKeys / 255 + 1);
  }
}

TEST_CASE("query order: as they lie where lengths never fall, with causal masks, and without queries or keys") {
  std::vector<std::int32_t> memory;
  const auto stays = [&](const PerQuery& lens, std::int64_t num_keys, Causal causal) {
    const QueryOrder order = order_of(lens, num_keys, memory, causal);
    return !order.is_changed() && order.at(0, 2) == 2 &&
           stretches_of(order, 0, 1, 3) == std::vector<Stretch>{{1, 0, 2}};
  };
  CHECK(stays({{0, 3, 3, 4, 7, 7, 7, 7}, 2, 4}, 9, Causal::kNone));
  CHECK(stays({{9, 8, 7, 6}, 1, 4}, 9, Causal::kTopLeft));  // fewer than any length
  CHECK(!stays({{0, 3, 3, 4, 7, 7, 6, 7}, 2, 4}, 9, Causal::kNone));
  CHECK(!stays({{9, 8, 7, 6}, 1, 4}, 9, Causal::kBottomRight));
  CHECK(stays({{0, 0, 0, 0}, 1, 4}, 0, Causal::kNone));
  CHECK(!order_of({{}, 0, 4}, 9, memory).is_changed());
  CHECK(!order_of({{}, 2, 0}, 9, memory).is_changed());
}

TEST_CASE("query order: plans say that they take it, where runs may give lengths per query and tiles are packed") {
  const auto says = [](const Attention& layer, const PlanOptions& options, std::int64_t queries = 200) {
    const Shape shape{.num_queries = queries, .num_keys = 300, .query_size = 64, .key_size = 64};
    return layer.plan(shape, options).explain().find("\n  order ") != std::string::npos;
  };
  const DotAttention dot;
  CHECK(says(dot, {.path = "dot/fused"}));
  CHECK(says(dot, {.valid_lens = ValidLens::kPerQuery, .path = "dot/fused"}));
  CHECK(says(GaussianAttention(), {.path = "dot/fused"}));
  CHECK(!says(dot, {.valid_lens = ValidLens::kNone, .path = "dot/fused"}));
  CHECK(!says(dot, {.valid_lens = ValidLens::kPerBatch, .path = "dot/fused"}));
  CHECK(says(dot, {.attention_weights = true, .path = "dot/fused"}));
  CHECK(says(dot, {.path = "dot/materialised"}));
  CHECK(!says(dot, {.path = "dot/lanes"}, 8));
  CHECK(!says(dot, {.path = "dot/decode"}, 1));
}

// Rows of rising lengths are met as they lie: the same rows in another order have to have the same bits, on every path,
// with weights and without, on one thread and on several.
TEST_CASE("query order: every row has the bits that it has among rows of rising lengths") {
  for (const Layer layer : {Layer::kDot, Layer::kDotHeads, Layer::kGaussian, Layer::kMultiHead, Layer::kAdditive,
                            Layer::kMultiHeadAdditive}) {
    CaseSpec spec{.layer = layer,
                  .batch = 1,
                  .num_queries = 130,
                  .num_keys = 300,
                  .size = 32,
                  .value_size = 35,
                  .num_hiddens = 48,
                  .lens = Lens::kPerQuery,
                  .seed = 341};
    LayerCase c(spec);
    c.lens.data[4] = c.lens.data[99] = 0;
    const auto queries = static_cast<std::size_t>(spec.num_queries);
    const std::vector<std::size_t> rows = by_length(c.lens, queries);
    LayerCase rising = c;
    const auto moved = [&](const std::vector<float>& from, std::int64_t heads) {
      const std::size_t size = from.size() / static_cast<std::size_t>(heads) / queries;
      std::vector<float> to(from.size());
      for (std::size_t h = 0; h < static_cast<std::size_t>(heads); ++h) {
        for (std::size_t m = 0; m < queries; ++m) {
          std::copy_n(from.data() + (h * queries + rows[m]) * size, size, to.data() + (h * queries + m) * size);
        }
      }
      return to;
    };
    rising.queries.data = moved(c.queries.data, c.view_heads());
    for (std::size_t m = 0; m < queries; ++m) rising.lens.data[m] = c.lens.data[rows[m]];
    const reference::Result truth = c.truth();
    const auto check = [&](const Plan& plan, bool with_weights, PlanOptions options) {
      const RunResult result = run_plan(plan, c.inputs(), with_weights);
      check_within(result.output, result.attention_weights, truth, c.bound(truth));
      const RunResult by_rising = run_plan(plan, rising.inputs(), with_weights);
      CHECK(same_bits(moved(result.output, c.view_heads()), by_rising.output));
      if (with_weights) {
        CHECK(same_bits(moved(result.attention_weights, c.weight_heads()), by_rising.attention_weights));
      }
      options.target = Target::from_name(plan.target_name());
      options.attention_weights = with_weights;
      options.path = plan.path();
      options.threads = 3;
      CHECK(same_bits(result, run_plan(c.attention.plan(c.shape, options), c.inputs(), with_weights)));
    };
    const bool additive = layer == Layer::kAdditive || layer == Layer::kMultiHeadAdditive;
    for (const PlanOptions& options :
         additive ? std::vector<PlanOptions>{{}, {.score_tier = ScoreTier::kRational}}
                  : std::vector<PlanOptions>{{.pairs = Pairs::kNever, .parts = Parts::kNever},
                                             {.pairs = Pairs::kAlways, .parts = Parts::kNever},
                                             {.pairs = Pairs::kNever, .parts = Parts::kAlways}}) {
      for_each_plan(c.attention, c.shape, options,
                    [&](const Plan& plan, bool with_weights) { check(plan, with_weights, options); });
    }
  }
}

}  // namespace attend::tests
