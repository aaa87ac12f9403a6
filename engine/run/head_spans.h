// Where a worker is: at the keys, and their values, of one head of one entry, which it takes span by span.
#ifndef ATTEND_RUN_HEAD_SPANS_H_
#define ATTEND_RUN_HEAD_SPANS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "engine/run/pool.h"

namespace attend::detail {

// Keys `begin` to limit - 1. Spans count from `begin` on; a span is named by its first key.
struct HeadSpans {
  const PoolJob& job;
  std::int64_t b, h;
  std::size_t begin, limit;

  std::size_t span_of(std::size_t key) const { return key - (key - begin) % job.plan->span_keys; }
  std::size_t size_of(std::size_t span) const { return std::min(job.plan->span_keys, limit - span); }
};

}  // namespace attend::detail

#endif  // ATTEND_RUN_HEAD_SPANS_H_
