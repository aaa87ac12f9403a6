#include "engine/run/key_window.h"

#include <algorithm>

namespace attend::detail {
bool KeyWindow::hold(std::int64_t b, std::int64_t b_end, std::size_t first, std::size_t last) {
  const bool held = b >= side_.first_entry && b_end <= b_end_ && first >= side_.first_key && last <= last_;
  if (held || failed_) return !failed_;
  side_.first_entry = b;
  side_.first_key = first;
  b_end_ = b_end;
  last_ = last;
  project(b, b_end, first, last, KeysIntoSide(side_, keys_.starts, values_));
  return !failed_;
}

void KeyWindow::pack(std::int64_t b, std::size_t first, std::size_t last, float* panels) {
  KeySide side{.plan = &plan_, .key_panels = panels, .first_entry = b, .first_key = first, .capacity = last - first};
  project(b, b + 1, first, last, KeysIntoSide(side, keys_.starts));
}

void KeyWindow::project(std::int64_t b, std::int64_t b_end, std::size_t first, std::size_t last, const RowSink& sink) {
  keys_.sink = &sink;
  std::int64_t row = keys_.starts[b] + static_cast<std::int64_t>(first);
  const std::int64_t all = keys_.starts[b_end];
  const std::int64_t end = b_end - b > 1 ? all : std::min(all, keys_.starts[b] + static_cast<std::int64_t>(last));
  // By parts, as many rows at a time as there may be are not measured.
  const kernels::LinearRowsKernels kernels = plan_.linear_rows(keys_.map);
  const auto block = static_cast<std::int64_t>(keys_.map->goes_by_parts(kernels) ? matmul::Linear::kRowBlock
                                                                                 : keys_.map->few_rows(kernels));
  for (; row < end; row += block) {
    failed_ = !map_rows(keys_, row, std::min(block, end - row), plan_, worker_) || failed_;
  }
}

}  // namespace attend::detail
