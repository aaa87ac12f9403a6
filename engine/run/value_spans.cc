#include "engine/run/value_spans.h"

#include <bit>
#include <cstdint>

#include "engine/base/carver.h"
#include "engine/run/next_rows.h"

namespace attend::detail {
namespace {

constexpr std::uint32_t kSign = 0x80000000, kLowestExponent = 0x00800000;

// Has the sign bit where x is infinite or NaN, whose exponents are the highest. Compilers make vectors of this, but of
// no sum of floats, whose order they keep.
std::uint32_t carry_of_exponent(float x) { return (std::bit_cast<std::uint32_t>(x) & ~kSign) + kLowestExponent; }

}  // namespace

ValueSpans::ValueSpans(const HeadSpans& head, std::byte* worker)
    : head_(head),
      plan_(*head.job.plan),
      rows_(head.job.values),
      packed_(head.job.packed),
      value_size_(static_cast<std::size_t>(plan_.head_value_size)),
      panel_(plan_.kernels->pack.panel_width),
      packed_values_(part<float>(worker, plan_.layout.packed_values)),
      pair_sums_(part<float>(worker, plan_.layout.value_pair_sums)),
      fit_for_pairs_(part<std::int32_t>(worker, plan_.layout.fit_values)),
      parts_(part<std::uint16_t>(worker, plan_.layout.value_parts)),
      fit_for_parts_(part<std::uint8_t>(worker, plan_.layout.values_with_parts)) {}

ValueSpans::Values ValueSpans::values(std::size_t first) {
  const Values values = values_of_span(first);
  const std::size_t span = head_.span_of(first);
  if (!plan_.pairs_values || span == paired_span_ || mean_square_ == 0.0f) return values;
  // Of the first span, all values are compared with those of its first block.
  paired_span_ = span;
  mean_square_ = plan_.kernels->value_pairs.values(
      {.values = values.panels - static_cast<std::ptrdiff_t>(first - span) * values.row_stride,
       .panel_stride = values.panel_stride,
       .row_stride = values.row_stride,
       .num_values = head_.size_of(span),
       .size = value_size_,
       .mean_square = mean_square_.value_or(0),
       .pair_sums = pair_sums_,
       .fit = fit_for_pairs_});
  return values;
}

ValueSpans::Values ValueSpans::values_of_span(std::size_t first) {
  if (packed_.value_panels != nullptr) {
    return {packed_.value_panels_at(head_.b, head_.h, first), packed_.capacity * panel_,
            static_cast<std::ptrdiff_t>(panel_)};
  }
  // Products by parts read values once, to take them apart.
  if (plan_.parts || are_in_place()) {
    return {rows_.at(head_.b, head_.h, static_cast<std::int64_t>(first)), panel_, rows_.row_stride};
  }
  const std::size_t span = head_.span_of(first), size = head_.size_of(span);
  const std::size_t row_stride = plan_.packed_value_stride();
  if (span != packed_span_) {
    packed_span_ = span;
    packed_are_finite_ =
        plan_.kernels->pack.values({.values = rows_.at(head_.b, head_.h, static_cast<std::int64_t>(span)),
                                    .values_stride = rows_.row_stride,
                                    .num_values = size,
                                    .size = value_size_,
                                    .panels = packed_values_,
                                    .panel_stride = size * row_stride,
                                    .row_stride = row_stride});
  }
  return {packed_values_ + (first - span) * row_stride, size * row_stride, static_cast<std::ptrdiff_t>(row_stride)};
}

// Rows of whole panels need no packing. Those that lie as a panel does are used there, where all queries see the same
// keys: others have to know which values are finite, which packing tells on the way (attend plan --layer dot --shape
// 8,256,256,64 --tune on AVX3, Zen 4: 1.35 -> 1.32 ms). Additive scores use other rows too, unless they lie a
// multiple of 4 KiB apart and share the sets of L1 (packing then won 10 % for dot products), or so many queries pass
// them that a copy in order is worth its time (2 to 3 % at 256 queries, nothing at 128; bench additive/*).
bool ValueSpans::are_in_place() const {
  constexpr std::ptrdiff_t kPage = 4096 / sizeof(float);
  constexpr std::size_t kMaxQueries = 128;
  if (value_size_ == panel_ && rows_.row_stride == static_cast<std::ptrdiff_t>(panel_) &&
      head_.job.visible.is_uniform()) {
    return true;
  }
  return plan_.layer->score == Score::kAdditive && value_size_ % panel_ == 0 && value_size_ > 0 &&
         (plan_.group_queries == 1 || (rows_.row_stride % kPage != 0 && plan_.group_queries <= kMaxQueries));
}

kernels::PrefetchRows ValueSpans::values_ahead(std::size_t first, std::size_t last) const {
  if (packed_.value_panels != nullptr) {
    return {packed_.value_panels_at(head_.b, head_.h, first), static_cast<std::ptrdiff_t>(packed_.capacity * panel_),
            plan_.padded_values / panel_, (last - first) * panel_};
  }
  if (!are_in_place() && head_.span_of(first) == packed_span_) return {};
  return rows_from(rows_, head_.b, head_.h, static_cast<std::int64_t>(first), static_cast<std::int64_t>(last),
                   plan_.head_value_size);
}

bool ValueSpans::are_finite(std::size_t first, std::size_t last) const {
  if (packed_.values_finite != nullptr) return packed_.values_finite[packed_.head(head_.b, head_.h)] != 0;
  if (!are_in_place()) return packed_are_finite_;
  for (std::size_t j = first; j < last; ++j) {
    const float* row = rows_.at(head_.b, head_.h, static_cast<std::int64_t>(j));
    std::uint32_t any = 0;
    for (std::size_t n = 0; n < value_size_; ++n) any |= carry_of_exponent(row[n]);
    if ((any & kSign) != 0) return false;
  }
  return true;
}

float ValueSpans::look_at_values() {
  if (!mean_square_) values(head_.begin);
  return *mean_square_;
}

ValueSpans::ValuePairs ValueSpans::value_pairs(std::size_t first) const {
  if (mean_square_.value_or(0) == 0) return {nullptr, nullptr};
  const std::size_t block = (first - paired_span_) / kernels::kInnerBlock;
  return {pair_sums_ + block * plan_.padded_values, fit_for_pairs_ + block * (plan_.padded_values / panel_)};
}

ValueSpans::ValueParts ValueSpans::value_parts(std::size_t first) {
  const std::size_t span = head_.span_of(first), size = head_.size_of(span);
  if (span != parts_span_) {
    parts_span_ = span;
    const Values all = values(span);
    all_fit_for_parts_ = plan_.kernels->tile_parts.values({.values = all.panels,
                                                           .panel_stride = all.panel_stride,
                                                           .row_stride = all.row_stride,
                                                           .num_values = size,
                                                           .size = value_size_,
                                                           .parts = parts_,
                                                           .fit = fit_for_parts_});
  }
  const std::size_t value = first - span;
  return {parts_ + kernels::value_parts_at(value), kernels::parts_size(kernels::kPartsColumns, size),
          all_fit_for_parts_ ? nullptr : fit_for_parts_ + value};
}

}  // namespace attend::detail
