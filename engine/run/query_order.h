// The order in which tiles meet the queries of an entry. Where each query has a valid length of its own, those of like
// lengths go together: a tile takes the time of its longest. EPYC (Zen 5), medians in turns, ms in the order of memory
// and so: dot/b8_h12_m512_n512_d64_query_lens on AVX3 40.9 and 25.6, on AVX2 64.6 and 43.2. EPYC (Zen 4) with AVX2
// alone: that with weights (_query_lens_weights) 81.9 and 65.6, additive/b8_m64_n512_u256_query_lens, of which 7 are
// projections, 12.0 and 11.5.
#ifndef ATTEND_RUN_QUERY_ORDER_H_
#define ATTEND_RUN_QUERY_ORDER_H_

#include <cstddef>
#include <cstdint>

#include "engine/view/valid_lens.h"

namespace attend::detail {

class QueryOrder {
 public:
  QueryOrder() = default;  // as they lie

  // Of num_queries queries of each entry, by how many keys they see, the most first, so that who shares them ends with
  // small pieces; to: memory for all of them. As they lie where queries have no lengths of their own, or none sees
  // fewer keys than the one before it.
  QueryOrder(const VisibleKeys& visible, std::int64_t batch, std::int64_t num_queries, std::int64_t num_keys,
             std::int32_t* to);

  bool is_changed() const { return queries_ != nullptr; }

  // Where it is changed, the numbers of entry b's queries from this place on.
  const std::int32_t* numbers(std::int64_t b, std::int64_t place) const { return queries_ + b * num_queries_ + place; }

  // The query of entry b that comes at this place.
  std::int64_t at(std::int64_t b, std::int64_t place) const {
    return queries_ == nullptr ? place : queries_[b * num_queries_ + place];
  }

  // Calls take(query, row, count) for each stretch of places first to last - 1: `count` queries that lie side by side,
  // the first of them at place first + row.
  template <class Take>
  void for_each_stretch(std::int64_t b, std::int64_t first, std::int64_t last, const Take& take) const {
    for (std::int64_t place = first, next; place < last; place = next) {
      const std::int64_t query = at(b, place);
      next = queries_ == nullptr ? last : place + 1;
      while (next < last && at(b, next) == query + (next - place)) ++next;
      take(query, static_cast<std::size_t>(place - first), static_cast<std::size_t>(next - place));
    }
  }

 private:
  const std::int32_t* queries_ = nullptr;
  std::int64_t num_queries_ = 0;
};

}  // namespace attend::detail

#endif  // ATTEND_RUN_QUERY_ORDER_H_
