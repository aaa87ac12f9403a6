// Few queries: the queries of all heads that share keys and values are the lanes of vectors (kernels/query_lanes.h).
#include <algorithm>
#include <array>
#include <span>

#include "engine/base/carver.h"
#include "engine/run/next_rows.h"
#include "engine/run/pool.h"

namespace attend::detail {
namespace {

// The queries of one entry that share a key-value head, against all their keys or one chunk of them.
class Lanes {
 public:
  Lanes(const PoolJob& job, std::int64_t b, std::int64_t kv_head, std::size_t begin, std::size_t limit,
        std::byte* worker, std::span<kernels::PrefetchRows> next_head)
      : job_(job),
        plan_(*job.plan),
        kernels_(plan_.kernels->query_lanes),
        b_(b),
        kv_head_(kv_head),
        first_head_(kv_head * plan_.group_heads()),
        num_heads_(static_cast<std::size_t>(plan_.group_heads())),
        num_queries_(static_cast<std::size_t>(job.visible.num_queries(b))),
        used_(num_heads_ * num_queries_),
        num_lanes_(round_up(used_, kernels_.lanes)),
        begin_(begin),
        limit_(limit),
        queries_(part<float>(worker, plan_.layout.packed_queries)),
        accumulators_(part<float>(worker, plan_.layout.accumulators)),
        max_(part<float>(worker, plan_.layout.row_max)),
        sum_(part<float>(worker, plan_.layout.row_sums)),
        lost_(sum_ + num_lanes_),
        lens_(part<std::int32_t>(worker, plan_.layout.row_lens)),
        tile_lens_(part<std::int32_t>(worker, plan_.layout.tile_lens)),
        scores_(part<float>(worker, plan_.layout.scores)),
        step_max_(part<float>(worker, plan_.layout.step_max)),
        keep_values_(plan_.lanes_prefetch.keeps_values_in_run_over(job.num_bytes())),
        next_head_(next_head) {}

  void pool(std::size_t chunk) {
    const std::size_t longest = count_keys();
    pack_queries();
    std::fill_n(tile_lens_, num_lanes_, 0);
    const bool weighs = job_.attention_weights.data != nullptr;
    const bool is_one_step = longest - begin_ <= plan_.tile_keys;
    float* step_max = step_max_;
    for (std::size_t first = begin_; first < longest; first += plan_.tile_keys, step_max += num_lanes_) {
      const std::size_t count = std::min(plan_.tile_keys, longest - first);
      step(first, count, std::min(plan_.tile_keys, longest - first - count));
      if (!weighs) continue;
      leave_weights(first, count, is_last() && is_one_step);
      std::copy_n(max_, num_lanes_, step_max);
    }
    if (weighs) end_weights(is_one_step);
    leave(chunk);
  }

 private:
  // Else merge_chunks goes on.
  bool is_last() const { return plan_.chunk_keys == 0; }
  std::int64_t head_of(std::size_t lane) const { return first_head_ + static_cast<std::int64_t>(lane / num_queries_); }
  std::int64_t query_of(std::size_t lane) const { return static_cast<std::int64_t>(lane % num_queries_); }
  double sum_of(std::size_t lane) const { return static_cast<double>(sum_[lane]) - static_cast<double>(lost_[lane]); }

  // Of each lane, up to the limit. Returns the most.
  std::size_t count_keys() {
    std::size_t longest = 0;
    if (job_.visible.is_uniform()) {  // 3 % of a small head
      longest = std::min(static_cast<std::size_t>(job_.visible.of(b_, 0)), limit_);
      std::fill_n(lens_, used_, static_cast<std::int32_t>(longest));
      return longest;
    }
    for (std::size_t m = 0; m < num_queries_; ++m) {
      const auto len = static_cast<std::size_t>(job_.visible.of(b_, static_cast<std::int64_t>(m)));
      longest = std::max(longest, std::min(len, limit_));
      for (std::size_t g = 0; g < num_heads_; ++g) {
        lens_[g * num_queries_ + m] = static_cast<std::int32_t>(std::min(len, limit_));
      }
    }
    return longest;
  }

  // How many of keys first to first + count - 1 each lane sees; padding lanes: none. Returns the fewest.
  std::size_t lens_within(std::size_t first, std::size_t count) {
    std::int32_t fewest = static_cast<std::int32_t>(count);
    for (std::size_t lane = 0; lane < used_; ++lane) {
      tile_lens_[lane] =
          std::clamp(lens_[lane] - static_cast<std::int32_t>(first), 0, static_cast<std::int32_t>(count));
      fewest = std::min(fewest, tile_lens_[lane]);
    }
    return static_cast<std::size_t>(fewest);
  }

  void pack_queries() {
    kernels_.pack({.queries = job_.queries.at(b_, first_head_, 0),
                   .head_stride = job_.queries.head_stride,
                   .row_stride = job_.queries.row_stride,
                   .num_heads = num_heads_,
                   .num_queries = num_queries_,
                   .size = static_cast<std::size_t>(plan_.score_size),
                   .scale = plan_.query_scale,
                   .packed = queries_});
  }

  // What to prefetch during a step behind which count keys follow at `first`: those, or what the next head begins with.
  std::span<kernels::PrefetchRows> ahead(std::size_t first, std::size_t count) {
    if (next_head_.empty() || count == 0) return next_head_;
    const auto from = static_cast<std::int64_t>(first), to = static_cast<std::int64_t>(first + count);
    next_step_ = {rows_from(job_.keys, b_, kv_head_, from, to, plan_.score_size),
                  rows_from(job_.values, b_, kv_head_, from, to, plan_.head_value_size)};
    return next_step_;
  }

  void step(std::size_t first, std::size_t count, std::size_t next_count) {
    const std::size_t shortest = lens_within(first, count);
    kernels_.step({.queries = queries_,
                   .num_lanes = num_lanes_,
                   .num_used = used_,
                   .size = static_cast<std::size_t>(plan_.score_size),
                   .value_size = static_cast<std::size_t>(plan_.head_value_size),
                   .keys = job_.keys.at(b_, kv_head_, static_cast<std::int64_t>(first)),
                   .keys_stride = job_.keys.row_stride,
                   .values = job_.values.at(b_, kv_head_, static_cast<std::int64_t>(first)),
                   .values_stride = job_.values.row_stride,
                   .num_keys = count,
                   .shortest = shortest,
                   .lens = tile_lens_,
                   .scores = scores_,
                   .first = first == begin_,
                   .lane_max = max_,
                   .lane_sum = sum_,
                   .lane_lost = lost_,
                   .accumulators = accumulators_,
                   .ahead = ahead(first + count, next_count),
                   .two_lines = plan_.lanes_prefetch.two_lines,
                   .keep_values = keep_values_});
  }

  kernels::LeaveLanesArgs to_rows(const float* from, std::size_t size, const Rows<float>& rows) const {
    return {.from = from,
            .lane_sum = sum_,
            .lane_lost = lost_,
            .num_heads = num_heads_,
            .num_queries = num_queries_,
            .size = size,
            .output = rows.at(b_, first_head_, 0),
            .head_stride = rows.head_stride,
            .row_stride = rows.row_stride,
            .divide = true};
  }

  // p of a step, where its weights belong.
  void leave_weights(std::size_t first, std::size_t count, bool divide) {
    kernels::LeaveLanesArgs args = to_rows(scores_, count, job_.attention_weights);
    args.output += first;
    args.divide = divide;
    kernels_.leave_weights(args);
  }

  // p of all steps becomes weights, unless that of the only one is.
  void end_weights(bool is_one_step) {
    for (std::size_t lane = 0; lane < used_; ++lane) {
      const auto len = static_cast<std::size_t>(lens_[lane]);
      float* weights = job_.attention_weights.at(b_, head_of(lane), query_of(lane));
      const float* step_max = step_max_ + lane;
      for (std::size_t first = begin_; !is_one_step && first < len; first += plan_.tile_keys, step_max += num_lanes_) {
        finish_weights(weights + first, std::min(plan_.tile_keys, len - first), *step_max, max_[lane],
                       is_last() ? sum_of(lane) : 1.0);
      }
      if (is_last()) clear_weights(job_, b_, head_of(lane), query_of(lane), lens_[lane]);
    }
  }

  // The outputs, or what merge_chunks makes them of.
  void leave(std::size_t chunk) {
    kernels::LeaveLanesArgs args = to_rows(accumulators_, static_cast<std::size_t>(plan_.head_value_size), job_.output);
    if (!is_last()) {
      const auto padded = static_cast<std::ptrdiff_t>(plan_.padded_values);
      args.output = job_.chunk_accumulators + job_.chunk_row(b_, first_head_, chunk, 0) * plan_.padded_values;
      args.head_stride = static_cast<std::ptrdiff_t>(job_.num_chunks()) * job_.num_queries * padded;
      args.row_stride = padded;
      args.divide = false;
      for (std::size_t lane = 0; lane < used_; ++lane) {
        const std::size_t row = job_.chunk_row(b_, head_of(lane), chunk, query_of(lane));
        job_.chunk_max[row] = max_[lane];
        job_.chunk_sum[row] = sum_of(lane);
      }
    }
    kernels_.leave(args);
  }

  const PoolJob& job_;
  const PlanImpl& plan_;
  const kernels::QueryLanesKernels& kernels_;
  const std::int64_t b_, kv_head_, first_head_;
  const std::size_t num_heads_, num_queries_;  // query heads; computed queries of each
  const std::size_t used_, num_lanes_;
  const std::size_t begin_, limit_;  // keys
  float* const queries_;
  float* const accumulators_;
  float* const max_;
  float* const sum_;
  float* const lost_;
  std::int32_t* const lens_;
  std::int32_t* const tile_lens_;
  float* const scores_;
  float* const step_max_;
  const bool keep_values_;
  const std::span<kernels::PrefetchRows> next_head_;  // what it begins with; none: nothing is to be prefetched
  std::array<kernels::PrefetchRows, 2> next_step_;
};

}  // namespace

void pool_lanes(const PoolJob& job, const Item& item, std::byte* worker) {
  const PlanImpl& plan = *job.plan;
  const std::size_t chunks = job.num_chunks(), chunk = item.index % chunks;
  const auto head = static_cast<std::int64_t>(item.index / chunks);
  const std::int64_t b = head / plan.num_kv_heads, kv_head = head % plan.num_kv_heads;
  if (!begin_heads(job, b, kv_head, kv_head + 1, chunk)) return;
  const auto [begin, limit] = job.chunk_range(b, chunk);
  NextRows next_rows(job);
  std::span<kernels::PrefetchRows> ahead;
  if (plan.lanes_prefetch.prefetches_in_run_over(job.num_bytes())) {
    next_rows.at_work(b, {kv_head * plan.group_heads(), 0, job.visible.num_queries(b)}, {});
    next_rows.goes_on_with(item.next, plan.tile_keys);
    ahead = next_rows.all();
  }
  Lanes(job, b, kv_head, begin, limit, worker, ahead).pool(chunk);
}

}  // namespace attend::detail
