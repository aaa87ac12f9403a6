// valid_lens, rank 1 (B) or 2 (B, M): checked once. How many keys each query sees, lengths and causal mask together, is
// read through one class.
#ifndef ATTEND_VIEW_VALID_LENS_H_
#define ATTEND_VIEW_VALID_LENS_H_

#include <algorithm>
#include <cstdint>

#include "attend/plan.h"
#include "attend/tensor_view.h"
#include "engine/base/message.h"

namespace attend {

// Rank, sizes and every value in 0..N; an Error names the first bad one. Not given is fine. what_n_is: for the message.
inline void check_valid_lens(const TensorView<const std::int32_t>& lens, std::int64_t batch, std::int64_t num_queries,
                             std::int64_t num_keys, const char* what_n_is = "the number of keys") {
  if (lens.empty()) return;
  const bool per_query = lens.rank() == 2;
  if ((lens.rank() != 1 && !per_query) || lens.size(0) != batch || (per_query && lens.size(1) != num_queries)) {
    fail("valid_lens is ", to_string(lens.sizes()), ", expected (", batch, ") or (", batch, ", ", num_queries, ")");
  }
  if (lens.data() == nullptr) {
    if (lens.num_elements() > 0) fail("valid_lens is at a null pointer, expected memory");
    return;
  }
  for (std::int64_t b = 0; b < batch; ++b) {
    for (std::int64_t m = 0; m < (per_query ? num_queries : 1); ++m) {
      const std::int32_t len = per_query ? *lens.at(b, m) : *lens.at(b);
      if (len >= 0 && len <= num_keys) continue;
      if (per_query) fail("valid_lens[", b, ", ", m, "] is ", len, ", expected 0 to ", num_keys, ", ", what_n_is);
      fail("valid_lens[", b, "] is ", len, ", expected 0 to ", num_keys, ", ", what_n_is);
    }
  }
}

// Which queries of a run are computed and how many keys, from the first on, each of them sees.
class VisibleKeys {
 public:
  VisibleKeys() = default;
  VisibleKeys(const TensorView<const std::int32_t>& lens, std::int64_t num_queries, std::int64_t num_keys,
              Causal causal = Causal::kNone, Padding padding = Padding::kCompute)
      : lens_(lens),
        num_queries_(num_queries),
        num_keys_(num_keys),
        // Query m sees `first_` + m keys at most.
        first_(causal == Causal::kTopLeft ? 1 : num_keys - num_queries + 1),
        causal_(causal != Causal::kNone),
        skips_(padding == Padding::kSkipQueries && !lens.empty()) {}

  // Keys of query m of batch entry b.
  std::int32_t num_keys(std::int64_t b, std::int64_t m) const {
    std::int64_t len = num_keys_;
    if (lens_.data() != nullptr) len = lens_.rank() == 2 ? *lens_.at(b, m) : *lens_.at(b);
    if (causal_) len = std::clamp<std::int64_t>(first_ + m, 0, len);
    return static_cast<std::int32_t>(len);
  }

  // Whether all queries of an entry see as many.
  bool is_uniform() const { return !causal_ && (lens_.empty() || lens_.rank() == 1); }

  // Whether each query has a valid length of its own.
  bool has_lens_per_query() const { return lens_.rank() == 2; }

  // Queries of entry b that are computed, the first ones: all, or those within its valid length.
  std::int64_t num_queries(std::int64_t b) const {
    return skips_ ? std::min<std::int64_t>(num_queries_, *lens_.at(b)) : num_queries_;
  }

  // Keys of entry b that some query sees.
  std::int32_t limit(std::int64_t b) const {
    const std::int64_t queries = num_queries(b);
    if (queries == 0) return 0;
    if (lens_.empty() || lens_.rank() == 1) return num_keys(b, queries - 1);
    std::int32_t most = 0;
    for (std::int64_t m = 0; m < queries; ++m) most = std::max(most, num_keys(b, m));
    return most;
  }

  bool skips_queries() const { return skips_; }

 private:
  TensorView<const std::int32_t> lens_;
  std::int64_t num_queries_ = 0, num_keys_ = 0, first_ = 0;
  bool causal_ = false, skips_ = false;
};

}  // namespace attend

#endif  // ATTEND_VIEW_VALID_LENS_H_
