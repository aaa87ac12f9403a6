// What a worker that pools heads in lanes reads and writes next, in the order of memory: of heads side by side, rows of
// all of them, some for each head at work, so that lines follow each other and hardware prefetchers go along. Intel
// Xeon with AMX: query_lanes/q32_n32_d64_l3 1.37 ms, prefetched head after head (_ahead) 1.35, _in_order 1.18. That
// changes no result.
#ifndef ATTEND_RUN_NEXT_SLICES_H_
#define ATTEND_RUN_NEXT_SLICES_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "engine/kernels/prefetch.h"
#include "engine/run/pool.h"

namespace attend::detail {

class NextSlices {
 public:
  explicit NextSlices(const PoolJob& job) : job_(job), plan_(*job.plan) {}

  // What follows: keys first to last - 1 of an entry's heads, and their values.
  void set_next_keys(std::int64_t b, const HeadRange& heads, std::size_t first, std::size_t last);
  // The same, and the queries and output of all heads that share these.
  void set_next_heads(std::int64_t b, const HeadRange& heads, std::size_t first, std::size_t last);
  // Or what an item, if there is such, begins with: so many of its heads and their keys.
  void set_next_item(std::size_t item, std::size_t most_heads, std::size_t most_keys);

  // The i-th of n parts of it, for kernels to prefetch; until the next call.
  std::span<kernels::PrefetchRows> slice(std::size_t i, std::size_t n);

 private:
  // Rows of some heads: side by side, or each by itself.
  struct HeadRows {
    kernels::PrefetchRows rows;  // side by side: whole; else of the first head
    std::size_t heads = 0;
    std::ptrdiff_t head_stride = 0;  // else
    bool side_by_side = false;
  };
  static HeadRows rows_of_heads(const Rows<const float>& rows, std::int64_t b, std::int64_t head, std::int64_t heads,
                                std::size_t first, std::size_t last, std::int64_t size);

  const PoolJob& job_;
  const PlanImpl& plan_;
  enum Place { kQueries, kKeys, kValues, kOutput, kNumPlaces };
  std::array<HeadRows, kNumPlaces> next_{};
  std::array<kernels::PrefetchRows, kNumPlaces> slice_{};
};

}  // namespace attend::detail

#endif  // ATTEND_RUN_NEXT_SLICES_H_
