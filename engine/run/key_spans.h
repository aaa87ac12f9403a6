// The keys of one head of one batch entry as kernels read them: packed beforehand, packed here span by span, or
// projected here. The bits do not depend on which.
#ifndef ATTEND_RUN_KEY_SPANS_H_
#define ATTEND_RUN_KEY_SPANS_H_

#include <cstddef>
#include <cstdint>
#include <optional>

#include "engine/run/center.h"
#include "engine/run/head_spans.h"
#include "engine/run/key_window.h"

namespace attend::detail {

class KeySpans {
 public:
  // window: where keys are projected, or null.
  KeySpans(const HeadSpans& head, KeyWindow* window, std::byte* worker);

  // What a gaussian's keys and queries are moved by, or null.
  const float* center() const { return center_.key; }
  // Whether that follows from the keys which a row sees that sees the first `len` of the head.
  bool sees_center(std::int32_t len) const { return len >= 0 && static_cast<std::size_t>(len) >= center_.seen; }

  // The span that begins with key `span` is used next: projects it, if that is done here. False if that failed.
  [[nodiscard]] bool hold(std::size_t span);

  // Keys from `first` on, a multiple of the panel width, to the end of their span, or where products go by parts, of
  // their tile: as panels ...
  const float* panels(std::size_t first);
  // ... or for the factored score their exponentials, of how many keys these are, and the largest |b| of each.
  const float* exps(std::size_t first) const { return packed_.key_exps_at(head_.b, head_.h, first); }
  std::size_t num_exps(std::size_t first) const;
  const float* max(std::size_t first) const { return packed_.key_max_at(head_.b, head_.h, first); }

  // Looks at the first span of the head's keys: the mean square that queries are brought to for pairs, or 0.
  float look_for_pairs();
  // What products by pairs of terms want beside panels(first); null where none of the head's go this way.
  struct Pairs {
    const float* sums;
    const std::int32_t* fit_keys;
  };
  Pairs pairs(std::size_t first);

  // What products by bfloat16 parts want beside panels(first).
  struct Parts {
    const std::uint16_t* parts;
    const std::uint8_t* fit;  // null: all are
  };
  Parts key_parts(std::size_t first);

 private:
  float look_for_pairs(std::size_t span, float mean_square);

  static constexpr std::size_t kNone = static_cast<std::size_t>(-1);

  const HeadSpans head_;
  const PlanImpl& plan_;
  KeyWindow* const window_;
  const KeySide& packed_;  // the window's, or the run's
  const std::size_t score_size_, panel_;
  Center center_;
  bool are_packed_ = true;  // whether prepared keys are packed about center_

  float* const packed_keys_;
  std::size_t packed_span_ = kNone;  // what packed_keys_ holds; by parts, a tile

  float* const pair_sums_;
  std::int32_t* const fit_for_pairs_;
  std::size_t paired_span_ = kNone;  // what pair_sums_ are of
  std::optional<float> mean_square_for_pairs_;

  std::uint16_t* const parts_;
  std::uint8_t* const fit_for_parts_;
  std::size_t parts_span_ = kNone;  // what parts_ are of
  bool all_fit_for_parts_ = true;
};

}  // namespace attend::detail

#endif  // ATTEND_RUN_KEY_SPANS_H_
