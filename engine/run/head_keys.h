// The keys and values of one head of one batch entry as kernels read them: packed beforehand, packed here span by span,
// projected here, or used where they lie. The bits do not depend on which.
#ifndef ATTEND_RUN_HEAD_KEYS_H_
#define ATTEND_RUN_HEAD_KEYS_H_

#include <cstddef>
#include <cstdint>
#include <optional>

#include "engine/kernels/prefetch.h"
#include "engine/run/key_window.h"
#include "engine/run/pool.h"

namespace attend::detail {

// What a gaussian's keys are packed about: of the first three of a head's keys whose elements are all finite, the one
// that is nearest to the others, so that no single key far away costs all others their accuracy. Of fewer, the first;
// of none, null.
struct Center {
  const float* key = nullptr;
  std::size_t seen = 0;  // of the head's first keys, so many decide it; more than there are, where three are not finite
};
Center central_key(const Rows<const float>& keys, std::int64_t b, std::int64_t h, std::size_t num_keys,
                   std::size_t size);

class HeadKeys {
 public:
  // Keys `begin` to limit - 1. window: where keys are projected, or null.
  HeadKeys(const PoolJob& job, std::int64_t b, std::int64_t h, std::size_t begin, std::size_t limit, KeyWindow* window,
           std::byte* worker);

  std::int64_t entry() const { return b_; }
  std::int64_t head() const { return h_; }  // of keys

  // What a gaussian's keys and queries are moved by, or null.
  const float* center() const { return center_.key; }
  // Whether that follows from the keys which a row sees that sees the first `len` of the head.
  bool sees_center(std::int32_t len) const { return len >= 0 && static_cast<std::size_t>(len) >= center_.seen; }

  // The span that begins with key `span` is used next: projects it, if that is done here.
  void hold(std::size_t span);

  // Keys from `first` on, a multiple of the panel width, to the end of their span, or where products go by parts, of
  // their tile: as panels ...
  const float* panels(std::size_t first);
  // ... what their products by pairs of terms want beside them, null where none of the head's go this way ...
  struct Pairs {
    const float* sums;
    const std::int32_t* fit_keys;
  };
  Pairs pairs(std::size_t first) const;
  // ... their exponentials, of how many keys these are, and the largest |b| of each, for the factored score.
  const float* exps(std::size_t first) const { return packed_.key_exps_at(b_, h_, first); }
  std::size_t num_exps(std::size_t first) const {
    return static_cast<std::size_t>(packed_.lens != nullptr ? packed_.lens[b_] : job_.key_limits[b_]) - first;
  }
  const float* max(std::size_t first) const { return packed_.key_max_at(b_, h_, first); }

  // What products by bfloat16 parts want beside panels(first).
  struct Parts {
    const std::uint16_t* parts;
    const std::uint8_t* fit;  // null: all are
  };
  Parts key_parts(std::size_t first);
  // And beside values(first).
  struct ValueParts {
    const std::uint16_t* parts;
    std::size_t column_stride;
    const std::uint8_t* fit;
  };
  ValueParts value_parts(std::size_t first);

  // Looks at all keys of the head, before any are met: the mean square that queries are brought to for pairs, or 0.
  float look_for_pairs();

  // Values from `first` on, to the end of their span, as a tile product reads them.
  struct Values {
    const float* panels;
    std::size_t panel_stride;
    std::ptrdiff_t row_stride;
  };
  Values values(std::size_t first);

  // What of memory values() will read, or begin to, for these.
  kernels::PrefetchRows values_ahead(std::size_t first, std::size_t last) const;

  // Looks at the first block of the head's values: the mean square that powers are brought to for pairs, or 0.
  float look_at_values();
  // What pooling by pairs of terms wants beside values(first), first the beginning of a block; null where none of the
  // head's go this way.
  struct ValuePairs {
    const float* sums;
    const std::int32_t* fit;
  };
  ValuePairs value_pairs(std::size_t first) const;

  // Whether the values from `first` to last - 1, which values() gave, are known to be finite.
  bool are_finite(std::size_t first, std::size_t last) const;

 private:
  std::size_t span_begin(std::size_t first) const { return first - (first - begin_) % plan_.span_keys; }
  std::size_t span_size(std::size_t span) const;
  bool values_in_place() const;
  Values values_of_span(std::size_t first);

  static constexpr std::size_t kNone = static_cast<std::size_t>(-1);

  const PoolJob& job_;
  const PlanImpl& plan_;
  const KeySide& packed_;
  KeyWindow* const window_;
  const std::int64_t b_, h_;
  const std::size_t begin_, limit_;
  const std::size_t score_size_, value_size_, panel_;
  float* const packed_keys_;
  float* const packed_values_;
  float* const pair_sums_;
  std::int32_t* const fit_keys_;
  std::optional<float> mean_square_for_pairs_;
  float* const value_pair_sums_;
  std::int32_t* const fit_values_;
  std::optional<float> values_mean_square_;
  Center center_;
  bool are_packed_ = true;  // whether prepared keys are packed about center_
  std::uint16_t* const key_parts_;
  std::uint8_t* const fit_for_parts_;
  std::uint16_t* const value_parts_;
  std::uint8_t* const values_fit_for_parts_;
  bool all_keys_fit_ = true, all_values_fit_ = true;
  std::size_t key_parts_span_ = kNone, value_parts_span_ = kNone;  // what these are of
  std::size_t keys_span_ = kNone, values_span_ = kNone;            // what packed_keys_ and packed_values_ hold
  std::size_t paired_span_ = kNone;                                // what value_pair_sums_ are of
  bool values_finite_ = true;
};

}  // namespace attend::detail

#endif  // ATTEND_RUN_HEAD_KEYS_H_
