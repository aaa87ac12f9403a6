// Prepared keys: a run on them gives the bits of the run on keys and values, however they were prepared. Every layer,
// target, path, with and without attention weights.
#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "attend/attend.h"
#include "tests/support/compare.h"
#include "tests/support/layer_cases.h"
#include "tests/support/prepared.h"
#include "tests/support/run.h"

namespace attend::tests {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

// 393 keys. Panels are 4 to 64 keys wide, vectors 1 to 16: borders are met, missed by one and crossed.
const std::vector<std::int64_t> kPieces[] = {
    {1, 63, 64, 65, 200}, {1, 5, 9, 17, 33, 65, 263}, {64, 329}, {392, 1}, {128, 0, 128, 137}};

}  // namespace

TEST_CASE("prepared: the bits of the run on keys and values, for lengths of every rank") {
  for (const Layer layer : kAllLayers) {
    for (const Lens lens : kAllLens) {
      const LayerCase c(
          {.layer = layer, .batch = 3, .num_queries = 5, .num_keys = 70, .lens = lens, .min_len = 1, .seed = 201});
      for_each_plan(c, [&](const Plan& plan, bool with_weights) {
        const RunResult expected = run_plan(plan, c.inputs(), with_weights);
        PoisonedKeys prepared(plan);
        prepare(plan, key_inputs(c.inputs()), prepared.keys);
        CHECK(prepared.keys.batch() == 3);
        CHECK(prepared.keys.num_keys() == 70);
        for (std::int64_t b = 0; b < 3; ++b) CHECK(prepared.keys.len(b) == c.visible_keys(b));
        const Inputs run = on_prepared(c.inputs(), prepared.keys);
        CHECK(same_bits(expected, run_plan(plan, run, with_weights)));
        CHECK(same_bits(expected, run_plan(plan, run, with_weights)));  // runs leave what is prepared as it is
        if (lens == Lens::kPerBatch) {
          Inputs spelled = run;
          spelled.valid_lens = c.inputs().valid_lens;
          CHECK(same_bits(expected, run_plan(plan, spelled, with_weights)));
        }

        PlanOptions options = options_of(plan, with_weights);
        options.prepared_keys = true;
        const Plan lean = c.attention.plan(c.shape, options);
        CHECK(lean.workspace_bytes() <= plan.workspace_bytes());
        CHECK(lean.prepared_bytes() == plan.prepared_bytes());
        PoisonedKeys of_lean(lean);
        prepare(lean, key_inputs(c.inputs()), of_lean.keys);
        CHECK(same_bits(expected, run_plan(lean, on_prepared(c.inputs(), of_lean.keys), with_weights)));
      });
    }
  }
}

TEST_CASE("prepared: no workspace for projected keys and their exponentials where runs are always given them") {
  for (const Layer layer : {Layer::kAdditive, Layer::kMultiHead, Layer::kMultiHeadAdditive}) {
    const LayerCase c({.layer = layer, .batch = 4, .num_queries = 2, .num_keys = 500});
    const Plan plan = c.attention.plan(c.shape), lean = c.attention.plan(c.shape, {.prepared_keys = true});
    // At the least the projected keys of the batch.
    CHECK(lean.workspace_bytes() + 4 * 500 * 12 * sizeof(float) <= plan.workspace_bytes());
  }
}

TEST_CASE("prepared: appended in pieces, the bits of all at once and of the run on keys and values") {
  for (const Layer layer : kAllLayers) {
    const LayerCase c(
        {.layer = layer, .batch = 2, .num_queries = 3, .num_keys = 393, .lens = Lens::kNone, .seed = 202});
    for_each_plan(c, [&](const Plan& plan, bool with_weights) {
      const RunResult expected = run_plan(plan, c.inputs(), with_weights);
      for (const std::vector<std::int64_t>& pieces : kPieces) {
        PoisonedKeys prepared(plan);
        prepare_in_pieces(plan, c.inputs(), pieces, prepared.keys);
        CAPTURE(pieces.front());
        CHECK(prepared.keys.num_keys() == 393);
        CHECK(prepared.keys.len(1) == 393);
        CHECK(same_bits(expected, run_plan(plan, on_prepared(c.inputs(), prepared.keys), with_weights)));
      }
    });
  }
}

TEST_CASE("prepared: a key at a time, and a run after every one") {
  for (const Layer layer : kAllLayers) {
    const LayerCase c({.layer = layer, .batch = 2, .num_queries = 1, .num_keys = 70, .lens = Lens::kNone, .seed = 203});
    for_each_plan(c, [&](const Plan& plan, bool with_weights) {
      PoisonedKeys prepared(plan, 0x7F);
      std::size_t wrong = 0;
      for (std::int64_t n = 1; n <= 70; ++n) {
        const KeyInputs token = piece_of(c.inputs(), n - 1, 1);
        n == 1 ? prepare(plan, token, prepared.keys) : append(plan, token, prepared.keys);
        if (n % 3 != 1) continue;  // 1, 4, ... 70: 16 and 64 among them
        Inputs all = c.inputs();
        all.keys = rows_of(all.keys, 0, n);
        all.values = rows_of(all.values, 0, n);
        const RunResult expected = run_plan(plan, all, with_weights);
        wrong += same_bits(expected, run_plan(plan, on_prepared(all, prepared.keys), with_weights)) ? 0 : 1;
      }
      CHECK(wrong == 0);
    });
  }
}

TEST_CASE("prepared: ragged pieces lie entry by entry side by side, valid keys only") {
  const std::vector<std::int64_t> pieces = {65, 70, 64, 1};
  const std::vector<std::vector<std::int32_t>> lens = {{65, 0, 63}, {3, 70, 1}, {0, 0, 64}, {1, 0, 1}};
  for (const Layer layer : kAllLayers) {
    const LayerCase c(
        {.layer = layer, .batch = 3, .num_queries = 4, .num_keys = 200, .lens = Lens::kNone, .seed = 204});
    LayerCase together = c;
    together.keys = compact(c.keys, pieces, lens);
    together.values = compact(c.values, pieces, lens);
    together.lens = {{3}, {69, 70, 129}};
    for_each_plan(c, [&](const Plan& plan, bool with_weights) {
      PoisonedKeys prepared(plan);
      std::int64_t first = 0;
      for (std::size_t p = 0; p < pieces.size(); ++p) {
        KeyInputs piece = piece_of(c.inputs(), first, pieces[p]);
        // Lengths per query count by their largest.
        std::vector<std::int32_t> per_query;
        for (const std::int32_t len : lens[p]) per_query.insert(per_query.end(), {len / 2, len, 0});
        piece.valid_lens = p % 2 == 0 ? TensorView<const std::int32_t>(lens[p].data(), {3})
                                      : TensorView<const std::int32_t>(per_query.data(), {3, 3});
        p == 0 ? prepare(plan, piece, prepared.keys) : append(plan, piece, prepared.keys);
        first += pieces[p];
      }
      CHECK(prepared.keys.num_keys() == 200);
      for (std::size_t b = 0; b < 3; ++b) {
        CHECK(prepared.keys.len(static_cast<std::int64_t>(b)) == together.lens.data[b]);
      }
      const Inputs run = on_prepared(together.inputs(), prepared.keys);
      CHECK(same_bits(run_plan(plan, together.inputs(), with_weights), run_plan(plan, run, with_weights)));
      // And shorter ones per query, of what is there.
      const std::int32_t shorter[] = {69, 0, 66, 65, 70, 1, 64, 0, 0, 64, 129, 128};
      Inputs per_query = run, all_per_query = together.inputs();
      per_query.valid_lens = all_per_query.valid_lens = TensorView<const std::int32_t>(shorter, {3, 4});
      CHECK(same_bits(run_plan(plan, all_per_query, with_weights), run_plan(plan, per_query, with_weights)));
    });
  }
}

TEST_CASE("prepared: a gaussian's keys are infinite at first, so that what they are moved by is appended later") {
  for (const Layer layer : {Layer::kGaussian, Layer::kGaussianHeads}) {
    for (const float bad : {kInf, -kInf, kNaN}) {
      LayerCase c({.layer = layer, .batch = 2, .num_queries = 4, .num_keys = 130, .lens = Lens::kNone, .seed = 205});
      for (float& x : c.keys.data) x += 100;  // far from the origin, where moving matters
      for (float& x : c.queries.data) x += 100;
      const auto heads = static_cast<std::size_t>(c.spec.batch * c.view_heads());
      for (std::size_t head = 0; head < heads; ++head) {
        for (std::size_t j = 0; j < 67; ++j) c.keys.data[(head * 130 + j) * 8 + j % 8] = bad;
      }
      c.queries.data[9] = kInf;  // a query at infinite distance: NaN beside the infinite keys of the same element
      const reference::Result truth = c.truth();
      for_each_plan(c, [&](const Plan& plan, bool with_weights) {
        const RunResult expected = run_plan(plan, c.inputs(), with_weights);
        for (const std::vector<std::int64_t>& pieces :
             std::vector<std::vector<std::int64_t>>{{130}, {66, 1, 63}, {67, 63}, {3, 127}, {1, 65, 64}}) {
          PoisonedKeys prepared(plan);
          prepare_in_pieces(plan, c.inputs(), pieces, prepared.keys);
          CHECK(same_bits(expected, run_plan(plan, on_prepared(c.inputs(), prepared.keys), with_weights)));
          // Rows that see infinite keys alone, as if there were no others to be moved by.
          const std::int32_t lens[] = {67, 3};
          Inputs few = c.inputs(), run = on_prepared(c.inputs(), prepared.keys);
          few.valid_lens = run.valid_lens = TensorView<const std::int32_t>(lens, {2});
          CHECK(same_bits(run_plan(plan, few, with_weights), run_plan(plan, run, with_weights)));
        }
        check_within(expected.output, expected.attention_weights, truth, contract_bound(truth));
      });
    }
  }
}

TEST_CASE("prepared: a gaussian's first key is far away, and a run sees it alone, or with another") {
  for (const Layer layer : {Layer::kGaussian, Layer::kGaussianHeads}) {
    LayerCase c({.layer = layer, .batch = 3, .num_queries = 4, .num_keys = 70, .lens = Lens::kNone, .seed = 208});
    const auto heads = static_cast<std::size_t>(c.spec.batch * c.view_heads());
    for (std::size_t head = 0; head < heads; ++head) c.keys.data[head * 70 * 8 + 3] = 50;
    for_each_plan(c, [&](const Plan& plan, bool with_weights) {
      for (const std::vector<std::int64_t>& pieces :
           std::vector<std::vector<std::int64_t>>{{70}, {1, 1, 68}, {2, 68}}) {
        PoisonedKeys prepared(plan);
        prepare_in_pieces(plan, c.inputs(), pieces, prepared.keys);
        for (const auto& lens : {std::array<std::int32_t, 3>{70, 70, 70}, {1, 70, 2}, {3, 0, 1}}) {
          Inputs whole = c.inputs(), run = on_prepared(c.inputs(), prepared.keys);
          whole.valid_lens = run.valid_lens = TensorView<const std::int32_t>(lens.data(), {3});
          CHECK(same_bits(run_plan(plan, whole, with_weights), run_plan(plan, run, with_weights)));
        }
      }
    });
  }
}

TEST_CASE("prepared: infinite and NaN values reach the rows that see them, and no other") {
  const auto check = [](Layer layer, std::int64_t value_size) {
    LayerCase c({.layer = layer,
                 .batch = 2,
                 .num_queries = 4,
                 .num_keys = 150,
                 .value_size = value_size,
                 .lens = Lens::kPerQuery,
                 .seed = 206});
    c.lens.data = {150, 80, 0, 20, 81, 79, 150, 1};
    const reference::Result clean = c.truth();
    const auto size = static_cast<std::size_t>(c.value_size());
    for (std::size_t head = 0; head < c.values.data.size() / size / 150; ++head) {
      c.values.data[(head * 150 + 80) * size + 1] = head % 2 == 0 ? kNaN : kInf;
    }
    const reference::Result truth = c.truth();
    for_each_plan(c, [&](const Plan& plan, bool with_weights) {
      PoisonedKeys prepared(plan);
      prepare_in_pieces(plan, c.inputs(), {79, 2, 69}, prepared.keys);
      const RunResult result = run_plan(plan, on_prepared(c.inputs(), prepared.keys), with_weights);
      CHECK(same_bits(run_plan(plan, c.inputs(), with_weights), result));
      check_within(result.output, result.attention_weights, truth, c.bound(clean));
    });
  };
  for (const Layer layer : kAllLayers) {
    CAPTURE(layer_name(layer));
    check(layer, 5);
    check(layer, 64);  // whole panels, which the first product writes
  }
}

TEST_CASE("prepared: an infinite value of one head of one entry reaches the rows that see it, and no other") {
  const auto check = [](Layer layer, std::int64_t value_size) {
    constexpr std::int64_t kQueries = 4, kKeys = 150, kPlace = 80, kEntry = 1, kHead = 1;
    LayerCase clean({.layer = layer,
                     .num_queries = kQueries,
                     .num_keys = kKeys,
                     .value_size = value_size,
                     .lens = Lens::kPerQuery,
                     .seed = 210});
    clean.lens.data = {20, kKeys, 80, 100, 10, kKeys, 80, 81};
    float spoiled_value = kInf;
    if (clean.multi_head()) {
      // The first element of a value is for one head alone, whose projection overflows.
      Tensor& weight = clean.weights.at("W_v.weight");
      const std::int64_t columns = weight.sizes[1], head_rows = weight.sizes[0] / clean.spec.num_heads;
      for (std::int64_t row = 0; row < weight.sizes[0]; ++row) {
        weight.data[static_cast<std::size_t>(row * columns)] = row / head_rows == kHead ? 10.0f : 0.0f;
      }
      clean.attention = MultiHeadAttention(clean.multi_head_options(), clean.multi_head_parameters());
      spoiled_value = 3e38f;
    }
    LayerCase spoiled = clean;
    const std::int64_t heads = clean.view_heads(), head = heads == 1 ? 0 : kHead;
    spoiled.values.data[static_cast<std::size_t>((((kEntry * heads) + head) * kKeys + kPlace) * clean.value_size())] =
        spoiled_value;
    for_each_plan(clean, [&](const Plan& plan, bool with_weights) {
      PoisonedKeys prepared(plan);
      prepare_in_pieces(plan, spoiled.inputs(), {79, 2, 69}, prepared.keys);
      const RunResult expected = run_plan(plan, clean.inputs(), with_weights);
      const RunResult actual = run_plan(plan, on_prepared(spoiled.inputs(), prepared.keys), with_weights);
      CHECK(same_bits(expected.attention_weights, actual.attention_weights));
      const auto size = static_cast<std::size_t>(plan.output_size());
      for (std::int64_t row = 0; row < 2 * heads * kQueries; ++row) {
        const std::int64_t b = row / (heads * kQueries), h = row / kQueries % heads, m = row % kQueries;
        const bool sees = b == kEntry && h == head && clean.valid_len(b, m) > kPlace;
        CAPTURE(row);
        const std::size_t first = static_cast<std::size_t>(row) * size;
        CHECK(same_bits(expected.output.data() + first, actual.output.data() + first, size) == !sees);
      }
    });
  };
  for (const Layer layer : kAllLayers) {
    check(layer, 5);
    check(layer, 64);  // whole panels, which the first product writes
  }
}

TEST_CASE("prepared: results are the truth's") {
  for (const Layer layer : kAllLayers) {
    for (const Lens lens : {Lens::kPerBatch, Lens::kPerQuery}) {
      const LayerCase c({.layer = layer, .batch = 3, .num_queries = 20, .num_keys = 100, .lens = lens, .seed = 207});
      const reference::Result truth = c.truth();
      for_each_plan(c, [&](const Plan& plan, bool with_weights) {
        PoisonedKeys prepared(plan);
        prepare(plan, key_inputs(c.inputs()), prepared.keys);
        const RunResult result = run_plan(plan, on_prepared(c.inputs(), prepared.keys), with_weights);
        check_within(result.output, result.attention_weights, truth, c.bound(truth));
      });
    }
  }
}

TEST_CASE("prepared: what was moved elsewhere holds nothing, what it was moved to serves") {
  for (const Layer layer : kAllLayers) {
    const LayerCase c({.layer = layer, .seed = 209});
    const Plan plan = c.attention.plan(c.shape);
    const RunResult expected = run_plan(plan, c.inputs());
    const auto holds_nothing = [&](const PreparedKeys& prepared) {
      Inputs run = on_prepared(c.inputs(), prepared);
      return prepared.batch() == 0 && prepared.num_keys() == 0 && prepared.len(0) == 0 &&
             missing_parts(error_message([&] { run_plan(plan, run); }), {"prepared"}).empty();
    };
    PreparedKeys first(plan), second(plan);
    prepare(plan, key_inputs(c.inputs()), first);
    PreparedKeys moved = std::move(first);
    CHECK(holds_nothing(first));  // NOLINT(bugprone-use-after-move): that is the point
    CHECK(same_bits(expected, run_plan(plan, on_prepared(c.inputs(), moved))));
    prepare(plan, piece_of(c.inputs(), 0, 3), second);
    second = std::move(moved);
    CHECK(holds_nothing(moved));  // NOLINT(bugprone-use-after-move)
    CHECK(same_bits(expected, run_plan(plan, on_prepared(c.inputs(), second))));
    first = PreparedKeys(plan);
    CHECK(holds_nothing(first));
    prepare(plan, key_inputs(c.inputs()), first);
    CHECK(same_bits(expected, run_plan(plan, on_prepared(c.inputs(), first))));
  }
}

TEST_CASE("prepared: no batch entries, as in a run on keys and values") {
  for (const Layer layer : kAllLayers) {
    const LayerCase none({.layer = layer, .batch = 0, .lens = Lens::kNone});
    const LayerCase c({.layer = layer});
    const Plan plan = c.attention.plan(c.shape);
    CHECK(error_message([&] { run_plan(plan, none.inputs()); }) == "");
    PoisonedKeys prepared(plan);
    CHECK(error_message([&] { prepare(plan, key_inputs(none.inputs()), prepared.keys); }) == "");
    CHECK(error_message([&] { run_plan(plan, on_prepared(none.inputs(), prepared.keys)); }) == "");
  }
}

TEST_CASE("prepared: Luong's concatenated queries") {
  for (const Layer layer : kAllLayers) {
    const LayerCase c({.layer = layer, .batch = 2, .num_queries = 4, .num_keys = 40, .seed = 208});
    PlanOptions options;
    options.concat_queries = true;
    for_each_target([&](const Target& target) {
      options.target = target;
      const Plan plan = c.attention.plan(c.shape, options);
      PoisonedKeys prepared(plan);
      prepare(plan, key_inputs(c.inputs()), prepared.keys);
      CHECK(same_bits(run_plan(plan, c.inputs()), run_plan(plan, on_prepared(c.inputs(), prepared.keys))));
    });
  }
}

}  // namespace attend::tests
