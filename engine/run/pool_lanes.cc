// Few queries, or few keys: queries of heads that share keys and values are the lanes of vectors, all of them or group
// by group (kernels/query_lanes.h).
#include <algorithm>
#include <array>
#include <limits>
#include <span>

#include "engine/base/carver.h"
#include "engine/run/next_rows.h"
#include "engine/run/next_slices.h"
#include "engine/run/pool.h"

namespace attend::detail {
namespace {

// What a worker has of one key-value head between steps, by lane (kernels::LanesArgs).
struct HeadState {
  float* queries;
  float* accumulators;
  float* max;
  float* sum;
  float* lost;      // what roundings have added to sum
  float* step_max;  // max after each step, where attention weights are asked for
};

// Queries first to last - 1 of so many query heads that share a key-value head, from its first_head-th on: lanes at a
// time.
struct LaneGroup {
  std::int64_t first_head, num_heads, first, last;
};

// The index-th group of an entry's key-value heads.
LaneGroup lane_group(const PoolJob& job, std::int64_t b, std::size_t index) {
  const PlanImpl& plan = *job.plan;
  const auto computed = static_cast<std::size_t>(job.visible.num_queries(b));
  const std::size_t per_heads = divide_up(computed, plan.lane_queries);
  const auto head = static_cast<std::int64_t>(index / per_heads * plan.lane_heads);
  const std::size_t first = index % per_heads * plan.lane_queries;
  return {.first_head = head,
          .num_heads = std::min(static_cast<std::int64_t>(plan.lane_heads), plan.heads_per_kv_head() - head),
          .first = static_cast<std::int64_t>(first),
          .last = static_cast<std::int64_t>(std::min(first + plan.lane_queries, computed))};
}

// The queries of one entry that share a key-value head, of some such heads, against all their keys or one chunk of
// them; group by group, where they are more than are lanes at a time.
class LanesPooler {
 public:
  LanesPooler(const PoolJob& job, const HeadsItem& item, const PoolJob::KeyRange& keys, std::byte* worker)
      : job_(job),
        plan_(*job.plan),
        kernels_(plan_.kernels->query_lanes),
        b_(item.b),
        heads_(item.heads),
        chunk_(item.chunk),
        begin_(keys.begin),
        limit_(keys.limit),
        worker_(worker),
        lens_(part<std::int32_t>(worker, plan_.layout.row_lens)),
        tile_lens_(part<std::int32_t>(worker, plan_.layout.tile_lens)),
        scores_(part<float>(worker, plan_.layout.scores)),
        factors_(part<float>(worker, plan_.layout.lane_factors)),
        keep_values_(plan_.lanes_prefetch.keeps_values_in_run_over(job.num_bytes())),
        is_far_(plan_.lanes_prefetch.prefetches_in_run_over(job.num_bytes())),
        in_order_(is_far_ && plan_.lanes_prefetch.in_order),
        next_rows_(job),
        next_slices_(job) {}

  // Groups first to last - 1. next: the item that the worker goes on with.
  void pool(std::size_t first, std::size_t last, std::size_t next) {
    for (std::size_t i = first; i < last; ++i) {
      const LaneGroup group = lane_group(job_, b_, i);
      if (is_far_ && !in_order_) {
        const bool ends = i + 1 == last;
        prefetch_behind_group(group, ends ? LaneGroup{} : lane_group(job_, b_, i + 1));
        if (ends) next_rows_.set_next_item(next, plan_.tile_keys);
      }
      pool_group(group, next);
    }
  }

 private:
  // The first head's rows: of several, the others lie elsewhere.
  void prefetch_behind_group(const LaneGroup& group, const LaneGroup& behind) {
    const std::int64_t head = heads_.first * plan_.heads_per_kv_head();
    next_rows_.set_current(b_, {head + group.first_head, group.first, group.last},
                           {head + behind.first_head, behind.first, behind.last});
  }
  void pool_group(const LaneGroup& group, std::size_t next) {
    first_head_ = group.first_head;
    first_query_ = group.first;
    num_heads_ = static_cast<std::size_t>(group.num_heads);
    num_queries_ = static_cast<std::size_t>(group.last - group.first);
    used_ = num_heads_ * num_queries_;
    num_lanes_ = round_up(used_, kernels_.lanes);
    longest_ = count_keys();
    if (longest_ <= begin_) return is_last() ? clear_group(group) : leave_chunk_empty();
    std::fill_n(tile_lens_, num_lanes_, 0);
    is_one_step_ = longest_ - begin_ <= plan_.tile_keys;
    // Of keys that come from far, a step of all heads before the next one, where that is the order of memory.
    const bool step_by_step = in_order_ && !is_one_step_ && job_.keys.head_stride == plan_.score_size;
    step_by_step ? pool_steps(next) : pool_heads(next);
  }

  // A group none of whose queries sees a key, where others do.
  void clear_group(const LaneGroup& group) const {
    for (std::int64_t kv_head = heads_.first; kv_head < heads_.last; ++kv_head) {
      const std::int64_t first = kv_head * plan_.heads_per_kv_head() + group.first_head;
      for (std::int64_t h = first; h < first + group.num_heads; ++h) clear_rows(job_, b_, h, group.first, group.last);
    }
  }
  // Else merge_chunks goes on.
  bool is_last() const { return !plan_.has_chunks(); }
  std::size_t all_heads() const { return static_cast<std::size_t>(heads_.count()); }
  std::int64_t first_query_head() const { return head_ * plan_.heads_per_kv_head() + first_head_; }
  std::int64_t head_of(std::size_t lane) const {
    return first_query_head() + static_cast<std::int64_t>(lane / num_queries_);
  }
  std::int64_t query_of(std::size_t lane) const {
    return first_query_ + static_cast<std::int64_t>(lane % num_queries_);
  }
  double sum_of(std::size_t lane) const {
    return static_cast<double>(state_.sum[lane]) - static_cast<double>(state_.lost[lane]);
  }

  void pool_heads(std::size_t next) {
    for (std::int64_t head = heads_.first; head < heads_.last; ++head) {
      begin(head, 0);
      for (std::size_t first = begin_; first < longest_; first += plan_.tile_keys) {
        if (in_order_) prefetch_behind_step_of_head(first, next);
        step(first);
      }
      end();
    }
  }
  void pool_steps(std::size_t next) {
    const auto slot = [&](std::int64_t head) { return static_cast<std::size_t>(head - heads_.first); };
    for (std::int64_t head = heads_.first; head < heads_.last; ++head) begin(head, slot(head));
    for (std::size_t first = begin_; first < longest_; first += plan_.tile_keys) {
      const std::size_t behind = first + plan_.tile_keys;
      behind < longest_ ? next_slices_.set_next_keys(b_, heads_, behind, std::min(longest_, behind + plan_.tile_keys))
                        : next_slices_.set_next_item(next, all_heads(), plan_.tile_keys);
      for (std::int64_t head = heads_.first; head < heads_.last; ++head) {
        go_on(head, slot(head));
        ahead_ = next_slices_.slice(slot(head), all_heads());
        step(first);
      }
    }
    for (std::int64_t head = heads_.first; head < heads_.last; ++head) {
      go_on(head, slot(head));
      end();
    }
  }

  // The state of a head at a place of the workspace.
  void go_on(std::int64_t head, std::size_t slot) {
    const auto at = [&](std::size_t offset, std::size_t size) { return part<float>(worker_, offset) + slot * size; };
    const WorkspaceLayout& layout = plan_.layout;
    const std::size_t lanes = plan_.group_queries;
    head_ = head;
    state_.queries = at(layout.packed_queries, static_cast<std::size_t>(plan_.score_size) * lanes);
    state_.accumulators =
        at(layout.accumulators, lanes * round_up(static_cast<std::size_t>(plan_.head_value_size), kernels_.lanes));
    state_.max = at(layout.row_max, lanes);
    state_.sum = at(layout.row_sums, 2 * lanes);
    state_.lost = state_.sum + num_lanes_;
    state_.step_max = at(layout.step_max, plan_.num_lane_steps() * lanes);
  }
  void begin(std::int64_t head, std::size_t slot) {
    go_on(head, slot);
    pack_queries();
  }
  void end() {
    if (job_.attention_weights.data != nullptr) end_weights();
    if (!is_last()) store_sums();
  }

  // Of each lane, up to the limit. Returns the most.
  std::size_t count_keys() {
    std::size_t longest = 0;
    if (job_.visible.is_uniform()) {  // 3 % of a small head
      longest = std::min(static_cast<std::size_t>(job_.visible.num_keys(b_, first_query_)), limit_);
      std::fill_n(lens_, used_, static_cast<std::int32_t>(longest));
      return longest;
    }
    for (std::size_t m = 0; m < num_queries_; ++m) {
      const std::int64_t query = first_query_ + static_cast<std::int64_t>(m);
      const auto len = static_cast<std::size_t>(job_.visible.num_keys(b_, query));
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
    kernels_.pack({.queries = job_.queries.at(b_, first_query_head(), first_query_),
                   .head_stride = job_.queries.head_stride,
                   .row_stride = job_.queries.row_stride,
                   .num_heads = num_heads_,
                   .num_queries = num_queries_,
                   .size = static_cast<std::size_t>(plan_.score_size),
                   .scale = plan_.query_scale,
                   .packed = state_.queries});
  }

  // In the order of memory, where all steps of a head are taken before the next head's: what follows this step.
  void prefetch_behind_step_of_head(std::size_t first, std::size_t next) {
    const std::size_t behind = first + plan_.tile_keys;
    std::size_t slice = 0, slices = 1;
    if (is_one_step_) {  // a part of the next item
      slice = static_cast<std::size_t>(head_ - heads_.first);
      slices = all_heads();
      if (slice == 0) next_slices_.set_next_item(next, slices, plan_.tile_keys);
    } else if (behind < longest_) {
      next_slices_.set_next_keys(b_, {head_, head_ + 1}, behind, std::min(longest_, behind + plan_.tile_keys));
    } else if (head_ + 1 < heads_.last) {
      next_slices_.set_next_heads(b_, {head_ + 1, head_ + 2}, begin_, std::min(longest_, begin_ + plan_.tile_keys));
    } else {
      next_slices_.set_next_item(next, 1, plan_.tile_keys);
    }
    ahead_ = next_slices_.slice(slice, slices);
  }

  // What to prefetch during a step. Not in that order: this head's next step, or behind its last one what next_rows_
  // was told of.
  std::span<kernels::PrefetchRows> ahead_of_step(std::size_t first) {
    if (!is_far_ || in_order_) return ahead_;
    const std::size_t behind = first + plan_.tile_keys;
    if (behind >= longest_) return next_rows_.all();
    const auto from = static_cast<std::int64_t>(behind);
    const auto to = static_cast<std::int64_t>(std::min(longest_, behind + plan_.tile_keys));
    next_step_ = {rows_from(job_.keys, b_, head_, from, to, plan_.score_size),
                  rows_from(job_.values, b_, head_, from, to, plan_.head_value_size)};
    return next_step_;
  }

  void step(std::size_t first) {
    const std::size_t count = std::min(plan_.tile_keys, longest_ - first);
    const std::size_t shortest = lens_within(first, count);
    const bool is_last_step = first + plan_.tile_keys >= longest_;
    const kernels::StoreLanesArgs store = is_last_step ? to_results() : kernels::StoreLanesArgs{};
    kernels_.step({.queries = state_.queries,
                   .num_lanes = num_lanes_,
                   .num_used = used_,
                   .size = static_cast<std::size_t>(plan_.score_size),
                   .value_size = static_cast<std::size_t>(plan_.head_value_size),
                   .keys = job_.keys.at(b_, head_, static_cast<std::int64_t>(first)),
                   .keys_stride = job_.keys.row_stride,
                   .values = job_.values.at(b_, head_, static_cast<std::int64_t>(first)),
                   .values_stride = job_.values.row_stride,
                   .num_keys = count,
                   .shortest = shortest,
                   .lens = tile_lens_,
                   .scores = scores_,
                   .first = first == begin_,
                   .lane_max = state_.max,
                   .lane_sum = state_.sum,
                   .lane_lost = state_.lost,
                   .accumulators = state_.accumulators,
                   .ahead = ahead_of_step(first),
                   .two_lines = plan_.lanes_prefetch.two_lines,
                   .ahead_of_values = in_order_ && plan_.lanes_prefetch.beside_values,
                   .keep_values = keep_values_,
                   .store = is_last_step ? &store : nullptr,
                   .factors = factors_});
    if (job_.attention_weights.data == nullptr) return;
    store_weights(first, count, is_last() && is_one_step_);
    std::copy_n(state_.max, num_lanes_, step_max_of(first));
  }
  float* step_max_of(std::size_t first) const {
    return state_.step_max + (first - begin_) / plan_.tile_keys * num_lanes_;
  }

  kernels::StoreLanesArgs to_rows(const float* from, std::size_t size, const Rows<float>& rows) const {
    return {.from = from,
            .lane_sum = state_.sum,
            .lane_lost = state_.lost,
            .num_heads = num_heads_,
            .num_queries = num_queries_,
            .size = size,
            .output = rows.at(b_, first_query_head(), first_query_),
            .head_stride = rows.head_stride,
            .row_stride = rows.row_stride,
            .divide = true};
  }

  // p of a step, where its weights belong.
  void store_weights(std::size_t first, std::size_t count, bool divide) {
    kernels::StoreLanesArgs args = to_rows(scores_, count, job_.attention_weights);
    args.output += first;
    args.divide = divide;
    kernels_.store_weights(args);
  }

  // p of all steps becomes weights, unless that of the only one is.
  void end_weights() {
    for (std::size_t lane = 0; lane < used_; ++lane) {
      const auto len = static_cast<std::size_t>(lens_[lane]);
      float* weights = job_.attention_weights.at(b_, head_of(lane), query_of(lane));
      for (std::size_t first = begin_; !is_one_step_ && first < len; first += plan_.tile_keys) {
        finish_weights(weights + first, std::min(plan_.tile_keys, len - first), step_max_of(first)[lane],
                       state_.max[lane], is_last() ? sum_of(lane) : 1.0);
      }
      if (is_last()) clear_weights(job_, b_, head_of(lane), query_of(lane), lens_[lane]);
    }
  }

  // Where the outputs belong, or what merge_chunks makes them of.
  kernels::StoreLanesArgs to_results() const {
    kernels::StoreLanesArgs args =
        to_rows(state_.accumulators, static_cast<std::size_t>(plan_.head_value_size), job_.output);
    if (is_last()) return args;
    const auto padded = static_cast<std::ptrdiff_t>(plan_.padded_values);
    args.output =
        job_.chunk_accumulators + job_.chunk_row(b_, first_query_head(), chunk_, first_query_) * plan_.padded_values;
    args.head_stride = static_cast<std::ptrdiff_t>(job_.num_chunks()) * job_.num_queries * padded;
    args.row_stride = padded;
    args.divide = false;
    return args;
  }
  // And m and l for merge_chunks.
  void store_sums() {
    for (std::size_t lane = 0; lane < used_; ++lane) store_sums(lane, state_.max[lane], sum_of(lane));
  }
  void store_sums(std::size_t lane, float max, double sum) {
    const std::size_t row = job_.chunk_row(b_, head_of(lane), chunk_, query_of(lane));
    job_.chunk_max[row] = max;
    job_.chunk_sum[row] = sum;
  }
  // A group none of whose queries sees a key of this chunk, where others do.
  void leave_chunk_empty() {
    for (head_ = heads_.first; head_ < heads_.last; ++head_) {
      for (std::size_t lane = 0; lane < used_; ++lane) store_sums(lane, -std::numeric_limits<float>::infinity(), 0);
    }
  }

  const PoolJob& job_;
  const PlanImpl& plan_;
  const kernels::QueryLanesKernels& kernels_;
  const std::int64_t b_;
  const HeadRange heads_;
  const std::size_t chunk_;
  const std::size_t begin_, limit_;  // keys
  std::byte* const worker_;
  std::int32_t* const lens_;
  std::int32_t* const tile_lens_;
  float* const scores_;
  float* const factors_;
  const bool keep_values_;
  const bool is_far_;                              // what is to be prefetched
  const bool in_order_;                            // and by next_slices_
  std::int64_t first_head_ = 0, first_query_ = 0;  // of the group at work
  std::size_t num_heads_ = 0, num_queries_ = 0;    // query heads of a key-value head; queries of each
  std::size_t used_ = 0, num_lanes_ = 0;           // lanes that are queries; with those that pad vectors
  std::size_t longest_ = 0;
  bool is_one_step_ = true;
  std::int64_t head_ = 0;  // the key-value head at work
  HeadState state_{};
  NextRows next_rows_;
  NextSlices next_slices_;
  std::array<kernels::PrefetchRows, 2> next_step_;
  std::span<kernels::PrefetchRows> ahead_;  // of next_slices_, during the step at work; else none
};

}  // namespace

void pool_lanes(const PoolJob& job, const Item& item, std::byte* worker) {
  const HeadsItem at = heads_item(job, item.index);
  const PoolJob::KeyRange keys = job.chunk_range(at.b, at.chunk);
  if (at.range == 0 && !begin_heads(job, at.b, at.heads.first, at.heads.last, at.chunk)) return;
  if (keys.begin >= keys.limit) return;
  const std::size_t groups = job.plan->num_lane_groups(job.visible.num_queries(at.b)), ranges = job.plan->query_ranges;
  const std::size_t first = groups * at.range / ranges, last = groups * (at.range + 1) / ranges;
  LanesPooler(job, at, keys, worker).pool(first, last, item.next);
}

}  // namespace attend::detail
