// The contract (engine/README.md), lines 1 to 4: what a run may read, and what becomes of rows without keys, NaN and
// infinities. Every layer, target, path, with and without attention weights.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

#include <doctest/doctest.h>

#include "attend/attend.h"
#include "tests/support/compare.h"
#include "tests/support/guard_page.h"
#include "tests/support/layer_cases.h"
#include "tests/support/masks.h"
#include "tests/support/run.h"

namespace attend::tests {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

// Elements of row (b, h, m) of a dense result whose rows have `size` elements.
const float* row(const std::vector<float>& data, std::int64_t index, std::int64_t size) {
  return data.data() + index * size;
}

}  // namespace

TEST_CASE("contract 1: keys and values that no row may see do not matter, whatever they hold") {
  for (const Layer layer : kAllLayers) {
    for (const Lens lens : {Lens::kPerBatch, Lens::kPerQuery}) {
      for (const std::int64_t num_keys : {9, 70}) {
        LayerCase clean({.layer = layer, .batch = 3, .num_queries = 5, .num_keys = num_keys, .lens = lens, .seed = 11});
        for (std::int32_t& len : clean.lens.data) len = std::min(len, static_cast<std::int32_t>(num_keys - 2));
        check_hidden_do_not_matter(clean);
      }
    }
  }
}

TEST_CASE("contract 1: keys and values beyond a row's own length do not matter to it, though others see them") {
  for (const Layer layer : kAllLayers) {
    // The last: all rows of a tile see all of its keys but one, and the first row that one too.
    for (const std::array<std::int32_t, 3>& lens :
         {std::array{1, 0, 1}, std::array{2, 0, 2}, std::array{7, 0, 23}, std::array{39, 39, 39}}) {
      const std::int32_t seen = *std::max_element(lens.begin(), lens.end());
      LayerCase clean(
          {.layer = layer, .batch = 1, .num_queries = 4, .num_keys = 40, .lens = Lens::kPerQuery, .seed = 12});
      clean.lens.data = {40, lens[0], lens[1], lens[2]};
      LayerCase spoiled = clean;
      spoil_from(spoiled.keys, [&](std::int64_t) { return seen; });
      spoil_from(spoiled.values, [&](std::int64_t) { return seen; });
      for_each_plan(clean, [&](const Plan& plan, bool with_weights) {
        const RunResult expected = run_plan(plan, clean.inputs(), with_weights);
        const RunResult actual = run_plan(plan, spoiled.inputs(), with_weights);
        CAPTURE(seen);
        const std::int64_t heads = clean.multi_head() ? 1 : clean.view_heads();
        for (std::int64_t h = 0; h < heads; ++h) {
          const std::int64_t first = (h * 4 + 1) * plan.output_size();  // rows 1 to 3
          CHECK(same_bits(expected.output.data() + first, actual.output.data() + first,
                          static_cast<std::size_t>(3 * plan.output_size())));
        }
        for (std::int64_t h = 0; with_weights && h < clean.weight_heads(); ++h) {
          CHECK(same_bits(row(expected.attention_weights, h * 4 + 1, 40), row(actual.attention_weights, h * 4 + 1, 40),
                          120));
        }
      });
    }
  }
}

TEST_CASE("contract 1: a row has the same bits however many keys the other rows see") {
  constexpr std::int64_t kQueries = 17, kKeys = 300;
  for (const Layer layer : kAllLayers) {
    LayerCase alike({.layer = layer,
                     .batch = 1,
                     .num_queries = kQueries,
                     .num_keys = kKeys,
                     .size = 24,
                     .value_size = 24,
                     .lens = Lens::kPerQuery,
                     .seed = 14});
    std::fill(alike.lens.data.begin(), alike.lens.data.end(), 50);
    LayerCase longer = alike;
    longer.lens.data.back() = kKeys;
    PlanOptions by_pairs = alike.plan_options();
    by_pairs.pairs = Pairs::kAlways;
    const auto check = [&](const Plan& plan, bool with_weights) {
      const RunResult expected = run_plan(plan, alike.inputs(), with_weights);
      const RunResult actual = run_plan(plan, longer.inputs(), with_weights);
      const std::int64_t heads = alike.multi_head() ? 1 : alike.view_heads();
      for (std::int64_t h = 0; h < heads; ++h) {
        const std::int64_t first = h * kQueries * plan.output_size();
        CHECK(same_bits(expected.output.data() + first, actual.output.data() + first,
                        static_cast<std::size_t>((kQueries - 1) * plan.output_size())));
      }
      for (std::int64_t h = 0; with_weights && h < alike.weight_heads(); ++h) {
        CHECK(same_bits(row(expected.attention_weights, h * kQueries, kKeys),
                        row(actual.attention_weights, h * kQueries, kKeys), (kQueries - 1) * kKeys));
      }
    };
    for_each_plan(alike, check);
    for_each_plan(alike.attention, alike.shape, by_pairs, check);
  }
}

TEST_CASE("contract 1: memory beyond the valid length may be unmapped") {
  for (const Layer layer : kAllLayers) {
    if (layer == Layer::kDotHeads || layer == Layer::kGaussianHeads) continue;  // heads lie one after the other
    for (const std::int64_t len : {1, 5, 16, 33}) {
      LayerCase c({.layer = layer, .batch = 1, .num_queries = 3, .num_keys = 70, .size = 5, .seed = 13});
      c.lens.data = {static_cast<std::int32_t>(len)};
      const auto visible = [&](const Tensor& tensor) { return static_cast<std::size_t>(len * tensor.sizes.back()); };
      GuardedArray<float> queries(c.queries.data.size()), keys(visible(c.keys)), values(visible(c.values));
      std::copy_n(c.queries.data.data(), queries.size(), queries.data());
      std::copy_n(c.keys.data.data(), keys.size(), keys.data());
      std::copy_n(c.values.data.data(), values.size(), values.data());
      Inputs in = c.inputs();
      in.queries = TensorView<const float>(queries.data(), in.queries.sizes());
      in.keys = TensorView<const float>(keys.data(), in.keys.sizes());
      in.values = TensorView<const float>(values.data(), in.values.sizes());
      for_each_plan(c, [&](const Plan& plan, bool with_weights) {
        CHECK(same_bits(run_plan(plan, c.inputs(), with_weights), run_plan(plan, in, with_weights)));
      });
    }
  }
}

TEST_CASE("contract 1: memory beyond the valid length may be unmapped, though another batch entry sees more keys") {
  for (const Layer layer : kAllLayers) {
    // Within a span of packed keys, and within the second chunk of them.
    for (const auto& [num_keys, len] :
         std::vector<std::array<std::int32_t, 2>>{{70, 0}, {70, 5}, {70, 33}, {1300, 1030}}) {
      for (const std::int64_t value_size : {5, 64}) {
        LayerCase c(
            {.layer = layer, .num_queries = 3, .num_keys = num_keys, .size = 5, .value_size = value_size, .seed = 16});
        c.lens.data = {num_keys, len};
        check_keys_unread_from(c, len);
      }
    }
  }
}

// Time is for benchmarks (dot/b8_h12_m512_n512_d64_lens); what can be counted is the scratch memory that work leaves
// behind: packed keys and values, scores, where a path packs them; of whole heads where weights want them twice.
TEST_CASE("contract 1: work is proportional to valid lengths") {
  LayerCase c({.layer = Layer::kDot, .batch = 1, .num_queries = 64, .num_keys = 4096, .size = 64, .value_size = 64});
  const Plan plan = c.attention.plan(c.shape, {.attention_weights = true, .path = "dot/fused"});
  const auto bytes_written = [&](std::int32_t len) {
    c.lens.data = {len};
    Workspace workspace(plan);
    constexpr std::byte kUntouched{0xA5};
    std::fill_n(workspace.data(), workspace.size(), kUntouched);
    std::vector<float> output(64 * 64);
    plan.run(c.inputs(), {.output = {output.data(), {1, 64, 64}}}, workspace);
    return std::count_if(workspace.data(), workspace.data() + workspace.size(),
                         [&](std::byte b) { return b != kUntouched; });
  };
  const auto few = bytes_written(128), all = bytes_written(4096);  // a 32nd of the keys
  CHECK(few * 8 < all);
  CHECK(bytes_written(0) * 100 < all);
}

// Entries are pooled one after another. What a run of both leaves behind in another state than a run of the first is
// the second's work.
TEST_CASE("contract 1: work is proportional to an entry's own length, though another batch entry sees more keys") {
  constexpr std::int32_t kKeys = 2048;
  for (const Layer layer : kAllLayers) {
    for (const std::int64_t num_queries : {3, 33}) {
      LayerCase c({.layer = layer, .num_queries = num_queries, .num_keys = kKeys, .seed = 17});
      for_each_plan(c, [&](const Plan& plan, bool with_weights) {
        const auto bytes_written = [&](std::int32_t len) {
          c.lens.data = {kKeys, len};
          Workspace workspace(plan);
          poison(workspace);
          const auto run = [&](const Inputs& in) {
            std::vector<float> output = sentinels(output_sizes(plan, in)), weights = sentinels(weights_sizes(plan, in));
            Outputs out{.output = TensorView<float>(output.data(), output_sizes(plan, in)), .attention_weights = {}};
            if (with_weights) out.attention_weights = TensorView<float>(weights.data(), weights_sizes(plan, in));
            plan.run(in, out, workspace);
          };
          run(entry_of(c.inputs(), 0));
          const std::vector<std::byte> before(workspace.data(), workspace.data() + workspace.size());
          run(c.inputs());
          std::size_t written = 0;
          for (std::size_t i = 0; i < before.size(); ++i) written += workspace.data()[i] != before[i] ? 1u : 0u;
          return written;
        };
        // Queries are projected whatever they see, where oneDNN does it in copies of a few rows more: of up to 8 rows,
        // and their results.
        const bool projects = layer == Layer::kBilinear || layer == Layer::kAdditive || layer == Layer::kMultiHead ||
                              layer == Layer::kMultiHeadAdditive;
        const std::size_t of_queries = projects ? 2 * 8 * 12 * sizeof(float) : 0;
        const auto of_keys = [&](std::int32_t len) { return std::max(bytes_written(len), of_queries) - of_queries; };
        const std::size_t all = bytes_written(kKeys);
        CHECK(of_keys(16) * 3 < all);  // lanes keep what is of 128 keys
        CHECK(of_keys(0) * 10 < all);
      });
    }
  }
}

TEST_CASE("contract 2: a row without valid keys has weights 0 and pools 0") {
  for (const Layer layer : kAllLayers) {
    for (const Lens lens : {Lens::kPerBatch, Lens::kPerQuery}) {
      LayerCase c({.layer = layer, .batch = 3, .num_queries = 3, .num_keys = 21, .lens = lens, .seed = 14});
      if (lens == Lens::kPerBatch) {
        c.lens.data = {0, 21, 0};
      } else {
        c.lens.data = {0, 0, 0, 4, 0, 21, 0, 1, 0};
      }
      const reference::Result truth = c.truth();
      for_each_plan(c, [&](const Plan& plan, bool with_weights) {
        const RunResult result = run_plan(plan, c.inputs(), with_weights);
        check_within(result.output, result.attention_weights, truth, c.bound(truth));
        for (std::size_t i = 0; i < result.attention_weights.size(); ++i) {
          if (truth.attention_weights[i] == 0 && result.attention_weights[i] != 0) FAIL_CHECK("weight of a masked key");
        }
        if (c.multi_head()) return;  // the output is b_o then, which check_within saw
        for (std::size_t i = 0; i < result.output.size(); ++i) {
          if (truth.output[i] == 0 && result.output[i] != 0) FAIL_CHECK("output of an empty row");
        }
      });
    }
  }
}

TEST_CASE("contract 2: multi-head rows without valid keys give b_o, or 0 without biases") {
  for (const bool biases : {false, true}) {
    LayerCase c({.layer = Layer::kMultiHead, .batch = 1, .num_queries = 2, .biases = biases});
    c.lens.data = {0};
    for_each_plan(c, [&](const Plan& plan, bool with_weights) {
      const RunResult result = run_plan(plan, c.inputs(), with_weights);
      for (std::size_t i = 0; i < result.output.size(); ++i) {
        const float expected =
            biases ? c.weights.at("W_o.bias").data[i % static_cast<std::size_t>(c.output_size())] : 0;
        CHECK(result.output[i] == expected);
      }
    });
  }
}

TEST_CASE("contract 2: no keys at all, N = 0 in a run") {
  for (const Layer layer : kAllLayers) {
    LayerCase c({.layer = layer, .lens = Lens::kNone});
    LayerCase none({.layer = layer, .num_keys = 0, .lens = Lens::kNone});
    const reference::Result truth = none.truth();
    check_truth(c, none.inputs(), truth, c.bound(truth));
  }
}

TEST_CASE("contract 3: a NaN in a valid score makes its row NaN and no other") {
  for (const Layer layer : kAllLayers) {
    for (const std::int64_t num_keys : {5, 40, 300}) {
      for (const bool in_query : {true, false}) {
        const LayerCase clean(
            {.layer = layer, .batch = 2, .num_queries = 4, .num_keys = num_keys, .lens = Lens::kPerQuery, .seed = 15});
        LayerCase c = clean;
        c.lens.data = {static_cast<std::int32_t>(num_keys), 2, 3, 0, 4, 1, 5, 4};
        if (in_query) {
          c.queries.data[static_cast<std::size_t>(c.spec.size)] = kNaN;  // row 1
        } else {
          c.keys.data[static_cast<std::size_t>(3 * c.key_size() + 1)] = kNaN;  // key 3: not seen with len 2 and 3
        }
        const reference::Result truth = c.truth();
        REQUIRE(std::any_of(truth.output.begin(), truth.output.end(), [](double x) { return std::isnan(x); }));
        REQUIRE(!std::all_of(truth.output.begin(), truth.output.end(), [](double x) { return std::isnan(x); }));
        check_truth(c, c.inputs(), truth, clean.bound(truth));
      }
    }
  }
}

namespace {

// Layers whose scores are scale * q * k with size 1 and no biases, so that infinite scores can be made at will.
std::vector<LayerCase> cases_of_size_one(std::int64_t num_keys) {
  std::vector<LayerCase> cases;
  for (const Layer layer : {Layer::kDot, Layer::kBilinear, Layer::kMultiHead, Layer::kGaussian}) {
    cases.emplace_back(CaseSpec{.layer = layer,
                                .batch = 1,
                                .num_queries = 3,
                                .num_keys = num_keys,
                                .size = 1,
                                .num_hiddens = 1,
                                .num_heads = 1,
                                .lens = Lens::kNone,
                                .same_sizes = true,
                                .biases = false});
    // Queries of the sign that makes a key of -inf score -inf (gaussian: any infinite key does).
    LayerCase& c = cases.back();
    float sign = 1;
    for (const char* name : {"W.weight", "W_q.weight", "W_k.weight"}) {
      if (c.weights.contains(name) && c.weights.at(name).data[0] < 0) sign = -sign;
    }
    for (float& x : c.queries.data) x = sign * (std::abs(x) + 0.5f);
  }
  return cases;
}

}  // namespace

TEST_CASE("contract 4: -inf scores weigh 0, only -inf gives 0") {
  for (const std::int64_t num_keys : {3, 40, 600}) {
    for (LayerCase& c : cases_of_size_one(num_keys)) {
      const Tensor finite = c.keys;
      const std::size_t n = static_cast<std::size_t>(num_keys);
      const std::pair<std::size_t, std::size_t> kRanges[] = {{0, 1},     {1, 2},     {n - 1, n},
                                                             {0, n / 2}, {n / 2, n}, {0, n}};
      for (const auto& range : kRanges) {
        const std::size_t first = range.first, last = range.second;
        CAPTURE(first);
        CAPTURE(last);
        c.keys = finite;
        std::fill(c.keys.data.begin() + static_cast<std::ptrdiff_t>(first),
                  c.keys.data.begin() + static_cast<std::ptrdiff_t>(last), -kInf);
        Inputs in = c.inputs();
        const reference::Result truth = c.truth(in);
        REQUIRE(std::none_of(truth.output.begin(), truth.output.end(), [](double x) { return std::isnan(x); }));
        LayerCase magnitudes = c;
        magnitudes.keys = finite;
        check_truth(c, in, truth, magnitudes.bound(truth));
      }
    }
  }
}

TEST_CASE("contract 4: a row of nothing but -inf is 0, whatever its values are") {
  for (const std::int64_t num_keys : {1, 3, 40, 600}) {
    for (LayerCase& c : cases_of_size_one(num_keys)) {
      std::fill(c.keys.data.begin(), c.keys.data.end(), -kInf);
      for (const float value : {kInf, -kInf, std::numeric_limits<float>::quiet_NaN()}) {
        CAPTURE(value);
        c.values.data[0] = value;
        c.values.data.back() = value;
        const reference::Result truth = c.truth();
        REQUIRE(std::all_of(truth.output.begin(), truth.output.end(), [](double x) { return x == 0.0; }));
        check_truth(c, c.inputs(), truth, {.weights = 0, .output = 0});
      }
    }
  }
}

TEST_CASE("contract 4: large scores do not overflow") {
  for (const float largest : {1e4f, 1e20f, 1e38f, 1.7e38f}) {
    for (const std::int64_t num_keys : {4, 65, 600}) {
      CAPTURE(largest);
      LayerCase c(
          {.layer = Layer::kDot, .batch = 1, .num_queries = 2, .num_keys = num_keys, .size = 1, .lens = Lens::kNone});
      c.queries.data = {1, -1};
      for (std::size_t n = 0; n < c.keys.data.size(); ++n) c.keys.data[n] = static_cast<float>(n % 3) * 0.25f;
      c.keys.data[1] = largest;
      c.keys.data[2] = -largest;
      const reference::Result truth = c.truth();  // weight 1 on key 1 for the first row, on key 2 for the second
      for_each_plan(c, [&](const Plan& plan, bool with_weights) {
        const RunResult result = run_plan(plan, c.inputs(), with_weights);
        check_within(result.output, result.attention_weights, truth, {.weights = 1e-6, .output = 1e-6});
      });
    }
  }
}

TEST_CASE("contract 4: large scores that are close together, and large values beside them") {
  for (const float largest : {2e7f, 1e8f, 1e9f, 1e12f, 1e30f, 1e38f, -2e7f, -1e9f, -1e30f}) {
    for (const std::int64_t num_queries : {1, 7, 20}) {
      CAPTURE(largest);
      LayerCase c({.layer = Layer::kDot,
                   .batch = 1,
                   .num_queries = num_queries,
                   .num_keys = 600,
                   .size = 1,
                   .value_size = 2,
                   .lens = Lens::kNone});
      std::fill(c.queries.data.begin(), c.queries.data.end(), 1.0f);
      // Enough below for a weight of 0, after the roundings of both scores; in tiles of their own.
      const float spacing = std::nextafter(std::abs(largest), kInf) - std::abs(largest);
      for (std::size_t n = 0; n < 600; ++n) {
        const bool is_largest = n >= 128 && n < 256;
        c.keys.data[n] = is_largest ? largest : largest - std::max(8 * spacing, 128.0f);
        c.values.data[2 * n] = is_largest ? 1.0f : 2.0f;
        c.values.data[2 * n + 1] = is_largest ? -1e34f : 3e34f;
      }
      for_each_plan(c, [&](const Plan& plan, bool with_weights) {
        const RunResult result = run_plan(plan, c.inputs(), with_weights);
        for (std::size_t m = 0; m < static_cast<std::size_t>(num_queries); ++m) {
          CHECK(std::abs(result.output[2 * m] - 1.0f) <= 1e-6f);
          CHECK(std::abs(result.output[2 * m + 1] / -1e34f - 1.0f) <= 1e-6f);
        }
      });
    }
  }
}

TEST_CASE("contract 4: an infinite score is NaN for its row, infinite pre-activations of tanh are not") {
  LayerCase dot({.layer = Layer::kDot, .batch = 1, .num_queries = 2, .num_keys = 20, .size = 1, .lens = Lens::kNone});
  dot.queries.data = {1, -1};
  dot.keys.data[17] = kInf;  // +inf for the first row, -inf for the second
  LayerCase additive(
      {.layer = Layer::kAdditive, .batch = 1, .num_queries = 2, .num_keys = 20, .size = 1, .same_sizes = true});
  const Bound bound = additive.bound(additive.truth());
  additive.keys.data[17] = kInf;
  additive.queries.data[1] = -1e30f;
  // At infinite distance from every key all scores are -inf: 0. NaN distances stay NaN.
  LayerCase gaussian(
      {.layer = Layer::kGaussian, .batch = 1, .num_queries = 3, .num_keys = 20, .size = 2, .lens = Lens::kNone});
  gaussian.queries.data[1] = kInf;
  gaussian.queries.data[2] = kNaN;
  for (const LayerCase& c : {dot, additive, gaussian}) {
    const reference::Result truth = c.truth();
    check_truth(c, c.inputs(), truth, bound);
  }
}

}  // namespace attend::tests
