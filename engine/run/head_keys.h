// The keys and values of one head of one batch entry, for those who pool them.
#ifndef ATTEND_RUN_HEAD_KEYS_H_
#define ATTEND_RUN_HEAD_KEYS_H_

#include <cstddef>
#include <cstdint>

#include "engine/run/key_spans.h"
#include "engine/run/value_spans.h"

namespace attend::detail {

class HeadKeys : public KeySpans, public ValueSpans {
 public:
  // Keys `begin` to limit - 1. window: where keys are projected, or null.
  HeadKeys(const PoolJob& job, std::int64_t b, std::int64_t h, std::size_t begin, std::size_t limit, KeyWindow* window,
           std::byte* worker)
      : HeadKeys(HeadSpans{job, b, h, begin, limit}, window, worker) {}

 private:
  HeadKeys(const HeadSpans& head, KeyWindow* window, std::byte* worker)
      : KeySpans(head, window, worker), ValueSpans(head, worker) {}
};

}  // namespace attend::detail

#endif  // ATTEND_RUN_HEAD_KEYS_H_
