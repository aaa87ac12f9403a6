// The values of one head of one batch entry as kernels read them: packed beforehand, packed here span by span, or used
// where they lie. The bits do not depend on which.
#ifndef ATTEND_RUN_VALUE_SPANS_H_
#define ATTEND_RUN_VALUE_SPANS_H_

#include <cstddef>
#include <cstdint>
#include <optional>

#include "engine/kernels/prefetch.h"
#include "engine/run/head_spans.h"

namespace attend::detail {

class ValueSpans {
 public:
  ValueSpans(const HeadSpans& head, std::byte* worker);

  std::int64_t entry() const { return head_.b; }
  std::int64_t head() const { return head_.h; }  // of keys

  // Values from `first` on, to the end of their span, as a tile product reads them.
  struct Values {
    const float* panels;
    std::size_t panel_stride;
    std::ptrdiff_t row_stride;
  };
  Values values(std::size_t first);

  // What of memory values() will read, or begin to, for these.
  kernels::PrefetchRows values_ahead(std::size_t first, std::size_t last) const;

  // Whether the values from `first` to last - 1, which values() gave, are known to be finite.
  bool are_finite(std::size_t first, std::size_t last) const;

  // Looks at the first block of the head's values: the mean square that powers are brought to for pairs, or 0.
  float look_at_values();
  // What pooling by pairs of terms wants beside values(first), first the beginning of a block; null where none of the
  // head's go this way.
  struct ValuePairs {
    const float* sums;
    const std::int32_t* fit;
  };
  ValuePairs value_pairs(std::size_t first) const;

  // What pooling by bfloat16 parts wants beside values(first).
  struct ValueParts {
    const std::uint16_t* parts;
    std::size_t column_stride;
    const std::uint8_t* fit;  // null: all are
  };
  ValueParts value_parts(std::size_t first);

 private:
  bool are_in_place() const;
  Values values_of_span(std::size_t first);

  static constexpr std::size_t kNone = static_cast<std::size_t>(-1);

  const HeadSpans head_;
  const PlanImpl& plan_;
  const Rows<const float>& rows_;
  const KeySide& packed_;
  const std::size_t value_size_, panel_;

  float* const packed_values_;
  std::size_t packed_span_ = kNone;  // what packed_values_ holds
  bool packed_are_finite_ = true;

  float* const pair_sums_;
  std::int32_t* const fit_for_pairs_;
  std::size_t paired_span_ = kNone;  // what pair_sums_ are of
  std::optional<float> mean_square_;

  std::uint16_t* const parts_;
  std::uint8_t* const fit_for_parts_;
  std::size_t parts_span_ = kNone;  // what parts_ are of
  bool all_fit_for_parts_ = true;
};

}  // namespace attend::detail

#endif  // ATTEND_RUN_VALUE_SPANS_H_
