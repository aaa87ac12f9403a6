// Attention tile by tile. For every group of queries: pack them; then for every tile of keys, in order, scores, a step
// of the online softmax, and p times values (fused); or the scores of whole rows, their softmax, and p times values
// (materialised). How a dot product, a gaussian or an additive score is scored: run/tile_scores.cc; how values are
// added up: run/tile_values.cc.
#include "engine/run/pool.h"

#include <algorithm>
#include <limits>
#include <optional>

#include "engine/base/carver.h"
#include "engine/run/head_spans.h"
#include "engine/run/key_spans.h"
#include "engine/run/key_window.h"
#include "engine/run/next_keys.h"
#include "engine/run/next_rows.h"
#include "engine/run/tile_scores.h"
#include "engine/run/tile_values.h"
#include "engine/run/value_spans.h"
#include "engine/view/valid_lens.h"

namespace attend::detail {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

// Keys of one key-value head of one batch entry, and the query heads that share them.
class HeadGroup {
 public:
  HeadGroup(const HeadGroup&) = delete;  // its parts refer to each other
  // window: where keys are projected, or null.
  HeadGroup(const HeadSpans& head, KeyWindow* window, std::byte* worker, std::uint64_t* tier_counts,
            NextRows& next_rows, NextKeys& next_keys)
      : job_(head.job),
        plan_(*head.job.plan),
        head_(head),
        keys_(head, window, worker),
        values_(head, worker),
        tile_scores_(head, keys_, worker, tier_counts, next_rows, next_keys),
        lens_{part<std::int32_t>(worker, plan_.layout.row_lens)},
        tile_values_(head, values_, lens_, worker, next_rows),
        kernels_(*head.job.plan->kernels),
        row_max_(part<float>(worker, plan_.layout.row_max)),
        row_sums_(part<float>(worker, plan_.layout.row_sums)),
        row_totals_(part<double>(worker, plan_.layout.row_totals)),
        scores_(part<float>(worker, plan_.layout.scores)),
        max_lanes_(part<float>(worker, plan_.layout.max_lanes)),
        tile_lens_(part<std::int32_t>(worker, plan_.layout.tile_lens)),
        lens_here_(part<std::int32_t>(worker, plan_.layout.lens_of_pass)),
        next_rows_(next_rows),
        next_keys_(next_keys) {}

  // Queries at places first ... last - 1 of some of the heads that share these keys, a group at a time, and the same
  // ones of all these heads before the next ones: where rows of heads lie side by side, they share pages, whose
  // addresses are looked up once then. EPYC (Zen 4), AVX3, dot/b1_h32_kv8_m2048_n2048_d128_causal: 1 % (prefetching
  // took 3.2 % of the time, and takes 2.2). chunk: which of the chunks these keys are.
  void pool(const HeadRange& heads, std::int64_t first, std::int64_t last, std::size_t chunk) {
    const std::int64_t computed = std::min(last, job_.visible.num_queries(head_.b));
    const auto group = static_cast<std::int64_t>(plan_.group_queries);
    const std::int64_t first_head = head_.h * plan_.heads_per_kv_head() + heads.first,
                       end_head = first_head + heads.count();
    for (std::int64_t m = first; m < computed; m += group) {
      const std::int64_t end = std::min(computed, m + group);
      for (h_ = first_head; h_ < end_head; ++h_) {
        next_group_ = h_ + 1 < end_head ? NextRows::Queries{h_ + 1, m, end}
                                        : NextRows::Queries{first_head, end, std::min(computed, end + group)};
        is_last_group_ = h_ + 1 == end_head && end == computed;
        pool_group(m, static_cast<std::size_t>(end - m), chunk);
      }
    }
    if (plan_.has_chunks()) return;
    for (std::int64_t h = first_head; h < end_head; ++h) clear_rows(job_, head_.b, h, std::max(first, computed), last);
  }

 private:
  void pool_group(std::int64_t m, std::size_t rows, std::size_t chunk) {
    next_rows_.set_current(head_.b, {}, {});  // what the group before has not prefetched is too late
    for (std::size_t r = 0; r < rows; ++r) {
      const std::int32_t len = job_.num_keys_at(head_.b, m + static_cast<std::int64_t>(r));
      lens_.lens[r] = std::min(len, static_cast<std::int32_t>(head_.limit));
    }
    const Tile group = lens_.tile_at(m, 0, rows);
    if (group.longest == 0 && !plan_.has_chunks()) {
      return for_each_stretch(m, rows, [&](std::int64_t query, std::size_t, std::size_t count) {
        clear_rows(job_, head_.b, h_, query, query + static_cast<std::int64_t>(count));
      });
    }
    tile_scores_.take_queries(h_, m, rows, lens_.lens);
    tile_values_.begin(rows);
    if (plan_.pooling == Pooling::kMaterialised) return pool_materialised(group);
    if (!pool_fused(group)) return;
    kernels_.softmax_tile.total_sums(row_sums_, rows, row_totals_);
    if (plan_.has_chunks()) {
      return store_chunk(job_, head_.b, h_, chunk, m, rows, tile_values_.accumulators(0), row_max_, row_totals_);
    }
    finish(m, rows);
    if (job_.attention_weights.data != nullptr) return_weights(group);
  }

  // Of the group's queries at places m and on; job_.order.
  template <class Take>
  void for_each_stretch(std::int64_t m, std::size_t rows, const Take& take) const {
    job_.order.for_each_stretch(head_.b, m, m + static_cast<std::int64_t>(rows), take);
  }

  // The same, one by one: take(query, row).
  template <class Take>
  void for_each_row(std::int64_t m, std::size_t rows, const Take& take) const {
    for_each_stretch(m, rows, [&](std::int64_t query, std::size_t row, std::size_t count) {
      for (std::size_t r = 0; r < count; ++r) take(query + static_cast<std::int64_t>(r), row + r);
    });
  }

  float* weights_of(std::int64_t query) const { return job_.attention_weights.at(head_.b, h_, query); }

  // The scores of a tile and keys first ... first + columns - 1, and in tile_lens_ how many of these each query sees.
  void score(const Tile& tile, std::size_t first, std::size_t columns, float* scores, float* max_lanes) {
    lens_.within(tile.row, tile.rows, first, columns, tile_lens_);
    tile_scores_.score(tile, first, columns, tile_lens_, scores, max_lanes);
  }

  // What a group of queries will write and the next one read, from its last pass on: before that, the passes would push
  // it out of L2 again. EPYC (Zen 4), AVX3, dot/b1_h32_kv8_m2048_n2048_d128_causal: packing queries and finishing rows
  // took 3.2 % of the time, and take 1.
  void prefetch_next(const Tile& group) {
    if (job_.order.is_changed()) return;  // rows are scattered
    const std::int64_t end = group.m + static_cast<std::int64_t>(group.rows);
    next_rows_.set_current(head_.b, plan_.has_chunks() ? NextRows::Queries{} : NextRows::Queries{h_, group.m, end},
                           next_group_);
  }

  // Pass by pass of keys, tile by tile of queries, key tile by key tile; softmax_tile.h states the recurrence. A row
  // meets its keys in order whatever the passes. False: keys could not be projected.
  [[nodiscard]] bool pool_fused(const Tile& group) {
    start_softmax(group.rows);
    for (std::size_t pass = head_.begin; pass < group.longest; pass += plan_.pass_keys) {
      if (!keys_.hold(pass)) return false;
      const std::size_t pass_end = std::min(pass + plan_.pass_keys, group.longest);
      if (pass_end == group.longest) prefetch_next(group);
      next_keys_.set_current_keys(values_, pass, pass_end, group.longest, is_last_group_);
      if (plan_.parts && plan_.layer->score == Score::kDot) {
        attend_by_parts(group, pass, pass_end);
        continue;
      }
      for (std::size_t row = 0; row < group.rows; row += plan_.tile_queries) {
        const Tile tile = lens_.tile_at(group.m, row, std::min(plan_.tile_queries, group.rows - row));
        const std::size_t end = std::min(pass_end, tile.longest);
        for (std::size_t first = pass; first < end; first += plan_.tile_keys) {
          pool_tile(tile, first, std::min(plan_.tile_keys, end - first));
        }
      }
    }
    return true;
  }

  // Scores, softmax and pooling of keys first ... end - 1 in one.
  void attend_by_parts(const Tile& group, std::size_t first, std::size_t end) {
    for (std::size_t to; first < end; first = to) {
      to = std::min(end, plan_.accumulator_levels > 1 ? round_up(first + 1, plan_.keys_per_level()) : end);
      if (!tile_scores_.all_are_fit(first)) to = std::min(to, first + plan_.tile_keys);
      tile_values_.begin_keys(0, group.rows, first);
      const std::size_t columns = to - first;
      lens_.within(0, group.rows, first, columns, lens_here_);
      const kernels::ScorePartsArgs score = tile_scores_.parts_of(group, first, columns, lens_here_, scores_);
      kernels_.tile_parts.attend({.score = score,
                                  .softmax = softmax_args(group, columns, nullptr, nullptr),
                                  .pool = tile_values_.parts_of(group, first, columns),
                                  .tile_keys = std::min(plan_.tile_keys, kernels::kPoolPartsKeys)});
    }
  }

  void pool_tile(const Tile& tile, std::size_t first, std::size_t columns) {
    const bool has_max = plan_.layer->score == Score::kDot && !plan_.parts;
    float* max_lanes = has_max ? max_lanes_ : nullptr;
    score(tile, first, columns, scores_, max_lanes);
    softmax_step(tile, columns, tile_lens_, max_lanes);
    tile_values_.pool(tile, scores_, static_cast<std::ptrdiff_t>(plan_.scores_stride), first, columns, tile_lens_);
  }

  // Weights of rows whose sums are known: their scores once more, 2^(s - m) / l.
  void return_weights(const Tile& group) {
    const auto num_keys = static_cast<std::size_t>(job_.num_keys);
    for (std::size_t row = 0; row < group.rows; row += plan_.tile_queries) {
      const Tile tile = lens_.tile_at(group.m, row, std::min(plan_.tile_queries, group.rows - row));
      for (std::size_t first = 0; first < tile.longest; first += plan_.tile_keys) {
        const std::size_t columns = std::min(plan_.tile_keys, tile.longest - first);
        score(tile, first, columns, scores_, nullptr);
        for_each_stretch(tile.m, tile.rows, [&](std::int64_t query, std::size_t r, std::size_t count) {
          kernels_.softmax_tile.weights({.scores = scores_ + r * plan_.scores_stride,
                                         .scores_stride = static_cast<std::ptrdiff_t>(plan_.scores_stride),
                                         .num_rows = count,
                                         .num_columns = columns,
                                         .lens = tile_lens_ + r,
                                         .scale = plan_.score_scale,
                                         .row_max = row_max_ + row + r,
                                         .row_sum = row_totals_ + row + r,
                                         .weights = weights_of(query) + first,
                                         .weights_stride = job_.attention_weights.row_stride});
        });
      }
      for_each_row(tile.m, tile.rows, [&](std::int64_t query, std::size_t) {
        std::fill_n(weights_of(query) + tile.longest, num_keys - tile.longest, 0.0f);
      });
    }
  }

  // Whole rows. What the softmax prefetches (SoftmaxPrefetch) made no difference on Zen 4, dot/*_weights: the scores
  // are cached.
  void pool_materialised(const Tile& tile) {
    prefetch_next(tile);
    for (std::size_t first = 0; first < tile.longest; first += plan_.tile_keys) {
      score(tile, first, std::min(plan_.tile_keys, tile.longest - first), scores_ + first, nullptr);
    }
    // By pairs values are pooled by powers of their size, plainly by the weights, where these are wanted and rows lie
    // side by side: written while exponentials give stores time, they are some 2 % faster on AVX2 (Zen 4).
    const bool wanted = job_.attention_weights.data != nullptr, by_powers = plan_.pairs_values;
    const bool in_place = !wanted || job_.order.is_changed();
    float* weights = in_place ? scores_ : weights_of(tile.m);
    const auto scores_stride = static_cast<std::ptrdiff_t>(plan_.scores_stride);
    const std::ptrdiff_t weights_stride = in_place ? scores_stride : job_.attention_weights.row_stride;
    by_powers ? take_powers(tile) : weigh(tile, weights, weights_stride);
    const float* p = by_powers ? scores_ : weights;
    const std::ptrdiff_t p_stride = by_powers ? scores_stride : weights_stride;
    const std::size_t step = std::min(plan_.span_keys, plan_.keys_per_level());
    for (std::size_t first = 0; first < tile.longest; first += step) {
      const std::size_t columns = std::min(step, tile.longest - first);
      lens_.within(tile.row, tile.rows, first, columns, tile_lens_);
      tile_values_.pool(tile, p + first, p_stride, first, columns, tile_lens_);
    }
    finish(tile.m, tile.rows);
    if (!wanted) return;
    if (by_powers) return return_normalised(tile);
    if (in_place) return_scattered(tile);
  }

  // Powers of whole rows, as weights.
  void return_normalised(const Tile& tile) {
    for_each_stretch(tile.m, tile.rows, [&](std::int64_t query, std::size_t row, std::size_t count) {
      kernels_.softmax_tile.normalise({.powers = scores_ + row * plan_.scores_stride,
                                       .powers_stride = static_cast<std::ptrdiff_t>(plan_.scores_stride),
                                       .num_rows = count,
                                       .num_columns = static_cast<std::size_t>(job_.num_keys),
                                       .lens = lens_.lens + row,
                                       .row_sum = row_totals_ + row,
                                       .weights = weights_of(query),
                                       .weights_stride = job_.attention_weights.row_stride});
    });
  }

  // Weights of whole rows, which values were pooled by.
  void return_scattered(const Tile& tile) {
    for_each_row(tile.m, tile.rows, [&](std::int64_t query, std::size_t row) {
      const float* weights = scores_ + row * plan_.scores_stride;
      float* to = weights_of(query);
      std::copy_n(weights, tile.longest, to);
      std::fill_n(to + tile.longest, static_cast<std::size_t>(job_.num_keys) - tile.longest, 0.0f);
    });
  }

  // Whole rows of scores become powers, and row_totals_ their sums.
  void take_powers(const Tile& tile) {
    start_softmax(tile.rows);
    softmax_step(tile, tile.longest, lens_.lens, nullptr);
    kernels_.softmax_tile.total_sums(row_sums_, tile.rows, row_totals_);
  }

  // Whole rows of scores become weights, there or elsewhere; row_totals_ are 1 then, or 0 where all scores are -inf:
  // such a row is 0, whatever 0 times its values is.
  void weigh(const Tile& tile, float* weights, std::ptrdiff_t stride) {
    const bool in_place = weights == scores_;
    kernels_.masked_softmax.rows({.input = scores_,
                                  .input_stride = static_cast<std::ptrdiff_t>(plan_.scores_stride),
                                  .output = weights,
                                  .output_stride = stride,
                                  .num_rows = tile.rows,
                                  .num_columns = in_place ? tile.longest : static_cast<std::size_t>(job_.num_keys),
                                  .valid_lens = lens_.lens,
                                  .valid_lens_stride = 1});
    for (std::size_t r = 0; r < tile.rows; ++r) {
      const float* row = weights + static_cast<std::ptrdiff_t>(r) * stride;
      row_totals_[r] = std::all_of(row, row + lens_.lens[r], [](float weight) { return weight == 0.0f; }) ? 0.0 : 1.0;
    }
  }

  void start_softmax(std::size_t rows) {
    std::fill(row_max_, row_max_ + rows, -kInf);
    std::fill(row_sums_, row_sums_ + rows * kernels_.softmax_tile.sums_stride, 0.0f);
  }

  // scores_ become powers.
  void softmax_step(const Tile& tile, std::size_t columns, const std::int32_t* lens, const float* max_lanes) {
    kernels_.softmax_tile.step(softmax_args(tile, columns, lens, max_lanes));
  }

  kernels::SoftmaxTileArgs softmax_args(const Tile& tile, std::size_t columns, const std::int32_t* lens,
                                        const float* max_lanes) const {
    return {.scores = scores_,
            .scores_stride = static_cast<std::ptrdiff_t>(plan_.scores_stride),
            .num_rows = tile.rows,
            .num_columns = columns,
            .lens = lens,
            .scale = plan_.score_scale,
            .max_lanes = max_lanes,
            .power_exponents = tile_values_.power_exponents(tile.row),
            .row_max = row_max_ + tile.row,
            .row_sums = row_sums_ + tile.row * kernels_.softmax_tile.sums_stride,
            .accumulators = tile_values_.accumulators(tile.row),
            .accumulators_stride = static_cast<std::ptrdiff_t>(tile_values_.accumulators_stride()),
            .accumulator_columns = tile_values_.accumulators_stride()};
  }

  void finish(std::int64_t m, std::size_t rows) {
    const float* totals = tile_values_.totals(rows);
    const std::size_t stride = tile_values_.accumulators_stride();
    for_each_stretch(m, rows, [&](std::int64_t query, std::size_t row, std::size_t count) {
      kernels_.softmax_tile.finish_rows({.accumulators = totals + row * stride,
                                         .accumulators_stride = static_cast<std::ptrdiff_t>(stride),
                                         .row_sum = row_totals_ + row,
                                         .output = job_.output.at(head_.b, h_, query),
                                         .output_stride = job_.output.row_stride,
                                         .num_rows = count,
                                         .num_columns = static_cast<std::size_t>(plan_.head_value_size)});
    });
  }

  const PoolJob& job_;
  const PlanImpl& plan_;
  const HeadSpans head_;
  KeySpans keys_;
  ValueSpans values_;
  TileScores tile_scores_;
  RowLens lens_;  // of the group at work
  TileValues tile_values_;
  const kernels::KernelSet& kernels_;
  std::int64_t h_ = 0;            // the query head at work
  NextRows::Queries next_group_;  // behind the group at work
  bool is_last_group_ = false;    // of the head
  float* const row_max_;
  float* const row_sums_;
  double* const row_totals_;
  float* const scores_;
  float* const max_lanes_;
  std::int32_t* const tile_lens_;
  std::int32_t* const lens_here_;  // of all rows of a group, of the keys of a pass
  NextRows& next_rows_;
  NextKeys& next_keys_;
};

// The thread's tiles, where products go by parts.
class TilesOfThread {
 public:
  explicit TilesOfThread(const PlanImpl& plan) : kernels_(plan.kernels->tile_parts), used_(plan.parts) {
    if (used_) kernels_.configure();
  }
  ~TilesOfThread() {
    if (used_) kernels_.release();
  }
  TilesOfThread(const TilesOfThread&) = delete;

 private:
  const kernels::TilePartsKernels& kernels_;
  const bool used_;
};

// Keys of entry b that the queries at places first to last - 1 see: what only others see need not be packed for these.
std::size_t keys_seen(const PoolJob& job, std::int64_t b, std::int64_t first, std::int64_t last) {
  if (job.visible.is_uniform()) return static_cast<std::size_t>(job.key_limits[b]);
  std::int32_t most = 0;
  for (std::int64_t m = first; m < std::min(last, job.visible.num_queries(b)); ++m) {
    most = std::max(most, job.num_keys_at(b, m));
  }
  return static_cast<std::size_t>(most);
}

}  // namespace

bool pool_tiles(const PoolJob& job, const Item& item, std::byte* worker, std::uint64_t* tier_counts) {
  const PlanImpl& plan = *job.plan;
  const TilesItem own = tiles_item(job, item.index);
  const auto query = [&](std::size_t range) {
    const auto queries = static_cast<std::size_t>(job.num_queries);
    return static_cast<std::int64_t>(part_begin(queries, plan.range_queries(), range, plan.query_ranges));
  };
  const std::int64_t first = query(own.range), last = query(own.range + 1);
  const auto head_of_group = [&](std::size_t range) {
    return plan.heads_per_kv_head() * static_cast<std::int64_t>(range) / static_cast<std::int64_t>(plan.head_ranges);
  };
  const HeadRange heads{head_of_group(own.head_range), head_of_group(own.head_range + 1)};
  if (first >= last) return true;

  std::optional<KeyWindow> window;
  if (job.key_job.map != nullptr) {
    window.emplace(plan, job.key_job, job.values, worker);
    // Additive layers have one head, so heads are entries.
    const bool takes_all = plan.window_keys >= plan.key_capacity;
    if (takes_all && !window->hold(own.first_head, own.last_head, 0, plan.key_capacity)) return false;
  }
  const TilesOfThread tiles(plan);
  NextRows next_rows(job);
  next_rows.set_next_item(item.next, plan.key_capacity);
  NextKeys next_keys(job);
  for (std::int64_t head = own.first_head; head < own.last_head; ++head) {
    const std::int64_t b = head / plan.num_kv_heads, h = head % plan.num_kv_heads;
    auto [begin, limit] = job.chunk_range(b, own.chunk);
    if (plan.query_ranges > 1) limit = std::min(limit, keys_seen(job, b, first, last));
    if (own.chunk > 0 && begin >= limit) continue;
    next_keys.set_current_head(own, head, item.next);
    HeadGroup({job, b, h, begin, limit}, window ? &*window : nullptr, worker, tier_counts, next_rows, next_keys)
        .pool(heads, first, last, own.chunk);
  }
  return !window || !window->failed();
}

}  // namespace attend::detail
