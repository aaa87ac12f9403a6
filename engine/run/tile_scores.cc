#include "engine/run/tile_scores.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "engine/base/carver.h"
#include "engine/base/checked.h"

namespace attend::detail {

TileScores::TileScores(const HeadSpans& head, KeySpans& keys, std::byte* worker, std::uint64_t* tier_counts,
                       NextRows& next_rows, NextKeys& next_keys)
    : job_(head.job),
      plan_(*head.job.plan),
      kernels_(*head.job.plan->kernels),
      keys_(keys),
      b_(head.b),
      kv_head_(head.h),
      size_(static_cast<std::size_t>(plan_.score_size)),
      panel_stride_(plan_.inner_size * kernels_.pack.panel_width),
      scores_stride_(static_cast<std::ptrdiff_t>(plan_.scores_stride)),
      packed_queries_(part<float>(worker, plan_.layout.packed_queries)),
      paired_queries_(part<float>(worker, plan_.layout.paired_queries)),
      paired_rows_(part<kernels::PairedRow>(worker, plan_.layout.paired_rows)),
      query_parts_(part<std::uint16_t>(worker, plan_.layout.query_parts)),
      fit_for_parts_(part<std::uint8_t>(worker, plan_.layout.queries_with_parts)),
      query_exps_(part<float>(worker, plan_.layout.query_exps)),
      query_max_(part<float>(worker, plan_.layout.query_max)),
      tier_counts_(tier_counts),
      next_rows_(next_rows),
      next_keys_(next_keys) {}

void TileScores::take_queries(std::int64_t h, std::int64_t m, std::size_t rows, const std::int32_t* lens) {
  h_ = h;
  rows_ = rows;
  if (plan_.factored) take_exponentials(m, rows);
  if (plan_.layer->score == Score::kAdditive) return;
  if (plan_.layer->score == Score::kGaussian) {
    any_by_formula_ = false;
    for (std::size_t r = 0; r < rows; ++r)
      any_by_formula_ = any_by_formula_ || goes_by_formula(job_.order.at(b_, m + static_cast<std::int64_t>(r)));
  }
  const auto pack = [&](std::int64_t query, std::size_t row, std::size_t count) {
    kernels_.pack.queries({.queries = job_.queries.at(b_, h_, query),
                           .queries_stride = job_.queries.row_stride,
                           .num_queries = count,
                           .size = size_,
                           .center = keys_.center(),
                           .scale = plan_.query_scale,
                           .append_scale = plan_.layer->score == Score::kGaussian,
                           .packed = packed_queries_ + row * plan_.inner_size,
                           .packed_stride = static_cast<std::ptrdiff_t>(plan_.inner_size)});
  };
  job_.order.for_each_stretch(b_, m, m + static_cast<std::int64_t>(rows), pack);
  if (plan_.parts) {
    all_queries_fit_ = kernels_.tile_parts.queries({.rows = packed_queries_,
                                                    .stride = static_cast<std::ptrdiff_t>(plan_.inner_size),
                                                    .num_rows = rows,
                                                    .size = plan_.inner_size,
                                                    .parts = query_parts_,
                                                    .fit = fit_for_parts_});
  }
  if (!plan_.pairs_scores) return;
  const float keys_mean_square = keys_.look_for_pairs();
  if (keys_mean_square == 0) return;
  kernels_.tile_pairs.rows({.rows = packed_queries_,
                            .stride = static_cast<std::ptrdiff_t>(plan_.inner_size),
                            .num_rows = rows,
                            .size = plan_.inner_size,
                            .lens = lens,
                            .keys_mean_square = keys_mean_square,
                            .copies = paired_queries_,
                            .copies_stride = static_cast<std::ptrdiff_t>(plan_.inner_size),
                            .paired = paired_rows_});
}

void TileScores::take_exponentials(std::int64_t m, std::size_t rows) {
  const auto take = [&](std::int64_t query, std::size_t row, std::size_t count) {
    kernels_.additive_score.exp_rows({.rows = job_.queries.at(b_, h_, query),
                                      .stride = job_.queries.row_stride,
                                      .num_rows = count,
                                      .num_hiddens = size_,
                                      .factors = folded_w_v(),
                                      .exps = query_exps_ + row * size_,
                                      .exps_stride = static_cast<std::ptrdiff_t>(size_),
                                      .row_max = query_max_ + row});
  };
  job_.order.for_each_stretch(b_, m, m + static_cast<std::int64_t>(rows), take);
}

TileScores::QueriesOfTile TileScores::queries_of(const Tile& tile) const {
  if (!job_.order.is_changed()) return {job_.queries.at(b_, h_, tile.m), nullptr};
  return {job_.queries.at(b_, h_, 0), job_.order.numbers(b_, tile.m)};
}

void TileScores::score(const Tile& tile, std::size_t first, std::size_t columns, const std::int32_t* lens,
                       float* scores, float* max_lanes) {
  if (plan_.factored) return score_by_exponentials(tile, first, columns, lens, scores);
  if (plan_.layer->score == Score::kAdditive) return score_by_tanh(tile, first, columns, scores);
  score_products(tile, first, columns, lens, scores, max_lanes);
  if (plan_.layer->score == Score::kGaussian) score_by_formula(tile, first, lens, scores);
}

kernels::ScorePartsArgs TileScores::parts_of(const Tile& tile, std::size_t first, std::size_t columns,
                                             const std::int32_t* lens, float* scores) {
  const KeySpans::Parts keys = keys_.key_parts(first);
  return {.num_rows = tile.rows,
          .num_columns = columns,
          .size = plan_.inner_size,
          .queries = query_parts_ + kernels::parts_size(tile.row, plan_.inner_size),
          .fit_queries = all_queries_fit_ ? nullptr : fit_for_parts_ + tile.row,
          .plain_queries = packed_queries_ + tile.row * plan_.inner_size,
          .plain_stride = static_cast<std::ptrdiff_t>(plan_.inner_size),
          .keys = keys.parts,
          .fit_keys = keys.fit,
          .panels = all_are_fit(first) ? nullptr : keys_.panels(first),
          .panel_stride = panel_stride_,
          .lens = lens,
          .scores = scores,
          .scores_stride = scores_stride_};
}

void TileScores::score_products(const Tile& tile, std::size_t first, std::size_t columns, const std::int32_t* lens,
                                float* scores, float* max_lanes) {
  if (plan_.parts) return kernels_.tile_parts.score(parts_of(tile, first, columns, lens, scores));
  const kernels::TileProductArgs product{.a = packed_queries_ + tile.row * plan_.inner_size,
                                         .a_stride = static_cast<std::ptrdiff_t>(plan_.inner_size),
                                         .b = keys_.panels(first),
                                         .b_panel_stride = panel_stride_,
                                         .b_row_stride = static_cast<std::ptrdiff_t>(kernels_.pack.panel_width),
                                         .c = scores,
                                         .c_stride = scores_stride_,
                                         .num_rows = tile.rows,
                                         .num_columns = columns,
                                         .inner = plan_.inner_size,
                                         .accumulate = false,
                                         .lens = lens,
                                         .max_lanes = max_lanes,
                                         .ahead = next_rows_.next()};
  const KeySpans::Pairs pairs = keys_.pairs(first);
  if (pairs.sums == nullptr) return kernels_.tile_product.multiply(product);
  kernels_.tile_pairs.multiply({.product = product,
                                .copies = paired_queries_,
                                .copies_stride = static_cast<std::ptrdiff_t>(plan_.inner_size),
                                .first_copy = tile.row,
                                .paired = paired_rows_ + tile.row,
                                .pair_sums = pairs.sums,
                                .fit_keys = pairs.fit_keys});
}

// Rows of a gaussian that products do not serve are scored by the formula itself: queries with an infinite element,
// which are infinitely far from every key (-inf, or NaN where a key is infinite in the same element), but NaN to the
// products; and rows that do not see all keys that decided the center, lest hidden keys change their bits. In every
// chunk alike: products leave out what is the same for all keys of a row, the formula does not.
bool TileScores::goes_by_formula(std::int64_t m) const {
  const float* query = job_.queries.at(b_, h_, m);
  return !keys_.sees_center(job_.visible.num_keys(b_, m)) ||
         std::any_of(query, query + size_, [](float x) { return std::isinf(x); });
}

void TileScores::score_by_formula(const Tile& tile, std::size_t first, const std::int32_t* lens, float* scores) const {
  for (std::size_t r = 0; r < tile.rows && any_by_formula_; ++r) {
    const std::int64_t m = job_.order.at(b_, tile.m + static_cast<std::int64_t>(r));
    if (!goes_by_formula(m)) continue;
    const float* query = job_.queries.at(b_, h_, m);
    for (std::int32_t j = 0; j < lens[r]; ++j) {
      const float* key = job_.keys.at(b_, kv_head_, static_cast<std::int64_t>(first) + j);
      double squared = 0;
      for (std::size_t k = 0; k < size_; ++k) {
        const double difference = static_cast<double>(query[k]) - static_cast<double>(key[k]);
        squared += difference * difference;
      }
      scores[r * plan_.scores_stride + static_cast<std::size_t>(j)] =
          static_cast<float>(-0.5 * static_cast<double>(plan_.query_scale) * squared);
    }
  }
}

void TileScores::score_by_tanh(const Tile& tile, std::size_t first, std::size_t columns, float* scores) {
  const QueriesOfTile queries = queries_of(tile);
  kernels_.additive_score.direct({.queries = queries.rows,
                                  .queries_stride = job_.queries.row_stride,
                                  .query_numbers = queries.numbers,
                                  .keys = keys_.panels(first),
                                  .keys_panel_stride = panel_stride_,
                                  .w_v = w_v(),
                                  .scores = scores,
                                  .scores_stride = scores_stride_,
                                  .num_queries = tile.rows,
                                  .num_keys = columns,
                                  .num_hiddens = size_});
}

void TileScores::score_by_exponentials(const Tile& tile, std::size_t first, std::size_t columns,
                                       const std::int32_t* lens, float* scores) {
  std::array<std::uint32_t, kernels::kNumScoreTiers> counts{};
  const std::size_t tiles_left = divide_up(rows_ - tile.row, plan_.tile_queries);
  const QueriesOfTile queries = queries_of(tile);
  kernels_.additive_score.factored({.queries = queries.rows,
                                    .queries_stride = job_.queries.row_stride,
                                    .query_numbers = queries.numbers,
                                    .query_exps = query_exps_ + tile.row * size_,
                                    .query_exps_stride = static_cast<std::ptrdiff_t>(size_),
                                    .query_max = query_max_ + tile.row,
                                    .keys = may_be_rational(tile, first, columns) ? keys_.panels(first) : nullptr,
                                    .keys_panel_stride = panel_stride_,
                                    .key_exps = keys_.exps(first),
                                    .num_exps = keys_.num_exps(first),
                                    .key_max = keys_.max(first),
                                    .w_v = w_v(),
                                    .folded_w_v = folded_w_v(),
                                    .w_v_scale = plan_.layer->w_v_scales[static_cast<std::size_t>(h_)],
                                    .scores = scores,
                                    .scores_stride = scores_stride_,
                                    .num_queries = tile.rows,
                                    .num_keys = columns,
                                    .num_hiddens = size_,
                                    .lens = lens,
                                    .first_tier = plan_.first_tier,
                                    .forced_tier = static_cast<int>(plan_.options.score_tier),
                                    .tier_counts = tier_counts_ == nullptr ? nullptr : counts.data(),
                                    .ahead = next_keys_.rows(),
                                    .ahead_lines = next_keys_.num_lines(tiles_left)});
  if (tier_counts_ == nullptr) return;
  for (std::size_t tier = 0; tier < counts.size(); ++tier) tier_counts_[tier] += counts[tier];
}

// Whether some query and key of a tile may be beyond what their exponentials can serve, so that the sums themselves
// are needed: what the tier is said to be, or what the kernel would find in some of these keys at the most.
bool TileScores::may_be_rational(const Tile& tile, std::size_t first, std::size_t columns) const {
  if (plan_.options.score_tier != ScoreTier::kByRange) return plan_.options.score_tier == ScoreTier::kRational;
  const float largest = *std::max_element(query_max_ + tile.row, query_max_ + tile.row + tile.rows) +
                        kernels_.additive_score.largest(keys_.max(first), columns);
  return !(largest <= kernels::widest_range(folded_w_v(), size_));
}

}  // namespace attend::detail
