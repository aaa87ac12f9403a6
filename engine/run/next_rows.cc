#include "engine/run/next_rows.h"

#include <algorithm>

namespace attend::detail {

kernels::PrefetchRows rows_from(const Rows<const float>& rows, std::int64_t b, std::int64_t h, std::int64_t first,
                                std::int64_t last, std::int64_t size) {
  if (first >= last) return {};
  return {rows.at(b, h, first), rows.row_stride, static_cast<std::size_t>(last - first),
          static_cast<std::size_t>(size)};
}

kernels::PrefetchRows NextRows::from(const Rows<const float>& rows, std::int64_t b, std::int64_t h, std::int64_t first,
                                     std::int64_t last, std::int64_t size) const {
  kernels::PrefetchRows wanted = rows_from(rows, b, h, first, last, size);
  wanted.into_l1 = plan_.next_rows_into_l1;
  return wanted;
}

void NextRows::set_current(std::int64_t b, const Queries& group, const Queries& next_group) {
  rows_[kOutput] = from(read_only(job_.output), b, group.h, group.first, group.last, plan_.head_value_size);
  rows_[kQueries] = from(job_.queries, b, next_group.h, next_group.first, next_group.last, plan_.score_size);
}

void NextRows::set_next_item(std::size_t item, std::size_t most_keys) {
  // An additive score's keys are projected or prepared; what is packed already is not read again.
  if (plan_.layer->score == Score::kAdditive || job_.packed.value_panels != nullptr) return;
  const TilesItem next = tiles_item(job_, item);
  const std::int64_t head = next.first_head;
  if (head >= job_.batch * plan_.num_kv_heads) return;
  const std::int64_t b = head / plan_.num_kv_heads, kv_head = head % plan_.num_kv_heads;
  const auto [begin, limit] = job_.chunk_range(b, next.chunk);
  const auto first = static_cast<std::int64_t>(begin);
  const auto last = static_cast<std::int64_t>(std::min(limit, begin + most_keys));
  if (plan_.query_ranges == 1 && next.head_range == 0) {
    const auto group = std::min(job_.visible.num_queries(b), static_cast<std::int64_t>(plan_.group_queries));
    rows_[kItemQueries] = from(job_.queries, b, kv_head * plan_.heads_per_kv_head(), 0, group, plan_.score_size);
  }
  rows_[kItemKeys] = from(job_.keys, b, kv_head, first, last, plan_.score_size);
  rows_[kItemValues] = from(job_.values, b, kv_head, first, last, plan_.head_value_size);
}

kernels::PrefetchRows* NextRows::next() {
  for (kernels::PrefetchRows& rows : rows_) {
    if (rows.num_rows > 0) return &rows;
  }
  return nullptr;
}

}  // namespace attend::detail
