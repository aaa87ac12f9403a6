// The same numbers in other memory layouts. Gaps are filled with NaN.
#ifndef ATTEND_TESTS_SUPPORT_LAYOUTS_H_
#define ATTEND_TESTS_SUPPORT_LAYOUTS_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "attend/tensor_view.h"

namespace attend::tests {

enum class Layout {
  kPadded,       // gaps after each row and each batch entry
  kReversed,     // all outer strides negative
  kRowsOutside,  // the row axis is the outermost: (N, ..., B, D) in memory, as heads of a (B, N, H*D) tensor are
  kOdd,          // padded by an odd count, so that no row but the first is aligned
};
inline constexpr Layout kAllLayouts[] = {Layout::kPadded, Layout::kReversed, Layout::kRowsOutside, Layout::kOdd};

struct Laid {
  std::vector<float> memory;
  std::ptrdiff_t origin = 0;  // of element (0, 0, ...)
  std::vector<std::int64_t> sizes, strides;

  TensorView<const float> view() const {
    return TensorView<const float>(memory.data() + origin, std::span<const std::int64_t>(sizes),
                                   std::span<const std::int64_t>(strides));
  }
  TensorView<float> view() {
    return TensorView<float>(memory.data() + origin, std::span<const std::int64_t>(sizes),
                             std::span<const std::int64_t>(strides));
  }
};

// Memory for `sizes` in that layout, all NaN.
inline Laid lay_out(std::span<const std::int64_t> sizes, Layout layout) {
  Laid laid;
  laid.sizes.assign(sizes.begin(), sizes.end());
  const std::size_t rank = sizes.size();
  std::vector<std::size_t> order;  // axes from the innermost outwards
  for (std::size_t axis = rank; axis-- > 0;) order.push_back(axis);
  if (layout == Layout::kRowsOutside && rank > 2) {
    order.erase(order.begin() + 1);
    order.push_back(rank - 2);
  }
  const std::int64_t gap = layout == Layout::kPadded ? 8 : layout == Layout::kOdd ? 3 : 0;
  laid.strides.assign(rank, 1);
  std::int64_t stride = 1;
  for (const std::size_t axis : order) {
    laid.strides[axis] = stride;
    stride = stride * sizes[axis] + gap;
  }
  laid.memory.assign(static_cast<std::size_t>(stride), std::numeric_limits<float>::quiet_NaN());
  if (layout == Layout::kReversed) {
    for (std::size_t axis = 0; axis + 1 < rank; ++axis) {
      laid.origin += (sizes[axis] - 1) * laid.strides[axis];
      laid.strides[axis] = -laid.strides[axis];
    }
  }
  return laid;
}

// Calls visit(a's element, b's element) for every index of two views of the same sizes.
template <class A, class B, class Visit>
void for_each_pair(const TensorView<A>& a, const TensorView<B>& b, Visit&& visit) {
  std::vector<std::int64_t> index(static_cast<std::size_t>(a.rank()), 0);
  for (std::int64_t count = a.num_elements(); count > 0; --count) {
    std::ptrdiff_t at_a = 0;
    std::ptrdiff_t at_b = 0;
    for (int axis = 0; axis < a.rank(); ++axis) {
      at_a += index[static_cast<std::size_t>(axis)] * a.stride(axis);
      at_b += index[static_cast<std::size_t>(axis)] * b.stride(axis);
    }
    visit(a.data()[at_a], b.data()[at_b]);
    for (std::size_t axis = index.size(); axis-- > 0;) {
      if (++index[axis] < a.size(static_cast<int>(axis))) break;
      index[axis] = 0;
    }
  }
}

inline Laid lay_out(TensorView<const float> from, Layout layout) {
  Laid laid = lay_out(from.sizes(), layout);
  for_each_pair(laid.view(), from, [](float& to, const float& x) { to = x; });
  return laid;
}

// The elements in row-major order.
inline std::vector<float> dense(TensorView<const float> view) {
  std::vector<float> elements;
  for_each_pair(view, view, [&](const float& x, const float&) { elements.push_back(x); });
  return elements;
}

}  // namespace attend::tests

#endif  // ATTEND_TESTS_SUPPORT_LAYOUTS_H_
