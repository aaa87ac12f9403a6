// Pools the values of one head by the softmax of its scores, tile by tile: the engine's centre.
#ifndef ATTEND_RUN_POOL_H_
#define ATTEND_RUN_POOL_H_

#include <cstddef>
#include <cstdint>

#include "engine/plan/plan_impl.h"
#include "engine/run/bind.h"

namespace attend::detail {

// Queries, keys and values as the score sees them: the inputs themselves, or their projections, by head.
struct PoolJob {
  const PlanImpl* plan = nullptr;
  std::int64_t batch = 0, num_heads = 0, num_queries = 0, num_keys = 0;
  Rows<const float> queries, keys, values;
  TensorView<const std::int32_t> valid_lens;
  const std::int32_t* key_limits = nullptr;  // per batch entry: keys that some query sees; none beyond is read
  Rows<float> output;
  Rows<float> attention_weights;  // data is null when not asked for

  std::size_t num_items() const {
    return static_cast<std::size_t>(batch * num_heads) * (num_queries > 0 ? plan->query_ranges : 0);
  }
};

// Computes one item: a range of the queries of one head of one batch entry. worker: this worker's part of the
// workspace.
void pool_item(const PoolJob& job, std::size_t item, std::byte* worker);

}  // namespace attend::detail

#endif  // ATTEND_RUN_POOL_H_
