#include "engine/run/next_slices.h"

#include <algorithm>

namespace attend::detail {

NextSlices::HeadRows NextSlices::rows_of_heads(const Rows<const float>& rows, std::int64_t b, std::int64_t head,
                                               std::int64_t heads, std::size_t first, std::size_t last,
                                               std::int64_t size) {
  if (first >= last) return {};
  const bool side_by_side = heads == 1 || rows.head_stride == size;
  const std::int64_t width = side_by_side ? heads * size : size;
  return {.rows = {.next = rows.at(b, head, static_cast<std::int64_t>(first)),
                   .stride = rows.row_stride,
                   .num_rows = last - first,
                   .size = static_cast<std::size_t>(width)},
          .heads = static_cast<std::size_t>(heads),
          .head_stride = rows.head_stride,
          .side_by_side = side_by_side};
}

void NextSlices::set_next_keys(std::int64_t b, const HeadRange& heads, std::size_t first, std::size_t last) {
  next_ = {};
  next_[kKeys] = rows_of_heads(job_.keys, b, heads.first, heads.count(), first, last, plan_.score_size);
  next_[kValues] = rows_of_heads(job_.values, b, heads.first, heads.count(), first, last, plan_.head_value_size);
}

void NextSlices::set_next_heads(std::int64_t b, const HeadRange& heads, std::size_t first, std::size_t last) {
  set_next_keys(b, heads, first, last);
  const auto queries = static_cast<std::size_t>(job_.visible.num_queries(b));
  const std::int64_t head = heads.first * plan_.heads_per_kv_head();
  const std::int64_t count = heads.count() * plan_.heads_per_kv_head();
  next_[kQueries] = rows_of_heads(job_.queries, b, head, count, 0, queries, plan_.score_size);
  if (plan_.has_chunks()) return;  // results are left to be merged
  next_[kOutput] = rows_of_heads(read_only(job_.output), b, head, count, 0, queries, plan_.head_value_size);
}

void NextSlices::set_next_item(std::size_t item, std::size_t most_heads, std::size_t most_keys) {
  next_ = {};
  if (item >= num_pool_items(job_)) return;
  const HeadsItem next = heads_item(job_, item);
  const auto [begin, limit] = job_.chunk_range(next.b, next.chunk);
  const std::int64_t last = next.heads.first + static_cast<std::int64_t>(most_heads);
  set_next_heads(next.b, {next.heads.first, std::min(next.heads.last, last)}, begin,
                 std::min(limit, begin + most_keys));
}

std::span<kernels::PrefetchRows> NextSlices::slice(std::size_t i, std::size_t n) {
  for (std::size_t t = 0; t < next_.size(); ++t) {
    const HeadRows& all = next_[t];
    kernels::PrefetchRows& part = slice_[t] = all.rows;
    // Of heads that lie apart, one.
    const std::size_t count = all.side_by_side ? all.rows.num_rows : all.heads;
    const std::size_t first = count * i / n, last = count * (i + 1) / n;
    const std::ptrdiff_t stride = all.side_by_side ? all.rows.stride : all.head_stride;
    part.next += static_cast<std::ptrdiff_t>(first) * stride;
    if (all.side_by_side) part.num_rows = last - first;
    if (first == last) part.num_rows = 0;
  }
  return slice_;
}

}  // namespace attend::detail
