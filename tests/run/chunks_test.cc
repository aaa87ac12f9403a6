// Few queries and many keys: keys are pooled in chunks of 1024 whose results are merged. Lengths that end inside, at
// and before the borders of chunks, the same bits whoever works on them, and the rules of the contract across chunks.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include <doctest/doctest.h>

#include "attend/attend.h"
#include "tests/support/compare.h"
#include "tests/support/executors.h"
#include "tests/support/layer_cases.h"
#include "tests/support/masks.h"
#include "tests/support/prepared.h"
#include "tests/support/run.h"

namespace attend::tests {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr Layer kLayers[] = {Layer::kDot, Layer::kGaussian, Layer::kAdditive, Layer::kMultiHead,
                             Layer::kMultiHeadAdditive};
// What nine queries see of 3000 keys.
const std::vector<std::int32_t> kLens = {3000, 0, 1, 1023, 1024, 1025, 2047, 2048, 2049};

LayerCase the_case(Layer layer, std::int64_t num_queries = 9, std::int64_t num_keys = 3000, Lens lens = Lens::kNone) {
  LayerCase c({.layer = layer,
               .batch = 2,
               .num_queries = num_queries,
               .num_keys = num_keys,
               .size = 5,
               .num_hiddens = 6,
               .num_heads = 2,
               .lens = lens,
               .seed = 401});
  if (lens == Lens::kPerQuery && num_queries == 9) {
    std::copy(kLens.begin(), kLens.end(), c.lens.data.begin());
    std::reverse_copy(kLens.begin(), kLens.end(), c.lens.data.begin() + 9);
    for (std::int32_t& len : c.lens.data) len = std::min(len, static_cast<std::int32_t>(num_keys));
  }
  return c;
}

std::vector<float> row_of(const RunResult& result, std::size_t row, std::int64_t size) {
  const auto first = result.output.begin() + static_cast<std::ptrdiff_t>(row) * static_cast<std::ptrdiff_t>(size);
  return {first, first + static_cast<std::ptrdiff_t>(size)};
}

}  // namespace

TEST_CASE("chunks: explain says how keys are cut, for few queries of many keys") {
  for (const Layer layer : kLayers) {
    const auto split = [&](std::int64_t queries, std::int64_t keys) {
      const LayerCase c = the_case(layer, queries, keys);
      const std::string text = c.attention.plan(c.shape).explain();
      return text.substr(text.find("  split"), text.find('\n', text.find("  split")) - text.find("  split"));
    };
    for (const std::int64_t queries : {1, 9, 32}) {
      CHECK(missing_parts(split(queries, 3000), {"3 chunks of 1024"}) == "");
      CHECK(split(queries, 1000).find("chunks") == std::string::npos);
    }
    CHECK(split(300, 3000).find("chunks") == std::string::npos);
  }
}

TEST_CASE("chunks: the truth's results for runs of any number of keys and lengths around the borders") {
  for (const Layer layer : kLayers) {
    const LayerCase planned = the_case(layer, 32);
    for (const std::int64_t num_keys : {3000, 2049, 2048, 1025, 1024, 700, 1, 0}) {
      for (const std::int64_t num_queries : {1, 9, 32}) {
        if (num_queries == 32 && num_keys != 3000) continue;
        for (const Lens lens : kAllLens) {
          if (lens == Lens::kPerQuery && num_queries != 9) continue;
          LayerCase c = the_case(layer, num_queries, num_keys, lens);
          if (lens == Lens::kPerBatch) c.lens.data = {static_cast<std::int32_t>(num_keys), 0};
          CAPTURE(num_keys);
          CAPTURE(num_queries);
          const reference::Result truth = c.truth();
          for_each_target([&](const Target& target) {
            const Plan plan = planned.attention.plan(planned.shape, {.target = target});
            check_within(run_plan(plan, c.inputs()).output, {}, truth, c.bound(truth));
          });
        }
      }
    }
  }
}

TEST_CASE("chunks: same bits for any number of threads, any executor, an entry alone or in company, prepared or not") {
  EagerPool pools[] = {EagerPool(1), EagerPool(2), EagerPool(3), EagerPool(7)};
  ReverseExecutor reverse(7);
  for (const Layer layer : kLayers) {
    for (const Lens lens : {Lens::kNone, Lens::kPerQuery}) {
      const LayerCase c = the_case(layer, 9, 3000, lens);
      for_each_target([&](const Target& target) {
        const Plan plan = c.attention.plan(c.shape, {.target = target});
        const RunResult expected = run_plan(plan, c.inputs());
        for (EagerPool& pool : pools) {
          const Plan threaded = c.attention.plan(c.shape, {.threads = pool.concurrency(), .target = target});
          CHECK(same_bits(expected, run_plan(threaded, c.inputs(), false, &pool)));
          CHECK(same_bits(expected, run_plan(threaded, c.inputs(), false, &reverse)));
        }
        PoisonedKeys prepared(plan);
        if (lens == Lens::kNone) {
          prepare_in_pieces(plan, c.inputs(), {1000, 24, 1, 1023, 952}, prepared.keys);
        } else {
          prepare(plan, key_inputs(c.inputs()), prepared.keys);
        }
        CHECK(same_bits(expected, run_plan(plan, on_prepared(c.inputs(), prepared.keys))));
        const auto half = static_cast<std::ptrdiff_t>(expected.output.size() / 2);
        for (const std::int64_t b : {0, 1}) {
          const RunResult alone = run_plan(plan, entry_of(c.inputs(), b));
          CHECK(
              same_bits(alone.output, {expected.output.begin() + b * half, expected.output.begin() + (b + 1) * half}));
        }
        // Queries alone as well.
        for (const std::int64_t m : {0, 4, 8}) {
          Inputs one = entry_of(c.inputs(), 0);
          one.queries = rows_of(one.queries, m, 1);
          const std::int32_t len[] = {kLens[static_cast<std::size_t>(m)]};
          if (lens == Lens::kPerQuery) one.valid_lens = TensorView<const std::int32_t>(len, {1});
          CHECK(
              same_bits(run_plan(plan, one).output, row_of(expected, static_cast<std::size_t>(m), plan.output_size())));
        }
      });
    }
  }
}

TEST_CASE("chunks: contract 2, rows without valid keys are 0 beside rows that see every chunk") {
  for (const Layer layer : {Layer::kDot, Layer::kGaussian, Layer::kAdditive}) {
    LayerCase c = the_case(layer, 9, 3000, Lens::kPerQuery);
    c.lens.data = {0, 3000, 0, 0, 1, 0, 1024, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0};
    for_each_target([&](const Target& target) {
      const RunResult result = run_plan(c.attention.plan(c.shape, {.target = target}), c.inputs());
      for (std::size_t row = 0; row < 18; ++row) {
        const std::vector<float> output = row_of(result, row, c.output_size());
        const bool zero = std::all_of(output.begin(), output.end(), [](float x) { return x == 0; });
        CHECK(zero == (c.lens.data[row] == 0));
      }
    });
  }
}

TEST_CASE("chunks: contract 2, all rows of a group without keys beside a group that has some") {
  // So many columns that sixteen queries are a group, and every key has the same values: what a row pools is known.
  const LayerCase c({.layer = Layer::kAdditive, .batch = 1, .num_queries = 32, .num_keys = 1100, .value_size = 6400});
  std::vector<std::int32_t> lens(32, 0);
  for (std::size_t row = 16; row < 32; ++row) lens[row] = row % 2 == 0 ? 1100 : 1;
  Inputs in = c.inputs();
  in.values = TensorView<const float>(c.values.data.data(), {1, 1100, 6400}, {0, 0, 1});
  in.valid_lens = TensorView<const std::int32_t>(lens.data(), {1, 32});
  for_each_target([&](const Target& target) {
    const RunResult result = run_plan(c.attention.plan(c.shape, {.target = target}), in);
    double error = 0;
    for (std::size_t row = 0; row < 32; ++row) {
      for (std::size_t n = 0; n < 6400; ++n) {
        const double expected = row < 16 ? 0 : static_cast<double>(c.values.data[n]);
        const double difference = std::abs(static_cast<double>(result.output[row * 6400 + n]) - expected);
        error = std::isnan(difference) ? kInf : std::max(error, row < 16 && difference > 0 ? kInf : difference);
      }
    }
    CHECK(error <= 5e-6);
  });
}

TEST_CASE("chunks: contract 3, a NaN in any chunk makes the rows NaN that see it, and leaves the others' bits") {
  for (const Layer layer : kLayers) {
    const LayerCase clean = the_case(layer, 9, 3000, Lens::kPerQuery);
    for (const std::size_t at : {0u, 1023u, 1024u, 2047u, 2500u}) {
      CAPTURE(at);
      LayerCase c = clean;
      c.keys.data[at * static_cast<std::size_t>(c.key_size()) + 1] = kNaN;
      for_each_target([&](const Target& target) {
        const Plan plan = c.attention.plan(c.shape, {.target = target});
        const RunResult before = run_plan(plan, clean.inputs()), after = run_plan(plan, c.inputs());
        for (std::size_t row = 0; row < 9; ++row) {
          const std::vector<float> output = row_of(after, row, c.output_size());
          if (kLens[row] > static_cast<std::int32_t>(at)) {
            CHECK(std::all_of(output.begin(), output.end(), [](float x) { return std::isnan(x); }));
          } else if (layer != Layer::kGaussian || at > 0) {  // a gaussian is moved by its first finite key
            CHECK(same_bits(output, row_of(before, row, c.output_size())));
          }
        }
        const auto half = static_cast<std::ptrdiff_t>(before.output.size() / 2);  // the other entry
        CHECK(std::equal(before.output.begin() + half, before.output.end(), after.output.begin() + half));
      });
    }
  }
}

TEST_CASE("chunks: contract 4, scores of -inf weigh 0, whole chunks of them too; +inf is NaN") {
  LayerCase c({.layer = Layer::kDot,
               .batch = 1,
               .num_queries = 3,
               .num_keys = 3000,
               .size = 1,
               .lens = Lens::kPerQuery,
               .seed = 402});
  c.lens.data = {3000, 2048, 1500};
  for (float& x : c.queries.data) x = std::abs(x) + 0.5f;
  const Tensor finite = c.keys;
  const double largest = c.truth().max_abs_score;
  const std::array<std::size_t, 2> kRanges[] = {{0, 1024},    {1024, 2048}, {2048, 3000}, {0, 2048},
                                                {1000, 3000}, {0, 3000},    {1023, 1025}, {1, 2999}};
  for (const auto& range : kRanges) {
    const std::size_t first = range[0], last = range[1];
    CAPTURE(first);
    CAPTURE(last);
    c.keys = finite;
    std::fill(c.keys.data.begin() + static_cast<std::ptrdiff_t>(first),
              c.keys.data.begin() + static_cast<std::ptrdiff_t>(last), -kInf);
    reference::Result truth = c.truth();
    REQUIRE(std::none_of(truth.output.begin(), truth.output.end(), [](double x) { return std::isnan(x); }));
    truth.max_abs_score = largest;  // of the finite ones
    for_each_target([&](const Target& target) {
      const Plan plan = c.attention.plan(c.shape, {.target = target});
      check_within(run_plan(plan, c.inputs()).output, {}, truth, contract_bound(truth));
    });
  }
  for (const std::size_t at : {5u, 1024u, 2999u}) {
    CAPTURE(at);
    c.keys = finite;
    c.keys.data[at] = kInf;
    const reference::Result truth = c.truth();
    for_each_target([&](const Target& target) {
      const Plan plan = c.attention.plan(c.shape, {.target = target});
      check_within(run_plan(plan, c.inputs()).output, {}, truth, {.weights = 0, .output = 1e-5});
    });
  }
}

// All keys but three are infinite, and weigh 0. Which of the three is the middle one, that keys and queries are moved
// by, the last of them decides, in whichever chunk it is.
TEST_CASE("chunks: keys of gaussian attention are moved alike in all chunks, whichever decide by what") {
  const std::array<std::size_t, 3> kFinite[] = {{0, 1, 1024}, {5, 1500, 2999}, {1000, 1023, 2048}, {2048, 2500, 2600}};
  for (const Lens lens : {Lens::kNone, Lens::kPerQuery}) {
    LayerCase c = the_case(Layer::kGaussian, 9, 3000, lens);
    const Tensor finite = c.keys;
    const double largest = c.truth().max_abs_score;
    for (const auto& at : kFinite) {
      CAPTURE(at[2]);
      c.keys = finite;
      for (std::size_t row = 0; row < 2 * 3000; ++row) {
        if (std::find(at.begin(), at.end(), row % 3000) == at.end()) c.keys.data[row * 5 + row % 5] = kInf;
      }
      reference::Result truth = c.truth();
      truth.max_abs_score = largest;  // of the finite ones
      for_each_plan(c, [&](const Plan& plan, bool with_weights) {
        const RunResult result = run_plan(plan, c.inputs(), with_weights);
        check_within(result.output, result.attention_weights, truth, contract_bound(truth));
      });
    }
  }
}

TEST_CASE("chunks: contract 4, large scores apart by more than floats can weigh") {
  LayerCase c({.layer = Layer::kDot, .batch = 1, .num_queries = 2, .num_keys = 3000, .size = 1, .lens = Lens::kNone});
  c.queries.data = {1, -1};
  for (const float largest : {1e4f, 1e20f, 1.7e38f}) {
    for (std::size_t n = 0; n < 3000; ++n) c.keys.data[n] = static_cast<float>(n % 3) * 0.25f;
    c.keys.data[10] = -largest;
    c.keys.data[2500] = largest;
    const reference::Result truth = c.truth();  // weight 1 on key 2500 for the first row, on key 10 for the second
    for_each_target([&](const Target& target) {
      const Plan plan = c.attention.plan(c.shape, {.target = target});
      check_within(run_plan(plan, c.inputs()).output, {}, truth, {.weights = 0, .output = 1e-6});
    });
  }
}

TEST_CASE("chunks: thousands of chunks add up as well as one") {
  // The same key and value again and again: added in float, chunks would be rounded the same way many times in a row,
  // 6e-6 of the result in all.
  constexpr std::int64_t kKeys = 1 << 21;
  const float query = 0, key = 1, value = 1.1f;
  const Inputs in{.queries = {&query, {1, 1, 1}},
                  .keys = {&key, {1, kKeys, 1}, {0, 0, 1}},
                  .values = {&value, {1, kKeys, 1}, {0, 0, 1}}};
  const Shape shape{.batch = 1, .num_queries = 1, .num_keys = kKeys, .query_size = 1, .value_size = 1};
  const Attention attention = DotAttention();
  for_each_target([&](const Target& target) {
    std::size_t cut = 0;
    for (const std::string& path : fit_paths(attention, shape, {.target = target})) {
      const Plan plan = attention.plan(shape, {.target = target, .path = path});
      if (plan.explain().find("2048 chunks of 1024") == std::string::npos) continue;
      ++cut;
      CAPTURE(path);
      const double ratio = static_cast<double>(run_plan(plan, in).output[0]) / static_cast<double>(value);
      CHECK(std::abs(ratio - 1) <= 8e-7);
    }
    CHECK(cut > 1);
  });
}

}  // namespace attend::tests
