#include "attend/tensor_view.h"

#include <string>

#include "engine/base/message.h"

namespace attend {

std::string to_string(std::span<const std::int64_t> sizes) {
  std::string text = "(";
  for (std::size_t axis = 0; axis < sizes.size(); ++axis) {
    if (axis > 0) text += ", ";
    text += std::to_string(sizes[axis]);
  }
  return text + ")";
}

template <class T>
TensorView<T> split_heads(TensorView<T> view, std::int64_t num_heads) {
  if (view.rank() != 3) fail("split_heads: view is ", to_string(view.sizes()), ", expected 3 axes (B, N, H*D)");
  if (num_heads < 1 || view.size(2) % num_heads != 0) {
    fail("split_heads: num_heads is ", num_heads, ", expected a divisor of the last size, ", view.size(2));
  }
  const std::int64_t head_size = view.size(2) / num_heads;
  return TensorView<T>(view.data(), {view.size(0), num_heads, view.size(1), head_size},
                       {view.stride(0), head_size * view.stride(2), view.stride(1), view.stride(2)});
}

template <class T>
TensorView<T> merge_heads(TensorView<T> view) {
  if (view.rank() != 4) fail("merge_heads: view is ", to_string(view.sizes()), ", expected 4 axes (B, H, N, D)");
  const std::int64_t head_size = view.size(3);
  const bool has_heads = view.size(1) > 1;
  // From one element of a row to the next: from head to head, if each is one element.
  const std::int64_t column_stride = has_heads && head_size == 1 ? view.stride(1) : view.stride(3);
  if (has_heads && view.stride(1) != head_size * column_stride) {
    fail("merge_heads: head stride is ", view.stride(1), ", expected ", head_size * column_stride,
         ": the heads of a row must lie side by side, as split_heads leaves them");
  }
  return TensorView<T>(view.data(), {view.size(0), view.size(2), view.size(1) * head_size},
                       {view.stride(0), view.stride(2), column_stride});
}

template TensorView<float> split_heads(TensorView<float>, std::int64_t);
template TensorView<const float> split_heads(TensorView<const float>, std::int64_t);
template TensorView<float> merge_heads(TensorView<float>);
template TensorView<const float> merge_heads(TensorView<const float>);

}  // namespace attend
