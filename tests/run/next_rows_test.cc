// Which rows a worker is said to want next. Prefetching changes no result, so nothing else would notice wrong ones.
#include <cstddef>

#include <doctest/doctest.h>

#include "engine/run/next_rows.h"
#include "tests/run/pool_problem.h"

namespace attend::tests {
namespace {

using detail::NextRows;

// 4 query heads and 2 of keys, 100 queries in groups of 48.
struct Problem : PoolProblem {
  Problem() : PoolProblem(4, 2, 100, true) { plan.group_queries = 48; }
};

// What is wanted next is `count` rows from this one on; takes them.
void check_next(NextRows& next_rows, const float* first, std::ptrdiff_t stride, std::size_t count, std::size_t size) {
  kernels::PrefetchRows* rows = next_rows.next();
  REQUIRE(rows != nullptr);
  check_rows(*rows, first, stride, count, size);
  rows->num_rows = 0;
}

}  // namespace

TEST_CASE("next rows: the group's output, then the next group's queries") {
  Problem problem;
  NextRows next_rows(problem.job);
  CHECK(next_rows.next() == nullptr);
  next_rows.set_current(1, {2, 48, 96}, {3, 0, 48});
  check_next(next_rows, problem.output.data() + 6400 + 2 * 16 + 48 * 64, 64, 48, 16);
  check_next(next_rows, problem.queries.data() + 3200 + 3 * 8, 32, 48, 8);
  CHECK(next_rows.next() == nullptr);
  next_rows.set_current(0, {1, 96, 100}, {0, 100, 100});  // none follows
  check_next(next_rows, problem.output.data() + 16 + 96 * 64, 64, 4, 16);
  CHECK(next_rows.next() == nullptr);
}

TEST_CASE("next rows: then the next item's first queries, its keys and values as far as they are visible") {
  Problem problem;
  NextRows next_rows(problem.job);
  next_rows.set_next_item(3, 64);  // entry 1, key-value head 1
  check_next(next_rows, problem.queries.data() + 3200 + 2 * 8, 32, 48, 8);
  check_next(next_rows, problem.keys.data() + 480 + 8, 16, 20, 8);
  check_next(next_rows, problem.values.data() + 960 + 16, 32, 20, 16);
  CHECK(next_rows.next() == nullptr);
  next_rows.set_next_item(0, 10);
  check_next(next_rows, problem.queries.data(), 32, 48, 8);
  check_next(next_rows, problem.keys.data(), 16, 10, 8);
  check_next(next_rows, problem.values.data(), 32, 10, 16);
  next_rows.set_next_item(4, 64);  // there are four
  CHECK(next_rows.next() == nullptr);
}

TEST_CASE("next rows: an item of lanes is a key-value head, of tiles a range of the heads that share one") {
  Problem problem;
  NextRows next_rows(problem.job);
  problem.plan.head_ranges = 2;
  problem.plan.pooling = detail::Pooling::kLanes;
  next_rows.set_next_item(3, 64);  // entry 1, key-value head 1
  check_next(next_rows, problem.queries.data() + 3200 + 2 * 8, 32, 48, 8);
  check_next(next_rows, problem.keys.data() + 480 + 8, 16, 20, 8);
  check_next(next_rows, problem.values.data() + 960 + 16, 32, 20, 16);
  problem.plan.pooling = detail::Pooling::kFused;
  next_rows.set_next_item(6, 64);  // the same, query head 2 of 4
  check_next(next_rows, problem.queries.data() + 3200 + 2 * 8, 32, 48, 8);
  check_next(next_rows, problem.keys.data() + 480 + 8, 16, 20, 8);
  check_next(next_rows, problem.values.data() + 960 + 16, 32, 20, 16);
  next_rows.set_next_item(7, 64);  // query head 3: whose queries come first is not told
  check_next(next_rows, problem.keys.data() + 480 + 8, 16, 20, 8);
  check_next(next_rows, problem.values.data() + 960 + 16, 32, 20, 16);
  CHECK(next_rows.next() == nullptr);
}

TEST_CASE("next rows: into L1 or L2 as the plan says") {
  for (const bool into_l1 : {false, true}) {
    Problem problem;
    problem.plan.next_rows_into_l1 = into_l1;
    NextRows next_rows(problem.job);
    next_rows.set_current(1, {2, 48, 96}, {3, 0, 48});
    next_rows.set_next_item(3, 64);
    std::size_t count = 0;
    for (const kernels::PrefetchRows& rows : next_rows.all()) {
      CHECK(rows.into_l1 == into_l1);
      count += rows.num_rows > 0 ? 1 : 0;
    }
    CHECK(count == 5);
  }
}

}  // namespace attend::tests
