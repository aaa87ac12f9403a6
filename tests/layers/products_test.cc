// Scores and pooling by pairs of terms and by bfloat16 parts, on every target and CPU (Pairs::kAlways, Parts::kAlways):
// the contract holds as without, for every layer, mask and way to run. Queries, keys and values of normal numbers, 16
// to a head, go either way wherever there are tiles; what goes which way: tests/kernels/tile_pairs_test.cc,
// value_pairs_test.cc, tile_parts_test.cc.
#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "attend/attend.h"
#include "tests/support/compare.h"
#include "tests/support/executors.h"
#include "tests/support/for_each_target.h"
#include "tests/support/layer_cases.h"
#include "tests/support/prepared.h"
#include "tests/support/run.h"
#include "tests/support/tiles.h"

namespace attend::tests {
namespace {

constexpr Layer kLayers[] = {Layer::kDot,       Layer::kDotHeads, Layer::kBilinear,
                             Layer::kMultiHead, Layer::kAdditive, Layer::kGaussianHeads};
constexpr const char* kTiled[] = {"dot/fused", "dot/materialised"};
std::vector<std::string> tiled_paths(Layer layer) {
  if (layer == Layer::kAdditive) return {"additive/factored"};
  return {kTiled[0], kTiled[1]};
}

// More than two panels of 64 keys, and two tiles of 48 queries, three of 32.
CaseSpec spec_of(Layer layer) {
  return {
      .layer = layer, .num_queries = 97, .num_keys = 150, .size = 32, .value_size = 20, .num_hiddens = 48, .seed = 301};
}

// Calls check with what makes of a spec one whose products go one of the ways.
template <class Check>
void for_each_way(Check&& check) {
  SUBCASE("by pairs") {
    check([](CaseSpec spec) {
      spec.pairs = Pairs::kAlways;
      return spec;
    });
  }
  SUBCASE("by parts") {
    bool takes_long = false;
    for_each_target([&](const Target& target) { takes_long = takes_long || parts_take_long(target); });
    if (takes_long) {
      MESSAGE("left out: with a sanitizer, products by parts take minutes where the CPU has no tiles");
      return;
    }
    check([](CaseSpec spec) {
      spec.parts = Parts::kAlways;
      return spec;
    });
  }
}

}  // namespace

TEST_CASE("products, contract 6: within the bound of the truth for every mask, weights too") {
  for_each_way([&](const auto& way) {
    for (const Layer layer : kLayers) {
      for (const Lens lens : kAllLens) {
        for (const Causal causal : {Causal::kNone, Causal::kBottomRight, Causal::kTopLeft}) {
          CaseSpec spec = way(spec_of(layer));
          spec.lens = lens;
          spec.causal = causal;
          spec.num_kv_heads = layer == Layer::kDotHeads ? 1 : 0;
          check_truth(LayerCase(spec));
        }
      }
    }
    CaseSpec spec = way(spec_of(Layer::kMultiHead));
    spec.num_keys = spec.num_queries = 130;
    spec.padding = Padding::kSkipQueries;
    check_truth(LayerCase(spec));
    // Scores of hundreds, and heads of more than one block of terms, which go the plain way.
    spec = way(spec_of(Layer::kDot));
    spec.spread = 9;
    check_truth(LayerCase(spec));
    spec.size = 136;
    check_truth(LayerCase(spec));
    // Several blocks and spans of keys, of which rows see parts.
    for (const Layer layer : kLayers) {
      for (const Lens lens : {Lens::kPerBatch, Lens::kPerQuery}) {
        spec = way(spec_of(layer));
        spec.num_queries = 20;
        spec.num_keys = 700;
        spec.min_len = 100;
        spec.lens = lens;
        check_truth(LayerCase(spec));
      }
    }
  });
}

TEST_CASE("products, contract 1: keys that a row does not see change none of its bits, though other rows see them") {
  for_each_way([&](const auto& way) {
    CaseSpec spec = way(spec_of(Layer::kDotHeads));
    spec.lens = Lens::kPerQuery;
    LayerCase c(spec);
    const std::int32_t kLens[] = {20, 75, 150};  // less than a panel, less than two, all
    for (std::size_t i = 0; i < c.lens.data.size(); ++i) c.lens.data[i] = kLens[i % 3];
    const auto head = static_cast<std::size_t>(spec.num_keys * spec.size);
    for (const std::int32_t seen : {20, 75}) {
      for (const float bad : {0.0f, 1e20f, std::numeric_limits<float>::infinity()}) {
        LayerCase spoiled = c;
        for (std::size_t i = 0; i < spoiled.keys.data.size(); ++i) {
          if (i % head >= static_cast<std::size_t>(seen * spec.size)) spoiled.keys.data[i] = bad;
        }
        for_each_plan(c, [&](const Plan& plan, bool with_weights) {
          const RunResult expected = run_plan(plan, c.inputs(), with_weights);
          const RunResult result = run_plan(plan, spoiled.inputs(), with_weights);
          const auto columns = static_cast<std::size_t>(spec.value_size),
                     keys = static_cast<std::size_t>(spec.num_keys);
          std::size_t differing = 0;
          for (std::size_t row = 0; row < expected.output.size() / columns; ++row) {
            const auto m = row % static_cast<std::size_t>(spec.num_queries);
            const std::size_t entry = row / static_cast<std::size_t>(spec.num_queries * spec.num_heads);
            const std::int32_t len = c.lens.data[entry * static_cast<std::size_t>(spec.num_queries) + m];
            const bool same = same_bits(&expected.output[row * columns], &result.output[row * columns], columns) &&
                              (!with_weights || same_bits(&expected.attention_weights[row * keys],
                                                          &result.attention_weights[row * keys], keys));
            if (len <= seen) REQUIRE(same);
            differing += same ? 0 : 1;
          }
          CHECK(differing > 0);
        });
      }
    }
  });
}

TEST_CASE("products, contract 1: values that a row does not see change none of its bits, though other rows see them") {
  for_each_way([&](const auto& way) {
    for (const Layer layer : {Layer::kDotHeads, Layer::kGaussianHeads}) {
      CaseSpec spec = way(spec_of(layer));
      spec.num_keys = 300;
      spec.lens = Lens::kPerQuery;
      LayerCase c(spec);
      const std::int32_t kLens[] = {20, 128, 290, 300};  // less than a block, a block, less than all, all
      for (std::size_t i = 0; i < c.lens.data.size(); ++i) c.lens.data[i] = kLens[i % 4];
      const auto head = static_cast<std::size_t>(spec.num_keys * spec.value_size);
      for (const std::int32_t seen : {20, 128, 290}) {
        for (const float bad : {0.0f, 1e20f, std::numeric_limits<float>::infinity()}) {
          LayerCase spoiled = c;
          for (std::size_t i = 0; i < spoiled.values.data.size(); ++i) {
            if (i % head >= static_cast<std::size_t>(seen * spec.value_size)) spoiled.values.data[i] = bad;
          }
          for_each_plan(c, [&](const Plan& plan, bool with_weights) {
            const RunResult expected = run_plan(plan, c.inputs(), with_weights);
            const RunResult result = run_plan(plan, spoiled.inputs(), with_weights);
            const auto columns = static_cast<std::size_t>(spec.value_size);
            for (std::size_t row = 0; row < expected.output.size() / columns; ++row) {
              const auto m = row % static_cast<std::size_t>(spec.num_queries);
              const std::size_t entry = row / static_cast<std::size_t>(spec.num_queries * spec.num_heads);
              if (c.lens.data[entry * static_cast<std::size_t>(spec.num_queries) + m] > seen) continue;
              REQUIRE(same_bits(&expected.output[row * columns], &result.output[row * columns], columns));
            }
          });
        }
      }
    }
  });
}

TEST_CASE("products, contract 5: the same bits for any threads, order of tasks and company in the batch") {
  for_each_way([&](const auto& way) {
    for (const Layer layer : kLayers) {
      CaseSpec spec = way(spec_of(layer));
      spec.causal = Causal::kBottomRight;
      const LayerCase c(spec);
      for_each_target([&](const Target& target) {
        for (const std::string& path : tiled_paths(layer)) {
          PlanOptions options = c.plan_options();
          options.target = target;
          options.path = path;
          const RunResult expected = run_plan(c.attention.plan(c.shape, options), c.inputs());
          for (const int threads : {2, 3, 7}) {
            options.threads = threads;
            const Plan plan = c.attention.plan(c.shape, options);
            EagerPool pool(threads);
            ShuffledExecutor shuffled(threads);
            CHECK(same_bits(run_plan(plan, c.inputs(), false, &pool), expected));
            CHECK(same_bits(run_plan(plan, c.inputs(), false, &shuffled), expected));
          }
          // The second entry alone.
          Inputs in = c.inputs();
          const auto entry = [](TensorView<const float> view) {
            std::vector<std::int64_t> sizes(view.sizes().begin(), view.sizes().end());
            sizes[0] = 1;
            return TensorView<const float>(view.data() + view.strides()[0], std::span<const std::int64_t>(sizes),
                                           view.strides());
          };
          in.queries = entry(in.queries);
          in.keys = entry(in.keys);
          in.values = entry(in.values);
          const std::int32_t len = c.lens.data[1];
          in.valid_lens = {&len, {1}};
          const RunResult alone = run_plan(c.attention.plan(c.shape, options), in);
          const std::size_t half = expected.output.size() / 2;
          CHECK(same_bits(alone.output.data(), expected.output.data() + half, half));
        }
      });
    }
  });
}

TEST_CASE("products: any strides give the bits of contiguous views") {
  for_each_way([&](const auto& way) { check_any_layout(LayerCase(way(spec_of(Layer::kDotHeads)))); });
}

TEST_CASE("products: prepared and appended keys give the bits of keys") {
  for_each_way([&](const auto& way) {
    for (const Layer layer : kLayers) {
      CaseSpec spec = way(spec_of(layer));
      spec.lens = Lens::kNone;
      const LayerCase c(spec);
      for_each_plan(c, [&](const Plan& plan, bool with_weights) {
        const RunResult expected = run_plan(plan, c.inputs(), with_weights);
        for (const std::vector<std::int64_t>& pieces : {std::vector<std::int64_t>{150}, {1, 63, 86}, {65, 84, 1}}) {
          PoisonedKeys prepared(plan);
          prepare_in_pieces(plan, c.inputs(), pieces, prepared.keys);
          CHECK(same_bits(run_plan(plan, on_prepared(c.inputs(), prepared.keys), with_weights), expected));
        }
      });
    }
  });
}

}  // namespace attend::tests
