// A problem for tests of what a worker that pools heads will want next.
#ifndef ATTEND_TESTS_RUN_POOL_PROBLEM_H_
#define ATTEND_TESTS_RUN_POOL_PROBLEM_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include <doctest/doctest.h>

#include "engine/plan/layer.h"
#include "engine/plan/plan_impl.h"
#include "engine/run/pool.h"

namespace attend::tests {

// 2 entries, 30 keys of size 8 with values of size 16, of which 20 are visible in the second entry; rows of all heads
// side by side, or head after head.
struct PoolProblem {
  PoolProblem(std::ptrdiff_t num_heads, std::ptrdiff_t num_kv_heads, std::ptrdiff_t num_queries, bool side_by_side)
      : queries(static_cast<std::size_t>(2 * num_heads * num_queries * 8)),
        keys(static_cast<std::size_t>(2 * num_kv_heads * 30 * 8)),
        values(2 * keys.size()),
        output(2 * queries.size()) {
    plan.layer = std::make_shared<detail::LayerImpl>();
    plan.num_heads = num_heads;
    plan.num_kv_heads = num_kv_heads;
    plan.score_size = 8;
    plan.head_value_size = 16;
    job.plan = &plan;
    job.batch = 2;
    job.num_queries = num_queries;
    job.num_keys = 30;
    const auto rows = [&]<class T>(T* data, std::ptrdiff_t heads, std::ptrdiff_t count, std::ptrdiff_t size) {
      const std::ptrdiff_t batch = heads * count * size;
      return side_by_side ? detail::Rows<T>{data, batch, size, heads * size}
                          : detail::Rows<T>{data, batch, count * size, size};
    };
    job.queries = rows(static_cast<const float*>(queries.data()), num_heads, num_queries, 8);
    job.keys = rows(static_cast<const float*>(keys.data()), num_kv_heads, 30, 8);
    job.values = rows(static_cast<const float*>(values.data()), num_kv_heads, 30, 16);
    job.visible = VisibleKeys({}, num_queries, 30);
    job.key_limits = key_limits.data();
    job.output = rows(output.data(), num_heads, num_queries, 16);
  }

  std::vector<float> queries, keys, values, output;
  std::vector<std::int32_t> key_limits = {30, 20};
  detail::PlanImpl plan;
  detail::PoolJob job;
};

// These rows and no others.
inline void check_rows(const kernels::PrefetchRows& rows, const float* first, std::ptrdiff_t stride, std::size_t count,
                       std::size_t size) {
  CHECK(rows.next == first);
  CHECK(rows.stride == stride);
  CHECK(rows.num_rows == count);
  CHECK(rows.size == size);
}

}  // namespace attend::tests

#endif  // ATTEND_TESTS_RUN_POOL_PROBLEM_H_
