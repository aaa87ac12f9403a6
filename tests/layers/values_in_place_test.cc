// Values may be used where they lie, if their rows are whole panels, or be packed: which of the two shows in no bit,
// whatever the strides, and nothing beyond the values is read.
#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "attend/attend.h"
#include "tests/support/compare.h"
#include "tests/support/guard_page.h"
#include "tests/support/layer_cases.h"
#include "tests/support/prepared.h"
#include "tests/support/run.h"

namespace attend::tests {
namespace {

constexpr std::int64_t kPage = 4096 / sizeof(float);

// The values of a case at another row stride; the last one ends at an unmapped page. Gaps are NaN.
struct Placed {
  GuardedArray<float> memory;
  TensorView<const float> view;

  Placed(const LayerCase& c, std::int64_t stride)
      : memory(static_cast<std::size_t>((c.spec.batch * c.spec.num_keys - 1) * stride + c.value_size())) {
    std::fill(memory.begin(), memory.end(), std::numeric_limits<float>::quiet_NaN());
    const auto size = static_cast<std::size_t>(c.value_size());
    for (std::size_t row = 0; row < c.values.data.size() / size; ++row) {
      std::copy_n(c.values.data.data() + row * size, size, memory.data() + row * static_cast<std::size_t>(stride));
    }
    view = TensorView<const float>(memory.data(), {c.spec.batch, c.spec.num_keys, c.value_size()},
                                   {c.spec.num_keys * stride, stride, 1});
  }
};

}  // namespace

TEST_CASE("values in place: the same bits at every row stride, in whole panels or not, prepared too") {
  const auto check = [](Layer layer, std::int64_t value_size, std::int64_t num_queries, std::int64_t num_keys) {
    const LayerCase c({.layer = layer,
                       .batch = 2,
                       .num_queries = num_queries,
                       .num_keys = num_keys,
                       .value_size = value_size,
                       .lens = layer == Layer::kDot ? Lens::kPerBatch : Lens::kPerQuery,
                       .seed = 501});
    const reference::Result truth = c.truth();
    for_each_plan(c, [&](const Plan& plan, bool with_weights) {
      const RunResult expected = run_plan(plan, c.inputs(), with_weights);
      check_within(expected.output, expected.attention_weights, truth, c.bound(truth));
      for (const std::int64_t stride : {value_size, value_size + 1, value_size + 16, 2 * kPage, 2 * kPage + 64}) {
        const Placed values(c, stride);
        Inputs in = c.inputs();
        in.values = values.view;
        CAPTURE(stride);
        CHECK(same_bits(expected, run_plan(plan, in, with_weights)));
        if (stride != value_size + 1) continue;
        PoisonedKeys prepared(plan);
        prepare(plan, key_inputs(in), prepared.keys);
        CHECK(same_bits(expected, run_plan(plan, on_prepared(in, prepared.keys), with_weights)));
      }
    });
  };
  for (const std::int64_t num_queries : {1, 20}) {
    for (const std::int64_t value_size : {64, 65, 128}) check(Layer::kAdditive, value_size, num_queries, 140);
    check(Layer::kAdditive, 1024, num_queries, 30);
  }
  for (const std::int64_t panel : {2, 8, 16, 32, 64}) {  // of vectors of up to 512 bits
    check(Layer::kDot, panel, 20, 140);
    check(Layer::kDot, panel, 3, 2200);  // chunks of keys
  }
}

TEST_CASE("values in place: an infinite value beyond the keys of an entry, in values that lie as panels do") {
  for (const std::int64_t panel : {2, 8, 16, 32, 64}) {
    LayerCase c({.layer = Layer::kDot,
                 .batch = 2,
                 .num_queries = 5,
                 .num_keys = 140,
                 .value_size = panel,
                 .lens = Lens::kPerBatch});
    c.lens.data = {70, 69};
    const Bound bound = c.bound(c.truth());
    for (const std::int64_t row : {69, 140 + 69}) {  // seen, and not
      c.values.data[static_cast<std::size_t>(row * panel + 1)] = std::numeric_limits<float>::infinity();
    }
    const reference::Result truth = c.truth();
    for_each_plan(c, [&](const Plan& plan, bool with_weights) {
      const RunResult result = run_plan(plan, c.inputs(), with_weights);
      check_within(result.output, result.attention_weights, truth, bound);
    });
  }
}

TEST_CASE("values in place: an infinite value that only some rows see, wherever it is, at every row stride") {
  for (const std::int64_t num_queries : {1, 5}) {
    LayerCase clean({.layer = Layer::kAdditive,
                     .batch = 1,
                     .num_queries = num_queries,
                     .num_keys = 140,
                     .value_size = 128,
                     .lens = Lens::kPerQuery,
                     .seed = 502});
    clean.lens.data = {139};
    if (num_queries == 5) clean.lens.data = {140, 139, 70, 69, 1};
    const Bound bound = clean.bound(clean.truth());
    for (const std::size_t key : {0u, 1u, 69u, 70u, 138u, 139u}) {
      for (const std::size_t column : {0u, 63u, 64u, 127u}) {
        if ((key + column) % 2 == 0) continue;  // half of them
        CAPTURE(key);
        CAPTURE(column);
        LayerCase c = clean;
        c.values.data[key * 128 + column] = std::numeric_limits<float>::infinity();
        const Placed in_place(c, 129), packed(c, kPage);
        const reference::Result truth = c.truth();
        for_each_plan(c, [&](const Plan& plan, bool with_weights) {
          const RunResult expected = run_plan(plan, c.inputs(), with_weights);
          check_within(expected.output, expected.attention_weights, truth, bound);
          for (const Placed* values : {&in_place, &packed}) {
            Inputs in = c.inputs();
            in.values = values->view;
            CHECK(same_bits(expected, run_plan(plan, in, with_weights)));
          }
        });
      }
    }
  }
}

TEST_CASE("values in place: one row of values for all keys, and rows from the last to the first") {
  const LayerCase c({.layer = Layer::kAdditive, .batch = 2, .num_queries = 5, .num_keys = 70, .value_size = 64});
  Tensor repeated = c.values, reversed = c.values;
  for (std::size_t row = 0; row < 140; ++row) {
    std::copy_n(c.values.data.data(), 64, repeated.data.data() + row * 64);
    std::copy_n(c.values.data.data() + row * 64, 64, reversed.data.data() + (139 - row) * 64);
  }
  for_each_plan(c, [&](const Plan& plan, bool with_weights) {
    Inputs in = c.inputs(), dense = c.inputs();
    in.values = TensorView<const float>(c.values.data.data(), {2, 70, 64}, {0, 0, 1});
    dense.values = repeated.view();
    CHECK(same_bits(run_plan(plan, dense, with_weights), run_plan(plan, in, with_weights)));
    in.values = TensorView<const float>(reversed.data.data() + 139 * 64, {2, 70, 64}, {-70 * 64, -64, 1});
    CHECK(same_bits(run_plan(plan, c.inputs(), with_weights), run_plan(plan, in, with_weights)));
  });
}

}  // namespace attend::tests
