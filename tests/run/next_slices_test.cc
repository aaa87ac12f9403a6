// Which rows a worker is said to want next, in the order of memory. Prefetching changes no result, so nothing else would
// notice wrong ones.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include <doctest/doctest.h>

#include "engine/plan/layer.h"
#include "engine/plan/plan_impl.h"
#include "engine/run/next_slices.h"

namespace attend::tests {
namespace {

using detail::NextSlices;
using detail::PoolJob;

// 2 entries of 6 query heads and 3 of keys, 10 queries and 30 keys; rows of all heads side by side, or head after head.
struct Problem {
  explicit Problem(bool side_by_side) {
    plan.layer = std::make_shared<detail::LayerImpl>();
    plan.pooling = detail::Pooling::kLanes;
    plan.num_heads = 6;
    plan.num_kv_heads = 3;
    plan.head_ranges = 1;
    plan.score_size = 8;
    plan.head_value_size = 16;
    job.plan = &plan;
    job.batch = 2;
    job.num_queries = 10;
    job.num_keys = 30;
    const auto rows = [&]<class T>(T* data, std::ptrdiff_t heads, std::ptrdiff_t count, std::ptrdiff_t size) {
      const std::ptrdiff_t batch = heads * count * size;
      return side_by_side ? detail::Rows<T>{data, batch, size, heads * size}
                          : detail::Rows<T>{data, batch, count * size, size};
    };
    job.queries = rows(static_cast<const float*>(queries.data()), 6, 10, 8);
    job.keys = rows(static_cast<const float*>(keys.data()), 3, 30, 8);
    job.values = rows(static_cast<const float*>(values.data()), 3, 30, 16);
    job.visible = VisibleKeys({}, 10, 30);
    job.key_limits = key_limits.data();
    job.output = rows(output.data(), 6, 10, 16);
  }

  std::vector<float> queries = std::vector<float>(2 * 480), keys = std::vector<float>(2 * 720),
                     values = std::vector<float>(2 * 1440), output = std::vector<float>(2 * 960);
  std::vector<std::int32_t> key_limits = {30, 20};
  detail::PlanImpl plan;
  PoolJob job;
};

void check_rows(const kernels::PrefetchRows& rows, const float* first, std::ptrdiff_t stride, std::size_t count,
                std::size_t size) {
  CHECK(rows.next == first);
  CHECK(rows.stride == stride);
  CHECK(rows.num_rows == count);
  CHECK(rows.size == size);
}
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
  next.are_keys(1, {1, 3}, 5, 12);
  std::span<kernels::PrefetchRows> rows = next.slice(0, 2);
  CHECK(num_rows(rows) == 6);
  check_rows(rows[1], p.keys.data() + 720 + 5 * 24 + 8, 24, 3, 16);
  check_rows(rows[2], p.values.data() + 1440 + 5 * 48 + 16, 48, 3, 32);
  rows = next.slice(1, 2);
  CHECK(num_rows(rows) == 8);
  check_rows(rows[1], p.keys.data() + 720 + 8 * 24 + 8, 24, 4, 16);
  check_rows(rows[2], p.values.data() + 1440 + 8 * 48 + 16, 48, 4, 32);
  next.are_keys(0, {0, 3}, 7, 7);
  CHECK(num_rows(next.slice(0, 1)) == 0);
}

TEST_CASE("next slices: of heads that lie apart, all rows of one after the other") {
  Problem p(false);
  NextSlices next(p.job);
  next.are_keys(1, {0, 3}, 5, 12);
  for (std::size_t h = 0; h < 3; ++h) {
    const std::span<kernels::PrefetchRows> rows = next.slice(h, 3);
    CHECK(num_rows(rows) == 14);
    check_rows(rows[1], p.keys.data() + 720 + h * 240 + 5 * 8, 8, 7, 8);
    check_rows(rows[2], p.values.data() + 1440 + h * 480 + 5 * 16, 16, 7, 16);
  }
}

TEST_CASE("next slices: of an item, its queries and output too, and its first keys as far as they are visible") {
  Problem p(true);
  NextSlices next(p.job);
  next.are_of_item(1, 64);  // entry 1
  std::span<kernels::PrefetchRows> rows = next.slice(0, 1);
  check_rows(rows[0], p.queries.data() + 480, 48, 10, 48);
  check_rows(rows[1], p.keys.data() + 720, 24, 20, 24);
  check_rows(rows[2], p.values.data() + 1440, 48, 20, 48);
  check_rows(rows[3], p.output.data() + 960, 96, 10, 96);
  next.are_of_item(0, 9);
  check_rows(next.slice(0, 1)[1], p.keys.data(), 24, 9, 24);
  next.are_of_item(2, 64);  // there are two
  CHECK(num_rows(next.slice(0, 1)) == 0);

  p.plan.head_ranges = 2;  // head 0, heads 1 and 2
  next.are_of_item(3, 64);
  rows = next.slice(0, 1);
  check_rows(rows[0], p.queries.data() + 480 + 2 * 8, 48, 10, 32);
  check_rows(rows[1], p.keys.data() + 720 + 8, 24, 20, 16);
  check_rows(rows[3], p.output.data() + 960 + 2 * 16, 96, 10, 64);

  p.plan.chunk_keys = 16;  // results of chunks are merged later; what entry 1 has of the second are keys 16 to 19
  next.are_of_item(3 * 2 + 1, 64);
  rows = next.slice(0, 1);
  check_rows(rows[1], p.keys.data() + 720 + 16 * 24 + 8, 24, 4, 16);
  CHECK(rows[3].num_rows == 0);
}

}  // namespace attend::tests
