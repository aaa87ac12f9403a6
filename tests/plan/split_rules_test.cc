// Work items by the number of threads: heads, ranges of their queries, ranges of heads. What plans choose of the rest
// depends on the CPU, so that this is set by hand.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "attend/attend.h"
#include "engine/base/cpus.h"
#include "engine/kernels/linear_rows.h"
#include "engine/kernels/query_lanes.h"
#include "engine/plan/layer.h"
#include "engine/plan/plan_impl.h"
#include "engine/plan/planner.h"
#include "engine/plan/split_rules.h"
#include "tests/support/for_each_target.h"
#include "tests/support/layer_cases.h"

namespace attend::tests {
namespace {

struct SplitCase {
  std::int64_t batch, heads, num_queries;
  int threads;
  ValidLens lens = ValidLens::kNone;
  Causal causal = Causal::kNone;
  std::int64_t kv_heads = 0;  // or as many as heads
  Target target = Target::best();
};

detail::PlanImpl plan_of(const SplitCase& c, const std::string& path) {
  const Shape shape{.batch = c.batch,
                    .num_queries = c.num_queries,
                    .num_keys = 256,
                    .query_size = 64,
                    .key_size = 64,
                    .value_size = 64,
                    .num_heads = c.heads,
                    .num_kv_heads = c.kv_heads};
  PlanOptions options;
  options.target = c.target;
  options.path = path;
  options.threads = c.threads;
  options.valid_lens = c.lens;
  options.causal = c.causal;
  return *detail::make_plan(std::make_shared<detail::LayerImpl>(), shape, options);
}

std::size_t query_ranges(const SplitCase& c) { return plan_of(c, "dot/fused").query_ranges; }

std::size_t head_ranges(const SplitCase& c) {
  detail::PlanImpl plan = plan_of(c, "dot/lanes");
  plan.lanes_prefetch.in_order = true;
  detail::choose_split(plan);
  return plan.head_ranges;
}

}  // namespace

TEST_CASE("split: more threads than heads and vectors are tried in no time") {
  const Shape shape{.batch = 1, .num_queries = 16, .num_keys = 64, .query_size = 64, .num_heads = 3};
  const Plan plan = DotAttention().plan(shape, {.threads = 1 << 26, .path = "dot/lanes"});
  CHECK(plan.path() == "dot/lanes");
}

TEST_CASE("split: heads are cut into ranges of queries where they are too few, as even as threads want it") {
  CHECK(query_ranges({1, 1, 2048, 1}) == 1);
  CHECK(query_ranges({1, 1, 2048, 2}) == 4);
  CHECK(query_ranges({1, 3, 2048, 2}) == 2);
  CHECK(query_ranges({2, 2, 2048, 2}) == 1);
  CHECK(query_ranges({1, 12, 2048, 5}) == 2);  // 12 items for 5 are not even
  CHECK(query_ranges({1, 5, 2048, 2}) == 2);   // nor are 5 for 2
  CHECK(query_ranges({1, 1, 2048, 2, ValidLens::kAny}) == 4);
  // Uneven: four a thread.
  CHECK(query_ranges({1, 1, 2048, 2, ValidLens::kPerBatch}) == 8);
  CHECK(query_ranges({1, 1, 2048, 2, ValidLens::kPerQuery}) == 8);
  CHECK(query_ranges({1, 1, 2048, 2, ValidLens::kNone, Causal::kBottomRight}) == 8);
  CHECK(query_ranges({1, 1, 1, 8}) == 1);  // no more than tiles
}

TEST_CASE("split: heads that share one are cut before their queries are, evenly where queries are many") {
  const auto ranges = [](std::int64_t heads, std::int64_t kv_heads, std::int64_t num_queries, int threads) {
    const detail::PlanImpl plan =
        plan_of({1, heads, num_queries, threads, ValidLens::kNone, Causal::kNone, kv_heads}, "dot/fused");
    return std::vector<std::size_t>{plan.head_ranges, plan.query_ranges};
  };
  using Ranges = std::vector<std::size_t>;
  CHECK(ranges(8, 1, 2048, 1) == Ranges{1, 1});
  CHECK(ranges(8, 1, 2048, 2) == Ranges{4, 1});
  CHECK(ranges(32, 8, 2048, 2) == Ranges{1, 1});
  CHECK(ranges(6, 1, 2048, 2) == Ranges{3, 2});
  CHECK(ranges(5, 1, 2048, 2) == Ranges{1, 4});
  // A tile of queries or less.
  CHECK(ranges(5, 1, 40, 2) == Ranges{5, 1});
  CHECK(ranges(6, 1, 40, 2) == Ranges{6, 1});
  CHECK(ranges(6, 3, 40, 8) == Ranges{2, 1});
}

TEST_CASE("split: lanes are cut into groups where heads do not come out even, as whole vectors") {
  for_each_target([](const Target& target) {
    const auto lanes = static_cast<std::int64_t>(kernels::query_lanes_kernels(target.id()).lanes);
    // By vectors of queries: lane_heads, vectors of a group's queries of a head, ranges.
    const auto groups = [&](std::int64_t heads, std::int64_t kv_heads, std::int64_t vectors, int threads) {
      const Shape shape{.num_queries = vectors * lanes,
                        .num_keys = 512,
                        .query_size = 64,
                        .num_heads = heads,
                        .num_kv_heads = kv_heads};
      PlanOptions options{.threads = threads, .target = target, .path = "dot/lanes"};
      const auto plan = detail::make_plan(std::make_shared<detail::LayerImpl>(), shape, options);
      CHECK(plan->group_queries == plan->lane_heads * plan->lane_queries);
      CHECK_FALSE((plan->query_ranges > 1 && plan->lanes_prefetch.in_order));
      return std::vector<std::size_t>{plan->lane_heads, plan->lane_queries / static_cast<std::size_t>(lanes),
                                      plan->query_ranges};
    };
    using Groups = std::vector<std::size_t>;
    CHECK(groups(3, 3, 4, 1) == Groups{1, 4, 1});
    CHECK(groups(4, 4, 4, 2) == Groups{1, 4, 1});
    CHECK(groups(3, 3, 4, 2) == Groups{1, 2, 2});
    CHECK(groups(3, 3, 1, 2) == Groups{1, 1, 1});  // a vector is not cut
    CHECK(groups(1, 1, 4, 2) == Groups{1, 2, 2});
    CHECK(groups(1, 1, 3, 2) == Groups{1, 2, 2});
    CHECK(groups(4, 1, 1, 2) == Groups{2, 1, 2});
    CHECK(groups(4, 1, 1, 4) == Groups{1, 1, 4});
    CHECK(groups(2, 1, 2, 4) == Groups{1, 1, 4});
  });
}

TEST_CASE("split: in the order of memory, lanes leave entries whole where threads come out even") {
  for_each_target([](const Target& target) {
    // Of one vector of queries, which is not cut.
    const auto lanes = static_cast<std::int64_t>(kernels::query_lanes_kernels(target.id()).lanes);
    const auto ranges = [&](std::int64_t batch, int threads, ValidLens lens = ValidLens::kNone) {
      return head_ranges(
          {.batch = batch, .heads = 8, .num_queries = lanes, .threads = threads, .lens = lens, .target = target});
    };
    for (const ValidLens lens : {ValidLens::kAny, ValidLens::kNone, ValidLens::kPerBatch}) {
      CHECK(ranges(3, 1, lens) == 1);
      CHECK(ranges(64, 2, lens) == 1);
    }
    CHECK(ranges(2, 2) == 1);
    CHECK(ranges(1, 2) == 2);
    CHECK(ranges(3, 2) == 2);
    CHECK(ranges(1, 16) == 8);
    // Not known to be alike: two items a thread, or four where they will not be.
    CHECK(ranges(4, 2, ValidLens::kAny) == 1);
    CHECK(ranges(2, 2, ValidLens::kAny) == 2);
    CHECK(ranges(4, 2, ValidLens::kPerBatch) == 2);
    CHECK(ranges(1, 2, ValidLens::kPerBatch) == 8);
  });
}

TEST_CASE("projection: values come with a window of keys where products prefetch them and L2 has room") {
  const auto plan_for = [](const Target& target, std::int64_t keys, std::int64_t values,
                           Pairs pairs = Pairs::kWhereFaster) {
    const LayerCase c({.layer = Layer::kAdditive,
                       .batch = 64,
                       .num_queries = 1,
                       .num_keys = keys,
                       .size = 64,
                       .value_size = values,
                       .num_hiddens = 256});
    return c.attention.plan(c.shape, {.target = target, .path = "additive/factored", .pairs = pairs}).explain();
  };
  for_each_target([&](const Target& target) {
    const kernels::LinearRowsKernels kernels = kernels::linear_rows_kernels(target.id());
    const bool by_slices =
        this_cpu().adds_beside_products() && kernels.has_registers_for_pairs && kernels.pairs_by_slices;
    const auto says = [&](const std::string& plan, const std::string& entries, bool values) {
      CHECK(plan.find(", " + entries + " of the batch per item") != plan.npos);
      CHECK((plan.find("; their values are prefetched meanwhile") != plan.npos) == values);
    };
    says(plan_for(target, 128, 256), by_slices ? "1 entry" : "4 entries", by_slices);
    says(plan_for(target, 64, 256), by_slices ? "2 entries" : "8 entries", by_slices);
    says(plan_for(target, 256, 256), by_slices ? "1 entry" : "2 entries", by_slices);
    says(plan_for(target, 256, 257), "2 entries", false);
    says(plan_for(target, 128, 256, Pairs::kNever), "4 entries", false);
  });
}

}  // namespace attend::tests
