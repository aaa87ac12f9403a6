// Problems as other libraries take them: heads copied one after the other, and a mask of numbers to add.
#ifndef ATTEND_BENCH_CONTEST_HEADS_FIRST_H_
#define ATTEND_BENCH_CONTEST_HEADS_FIRST_H_

#include <cstddef>
#include <cstdint>
#include <limits>

#include "attend/tensor.h"
#include "bench/problem.h"
#include "bench/support.h"

namespace attend::bench {

// (B, M, H * D) to (B, H, M, D).
inline AlignedVector heads_first(const AlignedTensor& rows, std::int64_t heads, std::int64_t size) {
  const TensorView<const float> split = split_heads(rows.view(), heads);
  AlignedVector copy;
  for (std::int64_t b = 0; b < split.size(0); ++b) {
    for (std::int64_t h = 0; h < heads; ++h) {
      for (std::int64_t m = 0; m < split.size(2); ++m)
        copy.insert(copy.end(), split.at(b, h, m), split.at(b, h, m) + size);
    }
  }
  return copy;
}

// What is added to the scores: 0 where row i of the problem sees key j, else -inf. Lengths: a row per batch entry,
// (B, 1, N), which all queries share; causal: (1, M, N), which all heads share; else nothing.
inline AlignedVector score_mask(const Problem& problem) {
  const std::int64_t m = problem.shape.num_queries, n = problem.shape.num_keys;
  AlignedVector mask;
  const auto add_row = [&](std::int64_t len) {
    mask.insert(mask.end(), static_cast<std::size_t>(len), 0.0f);
    mask.insert(mask.end(), static_cast<std::size_t>(n - len), -std::numeric_limits<float>::infinity());
  };
  for (const std::int32_t len : problem.valid_lens.data) add_row(len);
  for (std::int64_t i = 0; problem.causal != Causal::kNone && i < m; ++i) add_row(n - m + i + 1);
  return mask;
}

}  // namespace attend::bench

#endif  // ATTEND_BENCH_CONTEST_HEADS_FIRST_H_
