// Keys prepared on a small plan, for mistakes to leave as they are.
#ifndef ATTEND_TESTS_SUPPORT_READY_H_
#define ATTEND_TESTS_SUPPORT_READY_H_

#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "tests/support/compare.h"
#include "tests/support/layer_cases.h"
#include "tests/support/prepared.h"
#include "tests/support/run.h"

namespace attend::tests {

// B 2, M 3, N 9 of 20 planned, Dq 8, Dk 8 or 11, Dv 5; lengths 9 and 4.
inline LayerCase the_case(Layer layer) {
  LayerCase c({.layer = layer});
  c.lens.data = {9, 4};
  c.shape.num_keys = 20;
  return c;
}

// A plan, 9 keys prepared on it, and what a run on them gives: nothing may change that.
struct Ready {
  LayerCase c;
  Plan plan;
  PoisonedKeys prepared;
  RunResult expected;

  explicit Ready(Layer layer, const PlanOptions& options = {})
      : c(the_case(layer)), plan(c.attention.plan(c.shape, options)), prepared(plan) {
    prepare(plan, key_inputs(c.inputs()), prepared.keys);
    expected = run_plan(plan, run());
  }
  Inputs run() const { return on_prepared(c.inputs(), prepared.keys); }
  bool is_unchanged() const {
    return prepared.keys.batch() == 2 && prepared.keys.num_keys() == 9 && prepared.keys.len(0) == 9 &&
           prepared.keys.len(1) == 4 && same_bits(expected, run_plan(plan, run()));
  }
};

// What a run on `in` throws; the output must stay as it was.
inline std::string run_message(const Plan& plan, const Inputs& in) {
  std::vector<float> output(1 << 10, kSentinel);
  const std::vector<float> before = output;
  Workspace workspace(plan);
  const std::string message = error_message(
      [&] { plan.run(in, {.output = TensorView<float>(output.data(), output_sizes(plan, in))}, workspace); });
  CHECK(same_bits(output, before));
  CHECK(message.find('\n') == std::string::npos);
  return message;
}

inline const float* zeros() {
  static const std::vector<float> memory(1 << 16, 0.0f);
  return memory.data();
}

}  // namespace attend::tests

#endif  // ATTEND_TESTS_SUPPORT_READY_H_
