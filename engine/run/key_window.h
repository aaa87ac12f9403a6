// Keys that the worker who pools them projects itself, some at a time, so that they never leave its cache.
#ifndef ATTEND_RUN_KEY_WINDOW_H_
#define ATTEND_RUN_KEY_WINDOW_H_

#include <cstddef>
#include <cstdint>

#include "engine/run/key_side.h"
#include "engine/run/map_rows.h"

namespace attend::detail {

class KeyWindow {
 public:
  // keys: the job that maps them, of which rows from any place may be asked for; its destination and sink are ignored.
  // values: of these keys.
  KeyWindow(const PlanImpl& plan, const MapJob& keys, const Rows<const float>& values, std::byte* worker)
      : plan_(plan), keys_(keys), worker_(worker), side_(worker_side(plan, worker)) {
    if (plan.values_with_window) values_ = values;
    keys_.destination = {};
  }

  // Where the exponentials are that hold() has made.
  const KeySide& side() const { return side_; }

  // Makes the exponentials of keys `first` to last - 1, as far as they are visible, of entries b to b_end - 1; nothing
  // if they are there. Several entries: whole ones. False: oneDNN has failed, now or before, and what lies there
  // must not be scored: kernels read what the maxima of rows tell them to.
  [[nodiscard]] bool hold(std::int64_t b, std::int64_t b_end, std::size_t first, std::size_t last);

  // Packs the projected keys themselves, of one entry, into panels.
  void pack(std::int64_t b, std::size_t first, std::size_t last, float* panels);

  // Whether oneDNN has failed in any of these calls.
  bool failed() const { return failed_; }

 private:
  // Projects keys `first` to last - 1 of entries b to b_end - 1 into the sink.
  void project(std::int64_t b, std::int64_t b_end, std::size_t first, std::size_t last, const RowSink& sink);

  const PlanImpl& plan_;
  MapJob keys_;
  std::byte* const worker_;
  KeySide side_;
  Rows<const float> values_{};  // that are prefetched while keys are projected
  // Held are keys side_.first_key to last_ - 1 of entries side_.first_entry to b_end_ - 1.
  std::int64_t b_end_ = 0;
  std::size_t last_ = 0;
  bool failed_ = false;
};

}  // namespace attend::detail

#endif  // ATTEND_RUN_KEY_WINDOW_H_
