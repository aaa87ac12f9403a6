// Scores of the queries of a head and the keys they share, a tile at a time: dot products, gaussians or additive ones.
#ifndef ATTEND_RUN_TILE_SCORES_H_
#define ATTEND_RUN_TILE_SCORES_H_

#include <cstddef>
#include <cstdint>

#include "engine/run/head_spans.h"
#include "engine/run/key_spans.h"
#include "engine/run/next_keys.h"
#include "engine/run/next_rows.h"
#include "engine/run/pool.h"
#include "engine/run/tile.h"

namespace attend::detail {

class TileScores {
 public:
  // head: of keys, `keys` being its own. tier_counts: added to, or null.
  TileScores(const HeadSpans& head, KeySpans& keys, std::byte* worker, std::uint64_t* tier_counts, NextRows& next_rows,
             NextKeys& next_keys);

  // A group of queries of query head h is scored next, from place m on (PoolJob::order); lens: how many of the head's
  // keys each sees. Dot product: they are scaled and packed. Additive: they are used where they lie; the factored score
  // wants their exponentials.
  void take_queries(std::int64_t h, std::int64_t m, std::size_t rows, const std::int32_t* lens);

  // Whether all queries of the group and keys of the span of `first` are fit for products by bfloat16 parts.
  bool all_are_fit(std::size_t first) { return all_queries_fit_ && keys_.key_parts(first).fit == nullptr; }
  // What their kernels want of the queries of a tile and some keys: of one tile, where not all are fit.
  kernels::ScorePartsArgs parts_of(const Tile& tile, std::size_t first, std::size_t columns, const std::int32_t* lens,
                                   float* scores);

  // scores[r][j] for the queries of a tile of the group and keys first ... first + columns - 1; first is a multiple of
  // the panel width. lens: how many of these keys each query sees; scores beyond are unspecified. Rows of scores are
  // scores_stride of the plan apart. max_lanes: where the largest of each row are left, for a dot product, or null.
  void score(const Tile& tile, std::size_t first, std::size_t columns, const std::int32_t* lens, float* scores,
             float* max_lanes);

 private:
  void take_exponentials(std::int64_t m, std::size_t rows);
  // As additive kernels want them: from `rows` on, or those of these numbers.
  struct QueriesOfTile {
    const float* rows;
    const std::int32_t* numbers;
  };
  QueriesOfTile queries_of(const Tile& tile) const;
  void score_products(const Tile& tile, std::size_t first, std::size_t columns, const std::int32_t* lens, float* scores,
                      float* max_lanes);
  bool goes_by_formula(std::int64_t m) const;
  void score_by_formula(const Tile& tile, std::size_t first, const std::int32_t* lens, float* scores) const;
  void score_by_tanh(const Tile& tile, std::size_t first, std::size_t columns, float* scores);
  void score_by_exponentials(const Tile& tile, std::size_t first, std::size_t columns, const std::int32_t* lens,
                             float* scores);
  bool may_be_rational(const Tile& tile, std::size_t first, std::size_t columns) const;
  const float* w_v() const { return plan_.layer->w_v.data() + static_cast<std::size_t>(h_) * size_; }
  const float* folded_w_v() const {
    return plan_.layer->folded_w_v.data() + static_cast<std::size_t>(h_) * kernels::folded_w_v_size(size_);
  }

  const PoolJob& job_;
  const PlanImpl& plan_;
  const kernels::KernelSet& kernels_;
  KeySpans& keys_;
  const std::int64_t b_, kv_head_;
  std::int64_t h_ = 0;    // the query head at work
  std::size_t rows_ = 0;  // of the group at work
  const std::size_t size_, panel_stride_;
  const std::ptrdiff_t scores_stride_;
  float* const packed_queries_;
  float* const paired_queries_;
  kernels::PairedRow* const paired_rows_;
  std::uint16_t* const query_parts_;
  std::uint8_t* const fit_for_parts_;
  bool all_queries_fit_ = true;
  bool any_by_formula_ = false;
  float* const query_exps_;
  float* const query_max_;
  std::uint64_t* const tier_counts_;
  NextRows& next_rows_;
  NextKeys& next_keys_;
};

}  // namespace attend::detail

#endif  // ATTEND_RUN_TILE_SCORES_H_
