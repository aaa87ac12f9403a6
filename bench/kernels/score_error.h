// What scores of additive attention are off by, for our kernels and for their contender alike.
#ifndef ATTEND_BENCH_KERNELS_SCORE_ERROR_H_
#define ATTEND_BENCH_KERNELS_SCORE_ERROR_H_

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "engine/kernels/additive_score.h"

namespace attend::bench {

// Rows of queries, keys (num_hiddens each) and scores (scores_stride each), dense.
struct ScoredTile {
  const float *queries, *keys, *w_v, *scores;
  std::size_t scores_stride, num_queries, num_keys, num_hiddens;
};

// max |score - truth in double| / sum |w_v| over the first four queries and as many of their keys as each sees:
// lens[m], or all where it is nullptr.
inline double max_score_error(const ScoredTile& tile, const std::int32_t* lens = nullptr) {
  double norm = 0, error = 0;
  for (std::size_t u = 0; u < tile.num_hiddens; ++u) norm += std::abs(static_cast<double>(tile.w_v[u]));
  for (std::size_t m = 0; m < std::min<std::size_t>(4, tile.num_queries); ++m) {
    const std::size_t len = lens == nullptr ? tile.num_keys : static_cast<std::size_t>(lens[m]);
    for (std::size_t j = 0; j < len; ++j) {
      const double truth = kernels::reference::additive_score(
          tile.queries + m * tile.num_hiddens, tile.keys + j * tile.num_hiddens, tile.w_v, tile.num_hiddens);
      const double difference = std::abs(static_cast<double>(tile.scores[m * tile.scores_stride + j]) - truth) / norm;
      error = std::isnan(difference) ? std::numeric_limits<double>::infinity() : std::max(error, difference);
    }
  }
  return error;
}

}  // namespace attend::bench

#endif  // ATTEND_BENCH_KERNELS_SCORE_ERROR_H_
