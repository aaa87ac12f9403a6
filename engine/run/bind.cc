#include "engine/run/bind.h"

#include <utility>

#include "engine/base/message.h"
#include "engine/view/check.h"
#include "engine/view/valid_lens.h"

namespace attend::detail {
namespace {

// The views of a run either have an axis of heads, (B, H, N, D), or not, (B, N, D).
bool has_head_axis(const PlanImpl& plan, const TensorView<const float>& view) {
  return !plan.layer->is_multi_head && (plan.shape.num_heads > 1 || view.rank() == 4);
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

// Keys and values of a run, or to be prepared. batch: Axis::kAny where the keys decide.
struct KeyRows {
  std::int64_t batch, num_keys;
  Rows<const float> keys, values;
};
KeyRows check_keys(const PlanImpl& plan, const TensorView<const float>& keys, const char* keys_name,
                   const TensorView<const float>& values, const char* values_name, bool heads, std::int64_t batch) {
  const Shape& shape = plan.shape;
  check_rows(keys, keys_name, heads, batch, shape.num_kv_heads, {"N"}, {"Dk", shape.key_size});
  const std::int64_t entries = keys.size(0), num_keys = keys.size(-2);
  check_rows(values, values_name, heads, entries, shape.num_kv_heads, {"N", num_keys}, {"Dv", shape.value_size});
  return {entries, num_keys, rows_of(keys), rows_of(values)};
}

// Keys and values of a run that brings its own: the queries are keys, and the keys values, where none are given.
void bind_given(const PlanImpl& plan, const Inputs& inputs, bool heads, Bound& bound) {
  const TensorView<const float>& keys = inputs.keys.empty() ? inputs.queries : inputs.keys;
  const TensorView<const float>& values = inputs.values.empty() ? keys : inputs.values;
  const char* keys_name = inputs.keys.empty() ? "keys (not given, so the queries)" : "keys";
  const char* values_name = inputs.values.empty() ? "values (not given, so the keys)" : "values";
  const KeyRows rows = check_keys(plan, keys, keys_name, values, values_name, heads, bound.batch);
  bound.num_keys = rows.num_keys;
  bound.keys = rows.keys;
  bound.values = rows.values;
}

// Keys and values as they were prepared, and the lengths that stand for all of them.
void bind_prepared(const PlanImpl& plan, const Inputs& inputs, const PreparedView& prepared, Bound& bound) {
  if (prepared.plan != &plan) fail("prepared was made for another plan, expected this one or a copy of it");
  if (prepared.batch == 0 && bound.batch > 0) fail("prepared holds nothing, expected keys that were prepared first");
  for (const auto& [view, name] : {std::pair{&inputs.keys, "keys"}, std::pair{&inputs.values, "values"}}) {
    if (!view->empty()) fail(name, " is ", to_string(view->sizes()), ", expected none beside prepared keys");
  }
  if (prepared.batch != bound.batch) {
    fail("prepared holds ", prepared.batch, " batch entries, queries has ", bound.batch, ", expected as many");
  }
  bound.num_keys = prepared.num_keys;
}

// valid_lens of a run on prepared keys: at most the keys that each entry has.
void check_prepared_lens(const TensorView<const std::int32_t>& lens, const PreparedView& prepared,
                         std::int64_t num_queries) {
  check_valid_lens(lens, prepared.batch, num_queries, prepared.num_keys);
  for (std::int64_t b = 0; b < prepared.batch; ++b) {
    const std::int32_t limit = VisibleKeys(lens, num_queries, prepared.num_keys).limit(b);
    if (limit <= prepared.lens()[b]) continue;
    fail("valid_lens has ", limit, " for batch entry ", b, ", expected at most ", prepared.lens()[b],
         ", the keys prepared for it");
  }
}

void check_lens_option(const PlanImpl& plan, const TensorView<const std::int32_t>& lens) {
  if (plan.options.valid_lens == ValidLens::kNone) {
    fail("valid_lens is ", to_string(lens.sizes()), ", expected none: the plan was made with ValidLens::kNone");
  }
  if (plan.options.valid_lens == ValidLens::kPerBatch && lens.rank() != 1) {
    fail("valid_lens is ", to_string(lens.sizes()), ", expected rank 1: the plan was made with ValidLens::kPerBatch");
  }
  if (plan.options.padding == Padding::kSkipQueries && lens.rank() == 2) {
    fail("valid_lens is ", to_string(lens.sizes()), ", expected rank 1: the plan was made with Padding::kSkipQueries");
  }
}

// Which keys each query sees. Sizes must be bound.
void bind_lens(const PlanImpl& plan, const TensorView<const std::int32_t>& given, const PreparedView* prepared,
               Bound& bound) {
  TensorView<const std::int32_t> lens = given;
  if (prepared != nullptr && lens.empty()) lens = TensorView<const std::int32_t>(prepared->lens(), {prepared->batch});
  if (!given.empty()) {
    check_lens_option(plan, given);
    if (prepared != nullptr) {
      check_prepared_lens(given, *prepared, bound.num_queries);
    } else {
      check_valid_lens(given, bound.batch, bound.num_queries, bound.num_keys);
    }
  }
  // Queries are as padded as the lengths of their own run say: those of prepared keys are of keys alone.
  const Padding padding = given.empty() ? Padding::kCompute : plan.options.padding;
  bound.visible = VisibleKeys(lens, bound.num_queries, bound.num_keys, plan.options.causal, padding);
}

// Where results go. Sizes must be bound.
void bind_outputs(const PlanImpl& plan, const Outputs& outputs, bool heads, Bound& bound) {
  const Axis queries{"M", bound.num_queries};
  check_rows(outputs.output, "output", heads, bound.batch, plan.shape.num_heads, queries, {"Dv", plan.output_size});
  check_written_strides(outputs.output, "output");
  bound.output = rows_of(outputs.output);

  const TensorView<float>& weights = outputs.attention_weights;
  if (weights.empty()) return;
  if (!plan.options.attention_weights) {
    fail("attention_weights is ", to_string(weights.sizes()),
         ", expected none: the plan was made without PlanOptions::attention_weights");
  }
  check_rows(weights, "attention_weights", heads || plan.layer->is_multi_head, bound.batch, plan.num_heads, queries,
             {"N", bound.num_keys});
  check_written_strides(weights, "attention_weights");
  bound.attention_weights = rows_of(weights);
}

}  // namespace

Bound bind(const PlanImpl& plan, const Inputs& inputs, const PreparedView* prepared, const Outputs& outputs) {
  const Shape& shape = plan.shape;
  const TensorView<const float>& queries = inputs.queries;
  const bool heads = has_head_axis(plan, queries);
  check_rows(queries, "queries", heads, Axis::kAny, shape.num_heads, {"M"}, {"Dq", shape.query_size});
  Bound bound;
  bound.batch = queries.size(0);
  bound.num_queries = queries.size(-2);
  bound.queries = rows_of(queries);
  if (prepared != nullptr) {
    bind_prepared(plan, inputs, *prepared, bound);
  } else if (plan.options.prepared_keys) {
    fail("prepared is not given, expected prepared keys: the plan was made with PlanOptions::prepared_keys");
  } else {
    bind_given(plan, inputs, heads, bound);
  }
  check_at_most(bound.batch, shape.batch, "batch, the first size of queries,");
  check_at_most(bound.num_queries, shape.num_queries, "num_queries");
  check_at_most(bound.num_keys, shape.num_keys, "num_keys");
  bind_lens(plan, inputs.valid_lens, prepared, bound);
  bind_outputs(plan, outputs, heads, bound);
  return bound;
}

BoundKeys bind_keys(const PlanImpl& plan, const KeyInputs& inputs) {
  const TensorView<const float>& values = inputs.values.empty() ? inputs.keys : inputs.values;
  const char* values_name = inputs.values.empty() ? "values (not given, so the keys)" : "values";
  const bool heads = has_head_axis(plan, inputs.keys);
  const KeyRows rows = check_keys(plan, inputs.keys, "keys", values, values_name, heads, Axis::kAny);
  check_at_most(rows.batch, plan.shape.batch, "batch, the first size of keys,");
  if (!inputs.valid_lens.empty()) {
    check_lens_option(plan, inputs.valid_lens);
    const bool per_query = inputs.valid_lens.rank() == 2;
    check_valid_lens(inputs.valid_lens, rows.batch, per_query ? inputs.valid_lens.size(1) : 0, rows.num_keys);
  }
  return {rows.batch, rows.num_keys, rows.keys, rows.values, inputs.valid_lens};
}

}  // namespace attend::detail
