#include "engine/run/key_side.h"

#include <algorithm>
#include <atomic>

#include "engine/base/carver.h"

namespace attend::detail {
KeySide workspace_side(const PlanImpl& plan, std::byte* workspace) {
  KeySide side{.plan = &plan, .capacity = plan.key_capacity};
  if (!plan.keeps_key_exps()) return side;
  side.key_exps = part<float>(workspace, plan.layout.key_exps);
  side.key_max = part<float>(workspace, plan.layout.key_max);
  return side;
}

KeySide worker_side(const PlanImpl& plan, std::byte* worker) {
  KeySide side{.plan = &plan, .capacity = std::min(plan.window_keys, plan.key_capacity), .is_window = true};
  side.key_exps = part<float>(worker, plan.layout.window_exps);
  side.key_max = part<float>(worker, plan.layout.window_max);
  return side;
}

KeySide prepared_side(const PlanImpl& plan, std::byte* memory) {
  const PreparedLayout& layout = plan.prepared;
  KeySide side{.plan = &plan, .capacity = plan.key_capacity};
  side.lens = part<const std::int32_t>(memory, layout.lens);
  const auto capacity = static_cast<std::ptrdiff_t>(plan.key_capacity), size = std::ptrdiff_t{plan.score_size};
  if (plan.layer->score == Score::kAdditive || plan.reads_rows()) {
    const std::ptrdiff_t row = size * plan.num_kv_heads;
    side.rows = {part<float>(memory, layout.rows), capacity * row, size, row};
  }
  if (plan.reads_rows()) {
    const std::ptrdiff_t row = plan.head_value_size * plan.num_kv_heads;
    side.value_rows = {part<float>(memory, layout.value_rows), capacity * row, plan.head_value_size, row};
    return side;
  }
  if (plan.layer->score == Score::kGaussian) {
    side.rows = {part<float>(memory, layout.rows), plan.num_kv_heads * capacity * size, capacity * size, size};
  }
  if (plan.layer->score != Score::kAdditive) side.key_panels = part<float>(memory, layout.key_panels);
  if (plan.factored) {
    side.key_exps = part<float>(memory, layout.key_exps);
    side.key_max = part<float>(memory, layout.key_max);
  }
  side.value_panels = part<float>(memory, layout.value_panels);
  side.values_finite = part<std::int32_t>(memory, layout.values_finite);
  return side;
}

void KeySide::take_keys(std::int64_t b, std::int64_t first, std::int64_t count, const float* from,
                        std::ptrdiff_t stride, std::int64_t all) const {
  const std::size_t size = plan->inner_size, panel = plan->kernels->pack.panel_width;
  const auto num_keys = static_cast<std::size_t>(count);
  for (std::int64_t h = 0; h < plan->num_kv_heads; ++h) {
    const float* rows_of_head = from + h * static_cast<std::ptrdiff_t>(size);
    const std::size_t place_in_side = static_cast<std::size_t>(first) - first_key;
    if (key_panels != nullptr) {
      plan->kernels->pack.keys({.keys = rows_of_head,
                                .keys_stride = stride,
                                .num_keys = num_keys,
                                .size = size,
                                .center = nullptr,
                                .half_norms = false,
                                .panels = key_panels_at(b, h, first_key),
                                .panel_stride = size * panel,
                                .first = place_in_side,
                                .pad = first + count == all});
    }
    if (key_exps != nullptr) {
      plan->kernels->additive_score.exp_keys({.rows = rows_of_head,
                                              .stride = stride,
                                              .num_keys = num_keys,
                                              .num_hiddens = size,
                                              .exps = key_exps_at(b, h, first_key),
                                              .first = place_in_side,
                                              .num_all = static_cast<std::size_t>(all) - first_key,
                                              .key_max = key_max_at(b, h, first_key)});
    }
  }
  if (rows.data == nullptr) return;
  for (std::int64_t j = 0; j < count; ++j) {
    std::copy_n(from + j * stride, plan->num_kv_heads * plan->score_size, rows.at(b, 0, first + j));
  }
}

void KeySide::take_values(std::int64_t b, std::int64_t first, std::int64_t count, const float* from,
                          std::ptrdiff_t stride) const {
  for (std::int64_t h = 0; h < plan->num_kv_heads; ++h) {
    take_head_values(b, h, first, count, from + h * plan->head_value_size, stride);
  }
}

void KeySide::take_head_values(std::int64_t b, std::int64_t h, std::int64_t first, std::int64_t count,
                               const float* from, std::ptrdiff_t stride) const {
  if (value_rows.data != nullptr) {
    for (std::int64_t j = 0; j < count; ++j) {
      std::copy_n(from + j * stride, plan->head_value_size, value_rows.at(b, h, first + j));
    }
    return;
  }
  const bool finite = plan->kernels->pack.values({.values = from,
                                                  .values_stride = stride,
                                                  .num_values = static_cast<std::size_t>(count),
                                                  .size = static_cast<std::size_t>(plan->head_value_size),
                                                  .panels = value_panels_at(b, h, static_cast<std::size_t>(first)),
                                                  .panel_stride = capacity * plan->kernels->pack.panel_width,
                                                  .row_stride = plan->kernels->pack.panel_width});
  // Threads with other rows of the head may find the same.
  if (!finite) std::atomic_ref<std::int32_t>(values_finite[head(b, h)]).store(0, std::memory_order_relaxed);
}

void KeysIntoSide::take(std::int64_t b, std::int64_t first, std::int64_t count, const float* rows,
                        std::ptrdiff_t stride) const {
  side_.take_keys(b, first, count, rows, stride, starts_[b + 1] - starts_[b]);
}

}  // namespace attend::detail
