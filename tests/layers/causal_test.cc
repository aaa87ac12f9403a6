// Causal masks: what a query sees by its place, alone and beside valid lengths; the contract (engine/README.md) on
// them. Every layer, target and path, with and without attention weights.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "attend/attend.h"
#include "tests/support/compare.h"
#include "tests/support/layer_cases.h"
#include "tests/support/masks.h"
#include "tests/support/prepared.h"
#include "tests/support/run.h"

namespace attend::tests {
namespace {

constexpr Causal kBoth[] = {Causal::kBottomRight, Causal::kTopLeft};

}  // namespace

TEST_CASE("causal: the truth, for fewer, as many and more queries than keys, beside any lengths") {
  for (const Layer layer : kAllLayers) {
    for (const Causal causal : kBoth) {
      for (const auto& [num_queries, num_keys] :
           std::vector<std::array<std::int64_t, 2>>{{1, 9}, {5, 9}, {9, 9}, {12, 5}, {40, 39}, {7, 150}, {70, 66}}) {
        for (const Lens lens : kAllLens) {
          check_truth(LayerCase({.layer = layer,
                                 .num_queries = num_queries,
                                 .num_keys = num_keys,
                                 .causal = causal,
                                 .lens = lens,
                                 .seed = 501}));
        }
      }
    }
  }
}

TEST_CASE("causal: many tiles of queries and keys") {
  for (const Layer layer : {Layer::kDot, Layer::kDotHeads, Layer::kGaussian, Layer::kAdditive, Layer::kMultiHead}) {
    for (const Causal causal : kBoth) {
      for (const auto& [num_queries, num_keys] :
           std::vector<std::array<std::int64_t, 2>>{{300, 300}, {130, 700}, {700, 130}}) {
        check_truth(LayerCase({.layer = layer,
                               .batch = 1,
                               .num_queries = num_queries,
                               .num_keys = num_keys,
                               .num_heads = 2,
                               .causal = causal,
                               .lens = Lens::kNone,
                               .seed = 502}));
      }
    }
  }
}

// With values that fill whole panels, the first keys' products are written over whatever lay in the workspace.
TEST_CASE("causal: whole tiles of queries that see no key, chunks as well, and values of whole panels") {
  for (const Layer layer : {Layer::kDot, Layer::kGaussian, Layer::kAdditive}) {
    for (const std::int64_t value_size : {64, 128}) {
      for (const auto& [num_queries, num_keys] : std::vector<std::array<std::int64_t, 2>>{{330, 130}, {30, 2100}}) {
        for (const Lens lens : {Lens::kNone, Lens::kPerQuery}) {
          check_truth(LayerCase({.layer = layer,
                                 .batch = 1,
                                 .num_queries = num_queries,
                                 .num_keys = num_keys,
                                 .size = 12,
                                 .value_size = value_size,
                                 .causal = Causal::kBottomRight,
                                 .lens = lens,
                                 .seed = 519}));
        }
      }
    }
  }
}

TEST_CASE("causal: few queries of many keys") {
  for (const Layer layer : kAllLayers) {
    for (const Causal causal : kBoth) {
      for (const Lens lens : {Lens::kNone, Lens::kPerBatch}) {
        for (const std::int64_t num_queries : {1, 2, 9}) {
          check_truth(LayerCase({.layer = layer,
                                 .num_queries = num_queries,
                                 .num_keys = 2100,
                                 .size = 5,
                                 .causal = causal,
                                 .lens = lens,
                                 .seed = 503}));
        }
      }
    }
  }
}

TEST_CASE("causal: weights above the diagonal are 0, bit for bit, as are rows that see nothing") {
  for (const Layer layer : kAllLayers) {
    for (const Causal causal : kBoth) {
      for (const auto& [num_queries, num_keys] : std::vector<std::array<std::int64_t, 2>>{{20, 33}, {33, 20}}) {
        const LayerCase c({.layer = layer,
                           .num_queries = num_queries,
                           .num_keys = num_keys,
                           .causal = causal,
                           .lens = Lens::kPerQuery,
                           .seed = 504});
        const auto row_of = [&](std::size_t row) {  // of weights or, heads apart, of outputs
          const auto index = static_cast<std::int64_t>(row);
          return std::array<std::int64_t, 2>{index / c.spec.num_queries / c.weight_heads(), index % c.spec.num_queries};
        };
        for_each_plan(c, [&](const Plan& plan, bool with_weights) {
          const RunResult result = run_plan(plan, c.inputs(), with_weights);
          const auto keys = static_cast<std::size_t>(c.spec.num_keys);
          bool zero = true, ones = true;
          for (std::size_t row = 0; row < result.attention_weights.size() / keys; ++row) {
            const auto [b, m] = row_of(row);
            const auto len = static_cast<std::size_t>(c.valid_len(b, m));
            double sum = 0;
            for (std::size_t n = 0; n < keys; ++n) {
              const float weight = result.attention_weights[row * keys + n];
              zero = zero && (n < len || (weight == 0 && !std::signbit(weight)));
              sum += static_cast<double>(weight);
            }
            ones = ones && std::abs(sum - (len == 0 ? 0 : 1)) <= 1e-6;
          }
          CHECK(zero);
          CHECK(ones);
          if (c.multi_head()) return;  // the output is b_o then, which check_truth sees
          const auto columns = static_cast<std::size_t>(plan.output_size());
          for (std::size_t i = 0; i < result.output.size(); ++i) {
            const auto [b, m] = row_of(i / columns);
            if (c.valid_len(b, m) == 0 && result.output[i] != 0) FAIL_CHECK("output of a row that sees nothing");
          }
        });
      }
    }
  }
}

TEST_CASE("causal: multi-head rows that see nothing give b_o") {
  const LayerCase c({.layer = Layer::kMultiHead,
                     .batch = 1,
                     .num_queries = 7,
                     .num_keys = 4,
                     .causal = Causal::kBottomRight,
                     .lens = Lens::kNone});
  for_each_plan(c, [&](const Plan& plan, bool with_weights) {
    const RunResult result = run_plan(plan, c.inputs(), with_weights);
    const auto columns = static_cast<std::size_t>(c.output_size());
    for (std::size_t i = 0; i < 3 * columns; ++i) {
      CHECK(result.output[i] == c.weights.at("W_o.bias").data[i % columns]);
    }
  });
}

TEST_CASE("causal: N is the number of keys of the run, not of the plan") {
  for (const Layer layer : kAllLayers) {
    for (const Causal causal : kBoth) {
      const LayerCase large(
          {.layer = layer, .batch = 4, .num_queries = 50, .num_keys = 300, .causal = causal, .seed = 505});
      for (const auto& [batch, num_queries, num_keys] : std::vector<std::array<std::int64_t, 3>>{
               {1, 1, 1}, {3, 50, 17}, {4, 7, 299}, {2, 49, 64}, {2, 3, 0}, {0, 5, 5}, {2, 0, 9}}) {
        const LayerCase c({.layer = layer,
                           .batch = batch,
                           .num_queries = num_queries,
                           .num_keys = num_keys,
                           .causal = causal,
                           .lens = batch * num_queries == 0 ? Lens::kNone : Lens::kPerQuery,
                           .seed = 505});
        const reference::Result truth = c.truth();
        check_truth(large, c.inputs(), truth, c.bound(truth));
      }
    }
  }
}

TEST_CASE("causal: keys and values that no row sees do not matter, whatever they hold") {
  for (const Layer layer : kAllLayers) {
    for (const Lens lens : kAllLens) {
      // Top left: keys from M on. Both: keys beyond the longest length.
      for (const Causal causal : kBoth) {
        for (const auto& [num_queries, num_keys] : std::vector<std::array<std::int64_t, 2>>{{5, 70}, {9, 12}}) {
          LayerCase clean({.layer = layer,
                           .batch = 3,
                           .num_queries = num_queries,
                           .num_keys = num_keys,
                           .causal = causal,
                           .lens = lens,
                           .seed = 506});
          for (std::int32_t& len : clean.lens.data) len = std::min(len, static_cast<std::int32_t>(num_keys - 2));
          check_hidden_do_not_matter(clean);
        }
      }
    }
  }
}

TEST_CASE("causal: keys and values that no row sees may be unmapped") {
  for (const Layer layer : kAllLayers) {
    for (const std::int64_t num_queries : {1, 5, 16, 33}) {
      const LayerCase c({.layer = layer,
                         .batch = 1,
                         .num_queries = num_queries,
                         .num_keys = 70,
                         .size = 5,
                         .causal = Causal::kTopLeft,
                         .lens = Lens::kNone,
                         .seed = 507});
      check_keys_unread_from(c, num_queries);
    }
  }
}

TEST_CASE("causal: a query's future does not matter to it, though later ones see it") {
  for (const Layer layer : kAllLayers) {
    for (const Causal causal : kBoth) {
      // Rows 0 to 11 see at most 12 keys top left, 30 of 40 bottom right: none beyond is theirs.
      const LayerCase clean({.layer = layer,
                             .batch = 1,
                             .num_queries = 22,
                             .num_keys = 40,
                             .causal = causal,
                             .lens = Lens::kNone,
                             .seed = 508});
      LayerCase spoiled = clean;
      const auto first = [&](std::int64_t) { return clean.valid_len(0, 11); };
      spoil_from(spoiled.keys, first);
      spoil_from(spoiled.values, first);
      for_each_plan(clean, [&](const Plan& plan, bool with_weights) {
        const RunResult expected = run_plan(plan, clean.inputs(), with_weights);
        const RunResult actual = run_plan(plan, spoiled.inputs(), with_weights);
        const auto same_rows = [&](const std::vector<float>& a, const std::vector<float>& b, std::int64_t heads,
                                   std::int64_t size) {
          for (std::int64_t h = 0; h < heads; ++h) {
            const std::int64_t at = h * 22 * size;
            CHECK(same_bits(a.data() + at, b.data() + at, static_cast<std::size_t>(12 * size)));
          }
        };
        same_rows(expected.output, actual.output, clean.view_heads(), plan.output_size());
        if (with_weights) same_rows(expected.attention_weights, actual.attention_weights, clean.weight_heads(), 40);
      });
    }
  }
}

TEST_CASE("causal: the same bits for any number of threads and any batch composition") {
  for (const Layer layer : kAllLayers) {
    for (const Causal causal : kBoth) {
      for (const auto& [num_queries, num_keys] : std::vector<std::array<std::int64_t, 2>>{{61, 83}, {3, 1500}}) {
        const LayerCase c({.layer = layer,
                           .batch = 3,
                           .num_queries = num_queries,
                           .num_keys = num_keys,
                           .causal = causal,
                           .lens = Lens::kPerBatch,
                           .seed = 509});
        for_each_plan(c, [&](const Plan& plan, bool with_weights) {
          check_same_for_threads(c, plan, with_weights);
          check_same_alone(c, plan, with_weights);
        });
      }
    }
  }
}

TEST_CASE("causal: prepared keys give the bits of keys and values themselves") {
  for (const Layer layer : kAllLayers) {
    for (const Causal causal : kBoth) {
      for (const Lens lens : kAllLens) {
        for (const auto& [num_queries, num_keys] : std::vector<std::array<std::int64_t, 2>>{{20, 70}, {33, 21}}) {
          const LayerCase c({.layer = layer,
                             .num_queries = num_queries,
                             .num_keys = num_keys,
                             .causal = causal,
                             .lens = lens,
                             .seed = 510});
          for_each_plan(c, [&](const Plan& plan, bool with_weights) { check_same_prepared(c, plan, with_weights); });
        }
      }
    }
  }
}

// What a decoder does: each token's key is appended, then its query sees all there are.
TEST_CASE("causal: a token at a time on appended keys gives the rows of the whole sequence") {
  for (const Layer layer : kAllLayers) {
    const LayerCase whole({.layer = layer,
                           .num_queries = 20,
                           .num_keys = 20,
                           .causal = Causal::kBottomRight,
                           .lens = Lens::kNone,
                           .seed = 511});
    const reference::Result truth = whole.truth();
    const Bound bound = whole.bound(truth);
    for_each_target([&](const Target& target) {
      INFO(layer_name(layer));
      const Plan plan = whole.attention.plan(whole.shape, {.target = target, .causal = Causal::kBottomRight});
      PoisonedKeys prepared(plan);
      const auto heads = static_cast<std::size_t>(2 * whole.view_heads()),
                 columns = static_cast<std::size_t>(plan.output_size());
      for (std::int64_t first = 0; first < 20;) {
        const std::int64_t count = first == 0 ? 3 : 1;  // a prompt, then tokens
        const KeyInputs piece = piece_of(whole.inputs(), first, count);
        first == 0 ? prepare(plan, piece, prepared.keys) : append(plan, piece, prepared.keys);
        const Inputs step{.queries = rows_of(whole.inputs().queries, first, count), .prepared = &prepared.keys};
        const RunResult result = run_plan(plan, step);
        std::vector<double> expected;
        for (std::size_t h = 0; h < heads; ++h) {
          const auto* row = truth.output.data() + (h * 20 + static_cast<std::size_t>(first)) * columns;
          expected.insert(expected.end(), row, row + static_cast<std::size_t>(count) * columns);
        }
        CHECK(max_abs_error(result.output, expected) <= bound.output);
        first += count;
      }
    });
  }
}

TEST_CASE("causal: self-attention, Luong's concatenated queries and plans that know of lengths") {
  for (const Layer layer : kAllLayers) {
    for (const Causal causal : kBoth) {
      const LayerCase c({.layer = layer,
                         .num_queries = 30,
                         .num_keys = 30,
                         .causal = causal,
                         .lens = Lens::kPerBatch,
                         .same_sizes = true,
                         .seed = 512});
      Inputs self = c.inputs();
      self.keys = self.values = {};
      Inputs spelled = self;
      spelled.keys = spelled.values = self.queries;
      for_each_plan(c, [&](const Plan& plan, bool with_weights) {
        CHECK(same_bits(run_plan(plan, self, with_weights), run_plan(plan, spelled, with_weights)));
      });

      const RunResult plain = run_plan(c.attention.plan(c.shape, c.plan_options()), c.inputs());
      PlanOptions options = c.plan_options();
      options.concat_queries = true;
      const Plan concat = c.attention.plan(c.shape, options);
      const RunResult both = run_plan(concat, c.inputs());
      const auto width = static_cast<std::size_t>(c.output_size()), size = static_cast<std::size_t>(c.spec.size);
      REQUIRE(both.output.size() == plain.output.size() / width * (width + size));
      bool same = true;
      for (std::size_t row = 0; row < plain.output.size() / width; ++row) {
        same = same && same_bits(&both.output[row * (width + size)], &plain.output[row * width], width);
        same = same && same_bits(&both.output[row * (width + size) + width], &c.queries.data[row * size], size);
      }
      CHECK(same);

      const reference::Result truth = c.truth();
      for (const ValidLens lens : {ValidLens::kPerBatch, ValidLens::kPerQuery}) {
        options = c.plan_options();
        options.valid_lens = lens;
        const RunResult result = run_plan(c.attention.plan(c.shape, options), c.inputs());
        check_within(result.output, {}, truth, c.bound(truth));
      }
      options.valid_lens = ValidLens::kNone;
      LayerCase all = c;
      all.lens = {};
      const reference::Result without = all.truth();
      check_within(run_plan(c.attention.plan(c.shape, options), all.inputs()).output, {}, without, all.bound(without));
    }
  }
}

TEST_CASE("causal: any layout of the views") {
  for (const Layer layer : kAllLayers) {
    const LayerCase c({.layer = layer,
                       .num_queries = 19,
                       .num_keys = 37,
                       .causal = Causal::kBottomRight,
                       .lens = Lens::kPerQuery,
                       .seed = 513});
    check_any_layout(c);
  }
}

}  // namespace attend::tests
