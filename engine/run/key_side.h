// The key side of attention in the form kernels read: packed keys or the exponentials of projected ones, packed values.
// It lies in a workspace for the length of a run, or in a caller's prepared memory for many.
#ifndef ATTEND_RUN_KEY_SIDE_H_
#define ATTEND_RUN_KEY_SIDE_H_

#include <cstddef>
#include <cstdint>

#include "engine/kernels/prefetch.h"
#include "engine/plan/plan_impl.h"
#include "engine/run/bind.h"
#include "engine/run/map_rows.h"

namespace attend::detail {

// What is not kept is null: workers then pack what they need themselves, span by span.
struct KeySide {
  const PlanImpl* plan = nullptr;
  // Projected keys of an additive score, keys of a gaussian; where queries are few, keys and values
  // (plan.reads_rows()).
  Rows<float> rows{}, value_rows{};
  float* key_panels = nullptr;            // dot, gaussian
  float* key_exps = nullptr;              // factored additive score: e^2b in vectors of keys ...
  float* key_max = nullptr;               // ... and max|b| per key
  float* value_panels = nullptr;          // panels of key_capacity rows
  std::int32_t* values_finite = nullptr;  // per head
  const std::int32_t* lens = nullptr;     // prepared keys: how many there are, per entry

  // What is kept: keys from first_key on, `capacity` of them per head (whole panels), of entries from first_entry on.
  std::int64_t first_entry = 0;
  std::size_t first_key = 0, capacity = 0;
  bool is_window = false;  // of one worker alone

  std::size_t head(std::int64_t b, std::int64_t h) const {
    return static_cast<std::size_t>((b - first_entry) * plan->num_kv_heads + h);
  }
  std::size_t place(std::int64_t b, std::int64_t h, std::size_t key) const {
    return head(b, h) * capacity + key - first_key;
  }
  // From key `first` on, a multiple of the panel width.
  float* key_panels_at(std::int64_t b, std::int64_t h, std::size_t first) const {
    return key_panels + place(b, h, first) * plan->inner_size;
  }
  float* key_exps_at(std::int64_t b, std::int64_t h, std::size_t first) const {
    return key_exps + place(b, h, first) * plan->inner_size;
  }
  // Where those of `count` keys of all heads lie, for who writes them; nothing in a window, which stays in its worker's
  // cache. Others were read by all workers, whose cores keep them. EPYC (Zen 5), AVX3, cores without a common L3:
  // additive/b1_m128_n512_u256_threads2 545 -> 530 us, on AVX2 1218 -> 1182; by one thread as long. Were windows
  // prefetched too, b1_m1_n16384_u256 would take 2 to 4 % longer.
  kernels::PrefetchRows key_exps_rows(std::int64_t b, std::size_t first, std::size_t count) const {
    if (key_exps == nullptr || is_window) return {};
    return {.next = key_exps_at(b, 0, first),
            .stride = static_cast<std::ptrdiff_t>(capacity * plan->inner_size),
            .num_rows = static_cast<std::size_t>(plan->num_kv_heads),
            .size = count * plan->inner_size};
  }
  float* key_max_at(std::int64_t b, std::int64_t h, std::size_t first) const { return key_max + place(b, h, first); }
  // The panels' rows from value `first` on, any; a panel takes `capacity` times panel_width elements.
  float* value_panels_at(std::int64_t b, std::int64_t h, std::size_t first) const {
    return value_panels + head(b, h) * capacity * plan->padded_values +
           (first - first_key) * plan->kernels->pack.panel_width;
  }

  // Takes in `count` projected rows of entry b, all heads side by side, that are its keys (values) from `first` on.
  // all: keys that the entry will have; with the last of them, what is left of their panel may be written.
  // Several threads may take in different rows of one entry at the same time.
  void take_keys(std::int64_t b, std::int64_t first, std::int64_t count, const float* from, std::ptrdiff_t stride,
                 std::int64_t all) const;
  void take_values(std::int64_t b, std::int64_t first, std::int64_t count, const float* from,
                   std::ptrdiff_t stride) const;
  // The same for one head's rows.
  void take_head_values(std::int64_t b, std::int64_t h, std::int64_t first, std::int64_t count, const float* from,
                        std::ptrdiff_t stride) const;
};

// Takes in projected keys that are all there are: row 0 of an entry is its first key, starts counts them (MapJob).
class KeysIntoSide final : public RowSink {
 public:
  // values: of these keys, where they are pooled next.
  KeysIntoSide(const KeySide& side, const std::int64_t* starts, const Rows<const float>& values = {})
      : side_(side), starts_(starts), values_(values) {}
  void take(std::int64_t b, std::int64_t first, std::int64_t count, const float* rows,
            std::ptrdiff_t stride) const override;
  kernels::PrefetchRows written(std::int64_t b, std::int64_t first, std::int64_t count) const override {
    return side_.key_exps_rows(b, static_cast<std::size_t>(first), static_cast<std::size_t>(count));
  }
  std::span<const float> read_next(std::int64_t b, std::int64_t first, std::int64_t count) const override {
    const std::int64_t size = side_.plan->head_value_size;
    if (values_.data == nullptr || values_.row_stride != size) return {};
    return {values_.at(b, 0, first), static_cast<std::size_t>(count * size)};
  }

 private:
  const KeySide& side_;
  const std::int64_t* starts_;
  const Rows<const float> values_;
};

// Within a run's workspace: the exponentials of a factored score, or nothing.
KeySide workspace_side(const PlanImpl& plan, std::byte* workspace);
// Within a worker's part of it: the exponentials of a window of keys.
KeySide worker_side(const PlanImpl& plan, std::byte* worker);
// Within prepared memory.
KeySide prepared_side(const PlanImpl& plan, std::byte* memory);

}  // namespace attend::detail

#endif  // ATTEND_RUN_KEY_SIDE_H_
