// The contract (engine/README.md), lines 5 to 9, 11 and 12: same bits, accuracy, strides, weights, aliasing, sharing.
// Line 10, errors, is in tests/layers/errors_test.cc.
#include <cmath>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "attend/attend.h"
#include "tests/support/compare.h"
#include "tests/support/executors.h"
#include "tests/support/layer_cases.h"
#include "tests/support/layouts.h"
#include "tests/support/run.h"

namespace attend::tests {
namespace {

// Batch entries first ... first + count - 1 alone.
template <class T>
TensorView<const T> entries(const TensorView<const T>& view, std::int64_t first, std::int64_t count) {
  if (view.empty()) return view;
  std::vector<std::int64_t> sizes(view.sizes().begin(), view.sizes().end());
  sizes[0] = count;
  return TensorView<const T>(view.at(first), std::span<const std::int64_t>(sizes), view.strides());
}
Inputs entries(const Inputs& in, std::int64_t first, std::int64_t count) {
  return {.queries = entries(in.queries, first, count),
          .keys = entries(in.keys, first, count),
          .values = entries(in.values, first, count),
          .valid_lens = entries(in.valid_lens, first, count)};
}

std::vector<float> slice(const std::vector<float>& data, std::int64_t first, std::int64_t count, std::int64_t batch) {
  const auto entry = static_cast<std::ptrdiff_t>(data.size()) / batch;
  return {data.begin() + first * entry, data.begin() + (first + count) * entry};
}

}  // namespace

TEST_CASE("contract 5: same bits for any executor, number of threads, and from run to run") {
  EagerPool pools[] = {EagerPool(1), EagerPool(2), EagerPool(3), EagerPool(7)};
  ReverseExecutor reverse(4);
  ShuffledExecutor shuffled(64);
  for (const Layer layer : kAllLayers) {
    // One long row (decode), a few rows, and more tiles than threads.
    for (const auto& [batch, num_queries, num_keys] :
         std::vector<std::array<std::int64_t, 3>>{{1, 1, 1100}, {3, 9, 65}, {2, 70, 150}}) {
      const LayerCase c({.layer = layer, .batch = batch, .num_queries = num_queries, .num_keys = num_keys, .seed = 21});
      for_each_plan(c, [&](const Plan& plan, bool with_weights) {
        const RunResult expected = run_plan(plan, c.inputs(), with_weights);
        CHECK(same_bits(expected, run_plan(plan, c.inputs(), with_weights)));
        for (const int threads : {1, 2, 3, 7}) {
          PlanOptions options{.threads = threads,
                              .target = Target::from_name(plan.target_name()),
                              .attention_weights = with_weights,
                              .path = std::string(plan.path())};
          const Plan threaded = c.attention.plan(c.shape, options);
          CAPTURE(threads);
          for (EagerPool& pool : pools) CHECK(same_bits(expected, run_plan(threaded, c.inputs(), with_weights, &pool)));
          CHECK(same_bits(expected, run_plan(threaded, c.inputs(), with_weights, &reverse)));
          CHECK(same_bits(expected, run_plan(threaded, c.inputs(), with_weights, &shuffled)));
          CHECK(same_bits(expected, run_plan(threaded, c.inputs(), with_weights)));
        }
      });
    }
  }
}

TEST_CASE("contract 5: same bits for any batch composition") {
  for (const Layer layer : kAllLayers) {
    for (const Lens lens : kAllLens) {
      for (const auto& [num_queries, num_keys] : std::vector<std::array<std::int64_t, 2>>{{1, 300}, {5, 33}}) {
        const LayerCase c(
            {.layer = layer, .batch = 5, .num_queries = num_queries, .num_keys = num_keys, .lens = lens, .seed = 22});
        for_each_plan(c, [&](const Plan& plan, bool with_weights) {
          const RunResult all = run_plan(plan, c.inputs(), with_weights);
          for (const auto& [first, count] : std::vector<std::array<std::int64_t, 2>>{{0, 1}, {4, 1}, {1, 3}, {0, 5}}) {
            const RunResult some = run_plan(plan, entries(c.inputs(), first, count), with_weights);
            CHECK(same_bits(some.output, slice(all.output, first, count, 5)));
            CHECK(same_bits(some.attention_weights, slice(all.attention_weights, first, count, 5)));
          }
        });
      }
    }
  }
}

TEST_CASE("contract 7: any outer strides give the bits that dense tensors give") {
  for (const Layer layer : kAllLayers) {
    for (const Layout layout : kAllLayouts) {
      CAPTURE(static_cast<int>(layout));
      const LayerCase c({.layer = layer, .batch = 2, .num_queries = 5, .num_keys = 19, .size = 6, .seed = 23});
      const Laid queries = lay_out(c.inputs().queries, layout);
      const Laid keys = lay_out(c.inputs().keys, layout);
      const Laid values = lay_out(c.inputs().values, layout);
      std::vector<std::int32_t> lens;  // every second element, backwards
      for (auto len = c.lens.data.rbegin(); len != c.lens.data.rend(); ++len) lens.insert(lens.end(), {*len, -1});
      const Inputs in{.queries = queries.view(),
                      .keys = keys.view(),
                      .values = values.view(),
                      .valid_lens = TensorView<const std::int32_t>(&lens[2], {2}, {-2})};
      for_each_plan(c, [&](const Plan& plan, bool with_weights) {
        const RunResult expected = run_plan(plan, c.inputs(), with_weights);
        CHECK(same_bits(expected, run_plan(plan, in, with_weights)));

        Laid output = lay_out(output_sizes(plan, in), layout);
        Laid weights = lay_out(weights_sizes(plan, in), layout);
        const auto gaps = [](const Laid& laid) {
          return std::count_if(laid.memory.begin(), laid.memory.end(), [](float x) { return std::isnan(x); });
        };
        Workspace workspace(plan);
        Outputs out{.output = output.view(), .attention_weights = {}};
        if (with_weights) out.attention_weights = weights.view();
        plan.run(in, out, workspace);
        CHECK(same_bits(expected.output, dense(output.view())));
        CHECK(gaps(output) == static_cast<std::ptrdiff_t>(output.memory.size() - expected.output.size()));
        if (!with_weights) return;
        CHECK(same_bits(expected.attention_weights, dense(weights.view())));
        CHECK(gaps(weights) == static_cast<std::ptrdiff_t>(weights.memory.size() - expected.attention_weights.size()));
      });
    }
  }
}

TEST_CASE("contract 7: zero strides broadcast batches, rows and lengths") {
  for (const Layer layer : kAllLayers) {
    for (const bool over_rows : {false, true}) {
      const LayerCase c({.layer = layer, .batch = 3, .num_queries = 4, .num_keys = 20, .seed = 24});
      const auto broadcast = [&](const TensorView<const float>& view) {
        std::vector<std::int64_t> strides(view.strides().begin(), view.strides().end());
        strides[over_rows ? static_cast<std::size_t>(view.rank() - 2) : 0] = 0;
        return TensorView<const float>(view.data(), view.sizes(), std::span<const std::int64_t>(strides));
      };
      const std::int32_t len = 17;
      Inputs in = c.inputs();
      in.keys = broadcast(in.keys);
      in.values = broadcast(in.values);
      if (over_rows) in.queries = broadcast(in.queries);
      in.valid_lens = TensorView<const std::int32_t>(&len, {3}, {0});
      const reference::Result truth = c.truth(in);
      check_truth(c, in, truth, c.bound(truth));
    }
  }
}

TEST_CASE("contract 8: the weights returned are those that pooled the values") {
  for (const Layer layer : {Layer::kAdditive, Layer::kDot, Layer::kBilinear, Layer::kGaussian, Layer::kDotHeads}) {
    for (const std::int64_t num_keys : {1, 17, 200}) {
      const LayerCase c({.layer = layer, .num_queries = 4, .num_keys = num_keys, .lens = Lens::kPerQuery, .seed = 25});
      const reference::Result truth = c.truth();
      for_each_plan(c, [&](const Plan& plan, bool with_weights) {
        const RunResult result = run_plan(plan, c.inputs(), with_weights);
        if (!with_weights) return;
        const std::int64_t width = c.value_size();
        const std::int64_t rows = c.spec.batch * c.weight_heads() * c.spec.num_queries;
        double error = 0;
        for (std::int64_t row = 0; row < rows; ++row) {
          const std::int64_t entry = row / c.spec.num_queries;  // (batch entry, head)
          double sum = 0, true_sum = 0;                         // 1, or 0 where there is no key
          for (std::int64_t n = 0; n < num_keys; ++n) {
            sum += static_cast<double>(result.attention_weights[static_cast<std::size_t>(row * num_keys + n)]);
            true_sum += truth.attention_weights[static_cast<std::size_t>(row * num_keys + n)];
          }
          error = worse(error, std::abs(sum - true_sum));
          for (std::int64_t column = 0; column < width; ++column) {
            double pooled = 0;
            for (std::int64_t n = 0; n < num_keys; ++n) {
              pooled +=
                  static_cast<double>(result.attention_weights[static_cast<std::size_t>(row * num_keys + n)]) *
                  static_cast<double>(c.values.data[static_cast<std::size_t>((entry * num_keys + n) * width + column)]);
            }
            const auto output = static_cast<double>(result.output[static_cast<std::size_t>(row * width + column)]);
            error = worse(error, std::abs(pooled - output) / truth.max_abs_value);
          }
        }
        CHECK(error <= 1e-6);
      });
    }
  }
}

TEST_CASE("contract 9: masked_softmax may run in place") {
  Random random(26);
  const Tensor scores = random.normal({2, 3, 37}, 4);
  const LengthsTensor lens = random.lengths({2, 3}, 0, 37);
  for_each_target([&](const Target& target) {
    Tensor apart = scores;
    masked_softmax(scores.view(), lens.view(), apart.view(), {.target = target});
    Tensor in_place = scores;
    masked_softmax(in_place.view(), lens.view(), in_place.view(), {.target = target});
    CHECK(same_bits(apart.data, in_place.data));
  });
}

TEST_CASE("contract 9: inputs may overlap each other") {
  for (const Layer layer : kAllLayers) {
    const LayerCase c({.layer = layer, .batch = 2, .num_queries = 9, .num_keys = 9, .same_sizes = true, .seed = 27});
    Inputs shorthand = c.inputs();
    shorthand.keys = {};
    shorthand.values = {};
    Inputs spelled = shorthand;
    spelled.keys = shorthand.queries;
    spelled.values = shorthand.queries;
    LayerCase self = c;
    self.keys = self.values = c.queries;
    const reference::Result truth = c.truth(shorthand);
    for_each_plan(c, [&](const Plan& plan, bool with_weights) {
      const RunResult result = run_plan(plan, shorthand, with_weights);
      check_within(result.output, result.attention_weights, truth, self.bound(truth));
      CHECK(same_bits(result, run_plan(plan, spelled, with_weights)));
    });
  }
}

TEST_CASE("contract 11: plans and layers are immutable and shared between threads") {
  for (const Layer layer : kAllLayers) {
    const LayerCase c({.layer = layer, .num_queries = 20, .num_keys = 130, .seed = 28});
    for_each_plan(c, [&](const Plan& plan, bool with_weights) {
      const std::string explained = plan.explain();
      const RunResult expected = run_plan(plan, c.inputs(), with_weights);
      RunResult results[4];
      Plan copies[] = {plan, plan, plan, plan};
      {
        std::vector<std::jthread> threads;
        for (std::size_t i = 0; i < 4; ++i) {
          threads.emplace_back([&, i] {
            for (int repeat = 0; repeat < 3; ++repeat) results[i] = run_plan(copies[i], c.inputs(), with_weights);
          });
        }
      }
      for (const RunResult& result : results) CHECK(same_bits(expected, result));
      CHECK(plan.explain() == explained);
    });
  }
}

TEST_CASE("contract 11: a plan outlives its layer and the parameters the layer was built from") {
  std::vector<Plan> plans;
  std::vector<RunResult> expected;
  for (const Layer layer : kAllLayers) {
    const LayerCase c({.layer = layer, .seed = 29});
    plans.push_back(c.attention.plan(c.shape));
    expected.push_back(run_plan(plans.back(), c.inputs()));
  }
  for (std::size_t i = 0; i < plans.size(); ++i) {
    const LayerCase c({.layer = kAllLayers[i], .seed = 29});
    CHECK(same_bits(expected[i], run_plan(plans[i], c.inputs())));
  }
}

TEST_CASE("contract 11: plans and layers that were moved from are what they were") {
  static_assert(std::is_nothrow_move_constructible_v<Plan> && std::is_nothrow_move_assignable_v<Plan>);
  static_assert(std::is_nothrow_move_constructible_v<DotAttention>);
  for (const Layer layer : kAllLayers) {
    LayerCase c({.layer = layer, .seed = 30});
    const RunResult expected = run_plan(c.attention.plan(c.shape), c.inputs());
    const Attention moved_layer = std::move(c.attention);
    CHECK(c.attention.name() == moved_layer.name());
    Plan plan = c.attention.plan(c.shape);
    Plan moved_plan = std::move(plan);
    CHECK(plan.workspace_bytes() == moved_plan.workspace_bytes());
    CHECK(plan.explain() == moved_plan.explain());
    CHECK(same_bits(expected, run_plan(plan, c.inputs())));
    plan = std::move(moved_plan);
    CHECK(same_bits(expected, run_plan(moved_plan, c.inputs())));
    CHECK(same_bits(expected, run_plan(moved_layer.plan(c.shape), c.inputs())));
  }
  DotAttention dot;
  const DotAttention moved(std::move(dot));
  CHECK(dot.plan({.query_size = 4}).path() == moved.plan({.query_size = 4}).path());
}

TEST_CASE("contract 10: a workspace or prepared keys that were moved from are refused") {
  const LayerCase c({.layer = Layer::kDot, .lens = Lens::kNone});
  const Plan plan = c.attention.plan(c.shape);
  Workspace workspace(plan);
  PreparedKeys prepared(plan);
  plan.prepare({.keys = c.inputs().keys, .values = c.inputs().values}, prepared, workspace);
  CHECK(prepared.len(0) == c.shape.num_keys);
  for (const std::int64_t beyond : {std::int64_t{-1}, c.shape.batch, c.shape.batch + 1}) {
    CHECK(prepared.len(beyond) == 0);
  }
  std::vector<float> output = sentinels(output_sizes(plan, c.inputs()));
  const std::vector<float> before = output;
  const Outputs out{.output = TensorView<float>(output.data(), output_sizes(plan, c.inputs())),
                    .attention_weights = {}};
  Workspace moved_to(std::move(workspace));
  CHECK(workspace.size() == 0);
  CHECK(missing_parts(error_message([&] { plan.run(c.inputs(), out, workspace); }), {"workspace has 0 bytes"}) == "");
  const PreparedKeys moved_keys(std::move(prepared));
  CHECK(prepared.batch() == 0);
  CHECK(prepared.len(0) == 0);
  const Inputs on_nothing{.queries = c.inputs().queries, .prepared = &prepared};
  CHECK(missing_parts(error_message([&] { plan.run(on_nothing, out, moved_to); }), {"prepared"}) == "");
  CHECK(same_bits(output, before));
  plan.run({.queries = c.inputs().queries, .prepared = &moved_keys}, out, moved_to);
  CHECK(same_bits(output, run_plan(plan, c.inputs()).output));
}

TEST_CASE("contract 12: dropout is the identity, and the header says so") {
  std::ifstream file(std::string(ATTEND_SOURCE_DIR) + "/include/attend/layers.h");
  const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  CHECK(text.find("dropout") < text.find("#ifndef"));  // in the opening comment
}

}  // namespace attend::tests
