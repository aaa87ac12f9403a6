// Runs of a plan into fresh memory, with everything around a run poisoned: outputs are filled with a sentinel that no
// layer produces, the workspace with bytes that read as NaN.
#ifndef ATTEND_TESTS_SUPPORT_RUN_H_
#define ATTEND_TESTS_SUPPORT_RUN_H_

#include <cctype>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "attend/layers.h"
#include "attend/plan.h"
#include "tests/support/compare.h"
#include "tests/support/for_each_target.h"
#include "tests/support/layer_cases.h"
#include "tests/support/layouts.h"

namespace attend::tests {

inline constexpr float kSentinel = -7.25e33f;

struct RunResult {
  std::vector<float> output;             // (B, M, output size) or (B, H, M, Dv)
  std::vector<float> attention_weights;  // empty when not asked for
};

inline bool same_bits(const RunResult& a, const RunResult& b) {
  return same_bits(a.output, b.output) && same_bits(a.attention_weights, b.attention_weights);
}

inline void poison(Workspace& workspace) {
  if (workspace.size() != 0) std::memset(static_cast<void*>(workspace.data()), 0xFF, workspace.size());
}

// Sizes of the outputs that these inputs ask for.
inline std::vector<std::int64_t> output_sizes(const Plan& plan, const Inputs& in) {
  const auto& q = in.queries;
  if (q.rank() == 4) return {q.size(0), q.size(1), q.size(2), plan.output_size()};
  return {q.size(0), q.size(1), plan.output_size()};
}
inline std::vector<std::int64_t> weights_sizes(const Plan& plan, const Inputs& in) {
  const auto& q = in.queries;
  const std::int64_t num_keys = in.prepared != nullptr ? in.prepared->num_keys()
                                : in.keys.empty()      ? q.size(-2)
                                                       : in.keys.size(-2);
  if (q.rank() == 4) return {q.size(0), q.size(1), q.size(2), num_keys};  // also where weight_heads() is 0: one head
  if (plan.weight_heads() != 0) return {q.size(0), plan.weight_heads(), q.size(-2), num_keys};
  return {q.size(0), q.size(-2), num_keys};
}

inline std::vector<float> sentinels(const std::vector<std::int64_t>& sizes) {
  std::int64_t count = 1;
  for (const std::int64_t size : sizes) count *= size;
  return std::vector<float>(static_cast<std::size_t>(count), kSentinel);
}

inline RunResult run_plan(const Plan& plan, const Inputs& in, bool with_weights = false, Executor* executor = nullptr) {
  Workspace workspace(plan);
  poison(workspace);
  const std::vector<std::int64_t> output_shape = output_sizes(plan, in);
  RunResult result{sentinels(output_shape), {}};
  Outputs out{.output = TensorView<float>(result.output.data(), output_shape), .attention_weights = {}};
  if (with_weights) {
    const std::vector<std::int64_t> weights_shape = weights_sizes(plan, in);
    result.attention_weights = sentinels(weights_shape);
    out.attention_weights = TensorView<float>(result.attention_weights.data(), weights_shape);
  }
  if (executor != nullptr) {
    plan.run(in, out, workspace, *executor);
  } else {
    plan.run(in, out, workspace);
  }
  return result;
}

// The names of all paths that fit, read from the error that an unknown one gives.
inline std::vector<std::string> fit_paths(const Attention& attention, const Shape& shape, PlanOptions options) {
  options.path = "no-such/path";
  const std::string message = error_message([&] { attention.plan(shape, options); });
  std::vector<std::string> paths;
  std::string word;
  for (const char c : message + " ") {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '/' || c == '-' || c == '_') {
      word += c;
      continue;
    }
    if (word.find('/') != std::string::npos && word != "no-such/path") paths.push_back(word);
    word.clear();
  }
  return paths;
}

// Calls check(plan, with_weights) for every target, with and without attention weights, and every path that fits.
template <class Check>
void for_each_plan(const Attention& attention, const Shape& shape, PlanOptions options, Check&& check) {
  for_each_target([&](const Target& target) {
    for (const bool with_weights : {false, true}) {
      options.target = target;
      options.attention_weights = with_weights;
      const std::vector<std::string> paths = fit_paths(attention, shape, options);
      REQUIRE(!paths.empty());
      for (const std::string& path : paths) {
        PlanOptions forced = options;
        forced.path = path;
        INFO("path ", path, ", attention weights ", with_weights);
        const Plan plan = attention.plan(shape, forced);
        CHECK(plan.path() == path);
        CHECK(plan.target_name() == target.name());
        check(plan, with_weights);
      }
    }
  });
}
template <class Check>
void for_each_plan(const LayerCase& c, Check&& check) {
  INFO(layer_name(c.spec.layer), ", B ", c.spec.batch, ", M ", c.spec.num_queries, ", N ", c.spec.num_keys, ", size ",
       c.spec.size, ", value size ", c.spec.value_size, ", hidden ", c.spec.num_hiddens, ", lens rank ",
       c.lens.sizes.size(), ", heads ", c.spec.num_heads, " on ", c.spec.num_kv_heads, ", causal ",
       static_cast<int>(c.spec.causal), ", padding ", static_cast<int>(c.spec.padding));
  for_each_plan(c.attention, c.shape, c.plan_options(), check);
}

// Output and weights of runs on these inputs, of every plan for c, are within the bound of the truth.
inline void check_truth(const LayerCase& c, const Inputs& in, const reference::Result& truth, const Bound& bound) {
  for_each_plan(c, [&](const Plan& plan, bool with_weights) {
    const RunResult result = run_plan(plan, in, with_weights);
    check_within(result.output, result.attention_weights, truth, bound);
  });
}

// The same for c's own inputs and the contract's bound.
inline void check_truth(const LayerCase& c) {
  const reference::Result truth = c.truth();
  check_truth(c, c.inputs(), truth, c.bound(truth));
}

// Every way to run gives the bits of contiguous views whatever the strides.
inline void check_any_layout(const LayerCase& c) {
  for (const Layout layout : kAllLayouts) {
    const Laid queries = lay_out(c.queries.view(), layout), keys = lay_out(c.keys.view(), layout),
               values = lay_out(c.values.view(), layout);
    Inputs in = c.inputs();
    in.queries = queries.view();
    in.keys = keys.view();
    in.values = values.view();
    for_each_plan(c, [&](const Plan& plan, bool with_weights) {
      CHECK(same_bits(run_plan(plan, c.inputs(), with_weights), run_plan(plan, in, with_weights)));
    });
  }
}

}  // namespace attend::tests

#endif  // ATTEND_TESTS_SUPPORT_RUN_H_
