#include "engine/run/next_keys.h"

#include <algorithm>

#include "engine/base/checked.h"
#include "engine/run/next_rows.h"

namespace attend::detail {
namespace {

// Keys first to last - 1 of a head of entry b, as they are when the worker comes to them: to be projected, or
// exponentials.
kernels::PrefetchRows keys_from(const PoolJob& job, std::int64_t b, std::int64_t h, std::size_t first,
                                std::size_t last) {
  if (first >= last) return {};
  if (job.key_job.map == nullptr) {
    return {job.packed.key_exps_at(b, h, first), 0, 1, (last - first) * job.plan->inner_size};
  }
  return rows_from(job.key_job.source, b, 0, static_cast<std::int64_t>(first), static_cast<std::int64_t>(last),
                   static_cast<std::int64_t>(job.key_job.map->in_size()));
}

// Whether a worker projects all keys of its item's entries before it pools them.
bool projects_whole_entries(const PoolJob& job) {
  return job.key_job.map != nullptr && job.plan->window_keys >= job.plan->key_capacity;
}

}  // namespace

void NextKeys::set_current_head(const TilesItem& item, std::int64_t head, std::size_t next_item) {
  next_head_ = {};
  if (!plan_.factored) return;
  std::int64_t next = head + 1;
  std::size_t chunk = item.chunk;
  if (next < item.last_head) {
    if (projects_whole_entries(job_)) return;
  } else {
    const TilesItem after = tiles_item(job_, next_item);
    next = after.first_head;
    chunk = after.chunk;
  }
  const std::int64_t b = next / plan_.num_kv_heads;
  if (b >= job_.batch || (next == head && chunk == item.chunk)) return;
  const auto [begin, limit] = job_.chunk_range(b, chunk);
  const std::size_t held = std::max(plan_.span_keys, plan_.window_keys);
  next_head_ = keys_from(job_, b, next % plan_.num_kv_heads, begin, std::min(limit, begin + held));
}

void NextKeys::set_current_keys(const ValueSpans& values, std::size_t first, std::size_t end, std::size_t limit,
                                bool is_last_group) {
  if (!plan_.factored) return;
  rows_[kValues] = values.values_ahead(first, end);
  rows_[kKeys] = {};
  if (end >= limit) {
    if (is_last_group) rows_[kKeys] = next_head_;
  } else if (!projects_whole_entries(job_)) {
    rows_[kKeys] = keys_from(job_, values.entry(), values.head(), end, std::min(limit, end + plan_.span_keys));
  }
}

std::size_t NextKeys::num_lines(std::size_t tiles) const {
  const std::size_t values = rows_[kValues].num_lines();
  return std::max(values, divide_up(values + rows_[kKeys].num_lines(), tiles));
}

}  // namespace attend::detail
