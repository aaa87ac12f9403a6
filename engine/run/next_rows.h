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

  // Queries first to last - 1 of a head of entry b.
  struct Queries {
    std::int64_t h = 0, first = 0, last = 0;
  };
  // The output rows of a group of queries will be written, and then the next group be packed. Either may be empty.
  void set_current(std::int64_t b, const Queries& group, const Queries& next_group);
  // The worker probably goes on with this item, if there is such, and begins with so many of its keys. They are
  // prefetched as soon as nothing else is: more than L2 holds come as far as L3.
  void set_next_item(std::size_t item, std::size_t most_keys);

  // Rows to prefetch now, or null.
  kernels::PrefetchRows* next();

  // The same, for kernels that see for themselves what is left.
  std::span<kernels::PrefetchRows> all() { return rows_; }

 private:
  // rows_from, prefetched as the plan says.
  kernels::PrefetchRows from(const Rows<const float>& rows, std::int64_t b, std::int64_t h, std::int64_t first,
                             std::int64_t last, std::int64_t size) const;

  const PoolJob& job_;
  const PlanImpl& plan_;
  // The output, and the queries of the next group; what the next item begins with.
  enum Place { kOutput, kQueries, kItemQueries, kItemKeys, kItemValues, kNumPlaces };
  std::array<kernels::PrefetchRows, kNumPlaces> rows_{};
};

}  // namespace attend::detail

#endif  // ATTEND_RUN_NEXT_ROWS_H_
