// Work items by the number of threads: heads, ranges of their queries, ranges of heads. What plans choose of the rest
// depends on the CPU, so that this is set by hand.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include <doctest/doctest.h>

#include "attend/attend.h"
#include "engine/plan/layer.h"
#include "engine/plan/plan_impl.h"
#include "engine/plan/planner.h"
#include "engine/plan/split_rules.h"

namespace attend::tests {
namespace {

struct SplitCase {
  std::int64_t batch, heads, num_queries;
  int threads;
  ValidLens lens = ValidLens::kNone;
  Causal causal = Causal::kNone;
};

detail::PlanImpl plan_of(const SplitCase& c, const std::string& path) {
  const Shape shape{.batch = c.batch,
                    .num_queries = c.num_queries,
                    .num_keys = 256,
                    .query_size = 64,
                    .key_size = 64,
                    .value_size = 64,
                    .num_heads = c.heads};
  PlanOptions options;
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

TEST_CASE("split: in the order of memory, lanes leave entries whole where threads come out even") {
  for (const ValidLens lens : {ValidLens::kAny, ValidLens::kNone, ValidLens::kPerBatch}) {
    CHECK(head_ranges({3, 8, 16, 1, lens}) == 1);
    CHECK(head_ranges({64, 8, 16, 2, lens}) == 1);
  }
  CHECK(head_ranges({2, 8, 16, 2}) == 1);
  CHECK(head_ranges({1, 8, 16, 2}) == 2);
  CHECK(head_ranges({3, 8, 16, 2}) == 2);
  CHECK(head_ranges({1, 8, 16, 16}) == 8);
  // Not known to be alike: two items a thread, or four where they will not be.
  CHECK(head_ranges({4, 8, 16, 2, ValidLens::kAny}) == 1);
  CHECK(head_ranges({2, 8, 16, 2, ValidLens::kAny}) == 2);
  CHECK(head_ranges({4, 8, 16, 2, ValidLens::kPerBatch}) == 2);
  CHECK(head_ranges({1, 8, 16, 2, ValidLens::kPerBatch}) == 8);
}

}  // namespace attend::tests
