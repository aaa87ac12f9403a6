#include "engine/run/head_keys.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "engine/base/carver.h"
#include "engine/base/checked.h"
#include "engine/run/next_rows.h"

namespace attend::detail {

HeadKeys::HeadKeys(const PoolJob& job, std::int64_t b, std::int64_t h, std::size_t begin, std::size_t limit,
                   KeyWindow* window, std::byte* worker)
    : job_(job),
      plan_(*job.plan),
      packed_(window != nullptr ? window->side() : job.packed),
      window_(window),
      b_(b),
      h_(h),
      begin_(begin),
      limit_(limit),
      score_size_(static_cast<std::size_t>(plan_.score_size)),
      value_size_(static_cast<std::size_t>(plan_.head_value_size)),
      panel_(plan_.kernels->pack.panel_width),
      packed_keys_(part<float>(worker, plan_.layout.packed_keys)),
      packed_values_(part<float>(worker, plan_.layout.packed_values)),
      pair_sums_(part<float>(worker, plan_.layout.pair_sums)),
      fit_keys_(part<std::int32_t>(worker, plan_.layout.fit_keys)),
      value_pair_sums_(part<float>(worker, plan_.layout.value_pair_sums)),
      fit_values_(part<std::int32_t>(worker, plan_.layout.fit_values)),
      key_parts_(part<std::uint16_t>(worker, plan_.layout.key_parts)),
      fit_for_parts_(part<std::uint8_t>(worker, plan_.layout.keys_with_parts)),
      value_parts_(part<std::uint16_t>(worker, plan_.layout.value_parts)),
      values_fit_for_parts_(part<std::uint8_t>(worker, plan_.layout.values_with_parts)) {
  // Gaussian: -|q - k|^2 / 2 = q.k - |k|^2 / 2 - |q|^2 / 2, where the last term is the same for all keys of a row. Far
  // from the origin the products would cancel, so both sides are moved by a key c first. With R the largest distance of
  // a query to a visible key, |q - c| <= R and |k - c| <= 2 R: rounding stays within a few ulps of R^2 / sigma^2 = 2
  // max|score|.
  if (plan_.layer->score != Score::kGaussian) return;
  center_ = central_key(job.keys, b, h, static_cast<std::size_t>(job.key_limits[b]), score_size_);
  // Fewer keys than were prepared may have another center; then they are packed anew.
  if (packed_.lens == nullptr) return;
  const auto prepared = static_cast<std::size_t>(packed_.lens[b]);
  are_packed_ = center_.key == central_key(job.keys, b, h, prepared, score_size_).key;
}

std::size_t HeadKeys::span_size(std::size_t span) const { return std::min(plan_.span_keys, limit_ - span); }

void HeadKeys::hold(std::size_t span) {
  if (window_ != nullptr) window_->hold(b_, b_ + 1, span, span + span_size(span));
}

const float* HeadKeys::panels(std::size_t first) {
  if (packed_.key_panels != nullptr && are_packed_) return packed_.key_panels_at(b_, h_, first);
  // By parts, a tile at a time: what is taken apart is not read again, but for keys and queries that are not fit.
  const std::size_t held = plan_.parts ? plan_.tile_keys : plan_.span_keys;
  const std::size_t span = first - (first - begin_) % held;
  if (span != keys_span_ && window_ != nullptr) {
    window_->pack(b_, span, span + plan_.span_keys, packed_keys_);
  } else if (span != keys_span_) {
    plan_.kernels->pack.keys({.keys = job_.keys.at(b_, h_, static_cast<std::int64_t>(span)),
                              .keys_stride = job_.keys.row_stride,
                              .num_keys = std::min(held, limit_ - span),
                              .size = score_size_,
                              .center = center_.key,
                              .half_norms = plan_.layer->score == Score::kGaussian,
                              .panels = packed_keys_,
                              .panel_stride = plan_.inner_size * panel_});
  }
  keys_span_ = span;
  return packed_keys_ + (first - span) * plan_.inner_size;
}

float HeadKeys::look_for_pairs() {
  if (!mean_square_for_pairs_ && limit_ - begin_ < panel_) {
    mean_square_for_pairs_ = 0.0f;  // no query sees a panel
  } else if (!mean_square_for_pairs_) {
    mean_square_for_pairs_ = plan_.kernels->tile_pairs.panels({.panels = panels(begin_),
                                                               .panel_stride = plan_.inner_size * panel_,
                                                               .num_panels = divide_up(limit_ - begin_, panel_),
                                                               .size = plan_.inner_size,
                                                               .pair_sums = pair_sums_,
                                                               .fit_keys = fit_keys_});
  }
  return *mean_square_for_pairs_;
}

HeadKeys::Pairs HeadKeys::pairs(std::size_t first) const {
  if (mean_square_for_pairs_.value_or(0) == 0) return {nullptr, nullptr};
  return {pair_sums_ + (first - begin_), fit_keys_ + (first - begin_) / panel_};
}

HeadKeys::Parts HeadKeys::key_parts(std::size_t first) {
  const std::size_t span = span_begin(first);
  if (span != key_parts_span_) {
    key_parts_span_ = span;
    all_keys_fit_ = true;
    const std::size_t end = span + span_size(span);
    for (std::size_t key = span; key < end; key += plan_.tile_keys) {
      const bool all =
          plan_.kernels->tile_parts.keys({.panels = panels(key),
                                          .panel_stride = plan_.inner_size * panel_,
                                          .num_keys = std::min(plan_.tile_keys, end - key),
                                          .size = plan_.inner_size,
                                          .parts = key_parts_ + kernels::key_parts_at(key - span, plan_.inner_size),
                                          .fit = fit_for_parts_ + (key - span)});
      all_keys_fit_ = all_keys_fit_ && all;
    }
  }
  const std::size_t key = first - span;
  return {key_parts_ + kernels::key_parts_at(key, plan_.inner_size), all_keys_fit_ ? nullptr : fit_for_parts_ + key};
}

HeadKeys::ValueParts HeadKeys::value_parts(std::size_t first) {
  const std::size_t span = span_begin(first), size = span_size(span);
  if (span != value_parts_span_) {
    value_parts_span_ = span;
    const Values all = values(span);
    all_values_fit_ = plan_.kernels->tile_parts.values({.values = all.panels,
                                                        .panel_stride = all.panel_stride,
                                                        .row_stride = all.row_stride,
                                                        .num_values = size,
                                                        .size = value_size_,
                                                        .parts = value_parts_,
                                                        .fit = values_fit_for_parts_});
  }
  const std::size_t value = first - span;
  return {value_parts_ + kernels::value_parts_at(value), kernels::parts_size(kernels::kPartsColumns, size),
          all_values_fit_ ? nullptr : values_fit_for_parts_ + value};
}

HeadKeys::Values HeadKeys::values(std::size_t first) {
  const Values values = values_of_span(first);
  const std::size_t span = span_begin(first);
  if (!plan_.pairs_values || span == paired_span_ || values_mean_square_ == 0.0f) return values;
  // Of the first span, all values are compared with those of its first block.
  paired_span_ = span;
  values_mean_square_ = plan_.kernels->value_pairs.values(
      {.values = values.panels - static_cast<std::ptrdiff_t>(first - span) * values.row_stride,
       .panel_stride = values.panel_stride,
       .row_stride = values.row_stride,
       .num_values = span_size(span),
       .size = value_size_,
       .mean_square = values_mean_square_.value_or(0),
       .pair_sums = value_pair_sums_,
       .fit = fit_values_});
  return values;
}

float HeadKeys::look_at_values() {
  if (!values_mean_square_) values(begin_);
  return *values_mean_square_;
}

HeadKeys::ValuePairs HeadKeys::value_pairs(std::size_t first) const {
  if (values_mean_square_.value_or(0) == 0) return {nullptr, nullptr};
  const std::size_t block = (first - paired_span_) / kernels::kInnerBlock;
  return {value_pair_sums_ + block * plan_.padded_values, fit_values_ + block * (plan_.padded_values / panel_)};
}

HeadKeys::Values HeadKeys::values_of_span(std::size_t first) {
  if (packed_.value_panels != nullptr) {
    return {packed_.value_panels_at(b_, h_, first), packed_.capacity * panel_, static_cast<std::ptrdiff_t>(panel_)};
  }
  // Products by parts read values once, to take them apart.
  if (plan_.parts || values_in_place()) {
    return {job_.values.at(b_, h_, static_cast<std::int64_t>(first)), panel_, job_.values.row_stride};
  }
  const std::size_t span = span_begin(first), row_stride = plan_.packed_value_stride();
  if (span != values_span_) {
    values_span_ = span;
    values_finite_ = plan_.kernels->pack.values({.values = job_.values.at(b_, h_, static_cast<std::int64_t>(span)),
                                                 .values_stride = job_.values.row_stride,
                                                 .num_values = span_size(span),
                                                 .size = value_size_,
                                                 .panels = packed_values_,
                                                 .panel_stride = span_size(span) * row_stride,
                                                 .row_stride = row_stride});
  }
  return {packed_values_ + (first - span) * row_stride, span_size(span) * row_stride,
          static_cast<std::ptrdiff_t>(row_stride)};
}

kernels::PrefetchRows HeadKeys::values_ahead(std::size_t first, std::size_t last) const {
  if (packed_.value_panels != nullptr) {
    return {packed_.value_panels_at(b_, h_, first), static_cast<std::ptrdiff_t>(packed_.capacity * panel_),
            plan_.padded_values / panel_, (last - first) * panel_};
  }
  if (!values_in_place() && span_begin(first) == values_span_) return {};
  return rows_from(job_.values, b_, h_, static_cast<std::int64_t>(first), static_cast<std::int64_t>(last),
                   plan_.head_value_size);
}

// Rows of whole panels need no packing. Those that lie as a panel does are used there, where all queries see the same
// keys: others have to know which values are finite, which packing tells on the way (attend plan --layer dot --shape
// 8,256,256,64 --tune on AVX3, Zen 4: 1.35 -> 1.32 ms). Additive scores use other rows too, unless they lie a
// multiple of 4 KiB apart and share the sets of L1 (packing then won 10 % for dot products), or so many queries pass
// them that a copy in order is worth its time (2 to 3 % at 256 queries, nothing at 128; bench additive/*).
bool HeadKeys::values_in_place() const {
  constexpr std::ptrdiff_t kPage = 4096 / sizeof(float);
  constexpr std::size_t kMaxQueries = 128;
  const PlanOptions& options = plan_.options;
  if (value_size_ == panel_ && job_.values.row_stride == static_cast<std::ptrdiff_t>(panel_) &&
      options.causal == Causal::kNone && options.valid_lens != ValidLens::kPerQuery) {
    return true;
  }
  return plan_.layer->score == Score::kAdditive && value_size_ % panel_ == 0 && value_size_ > 0 &&
         (plan_.group_queries == 1 || (job_.values.row_stride % kPage != 0 && plan_.group_queries <= kMaxQueries));
}

bool HeadKeys::are_finite(std::size_t first, std::size_t last) const {
  if (packed_.values_finite != nullptr) return packed_.values_finite[packed_.head(b_, h_)] != 0;
  if (!values_in_place()) return values_finite_;
  for (std::size_t j = first; j < last; ++j) {
    const float* row = job_.values.at(b_, h_, static_cast<std::int64_t>(j));
    float sum = 0;  // x - x is 0, or NaN
    for (std::size_t n = 0; n < value_size_; ++n) sum += row[n] - row[n];
    if (sum != 0) return false;
  }
  return true;
}

namespace {

double distance(const float* a, const float* b, std::size_t size) {
  double squared = 0;
  for (std::size_t k = 0; k < size; ++k) {
    const double difference = static_cast<double>(a[k]) - static_cast<double>(b[k]);
    squared += difference * difference;
  }
  return std::sqrt(squared);
}

}  // namespace

Center central_key(const Rows<const float>& keys, std::int64_t b, std::int64_t h, std::size_t num_keys,
                   std::size_t size) {
  std::array<const float*, 3> finite{};
  std::size_t count = 0, seen = 0;
  for (; seen < num_keys && count < finite.size(); ++seen) {
    const float* key = keys.at(b, h, static_cast<std::int64_t>(seen));
    if (std::all_of(key, key + size, [](float x) { return std::isfinite(x); })) finite[count++] = key;
  }
  if (count < finite.size()) return {finite[0], num_keys + 1};
  const double d01 = distance(finite[0], finite[1], size), d02 = distance(finite[0], finite[2], size),
               d12 = distance(finite[1], finite[2], size);
  const std::array<double, 3> sums{d01 + d02, d01 + d12, d02 + d12};
  return {finite[static_cast<std::size_t>(std::min_element(sums.begin(), sums.end()) - sums.begin())], seen};
}

}  // namespace attend::detail
