// Heads of keys and values that several heads of queries share (grouped-query attention): the truth, the same run with
// keys repeated by hand, the contract (engine/README.md) and what is refused. Every target and path.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "attend/attend.h"
#include "tests/support/compare.h"
#include "tests/support/layer_cases.h"
#include "tests/support/masks.h"
#include "tests/support/prepared.h"
#include "tests/support/random.h"
#include "tests/support/ready.h"
#include "tests/support/run.h"

namespace attend::tests {
namespace {

constexpr Layer kLayers[] = {Layer::kDotHeads, Layer::kGaussianHeads, Layer::kMultiHead};
constexpr std::int64_t kHeads = 6;

// Six heads of queries on num_kv_heads of keys and values.
CaseSpec grouped(Layer layer, std::int64_t num_kv_heads, const CaseSpec& rest) {
  CaseSpec spec = rest;
  spec.layer = layer;
  spec.num_hiddens = 24;
  spec.num_heads = kHeads;
  spec.num_kv_heads = num_kv_heads;
  return spec;
}

// `from` is blocks of one head each, outer blocks apart; each head `times` times in a row.
std::vector<float> repeated(const std::vector<float>& from, std::size_t block, std::size_t times) {
  std::vector<float> to;
  for (auto head = from.begin(); head != from.end(); head += static_cast<std::ptrdiff_t>(block)) {
    for (std::size_t i = 0; i < times; ++i) to.insert(to.end(), head, head + static_cast<std::ptrdiff_t>(block));
  }
  return to;
}

// The same problem with a head of keys and values for each of queries: views repeated, or rows of W_k and W_v.
LayerCase repeated(const LayerCase& c) {
  CaseSpec spec = c.spec;
  spec.num_kv_heads = 0;
  const auto times = static_cast<std::size_t>(kHeads / c.spec.num_kv_heads);
  LayerCase to(spec);
  to.queries = c.queries;
  to.lens = c.lens;
  if (c.on_heads()) {
    to.keys.data = repeated(c.keys.data, static_cast<std::size_t>(c.spec.num_keys * c.key_size()), times);
    to.values.data = repeated(c.values.data, static_cast<std::size_t>(c.spec.num_keys * c.value_size()), times);
    return to;
  }
  to.keys = c.keys;
  to.values = c.values;
  for (auto& [name, tensor] : to.weights) {
    const Tensor& one = c.weights.at(name);
    if (one.sizes == tensor.sizes) {
      tensor = one;
      continue;
    }
    const std::size_t heads = static_cast<std::size_t>(c.spec.num_kv_heads);
    tensor.data = repeated(one.data, one.data.size() / heads, times);
  }
  to.attention = MultiHeadAttention(to.multi_head_options(), to.multi_head_parameters());
  return to;
}

}  // namespace

TEST_CASE("grouped heads: the truth, and the run with keys and values repeated by hand") {
  for (const Layer layer : kLayers) {
    for (const std::int64_t num_kv_heads : {1, 2, 3, 6}) {
      for (const auto& [num_queries, num_keys] :
           std::vector<std::array<std::int64_t, 2>>{{1, 9}, {1, 300}, {5, 40}, {7, 1100}, {70, 66}}) {
        for (const Lens lens : kAllLens) {
          const LayerCase c(grouped(layer, num_kv_heads,
                                    {.num_queries = num_queries, .num_keys = num_keys, .lens = lens, .seed = 601}));
          const LayerCase by_hand = repeated(c);
          const reference::Result truth = c.truth(), truth_by_hand = by_hand.truth();
          CHECK(max_abs_error(truth.output, truth_by_hand.output) <= 1e-13);
          CHECK(max_abs_error(truth.attention_weights, truth_by_hand.attention_weights) <= 1e-14);
          const Bound bound = c.bound(truth);
          for_each_plan(c, [&](const Plan& plan, bool with_weights) {
            const RunResult result = run_plan(plan, c.inputs(), with_weights);
            check_within(result.output, result.attention_weights, truth, bound);
            const Plan plain = by_hand.attention.plan(
                by_hand.shape, {.target = Target::from_name(plan.target_name()), .attention_weights = with_weights});
            const RunResult expected = run_plan(plain, by_hand.inputs(), with_weights);
            CHECK(max_abs_error(result.output, expected.output) <= 2 * bound.output);
            CHECK(max_abs_error(result.attention_weights, expected.attention_weights) <= 2 * bound.weights);
          });
        }
      }
    }
  }
}

TEST_CASE("grouped heads: as many as there are of queries, said or not, are the same bits") {
  for (const Layer layer : kLayers) {
    const LayerCase said(grouped(layer, kHeads, {.num_queries = 20, .num_keys = 70, .seed = 602}));
    const LayerCase unsaid(grouped(layer, 0, {.num_queries = 20, .num_keys = 70, .seed = 602}));
    for_each_plan(said, [&](const Plan& plan, bool with_weights) {
      const Plan other = unsaid.attention.plan(unsaid.shape, options_of(unsaid, plan, with_weights));
      CHECK(same_bits(run_plan(plan, said.inputs(), with_weights), run_plan(other, unsaid.inputs(), with_weights)));
    });
  }
}

TEST_CASE("grouped heads: causal masks") {
  for (const Layer layer : kLayers) {
    for (const std::int64_t num_kv_heads : {1, 3}) {
      for (const Causal causal : {Causal::kBottomRight, Causal::kTopLeft}) {
        for (const auto& [num_queries, num_keys] :
             std::vector<std::array<std::int64_t, 2>>{{1, 70}, {9, 40}, {40, 40}, {40, 9}}) {
          for (const Lens lens : kAllLens) {
            const LayerCase c(grouped(
                layer, num_kv_heads,
                {.num_queries = num_queries, .num_keys = num_keys, .causal = causal, .lens = lens, .seed = 603}));
            check_truth(c);
          }
        }
      }
    }
  }
}

TEST_CASE("grouped heads: the same bits for any number of threads and any batch composition") {
  for (const Layer layer : kLayers) {
    for (const std::int64_t num_kv_heads : {1, 2}) {
      for (const auto& [num_queries, num_keys] : std::vector<std::array<std::int64_t, 2>>{{41, 83}, {1, 1500}}) {
        const LayerCase c(
            grouped(layer, num_kv_heads, {.batch = 3, .num_queries = num_queries, .num_keys = num_keys, .seed = 604}));
        for_each_plan(c, [&](const Plan& plan, bool with_weights) {
          check_same_for_threads(c, plan, with_weights);
          check_same_alone(c, plan, with_weights);
        });
      }
    }
  }
}

TEST_CASE("grouped heads: a decoder's threads share the heads, with the same bits") {
  const auto split_of = [](const LayerCase& c, int threads) {
    const std::string text = c.attention.plan(c.shape, {.threads = threads, .path = "dot/decode"}).explain();
    return text.substr(text.find("\n  split") + 1,
                       text.find('\n', text.find("\n  split") + 1) - text.find("\n  split"));
  };
  for (const std::int64_t num_kv_heads : {2, 3, 6}) {
    for (const std::int64_t batch : {1, 2}) {
      for (const std::int64_t num_keys : {900, 1500}) {  // 1500: in two chunks
        for (const Lens lens : kAllLens) {
          const LayerCase c(
              grouped(Layer::kDotHeads, num_kv_heads,
                      {.batch = batch, .num_queries = 2, .num_keys = num_keys, .size = 40, .lens = lens, .seed = 605}));
          if (num_keys == 900)
            CHECK(missing_parts(split_of(c, 3 * static_cast<int>(batch)), {"ranges of heads"}) == "");
          CHECK(split_of(c, 1).find("ranges") == std::string::npos);
          for_each_plan(c, [&](const Plan& plan, bool with_weights) {
            if (plan.path() == "dot/decode") check_same_for_threads(c, plan, with_weights);
          });
        }
      }
    }
  }
}

TEST_CASE("grouped heads: a decoder's heads are not cut where entries or too few keys keep the threads") {
  const auto items = [](std::int64_t batch, std::int64_t keys, std::int64_t heads, int threads) {
    const Shape shape{.batch = batch, .num_queries = 1, .num_keys = keys, .query_size = 64, .num_heads = heads};
    const std::string text = DotAttention().plan(shape, {.threads = threads, .path = "dot/decode"}).explain();
    const std::size_t at = text.find("\n  split") + 8;
    return std::stoi(text.substr(text.find_first_not_of(' ', at)));
  };
  CHECK(items(1, 256, 8, 1) == 1);
  CHECK(items(1, 256, 8, 2) == 2);
  CHECK(items(1, 256, 8, 3) == 3);
  CHECK(items(1, 256, 8, 7) == 7);
  CHECK(items(1, 256, 2, 7) == 2);  // no more than heads
  CHECK(items(1, 64, 8, 7) == 4);   // of 64 KiB at the least
  CHECK(items(1, 8, 8, 7) == 1);
  CHECK(items(2, 256, 8, 2) == 2);
  CHECK(items(3, 256, 8, 2) == 6);    // 1.5 instead of 2 entries for the busiest
  CHECK(items(15, 256, 8, 2) == 15);  // 7.5 instead of 8 is not worth it
  CHECK(items(64, 256, 8, 7) == 64);

  // A worker has room for the heads of an item, not for all.
  const auto workspace_bytes = [](int threads) {
    const Shape shape{.num_queries = 4, .num_keys = 1024, .query_size = 64, .num_heads = 8};
    return DotAttention().plan(shape, {.threads = threads, .path = "dot/decode"}).workspace_bytes();
  };
  constexpr std::size_t kApart = 64 * 1024;  // from one worker's to the next
  CHECK(workspace_bytes(2) < workspace_bytes(1) * 3 / 2 + kApart);
  CHECK(workspace_bytes(8) < workspace_bytes(1) * 3 / 2 + 7 * kApart);
}

TEST_CASE("grouped heads: fewer batch entries, queries or keys than were planned for") {
  for (const Layer layer : kLayers) {
    const LayerCase large(grouped(layer, 2, {.batch = 4, .num_queries = 50, .num_keys = 300, .seed = 605}));
    for (const auto& [batch, num_queries, num_keys] : std::vector<std::array<std::int64_t, 3>>{
             {1, 1, 1}, {3, 50, 17}, {4, 7, 299}, {2, 3, 0}, {0, 5, 5}, {2, 0, 9}}) {
      const LayerCase c(grouped(layer, 2,
                                {.batch = batch,
                                 .num_queries = num_queries,
                                 .num_keys = num_keys,
                                 .lens = batch * num_queries == 0 ? Lens::kNone : Lens::kPerQuery,
                                 .seed = 605}));
      const reference::Result truth = c.truth();
      check_truth(large, c.inputs(), truth, c.bound(truth));
    }
  }
}

TEST_CASE("grouped heads: prepared keys give the bits of keys and values themselves, and take less memory") {
  for (const Layer layer : kLayers) {
    for (const std::int64_t num_kv_heads : {1, 3}) {
      for (const Lens lens : kAllLens) {
        for (const Causal causal : {Causal::kNone, Causal::kBottomRight}) {
          for (const auto& [num_queries, num_keys] : std::vector<std::array<std::int64_t, 2>>{{20, 70}, {1, 33}}) {
            const LayerCase c(grouped(
                layer, num_kv_heads,
                {.num_queries = num_queries, .num_keys = num_keys, .causal = causal, .lens = lens, .seed = 606}));
            for_each_plan(c, [&](const Plan& plan, bool with_weights) { check_same_prepared(c, plan, with_weights); });
          }
        }
      }
    }
    const LayerCase one(grouped(layer, 1, {.num_keys = 300})), all(grouped(layer, 6, {.num_keys = 300}));
    const auto prepared_bytes = [](const LayerCase& c) {
      return c.attention.plan(c.shape, {.path = "dot/fused"}).prepared_bytes();
    };
    CHECK(prepared_bytes(one) * 3 < prepared_bytes(all));
  }
}

TEST_CASE("grouped heads: keys and values that no row sees do not matter, whatever they hold") {
  for (const Layer layer : kLayers) {
    for (const Lens lens : {Lens::kPerBatch, Lens::kPerQuery}) {
      LayerCase clean(grouped(layer, 2, {.batch = 3, .num_queries = 5, .num_keys = 70, .lens = lens, .seed = 607}));
      for (std::int32_t& len : clean.lens.data) len = std::min(len, std::int32_t{68});
      LayerCase spoiled = clean;
      const auto visible = [&](std::int64_t b) { return clean.visible_keys(b); };
      spoil_from(spoiled.keys, visible);
      spoil_from(spoiled.values, visible);
      for_each_plan(clean, [&](const Plan& plan, bool with_weights) {
        CHECK(same_bits(run_plan(plan, clean.inputs(), with_weights), run_plan(plan, spoiled.inputs(), with_weights)));
      });
    }
    LayerCase c(grouped(layer, 3, {.batch = 1, .num_queries = 3, .num_keys = 70, .size = 5, .seed = 608}));
    c.lens.data = {33};
    check_keys_unread_from(c, 33);
  }
}

TEST_CASE("grouped heads: any layout of the views, and Luong's concatenated queries") {
  for (const Layer layer : kLayers) {
    const LayerCase c(grouped(layer, 2, {.num_queries = 19, .num_keys = 37, .seed = 609}));
    check_any_layout(c);
    const RunResult plain = run_plan(c.attention.plan(c.shape), c.inputs());
    const RunResult concat = run_plan(c.attention.plan(c.shape, {.concat_queries = true}), c.inputs());
    const auto width = static_cast<std::size_t>(c.output_size());
    bool same = concat.output.size() == plain.output.size() / width * (width + 8);
    for (std::size_t row = 0; same && row < plain.output.size() / width; ++row) {
      same = same_bits(&concat.output[row * (width + 8)], &plain.output[row * width], width) &&
             same_bits(&concat.output[row * (width + 8) + width], &c.queries.data[row * 8], 8);
    }
    CHECK(same);
  }
}

TEST_CASE("grouped heads: a NaN in a key is seen by the heads that share it and by no other") {
  for (const Layer layer : {Layer::kDotHeads, Layer::kGaussianHeads}) {
    for (const std::int64_t num_queries : {1, 5}) {
      const LayerCase clean(grouped(
          layer, 2, {.batch = 1, .num_queries = num_queries, .num_keys = 40, .lens = Lens::kNone, .seed = 610}));
      LayerCase c = clean;
      c.keys.data[static_cast<std::size_t>(c.spec.num_keys * c.key_size())] = std::numeric_limits<float>::quiet_NaN();
      const reference::Result truth = c.truth();
      const std::size_t half = truth.output.size() / 2;  // heads 0 to 2
      REQUIRE(std::none_of(truth.output.begin(), truth.output.begin() + static_cast<std::ptrdiff_t>(half),
                           [](double x) { return std::isnan(x); }));
      REQUIRE(std::isnan(truth.output[half]));
      check_truth(c, c.inputs(), truth, clean.bound(truth));
    }
  }
}

TEST_CASE("grouped heads: an infinite query is far from the keys of its own head, and no others are read") {
  for (std::size_t head = 0; head < kHeads; ++head) {
    CAPTURE(head);
    const LayerCase clean(grouped(Layer::kGaussianHeads, 2,
                                  {.batch = 1, .num_queries = 3, .num_keys = 40, .lens = Lens::kNone, .seed = 612}));
    LayerCase c = clean;
    const auto size = static_cast<std::size_t>(c.spec.size), value_size = static_cast<std::size_t>(c.spec.value_size);
    c.queries.data[(head * 3 + 1) * size] = std::numeric_limits<float>::infinity();
    c.keys.data[(40 + 7) * size] = std::numeric_limits<float>::infinity();  // of the second head
    const reference::Result truth = c.truth();
    const double infinite = truth.output[(head * 3 + 1) * value_size];
    if (head < kHeads / 2) {
      REQUIRE(infinite == 0.0);
    } else {
      REQUIRE(std::isnan(infinite));  // infinity - infinity
    }
    const GuardedRows keys(c.keys, c.spec.num_keys);
    Inputs in = c.inputs();
    in.keys = keys.view();
    check_truth(c, in, truth, clean.bound(truth));
  }
}

TEST_CASE("grouped heads: numbers of heads that do not divide, and layers without heads, are refused by the plan") {
  for (const Layer layer : {Layer::kDotHeads, Layer::kGaussianHeads}) {
    const LayerCase c(grouped(layer, 2, {}));
    for (const std::int64_t num_kv_heads : {-1, 4, 5, 12}) {
      Shape shape = c.shape;
      shape.num_kv_heads = num_kv_heads;
      const std::string message = error_message([&] { c.attention.plan(shape); });
      CHECK(missing_parts(message, {"num_kv_heads", std::to_string(num_kv_heads), "6"}) == "");
    }
  }
  for (const Layer layer : {Layer::kAdditive, Layer::kBilinear, Layer::kMultiHead, Layer::kMultiHeadAdditive}) {
    const LayerCase c({.layer = layer});
    Shape shape = c.shape;
    shape.num_kv_heads = 3;
    CHECK(missing_parts(error_message([&] { c.attention.plan(shape); }), {"num_kv_heads", "3"}) == "");
  }
}

TEST_CASE("grouped heads: views with other heads than were planned are refused") {
  for (const Layer layer : {Layer::kDotHeads, Layer::kGaussianHeads}) {
    const LayerCase c(grouped(layer, 2, {}));
    const Plan plan = c.attention.plan(c.shape);
    const auto heads = [](std::int64_t count, std::int64_t size) {
      return TensorView<const float>(zeros(), {2, count, 9, size});
    };
    Inputs in = c.inputs();
    in.keys = heads(6, 8);
    CHECK(missing_parts(run_message(plan, in), {"keys", "(2, 6, 9, 8)", "(2, 2,"}) == "");
    in = c.inputs();
    in.values = heads(6, 5);
    CHECK(missing_parts(run_message(plan, in), {"values", "(2, 6, 9, 5)", "(2, 2,"}) == "");
    in = c.inputs();
    in.queries = TensorView<const float>(zeros(), {2, 2, 3, 8});
    CHECK(missing_parts(run_message(plan, in), {"queries", "(2, 2, 3, 8)", "6"}) == "");
    in = c.inputs();
    in.keys = in.values = {};  // the queries, with heads of their own
    CHECK(missing_parts(run_message(plan, in), {"keys", "(2, 6, 3, 8)", "2"}) == "");
    PoisonedKeys prepared(plan);
    CHECK(missing_parts(
              error_message([&] { prepare(plan, {.keys = heads(6, 8), .values = heads(2, 5)}, prepared.keys); }),
              {"keys", "(2, 6, 9, 8)", "(B, 2,"}) == "");
  }
}

TEST_CASE("grouped heads: multi-head options and parameters that do not agree are refused") {
  const LayerCase c(grouped(Layer::kMultiHead, 2, {}));
  const MultiHeadParameters good = c.multi_head_parameters();  // W_q (24, 8), W_k (8, 11), W_v (10, 5), W_o (7, 30)
  const auto message = [&](const MultiHeadOptions& options, const MultiHeadParameters& p) {
    return error_message([&] { MultiHeadAttention layer(options, p); });
  };
  CHECK(message({.num_heads = 6, .num_kv_heads = 2}, good) == "");
  for (const std::int64_t num_kv_heads : {-2, 4, 12}) {
    CHECK(missing_parts(message({.num_heads = 6, .num_kv_heads = num_kv_heads}, good),
                        {"num_kv_heads", std::to_string(num_kv_heads), "6"}) == "");
  }
  for (const std::int64_t num_kv_heads : {0, 1, 3, 6}) {  // 0: as many as num_heads
    CHECK(missing_parts(message({.num_heads = 6, .num_kv_heads = num_kv_heads}, good),
                        {"W_k", "(8, 11)", "(" + std::to_string(4 * (num_kv_heads != 0 ? num_kv_heads : 6)) + ", Dk)",
                         "num_kv_heads"}) == "");
  }
  CHECK(missing_parts(message({.num_heads = 5, .num_kv_heads = 1}, good), {"num_heads", "5", "24"}) == "");
  CHECK(missing_parts(message({.num_heads = 6, .scoring = Scoring::kAdditive, .num_kv_heads = 2}, good),
                      {"num_kv_heads", "2", "6", "additive"}) == "");

  const auto matrix = [](std::int64_t rows, std::int64_t columns) {
    return TensorView<const float>(zeros(), {rows, columns});
  };
  MultiHeadParameters wrong = good;
  wrong.W_v = matrix(15, 5);  // three heads of five rows
  CHECK(missing_parts(message({.num_heads = 6, .num_kv_heads = 2}, wrong), {"W_v", "(15, 5)", "(10, Dv)"}) == "");
  wrong.W_v = matrix(12, 5);  // two heads of six
  CHECK(missing_parts(message({.num_heads = 6, .num_kv_heads = 2}, wrong), {"W_o", "(7, 30)", "36"}) == "");
  wrong = good;
  wrong.W_o = matrix(7, 31);
  CHECK(missing_parts(message({.num_heads = 6, .num_kv_heads = 2}, wrong), {"W_o", "(7, 31)", "30"}) == "");
  wrong = good;
  wrong.b_k = TensorView<const float>(zeros(), {24});
  CHECK(missing_parts(message({.num_heads = 6, .num_kv_heads = 2}, wrong), {"b_k", "(24)", "8"}) == "");
  wrong = good;
  wrong.b_v = TensorView<const float>(zeros(), {30});
  CHECK(missing_parts(message({.num_heads = 6, .num_kv_heads = 2}, wrong), {"b_v", "(30)", "10"}) == "");
}

TEST_CASE("grouped heads: parameters by name") {
  const LayerCase c(grouped(Layer::kMultiHead, 2, {.seed = 611}));
  const RunResult expected = run_plan(c.attention.plan(c.shape), c.inputs());
  const auto named = [&](const std::vector<std::pair<std::string, std::string>>& names) {
    Parameters parameters("model.safetensors:layer.");
    for (const auto& [name, own] : names) {
      parameters.insert(name + ".weight", c.weights.at(own + ".weight"));
      parameters.insert(name + ".bias", c.weights.at(own + ".bias"));
    }
    return parameters;
  };
  for (const Parameters& parameters :
       {named({{"W_q", "W_q"}, {"W_k", "W_k"}, {"W_v", "W_v"}, {"W_o", "W_o"}}),
        named({{"query", "W_q"}, {"key", "W_k"}, {"value", "W_v"}, {"output.dense", "W_o"}})}) {
    const MultiHeadAttention layer({.num_heads = 6, .num_kv_heads = 2}, parameters);
    CHECK(same_bits(expected, run_plan(layer.plan(c.shape), c.inputs())));
  }
  Parameters wrong = named({{"query", "W_q"}, {"value", "W_v"}, {"output.dense", "W_o"}});
  wrong.insert("key.weight", Tensor{{12, 11}, std::vector<float>(132)});
  CHECK(missing_parts(error_message([&] { MultiHeadParameters::from(wrong); }),
                      {"model.safetensors", "key.weight", "(12, 11)", "(8, Dk)"}) == "");
}

}  // namespace attend::tests
