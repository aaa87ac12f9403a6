// Views: pointer + sizes + strides, never owning.
//
// Simplest correct call, a dense row-major tensor:
//     attend::TensorView<const float> queries(data, {batch, num_queries, query_size});
// Recommended when the memory is not dense (strides in elements, the innermost must be 1):
//     attend::TensorView<const float> queries(data, {batch, num_queries, 64}, {batch_stride, row_stride, 1});
#ifndef ATTEND_TENSOR_VIEW_H_
#define ATTEND_TENSOR_VIEW_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <span>
#include <string>
#include <type_traits>

#include "attend/error.h"

namespace attend {

// The largest number of axes a view can have: (batch, head, row, column).
inline constexpr int kMaxRank = 4;

// A view of up to kMaxRank axes. Trivially copyable; copying it copies no data and it never frees anything.
// Sizes count elements; strides are in elements and may be negative, or zero (broadcast) where the view is only read.
// The stride of an axis with one element or none has no meaning: it may be anything, as arrays elsewhere have it.
// Rows of a view that is written do not overlap each other: a zero stride is an Error; other overlaps are not looked
// for, and what such rows hold then is undefined.
// A default-constructed view is empty() and stands for "not given".
template <class T>
class TensorView {
 public:
  constexpr TensorView() = default;

  // Dense, row-major. Throws Error for more than kMaxRank sizes, a negative one, or more elements than 64 bits count.
  TensorView(T* data, std::initializer_list<std::int64_t> sizes)
      : TensorView(data, std::span<const std::int64_t>(sizes.begin(), sizes.size())) {}
  TensorView(T* data, std::span<const std::int64_t> sizes) : data_(data) {
    set_sizes(sizes);
    std::int64_t stride = 1;
    for (int axis = rank_ - 1; axis >= 0; --axis) {
      strides_[static_cast<std::size_t>(axis)] = stride;
      stride *= size(axis) > 0 ? size(axis) : 1;
    }
  }

  // Any strides, in elements. Throws Error for the same sizes and when there are not as many strides.
  TensorView(T* data, std::initializer_list<std::int64_t> sizes, std::initializer_list<std::int64_t> strides)
      : TensorView(data, std::span<const std::int64_t>(sizes.begin(), sizes.size()),
                   std::span<const std::int64_t>(strides.begin(), strides.size())) {}
  TensorView(T* data, std::span<const std::int64_t> sizes, std::span<const std::int64_t> strides) : data_(data) {
    set_sizes(sizes);
    if (strides.size() != sizes.size()) {
      throw Error("TensorView: " + std::to_string(strides.size()) + " strides for " + std::to_string(sizes.size()) +
                  " sizes, expected one stride per size");
    }
    for (std::size_t axis = 0; axis < strides.size(); ++axis) strides_[axis] = strides[axis];
  }

  // A view of mutable data serves wherever a read-only one is asked for.
  template <class U, class = std::enable_if_t<std::is_same_v<const U, T> && !std::is_same_v<U, T>>>
  // NOLINTNEXTLINE(google-explicit-constructor): const is always safe to add
  constexpr TensorView(const TensorView<U>& other)
      : data_(other.data()), rank_(other.rank()), sizes_(other.sizes_array()), strides_(other.strides_array()) {}

  constexpr T* data() const noexcept { return data_; }
  constexpr int rank() const noexcept { return rank_; }
  // Not given: no memory and no axes. (A view with a zero size is given, it just holds no elements.)
  constexpr bool empty() const noexcept { return data_ == nullptr && rank_ == 0; }

  // axis counts from the front; negative from the back, so size(-1) is the innermost. Not checked: an axis outside
  // -rank() ... rank() - 1 is undefined.
  constexpr std::int64_t size(int axis) const noexcept { return sizes_[index(axis)]; }
  constexpr std::int64_t stride(int axis) const noexcept { return strides_[index(axis)]; }

  constexpr std::span<const std::int64_t> sizes() const noexcept {
    return {sizes_.data(), static_cast<std::size_t>(rank_)};
  }
  constexpr std::span<const std::int64_t> strides() const noexcept {
    return {strides_.data(), static_cast<std::size_t>(rank_)};
  }
  // The product of the sizes; 0 without axes.
  constexpr std::int64_t num_elements() const noexcept {
    std::int64_t n = rank_ == 0 ? 0 : 1;
    for (int axis = 0; axis < rank_; ++axis) n *= size(axis);
    return n;
  }

  // Address of an element; indices are not checked.
  template <class... Index>
  constexpr T* at(Index... indices) const noexcept {
    static_assert(sizeof...(Index) <= kMaxRank);
    std::ptrdiff_t offset = 0;
    int axis = 0;
    ((offset += static_cast<std::ptrdiff_t>(indices) * static_cast<std::ptrdiff_t>(stride(axis++))), ...);
    return data_ + offset;
  }

  constexpr const std::array<std::int64_t, kMaxRank>& sizes_array() const noexcept { return sizes_; }
  constexpr const std::array<std::int64_t, kMaxRank>& strides_array() const noexcept { return strides_; }

 private:
  constexpr std::size_t index(int axis) const noexcept {
    return static_cast<std::size_t>(axis < 0 ? axis + rank_ : axis);
  }

  void set_sizes(std::span<const std::int64_t> sizes) {
    if (sizes.size() > static_cast<std::size_t>(kMaxRank)) {
      throw Error("TensorView: " + std::to_string(sizes.size()) + " axes, expected at most " +
                  std::to_string(kMaxRank));
    }
    rank_ = static_cast<int>(sizes.size());
    std::int64_t elements = 1;
    for (std::size_t axis = 0; axis < sizes.size(); ++axis) {
      if (sizes[axis] < 0) {
        throw Error("TensorView: size " + std::to_string(sizes[axis]) + " of axis " + std::to_string(axis) +
                    ", expected at least 0");
      }
      if (sizes[axis] > 0 && elements > std::numeric_limits<std::int64_t>::max() / sizes[axis]) {
        throw Error("TensorView: size " + std::to_string(sizes[axis]) + " of axis " + std::to_string(axis) +
                    " makes more elements than 64 bits can count");
      }
      if (sizes[axis] > 0) elements *= sizes[axis];
      sizes_[axis] = sizes[axis];
    }
  }

  T* data_ = nullptr;
  int rank_ = 0;
  std::array<std::int64_t, kMaxRank> sizes_{};
  std::array<std::int64_t, kMaxRank> strides_{};
};

static_assert(std::is_trivially_copyable_v<TensorView<float>>);
static_assert(std::is_trivially_destructible_v<TensorView<float>>);

// "(2, 4, 100)": the sizes, for messages.
std::string to_string(std::span<const std::int64_t> sizes);

// (B, N, H*D) seen as (B, H, N, D), without moving an element: the textbook's transpose_qkv without the transpose.
//   Shapes and strides: head h of row n starts at data + n * row_stride + h * D; the axes keep the strides they had.
//   Aliasing: the result is the same memory.
//   Special values: none, nothing is read.
//   Error bound: exact.
//   Thread-safety: thread-safe; allocates nothing.
//   Errors: Error unless rank is 3 and num_heads divides the last size.
//   Source: Vaswani et al. 2017, section 3.2.2.
template <class T>
TensorView<T> split_heads(TensorView<T> view, std::int64_t num_heads);

// (B, H, N, D) seen as (B, N, H*D): the inverse of split_heads, again without moving an element.
//   Shapes and strides: element d of head h is column h * D + d; batch, row and innermost strides stay what they were,
//     whatever they are. The head stride must be D innermost strides, so that the heads of a row lie side by side as
//     split_heads left them; that of a single head may be anything. Heads of one element have no innermost stride: the
//     head stride, whatever it is, becomes that.
//   Aliasing: the result is the same memory.
//   Special values: none, nothing is read.
//   Error bound: exact.
//   Thread-safety: thread-safe; allocates nothing.
//   Errors: Error unless rank is 4 and the heads of a row lie side by side.
//   Source: Vaswani et al. 2017, section 3.2.2.
template <class T>
TensorView<T> merge_heads(TensorView<T> view);

extern template TensorView<float> split_heads(TensorView<float>, std::int64_t);
extern template TensorView<const float> split_heads(TensorView<const float>, std::int64_t);
extern template TensorView<float> merge_heads(TensorView<float>);
extern template TensorView<const float> merge_heads(TensorView<const float>);

}  // namespace attend

#endif  // ATTEND_TENSOR_VIEW_H_
