// What a worker that pools heads will want before long: the output rows of the queries at work, the queries after them,
// and what its next item begins with. Products prefetch it meanwhile (kernels/prefetch.h); that changes no result.
#ifndef ATTEND_RUN_NEXT_ROWS_H_
#define ATTEND_RUN_NEXT_ROWS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "engine/kernels/prefetch.h"
#include "engine/run/pool.h"

namespace attend::detail {

// Rows first to last - 1 of a head.
kernels::PrefetchRows rows_from(const Rows<const float>& rows, std::int64_t b, std::int64_t h, std::int64_t first,
                                std::int64_t last, std::int64_t size);

class NextRows {
 public:
  explicit NextRows(const PoolJob& job) : job_(job), plan_(*job.plan) {}

  // A group of queries of a head begins with query m; the last one ends before `end`.
  void at_work(std::int64_t b, std::int64_t h, std::int64_t m, std::int64_t end);
  // The worker probably goes on with this item, if there is such, and begins with so many of its keys.
  void goes_on_with(std::size_t item, std::size_t most_keys);

  // Rows to prefetch now, or null.
  kernels::PrefetchRows* next();

  // The same, for kernels that see for themselves what is left.
  std::span<kernels::PrefetchRows> all() { return rows_; }

 private:
  const PoolJob& job_;
  const PlanImpl& plan_;
  std::array<kernels::PrefetchRows, 5> rows_{};  // output, queries; queries, keys and values of the next item
};

}  // namespace attend::detail

#endif  // ATTEND_RUN_NEXT_ROWS_H_
