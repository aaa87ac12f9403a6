// What a worker that scores by exponentials will want of keys and values before long: the values of the keys at work,
// which are pooled as soon as one tile of queries is scored, and the keys after these. Scores prefetch it meanwhile;
// that changes no result. Xeon with AMX, additive/b8_m64_n512_u256/AVX3: 6.92 -> 6.63 ms, while L3 was busy 7.49 ->
// 6.79.
#ifndef ATTEND_RUN_NEXT_KEYS_H_
#define ATTEND_RUN_NEXT_KEYS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "engine/kernels/prefetch.h"
#include "engine/run/pool.h"
#include "engine/run/value_spans.h"

namespace attend::detail {

class NextKeys {
 public:
  explicit NextKeys(const PoolJob& job) : job_(job), plan_(*job.plan) {}

  // This head of an item is pooled next. Behind its last head the worker probably goes on with next_item, if there is
  // such.
  void set_current_head(const TilesItem& item, std::int64_t head, std::size_t next_item);
  // A group of queries meets keys `first` to end - 1 of that head next, and their values, later those from `end` to
  // limit - 1. No other group follows is_last_group.
  void set_current_keys(const ValueSpans& values, std::size_t first, std::size_t end, std::size_t limit,
                        bool is_last_group);

  // Rows to prefetch, ...
  std::span<kernels::PrefetchRows> rows() { return rows_; }
  // ... and how many lines of them while a tile of queries is scored, of so many that have still to meet the keys at
  // work: with the first of these, all of the values.
  std::size_t num_lines(std::size_t tiles) const;

 private:
  const PoolJob& job_;
  const PlanImpl& plan_;
  enum Place { kValues, kKeys, kNumPlaces };
  std::array<kernels::PrefetchRows, kNumPlaces> rows_{};
  kernels::PrefetchRows next_head_{};  // keys that it begins with
};

}  // namespace attend::detail

#endif  // ATTEND_RUN_NEXT_KEYS_H_
