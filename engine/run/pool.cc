#include "engine/run/pool.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/base/checked.h"
#include "engine/view/valid_lens.h"

namespace attend::detail {
namespace {

// One head of one batch entry, its keys and values packed.
class Head {
 public:
  Head(const PoolJob& job, std::int64_t b, std::int64_t h, std::byte* worker)
      : job_(job),
        plan_(*job.plan),
        kernels_(*job.plan->kernels),
        b_(b),
        h_(h),
        limit_(static_cast<std::size_t>(job.key_limits[b])),
        score_size_(static_cast<std::size_t>(plan_.score_size)),
        value_size_(static_cast<std::size_t>(plan_.head_value_size)),
        inner_(score_size_ + (plan_.layer->score == Score::kGaussian ? 1 : 0)),
        panel_(kernels_.pack.panel_width),
        level_size_(round_up(value_size_, panel_)),
        accumulator_stride_(level_size_ * plan_.accumulator_levels),
        packed_keys_(part<float>(worker, plan_.layout.packed_keys)),
        packed_values_(part<float>(worker, plan_.layout.packed_values)),
        packed_queries_(part<float>(worker, plan_.layout.packed_queries)),
        scores_(part<float>(worker, plan_.layout.scores)),
        accumulators_(part<float>(worker, plan_.layout.accumulators)),
        key_exps_(part<float>(worker, plan_.layout.key_exps)),
        key_max_(part<float>(worker, plan_.layout.key_max)),
        query_exps_(part<float>(worker, plan_.layout.query_exps)),
        query_max_(part<float>(worker, plan_.layout.query_max)),
        row_max_(part<float>(worker, plan_.layout.row_max)),
        row_sum_(part<double>(worker, plan_.layout.row_sum)),
        row_lens_(part<std::int32_t>(worker, plan_.layout.row_lens)),
        tile_lens_(part<std::int32_t>(worker, plan_.layout.tile_lens)) {}

  // Queries first ... last - 1.
  void pool(std::int64_t first, std::int64_t last) {
    if (limit_ > 0) pack();
    for (std::int64_t m = first; m < last; m += static_cast<std::int64_t>(plan_.tile_queries)) {
      pool_tile(m, std::min(plan_.tile_queries, static_cast<std::size_t>(last - m)));
    }
  }

 private:
  template <class T>
  static T* part(std::byte* worker, std::size_t offset) {
    return reinterpret_cast<T*>(worker + offset);
  }

  void pack() {
    choose_center();
    kernels_.pack.keys({.keys = job_.keys.at(b_, h_, 0),
                        .keys_stride = job_.keys.row_stride,
                        .num_keys = limit_,
                        .size = score_size_,
                        .center = center_,
                        .half_norms = plan_.layer->score == Score::kGaussian,
                        .panels = packed_keys_,
                        .panel_stride = inner_ * panel_});
    if (plan_.factored) {
      kernels_.additive_score.exp_panels({.panels = packed_keys_,
                                          .panel_stride = inner_ * panel_,
                                          .num_keys = limit_,
                                          .num_hiddens = score_size_,
                                          .exps = key_exps_,
                                          .key_max = key_max_});
    }
    values_finite_ = kernels_.pack.values({.values = job_.values.at(b_, h_, 0),
                                           .values_stride = job_.values.row_stride,
                                           .num_values = limit_,
                                           .size = value_size_,
                                           .panels = packed_values_,
                                           .panel_stride = limit_ * panel_});
  }

  // Gaussian: -|q - k|^2 / 2 = q.k - |k|^2 / 2 - |q|^2 / 2, where the last term is the same for all keys of a row. Far
  // from the origin the products would cancel, so both sides are moved by a key c first. With R the largest distance of
  // a query to a visible key, |q - c| <= R and |k - c| <= 2 R: rounding stays within a few ulps of R^2 / sigma^2 = 2
  // max|score|.
  void choose_center() {
    center_ = nullptr;
    if (plan_.layer->score != Score::kGaussian) return;
    for (std::size_t j = 0; j < limit_ && center_ == nullptr; ++j) {
      const float* key = job_.keys.at(b_, h_, static_cast<std::int64_t>(j));
      if (std::all_of(key, key + score_size_, [](float x) { return std::isfinite(x); })) center_ = key;
    }
  }

  void pool_tile(std::int64_t m, std::size_t rows) {
    std::int32_t longest = 0, shortest = std::numeric_limits<std::int32_t>::max();
    for (std::size_t r = 0; r < rows; ++r) {
      row_lens_[r] = valid_len(job_.valid_lens, b_, m + static_cast<std::int64_t>(r), job_.num_keys);
      longest = std::max(longest, row_lens_[r]);
      shortest = std::min(shortest, row_lens_[r]);
    }
    if (longest == 0) return clear(m, rows);
    // p is 0 beyond a row's length and 0 * v adds nothing, unless v is infinite or NaN.
    row_by_row_ = shortest < longest && !values_finite_;
    prepare_queries(m, rows);
    if (plan_.pooling == Pooling::kFused) {
      pool_fused(m, rows, static_cast<std::size_t>(longest));
    } else {
      pool_materialised(m, rows, static_cast<std::size_t>(longest));
    }
  }

  // Dot product: scaled and packed. Additive: used where they lie; the factored score wants their exponentials.
  void prepare_queries(std::int64_t m, std::size_t rows) {
    if (plan_.factored) {
      kernels_.additive_score.exp_rows({.rows = job_.queries.at(b_, h_, m),
                                        .stride = job_.queries.row_stride,
                                        .num_rows = rows,
                                        .num_hiddens = score_size_,
                                        .exps = query_exps_,
                                        .exps_stride = static_cast<std::ptrdiff_t>(score_size_),
                                        .row_max = query_max_});
    }
    if (plan_.layer->score == Score::kAdditive) return;
    kernels_.pack.queries({.queries = job_.queries.at(b_, h_, m),
                           .queries_stride = job_.queries.row_stride,
                           .num_queries = rows,
                           .size = score_size_,
                           .center = center_,
                           .scale = plan_.scale,
                           .append_scale = plan_.layer->score == Score::kGaussian,
                           .packed = packed_queries_,
                           .packed_stride = static_cast<std::ptrdiff_t>(inner_)});
  }

  // scores[r][j] for queries m ... and keys first ... first + columns - 1; first is a multiple of the panel width.
  // tile_lens_ says how many of these keys each query sees; scores beyond are unspecified.
  void score(std::int64_t m, std::size_t rows, std::size_t first, std::size_t columns) {
    for (std::size_t r = 0; r < rows; ++r) tile_lens_[r] = len_within(r, first, columns);
    if (plan_.layer->score == Score::kAdditive) return score_additive(m, rows, first, columns);
    kernels_.tile_product.multiply({.a = packed_queries_,
                                    .a_stride = static_cast<std::ptrdiff_t>(inner_),
                                    .b = packed_keys_ + first * inner_,
                                    .b_panel_stride = inner_ * panel_,
                                    .c = scores_,
                                    .c_stride = static_cast<std::ptrdiff_t>(plan_.tile_keys),
                                    .num_rows = rows,
                                    .num_columns = columns,
                                    .inner = inner_,
                                    .accumulate = false});
    if (plan_.layer->score == Score::kGaussian) score_infinite_queries(m, rows, first, columns);
  }

  void score_additive(std::int64_t m, std::size_t rows, std::size_t first, std::size_t columns) {
    const auto head = static_cast<std::size_t>(h_);
    const float* w_v = plan_.layer->w_v.data() + head * score_size_;
    if (!plan_.factored) {
      return kernels_.additive_score.direct({.queries = job_.queries.at(b_, h_, m),
                                             .queries_stride = job_.queries.row_stride,
                                             .keys = packed_keys_ + first * inner_,
                                             .keys_panel_stride = inner_ * panel_,
                                             .w_v = w_v,
                                             .scores = scores_,
                                             .scores_stride = static_cast<std::ptrdiff_t>(plan_.tile_keys),
                                             .num_queries = rows,
                                             .num_keys = columns,
                                             .num_hiddens = score_size_});
    }
    kernels_.additive_score.factored(
        {.queries = job_.queries.at(b_, h_, m),
         .queries_stride = job_.queries.row_stride,
         .query_exps = query_exps_,
         .query_exps_stride = static_cast<std::ptrdiff_t>(score_size_),
         .query_max = query_max_,
         .keys = packed_keys_ + first * inner_,
         .key_exps = key_exps_ + first * inner_,
         .keys_panel_stride = inner_ * panel_,
         .key_max = key_max_ + first,
         .w_v = w_v,
         .folded_w_v = plan_.layer->folded_w_v.data() + head * kernels::folded_w_v_size(score_size_),
         .w_v_scale = plan_.layer->w_v_scales[head],
         .scores = scores_,
         .scores_stride = static_cast<std::ptrdiff_t>(plan_.tile_keys),
         .num_queries = rows,
         .num_keys = columns,
         .num_hiddens = score_size_,
         .lens = tile_lens_,
         .forced_tier = -1,
         .tier_counts = nullptr});
  }

  // Gaussian: a query with an infinite element is infinitely far from every key, which the products above turn into
  // NaN. Such rows are scored by the formula itself: -inf, or NaN where a key is infinite in the same element.
  void score_infinite_queries(std::int64_t m, std::size_t rows, std::size_t first, std::size_t columns) {
    for (std::size_t r = 0; r < rows; ++r) {
      const float* query = job_.queries.at(b_, h_, m + static_cast<std::int64_t>(r));
      if (std::none_of(query, query + score_size_, [](float x) { return std::isinf(x); })) continue;
      for (std::size_t j = 0; j < columns; ++j) {
        const float* key = job_.keys.at(b_, h_, static_cast<std::int64_t>(first + j));
        double squared = 0;
        for (std::size_t k = 0; k < score_size_; ++k) {
          const double difference = static_cast<double>(query[k]) - static_cast<double>(key[k]);
          squared += difference * difference;
        }
        scores_[r * plan_.tile_keys + j] = static_cast<float>(-0.5 * static_cast<double>(plan_.scale) * squared);
      }
    }
  }

  // Valid keys of row r among keys first ... first + columns - 1.
  std::int32_t len_within(std::size_t r, std::size_t first, std::size_t columns) const {
    return std::clamp(row_lens_[r] - static_cast<std::int32_t>(first), 0, static_cast<std::int32_t>(columns));
  }

  void clear_accumulators(std::size_t rows) {
    std::fill(accumulators_, accumulators_ + rows * accumulator_stride_, 0.0f);
  }

  // accumulators += p values, over keys first ... first + columns - 1. lens: valid ones of them per row.
  void pool_values(const float* p, std::ptrdiff_t p_stride, std::size_t rows, std::size_t first, std::size_t columns,
                   const std::int32_t* lens) {
    if (first > 0 && first % kKeysPerLevel == 0) add_to_totals(rows);
    kernels::TileProductArgs args{.a = p,
                                  .a_stride = p_stride,
                                  .b = packed_values_ + first * panel_,
                                  .b_panel_stride = limit_ * panel_,
                                  .c = accumulators_,
                                  .c_stride = static_cast<std::ptrdiff_t>(accumulator_stride_),
                                  .num_rows = rows,
                                  .num_columns = value_size_,
                                  .inner = columns,
                                  .accumulate = true};
    if (!row_by_row_) return kernels_.tile_product.multiply(args);
    args.num_rows = 1;
    for (std::size_t r = 0; r < rows; ++r) {
      args.a = p + static_cast<std::ptrdiff_t>(r) * p_stride;
      args.c = accumulators_ + r * accumulator_stride_;
      args.inner = static_cast<std::size_t>(lens[r]);
      if (args.inner > 0) kernels_.tile_product.multiply(args);
    }
  }

  // Running sums to totals, where there are two levels; sums start again from 0.
  void add_to_totals(std::size_t rows) {
    for (std::size_t r = 0; r < rows; ++r) {
      float* sums = accumulators_ + r * accumulator_stride_;
      for (std::size_t n = 0; n < level_size_; ++n) {
        sums[level_size_ + n] += sums[n];
        sums[n] = 0.0f;
      }
    }
  }

  // Key tile by key tile; softmax_tile.h states the recurrence.
  void pool_fused(std::int64_t m, std::size_t rows, std::size_t longest) {
    std::fill(row_max_, row_max_ + rows, -std::numeric_limits<float>::infinity());
    std::fill(row_sum_, row_sum_ + rows, 0.0);
    clear_accumulators(rows);
    for (std::size_t first = 0; first < longest; first += plan_.tile_keys) {
      const std::size_t columns = std::min(plan_.tile_keys, longest - first);
      score(m, rows, first, columns);
      kernels_.softmax_tile.step({.scores = scores_,
                                  .scores_stride = static_cast<std::ptrdiff_t>(plan_.tile_keys),
                                  .num_rows = rows,
                                  .num_columns = columns,
                                  .lens = tile_lens_,
                                  .row_max = row_max_,
                                  .row_sum = row_sum_,
                                  .accumulators = accumulators_,
                                  .accumulators_stride = static_cast<std::ptrdiff_t>(accumulator_stride_),
                                  .accumulator_columns = accumulator_stride_});
      pool_values(scores_, static_cast<std::ptrdiff_t>(plan_.tile_keys), rows, first, columns, tile_lens_);
    }
    finish(m, rows, row_sum_);
  }

  // Whole rows: the weights are written where they are wanted and pool the values from there.
  void pool_materialised(std::int64_t m, std::size_t rows, std::size_t longest) {
    score(m, rows, 0, longest);
    const bool wanted = job_.attention_weights.data != nullptr;
    float* weights = wanted ? job_.attention_weights.at(b_, h_, m) : scores_;
    const std::ptrdiff_t stride =
        wanted ? job_.attention_weights.row_stride : static_cast<std::ptrdiff_t>(plan_.tile_keys);
    kernels_.masked_softmax.rows({.input = scores_,
                                  .input_stride = static_cast<std::ptrdiff_t>(plan_.tile_keys),
                                  .output = weights,
                                  .output_stride = stride,
                                  .num_rows = rows,
                                  .num_columns = wanted ? static_cast<std::size_t>(job_.num_keys) : longest,
                                  .valid_lens = row_lens_,
                                  .valid_lens_stride = 1});
    clear_accumulators(rows);
    for (std::size_t first = 0; first < longest; first += kKeysPerLevel) {
      const std::size_t columns = std::min(kKeysPerLevel, longest - first);
      for (std::size_t r = 0; r < rows; ++r) tile_lens_[r] = len_within(r, first, columns);
      pool_values(weights + first, stride, rows, first, columns, tile_lens_);
    }
    finish(m, rows, nullptr);
  }

  void finish(std::int64_t m, std::size_t rows, const double* row_sum) {
    const bool has_totals = plan_.accumulator_levels > 1;
    if (has_totals) add_to_totals(rows);
    kernels_.softmax_tile.finish_rows({.accumulators = accumulators_ + (has_totals ? level_size_ : 0),
                                       .accumulators_stride = static_cast<std::ptrdiff_t>(accumulator_stride_),
                                       .row_sum = row_sum,
                                       .output = job_.output.at(b_, h_, m),
                                       .output_stride = job_.output.row_stride,
                                       .num_rows = rows,
                                       .num_columns = value_size_});
  }

  // Contract 2: rows without a valid key are 0.
  void clear(std::int64_t m, std::size_t rows) {
    for (std::size_t r = 0; r < rows; ++r) {
      std::fill_n(job_.output.at(b_, h_, m + static_cast<std::int64_t>(r)), value_size_, 0.0f);
      if (job_.attention_weights.data != nullptr) {
        std::fill_n(job_.attention_weights.at(b_, h_, m + static_cast<std::int64_t>(r)), job_.num_keys, 0.0f);
      }
    }
  }

  const PoolJob& job_;
  const PlanImpl& plan_;
  const kernels::KernelSet& kernels_;
  const std::int64_t b_, h_;
  const std::size_t limit_;  // keys some query of this entry sees
  const std::size_t score_size_, value_size_;
  const std::size_t inner_;  // score_size, + 1 for the gaussian's half norm
  const std::size_t panel_;
  const std::size_t level_size_;  // floats of an accumulator row: a row of values, padded to panels
  const std::size_t
      accumulator_stride_;  // one or two of them (PlanImpl::accumulator_levels): running sums, then totals
  float* const packed_keys_;
  float* const packed_values_;
  float* const packed_queries_;
  float* const scores_;
  float* const accumulators_;
  float* const key_exps_;
  float* const key_max_;
  float* const query_exps_;
  float* const query_max_;
  float* const row_max_;
  double* const row_sum_;
  std::int32_t* const row_lens_;
  std::int32_t* const tile_lens_;
  const float* center_ = nullptr;
  bool values_finite_ = true;
  bool row_by_row_ = false;
};

}  // namespace

void pool_item(const PoolJob& job, std::size_t item, std::byte* worker) {
  const std::size_t ranges = job.plan->query_ranges;
  const auto head = static_cast<std::int64_t>(item / ranges);
  const auto range = static_cast<std::int64_t>(item % ranges);
  // Ranges hold whole tiles, so that none is cut for the sake of the split.
  const std::size_t per_range =
      round_up(divide_up(static_cast<std::size_t>(job.num_queries), ranges), job.plan->tile_queries);
  const std::int64_t first = range * static_cast<std::int64_t>(per_range);
  const std::int64_t last = std::min(job.num_queries, first + static_cast<std::int64_t>(per_range));
  if (first < last) Head(job, head / job.num_heads, head % job.num_heads, worker).pool(first, last);
}

}  // namespace attend::detail
