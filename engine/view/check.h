// The checks of the public door. Each message names the argument, what it was and what was expected.
#ifndef ATTEND_VIEW_CHECK_H_
#define ATTEND_VIEW_CHECK_H_

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <span>
#include <string>
#include <string_view>

#include "attend/tensor_view.h"
#include "engine/base/message.h"

namespace attend {

// The product of sizes that are to become a view's, whose own checks could not name it. As there, sizes beside a zero
// must fit too.
inline std::int64_t count_elements(std::span<const std::int64_t> sizes, std::string_view name) {
  std::int64_t count = 1;
  bool is_zero = false;
  for (const std::int64_t size : sizes) {
    if (size < 0) fail(name, " is ", to_string(sizes), ", expected no negative size");
    if (size > 0 && count > std::numeric_limits<std::int64_t>::max() / size) {
      fail(name, " is ", to_string(sizes), ", expected fewer elements than that");
    }
    is_zero = is_zero || size == 0;
    count *= std::max<std::int64_t>(size, 1);
  }
  return is_zero ? 0 : count;
}

// What one axis must be: a letter for messages, and a size unless any will do.
struct Axis {
  const char* letter;
  std::int64_t size = kAny;
  static constexpr std::int64_t kAny = -1;
};

// "(2, N, 64)": known sizes as numbers, free ones as letters.
inline std::string expected_text(std::initializer_list<Axis> axes) {
  std::string text = "(";
  for (const Axis& axis : axes) {
    if (text.size() > 1) text += ", ";
    text += axis.size == Axis::kAny ? std::string(axis.letter) : std::to_string(axis.size);
  }
  return text + ")";
}

// Rank and sizes; memory present unless the view has no elements.
template <class T>
void check_sizes(const TensorView<T>& view, const char* name, std::initializer_list<Axis> axes) {
  if (view.empty()) fail(name, " is not given, expected a view of sizes ", expected_text(axes));
  bool fits = view.rank() == static_cast<int>(axes.size());
  int index = 0;
  for (const Axis& axis : axes) {
    fits = fits && (axis.size == Axis::kAny || view.size(index) == axis.size);
    ++index;
  }
  if (!fits) fail(name, " is ", to_string(view.sizes()), ", expected ", expected_text(axes));
  if (view.data() == nullptr && view.num_elements() > 0) {
    fail(name, " is ", to_string(view.sizes()), " at a null pointer, expected memory");
  }
}

// Contract 7: innermost stride 1.
template <class T>
void check_innermost_stride(const TensorView<T>& view, const char* name) {
  if (view.size(-1) > 1 && view.stride(-1) != 1) {
    fail(name, " has strides ", to_string(view.strides()), ", expected 1 for the innermost");
  }
}

// An axis that is written must move: elements at one place would overwrite each other.
inline void check_written_strides(const TensorView<float>& view, const char* name) {
  for (int axis = 0; axis < view.rank(); ++axis) {
    if (view.size(axis) > 1 && view.stride(axis) == 0) {
      fail(name, " has strides ", to_string(view.strides()), " for sizes ", to_string(view.sizes()),
           ", expected no zero stride where it is written");
    }
  }
}

// A size against the largest that was planned for.
inline void check_at_most(std::int64_t size, std::int64_t planned, const char* what) {
  if (size > planned) fail(what, " is ", size, ", expected at most ", planned, ", which the plan was made for");
}

}  // namespace attend

#endif  // ATTEND_VIEW_CHECK_H_
