// Which rows a worker is said to want next, in the order of memory. Prefetching changes no result, so nothing else
// would notice wrong ones.
#include <cstddef>
#include <span>

#include <doctest/doctest.h>

#include "engine/run/next_slices.h"
#include "tests/run/pool_problem.h"

namespace attend::tests {
namespace {

using detail::NextSlices;

// 6 query heads and 3 of keys, 10 queries.
struct Problem : PoolProblem {
  explicit Problem(bool side_by_side) : PoolProblem(6, 3, 10, side_by_side) {
    plan.pooling = detail::Pooling::kLanes;
    plan.head_ranges = 1;
  }
};

std::size_t num_rows(std::span<const kernels::PrefetchRows> all) {
  std::size_t count = 0;
  for (const kernels::PrefetchRows& rows : all) count += rows.num_rows;
  return count;
}

}  // namespace

TEST_CASE("next slices: of keys and values side by side, rows of all heads, a part for each") {
  Problem p(true);
  NextSlices next(p.job);
  CHECK(num_rows(next.slice(0, 1)) == 0);
  next.set_next_keys(1, {1, 3}, 5, 12);
  std::span<kernels::PrefetchRows> rows = next.slice(0, 2);
  CHECK(num_rows(rows) == 6);
  check_rows(rows[1], p.keys.data() + 720 + 5 * 24 + 8, 24, 3, 16);
  check_rows(rows[2], p.values.data() + 1440 + 5 * 48 + 16, 48, 3, 32);
  rows = next.slice(1, 2);
  CHECK(num_rows(rows) == 8);
  check_rows(rows[1], p.keys.data() + 720 + 8 * 24 + 8, 24, 4, 16);
  check_rows(rows[2], p.values.data() + 1440 + 8 * 48 + 16, 48, 4, 32);
  next.set_next_keys(0, {0, 3}, 7, 7);
  CHECK(num_rows(next.slice(0, 1)) == 0);
}

TEST_CASE("next slices: of heads that lie apart, all rows of one after the other") {
  Problem p(false);
  NextSlices next(p.job);
  next.set_next_keys(1, {0, 3}, 5, 12);
  for (std::size_t h = 0; h < 3; ++h) {
    const std::span<kernels::PrefetchRows> rows = next.slice(h, 3);
    CHECK(num_rows(rows) == 14);
    check_rows(rows[1], p.keys.data() + 720 + h * 240 + 5 * 8, 8, 7, 8);
    check_rows(rows[2], p.values.data() + 1440 + h * 480 + 5 * 16, 16, 7, 16);
  }
}

TEST_CASE("next slices: of heads, the queries and output of those that share them too") {
  Problem p(false);
  NextSlices next(p.job);
  next.set_next_heads(1, {2, 3}, 5, 12);
  const std::span<kernels::PrefetchRows> rows = next.slice(0, 1);
  check_rows(rows[0], p.queries.data() + 480 + 4 * 80, 8, 10, 8);
  check_rows(rows[1], p.keys.data() + 720 + 2 * 240 + 5 * 8, 8, 7, 8);
  check_rows(rows[2], p.values.data() + 1440 + 2 * 480 + 5 * 16, 16, 7, 16);
  check_rows(rows[3], p.output.data() + 960 + 4 * 160, 16, 10, 16);
}

TEST_CASE("next slices: of an item, its queries and output too, and its first keys as far as they are visible") {
  Problem p(true);
  NextSlices next(p.job);
  next.set_next_item(1, 3, 64);  // entry 1
  std::span<kernels::PrefetchRows> rows = next.slice(0, 1);
  check_rows(rows[0], p.queries.data() + 480, 48, 10, 48);
  check_rows(rows[1], p.keys.data() + 720, 24, 20, 24);
  check_rows(rows[2], p.values.data() + 1440, 48, 20, 48);
  check_rows(rows[3], p.output.data() + 960, 96, 10, 96);
  next.set_next_item(0, 3, 9);
  check_rows(next.slice(0, 1)[1], p.keys.data(), 24, 9, 24);
  next.set_next_item(2, 3, 64);  // there are two
  CHECK(num_rows(next.slice(0, 1)) == 0);
  next.set_next_item(1, 2, 64);  // of three heads
  rows = next.slice(0, 1);
  check_rows(rows[0], p.queries.data() + 480, 48, 10, 32);
  check_rows(rows[1], p.keys.data() + 720, 24, 20, 16);

  p.plan.head_ranges = 2;  // head 0, heads 1 and 2
  next.set_next_item(3, 3, 64);
  rows = next.slice(0, 1);
  check_rows(rows[0], p.queries.data() + 480 + 2 * 8, 48, 10, 32);
  check_rows(rows[1], p.keys.data() + 720 + 8, 24, 20, 16);
  check_rows(rows[3], p.output.data() + 960 + 2 * 16, 96, 10, 64);

  p.plan.chunk_keys = 16;  // results of chunks are merged later; what entry 1 has of the second are keys 16 to 19
  next.set_next_item(3 * 2 + 1, 3, 64);
  rows = next.slice(0, 1);
  check_rows(rows[1], p.keys.data() + 720 + 16 * 24 + 8, 24, 4, 16);
  CHECK(rows[3].num_rows == 0);
}

}  // namespace attend::tests
