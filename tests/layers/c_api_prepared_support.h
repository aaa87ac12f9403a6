// Prepared keys in C and in C++ side by side, for the tests of the C API.
#ifndef ATTEND_TESTS_LAYERS_C_API_PREPARED_SUPPORT_H_
#define ATTEND_TESTS_LAYERS_C_API_PREPARED_SUPPORT_H_

#include <cstdint>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "attend/attend.h"
#include "attend/attend_c.h"
#include "tests/layers/c_api_support.h"
#include "tests/support/compare.h"
#include "tests/support/layer_cases.h"
#include "tests/support/run.h"

namespace attend::tests {

// Keys (or values) first to first + count - 1 of every entry and head.
inline TensorView<const float> some_keys(const TensorView<const float>& view, std::int64_t first, std::int64_t count) {
  std::vector<std::int64_t> sizes(view.sizes().begin(), view.sizes().end());
  sizes[sizes.size() - 2] = count;
  return {view.data() + first * view.stride(-2), sizes, view.strides()};
}
inline KeyInputs some_keys(const LayerCase& c, std::int64_t first, std::int64_t count) {
  return {.keys = some_keys(c.keys.view(), first, count),
          .values = some_keys(c.values.view(), first, count),
          .valid_lens = {}};
}

// prepare or append in both languages.
struct Step {
  decltype(&attend_prepare) c;
  void (Plan::*cpp)(const KeyInputs&, PreparedKeys&, Workspace&) const;
};
inline constexpr Step kPrepare{attend_prepare, &Plan::prepare}, kAppend{attend_append, &Plan::append};

// What C said must be what C++ refused with; "" where it did not.
inline void check_same(attend_status status, const Said& said, const std::string& refusal) {
  CHECK(status == (refusal.empty() ? ATTEND_OK : ATTEND_ERROR_INVALID));
  CHECK(said.untouched() == refusal.empty());
  if (!refusal.empty()) CHECK(said.message() == refusal);
}

// Prepared keys in both languages. Each call is made in both, compared, and gives the C++ refusal.
struct BothPrepared {
  explicit BothPrepared(const Both& plans) : BothPrepared(plans, plans) {}
  BothPrepared(const Both& plans, const Both& made_for)
      : both(&plans),
        cpp(made_for.cpp),
        c(make<PreparedHandle>(attend_prepared_keys_create, made_for.plan.get())),
        cpp_workspace(plans.cpp),
        workspace(make<WorkspaceHandle>(attend_workspace_create, plans.plan.get())) {}

  std::string add(const Step& step, const KeyInputs& in, attend_executor* executor = nullptr) {
    const std::string refusal = error_message([&] { (both->cpp.*step.cpp)(in, cpp, cpp_workspace); });
    const attend_key_inputs c_in = c_key_inputs(in);
    Said said;
    check_same(step.c(both->plan.get(), &c_in, c.get(), workspace.get(), executor, &said.error), said, refusal);
    check_sizes();
    return refusal;
  }

  void check_sizes() const {
    std::int64_t batch = -1, num_keys = -1;
    CHECK(attend_prepared_keys_batch(c.get(), &batch, nullptr) == ATTEND_OK);
    CHECK(attend_prepared_keys_num_keys(c.get(), &num_keys, nullptr) == ATTEND_OK);
    CHECK(batch == cpp.batch());
    CHECK(num_keys == cpp.num_keys());
    for (std::int64_t b = -1; b <= batch; ++b) {
      std::int64_t len = -1;
      CHECK(attend_prepared_keys_len(c.get(), b, &len, nullptr) == ATTEND_OK);
      CHECK(len == cpp.len(b));
    }
  }

  // in.prepared: null for a run that gives none, else these.
  std::string run(Inputs in, bool with_weights, std::vector<float>* result = nullptr) {
    const bool given = in.prepared != nullptr;
    if (given) in.prepared = &cpp;
    const std::vector<std::int64_t> sizes = output_sizes(both->cpp, in);
    std::vector<std::int64_t> weight_sizes = {sizes[0], in.queries.size(-2), cpp.num_keys()};
    if (both->cpp.weight_heads() != 0) weight_sizes.insert(weight_sizes.begin() + 1, both->cpp.weight_heads());
    const auto outputs_in = [&](RunResult& memory) {
      memory.output = sentinels(sizes);
      Outputs out{.output = TensorView<float>(memory.output.data(), sizes), .attention_weights = {}};
      if (with_weights) {
        memory.attention_weights = sentinels(weight_sizes);
        out.attention_weights = TensorView<float>(memory.attention_weights.data(), weight_sizes);
      }
      return out;
    };
    RunResult expected, actual;
    const Outputs out = outputs_in(expected);
    const std::string refusal = error_message([&] { both->cpp.run(in, out, cpp_workspace); });
    const attend_inputs c_in = c_inputs(in, given ? c.get() : nullptr);
    const attend_outputs c_out = c_outputs(outputs_in(actual));
    Said said;
    check_same(attend_run(both->plan.get(), &c_in, &c_out, workspace.get(), nullptr, &said.error), said, refusal);
    CHECK(same_bits(actual, expected));
    if (result != nullptr) *result = actual.output;
    return refusal;
  }

  const Both* both;
  PreparedKeys cpp;
  PreparedHandle c;
  Workspace cpp_workspace;
  WorkspaceHandle workspace;
};

}  // namespace attend::tests

#endif  // ATTEND_TESTS_LAYERS_C_API_PREPARED_SUPPORT_H_
