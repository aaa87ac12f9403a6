// valid_lens, rank 1 (B) or 2 (B, M): checked once, then read through one function.
#ifndef ATTEND_VIEW_VALID_LENS_H_
#define ATTEND_VIEW_VALID_LENS_H_

#include <algorithm>
#include <cstdint>

#include "attend/tensor_view.h"
#include "engine/base/message.h"

namespace attend {

// Rank, sizes and every value in 0..N; an Error names the first bad one. Not given is fine.
inline void check_valid_lens(const TensorView<const std::int32_t>& lens, std::int64_t batch, std::int64_t num_queries,
                             std::int64_t num_keys) {
  if (lens.empty()) return;
  const bool per_query = lens.rank() == 2;
  if ((lens.rank() != 1 && !per_query) || lens.size(0) != batch || (per_query && lens.size(1) != num_queries)) {
    fail("valid_lens is ", to_string(lens.sizes()), ", expected (", batch, ") or (", batch, ", ", num_queries, ")");
  }
  if (lens.data() == nullptr && lens.num_elements() > 0) fail("valid_lens is at a null pointer, expected memory");
  for (std::int64_t b = 0; b < batch; ++b) {
    for (std::int64_t m = 0; m < (per_query ? num_queries : 1); ++m) {
      const std::int32_t len = per_query ? *lens.at(b, m) : *lens.at(b);
      if (len >= 0 && len <= num_keys) continue;
      if (per_query)
        fail("valid_lens[", b, ", ", m, "] is ", len, ", expected 0 to ", num_keys, ", the number of keys");
      fail("valid_lens[", b, "] is ", len, ", expected 0 to ", num_keys, ", the number of keys");
    }
  }
}

// Valid keys of query m of batch entry b.
inline std::int32_t valid_len(const TensorView<const std::int32_t>& lens, std::int64_t b, std::int64_t m,
                              std::int64_t num_keys) {
  if (lens.empty()) return static_cast<std::int32_t>(num_keys);
  return lens.rank() == 2 ? *lens.at(b, m) : *lens.at(b);
}

// Keys of batch entry b that some query sees: the largest length among its rows.
inline std::int32_t key_limit(const TensorView<const std::int32_t>& lens, std::int64_t b, std::int64_t num_queries,
                              std::int64_t num_keys) {
  if (lens.empty()) return static_cast<std::int32_t>(num_queries > 0 ? num_keys : 0);
  std::int32_t limit = 0;
  for (std::int64_t m = 0; m < num_queries; ++m) limit = std::max(limit, valid_len(lens, b, m, num_keys));
  return limit;
}

}  // namespace attend

#endif  // ATTEND_VIEW_VALID_LENS_H_
