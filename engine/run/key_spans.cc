#include "engine/run/key_spans.h"

#include <algorithm>

#include "engine/base/carver.h"
#include "engine/base/checked.h"

namespace attend::detail {

KeySpans::KeySpans(const HeadSpans& head, KeyWindow* window, std::byte* worker)
    : head_(head),
      plan_(*head.job.plan),
      window_(window),
      packed_(window != nullptr ? window->side() : head.job.packed),
      score_size_(static_cast<std::size_t>(plan_.score_size)),
      panel_(plan_.kernels->pack.panel_width),
      packed_keys_(part<float>(worker, plan_.layout.packed_keys)),
      pair_sums_(part<float>(worker, plan_.layout.pair_sums)),
      fit_for_pairs_(part<std::int32_t>(worker, plan_.layout.fit_keys)),
      parts_(part<std::uint16_t>(worker, plan_.layout.key_parts)),
      fit_for_parts_(part<std::uint8_t>(worker, plan_.layout.keys_with_parts)) {
  if (plan_.layer->score != Score::kGaussian) return;
  const PoolJob& job = head.job;
  center_ = central_key(job.keys, head.b, head.h, static_cast<std::size_t>(job.key_limits[head.b]), score_size_);
  // Fewer keys than were prepared may have another center; then they are packed anew.
  if (packed_.lens == nullptr) return;
  const auto prepared = static_cast<std::size_t>(packed_.lens[head.b]);
  are_packed_ = center_.key == central_key(job.keys, head.b, head.h, prepared, score_size_).key;
}

bool KeySpans::hold(std::size_t span) {
  return window_ == nullptr || window_->hold(head_.b, head_.b + 1, span, span + head_.size_of(span));
}

const float* KeySpans::panels(std::size_t first) {
  if (packed_.key_panels != nullptr && are_packed_) return packed_.key_panels_at(head_.b, head_.h, first);
  // By parts, a tile at a time: what is taken apart is not read again, but for keys and queries that are not fit.
  const std::size_t held = plan_.parts ? plan_.tile_keys : plan_.span_keys;
  const std::size_t span = first - (first - head_.begin) % held;
  if (span != packed_span_ && window_ != nullptr) {
    window_->pack(head_.b, span, span + plan_.span_keys, packed_keys_);
  } else if (span != packed_span_) {
    const Rows<const float>& keys = head_.job.keys;
    plan_.kernels->pack.keys({.keys = keys.at(head_.b, head_.h, static_cast<std::int64_t>(span)),
                              .keys_stride = keys.row_stride,
                              .num_keys = std::min(held, head_.limit - span),
                              .size = score_size_,
                              .center = center_.key,
                              .half_norms = plan_.layer->score == Score::kGaussian,
                              .panels = packed_keys_,
                              .panel_stride = plan_.inner_size * panel_});
  }
  packed_span_ = span;
  return packed_keys_ + (first - span) * plan_.inner_size;
}

std::size_t KeySpans::num_exps(std::size_t first) const {
  const std::int32_t* lens = packed_.lens != nullptr ? packed_.lens : head_.job.key_limits;
  return static_cast<std::size_t>(lens[head_.b]) - first;
}

float KeySpans::look_for_pairs(std::size_t span, float mean_square) {
  paired_span_ = span;
  return plan_.kernels->tile_pairs.panels({.panels = panels(span),
                                           .panel_stride = plan_.inner_size * panel_,
                                           .num_panels = divide_up(head_.size_of(span), panel_),
                                           .size = plan_.inner_size,
                                           .mean_square = mean_square,
                                           .pair_sums = pair_sums_,
                                           .fit_keys = fit_for_pairs_});
}

float KeySpans::look_for_pairs() {
  // Fewer keys than a panel: no query sees one.
  if (!mean_square_for_pairs_) {
    mean_square_for_pairs_ = head_.limit - head_.begin < panel_ ? 0.0f : look_for_pairs(head_.begin, 0);
  }
  return *mean_square_for_pairs_;
}

KeySpans::Pairs KeySpans::pairs(std::size_t first) {
  const float mean_square = mean_square_for_pairs_.value_or(0);
  if (mean_square == 0) return {nullptr, nullptr};
  const std::size_t span = head_.span_of(first);
  if (span != paired_span_) look_for_pairs(span, mean_square);
  return {pair_sums_ + (first - span), fit_for_pairs_ + (first - span) / panel_};
}

KeySpans::Parts KeySpans::key_parts(std::size_t first) {
  const std::size_t span = head_.span_of(first);
  if (span != parts_span_) {
    parts_span_ = span;
    all_fit_for_parts_ = true;
    const std::size_t end = span + head_.size_of(span);
    for (std::size_t key = span; key < end; key += plan_.tile_keys) {
      const bool all =
          plan_.kernels->tile_parts.keys({.panels = panels(key),
                                          .panel_stride = plan_.inner_size * panel_,
                                          .num_keys = std::min(plan_.tile_keys, end - key),
                                          .size = plan_.inner_size,
                                          .parts = parts_ + kernels::key_parts_at(key - span, plan_.inner_size),
                                          .fit = fit_for_parts_ + (key - span)});
      all_fit_for_parts_ = all_fit_for_parts_ && all;
    }
  }
  const std::size_t key = first - span;
  return {parts_ + kernels::key_parts_at(key, plan_.inner_size), all_fit_for_parts_ ? nullptr : fit_for_parts_ + key};
}

}  // namespace attend::detail
