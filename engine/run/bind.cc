#include "engine/run/bind.h"

#include "engine/base/message.h"
#include "engine/view/check.h"
#include "engine/view/valid_lens.h"

namespace attend::detail {
namespace {

// The views of a run either have an axis of heads, (B, H, N, D), or not, (B, N, D).
bool has_head_axis(const PlanImpl& plan, const Inputs& inputs) {
  return !plan.layer->is_multi_head && (plan.shape.num_heads > 1 || inputs.queries.rank() == 4);
}

// Sizes, with an axis of heads or without, and the innermost stride.
template <class T>
void check_rows(const TensorView<T>& view, const char* name, bool heads, std::int64_t batch, std::int64_t num_heads,
                Axis rows, Axis columns) {
  const Axis batch_axis{"B", batch};
  if (heads) {
    check_sizes(view, name, {batch_axis, {"H", num_heads}, rows, columns});
  } else {
    check_sizes(view, name, {batch_axis, rows, columns});
  }
  check_innermost_stride(view, name);
}

}  // namespace

Bound bind(const PlanImpl& plan, const Inputs& inputs, const Outputs& outputs) {
  const Shape& shape = plan.shape;
  const bool heads = has_head_axis(plan, inputs);
  const std::int64_t num_heads = shape.num_heads;
  const TensorView<const float>& queries = inputs.queries;
  const TensorView<const float>& keys = inputs.keys.empty() ? queries : inputs.keys;
  const TensorView<const float>& values = inputs.values.empty() ? keys : inputs.values;
  const char* keys_name = inputs.keys.empty() ? "keys (not given, so the queries)" : "keys";
  const char* values_name = inputs.values.empty() ? "values (not given, so the keys)" : "values";

  check_rows(queries, "queries", heads, Axis::kAny, num_heads, {"M"}, {"Dq", shape.query_size});
  Bound bound;
  bound.batch = queries.size(0);
  bound.num_queries = queries.size(-2);
  check_rows(keys, keys_name, heads, bound.batch, num_heads, {"N"}, {"Dk", shape.key_size});
  bound.num_keys = keys.size(-2);
  check_rows(values, values_name, heads, bound.batch, num_heads, {"N", bound.num_keys}, {"Dv", shape.value_size});
  check_at_most(bound.batch, shape.batch, "batch, the first size of queries,");
  check_at_most(bound.num_queries, shape.num_queries, "num_queries");
  check_at_most(bound.num_keys, shape.num_keys, "num_keys");

  if (!inputs.valid_lens.empty()) {
    if (plan.options.valid_lens == ValidLens::kNone) {
      fail("valid_lens is ", to_string(inputs.valid_lens.sizes()),
           ", expected none: the plan was made with ValidLens::kNone");
    }
    if (plan.options.valid_lens == ValidLens::kPerBatch && inputs.valid_lens.rank() != 1) {
      fail("valid_lens is ", to_string(inputs.valid_lens.sizes()),
           ", expected rank 1: the plan was made with ValidLens::kPerBatch");
    }
    check_valid_lens(inputs.valid_lens, bound.batch, bound.num_queries, bound.num_keys);
  }

  check_rows(outputs.output, "output", heads, bound.batch, num_heads, {"M", bound.num_queries},
             {"Dv", plan.output_size});
  check_written_strides(outputs.output, "output");
  const TensorView<float>& weights = outputs.attention_weights;
  if (!weights.empty()) {
    if (!plan.options.attention_weights) {
      fail("attention_weights is ", to_string(weights.sizes()),
           ", expected none: the plan was made without PlanOptions::attention_weights");
    }
    check_rows(weights, "attention_weights", heads || plan.layer->is_multi_head, bound.batch, plan.num_heads,
               {"M", bound.num_queries}, {"N", bound.num_keys});
    check_written_strides(weights, "attention_weights");
    bound.attention_weights = rows_of(weights);
  }
  bound.queries = rows_of(queries);
  bound.keys = rows_of(keys);
  bound.values = rows_of(values);
  bound.valid_lens = inputs.valid_lens;
  bound.output = rows_of(outputs.output);
  return bound;
}

}  // namespace attend::detail
