// From the views of a run to rows: checked against the plan, then reduced to pointers and strides.
#ifndef ATTEND_RUN_BIND_H_
#define ATTEND_RUN_BIND_H_

#include <cstddef>
#include <cstdint>

#include "attend/plan.h"
#include "engine/plan/plan_impl.h"
#include "engine/view/valid_lens.h"

namespace attend::detail {

// Rows of one tensor by batch entry, head and row; strides in elements.
template <class T>
struct Rows {
  T* data = nullptr;
  std::ptrdiff_t batch_stride = 0, head_stride = 0, row_stride = 0;

  T* at(std::int64_t b, std::int64_t h, std::int64_t row) const {
    return data + b * batch_stride + h * head_stride + row * row_stride;
  }
};

template <class T>
Rows<const T> read_only(const Rows<T>& rows) {
  return {rows.data, rows.batch_stride, rows.head_stride, rows.row_stride};
}

// (B, H, N, D), or (B, N, D) as one head. The innermost stride is 1. That of an axis with no second element leads
// nowhere and may be any number: 0, so that nothing computed from it overflows.
template <class T>
Rows<T> rows_of(const TensorView<T>& view) {
  const auto stride = [&view](int axis) -> std::ptrdiff_t { return view.size(axis) > 1 ? view.stride(axis) : 0; };
  if (view.rank() == 4) return {view.data(), stride(0), stride(1), stride(2)};
  return {view.data(), stride(0), 0, stride(1)};
}

// The memory of prepared keys, and what it holds.
struct PreparedView {
  std::byte* memory = nullptr;
  const PlanImpl* plan = nullptr;  // that it was made for
  std::int64_t batch = 0, num_keys = 0;

  std::int32_t* lens() const { return reinterpret_cast<std::int32_t*>(memory + plan->prepared.lens); }
};

// A run's problem. Heads: those of the views, 1 for (B, N, D).
struct Bound {
  std::int64_t batch = 0, num_queries = 0, num_keys = 0;
  Rows<const float> queries, keys, values;
  VisibleKeys visible;
  Rows<float> output, attention_weights;  // attention_weights.data is null when not asked for
};

// What is to be prepared.
struct BoundKeys {
  std::int64_t batch = 0, num_keys = 0;
  Rows<const float> keys, values;
  TensorView<const std::int32_t> valid_lens;
};

// Throw Error for anything that does not fit the plan (the contract, lines 1, 7 and 10). Write nothing.
// prepared: null unless the run is given prepared keys; its lengths are the valid lengths where none are given.
Bound bind(const PlanImpl& plan, const Inputs& inputs, const PreparedView* prepared, const Outputs& outputs);
BoundKeys bind_keys(const PlanImpl& plan, const KeyInputs& inputs);

}  // namespace attend::detail

#endif  // ATTEND_RUN_BIND_H_
