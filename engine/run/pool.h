// Pools the values of one head by the softmax of its scores, tile by tile: the engine's centre.
#ifndef ATTEND_RUN_POOL_H_
#define ATTEND_RUN_POOL_H_

#include <cstddef>
#include <cstdint>

#include "engine/base/checked.h"
#include "engine/plan/plan_impl.h"
#include "engine/run/bind.h"
#include "engine/run/key_side.h"

namespace attend::detail {

// Queries, keys and values as the score sees them: the inputs themselves, or their projections, by head.
struct PoolJob {
  const PlanImpl* plan = nullptr;
  std::int64_t batch = 0, num_heads = 0, num_queries = 0, num_keys = 0;
  Rows<const float> queries, keys, values;
  KeySide packed;  // what of keys and values is packed already; keys and values are not read where it is
  MapJob key_job;  // where workers project keys themselves (PlanImpl::window_keys)
  TensorView<const std::int32_t> valid_lens;
  const std::int32_t* key_limits = nullptr;  // per batch entry: keys that some query sees; none beyond is read
  Rows<float> output;
  Rows<float> attention_weights;  // data is null when not asked for
  // Where keys are pooled in chunks: the results of chunk c of head (b, h) and query m at ((b H + h) C + c) M + m.
  float* chunk_accumulators = nullptr;
  float* chunk_max = nullptr;
  double* chunk_sum = nullptr;

  std::size_t num_heads_in_batch() const { return static_cast<std::size_t>(batch * num_heads); }
  std::size_t num_chunks() const {
    return plan->chunk_keys == 0 ? 1 : divide_up(static_cast<std::size_t>(num_keys), plan->chunk_keys);
  }
  std::size_t num_items() const {
    return num_queries > 0 ? divide_up(num_heads_in_batch(), plan->entries_per_item) * plan->query_ranges * num_chunks()
                           : 0;
  }
  std::size_t chunk_row(std::int64_t b, std::int64_t h, std::size_t chunk, std::int64_t m) const {
    const auto head = static_cast<std::size_t>(b * num_heads + h);
    return (head * num_chunks() + chunk) * static_cast<std::size_t>(num_queries) + static_cast<std::size_t>(m);
  }
};

// Computes one item: a range of the queries of one head of one batch entry, over all its keys or one chunk of them; or
// several small entries. worker: this worker's part of the workspace. tier_counts: added to, or null. False if oneDNN
// failed.
[[nodiscard]] bool pool_item(const PoolJob& job, std::size_t item, std::byte* worker, std::uint64_t* tier_counts);

// The output of one head, 0 to batch * num_heads - 1, from the results of its chunks.
void merge_chunks(const PoolJob& job, std::size_t head);

}  // namespace attend::detail

#endif  // ATTEND_RUN_POOL_H_
