// attend check: the figures of its bound, by hand. Sigmas are in units of kRounding.
#include "tools/attend/bound.h"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "attend/attend.h"
#include "attend/io.h"

namespace attend::tests {
namespace {

using doctest::Approx;
using tools::LayerKind;

const double kUnit = std::ldexp(1.0, -24);
const double kRounding = kUnit / std::sqrt(3.0);
constexpr float kInfinity = std::numeric_limits<float>::infinity();

struct Named {
  const char* name;
  Tensor tensor;
};

tools::Layer layer_of(LayerKind kind, std::vector<Named> named = {}) {
  Parameters parameters("by hand");
  for (Named& parameter : named) parameters.insert(parameter.name, std::move(parameter.tensor));
  return {.attention = DotAttention(),  // none is run
          .kind = kind,
          .parameters = std::make_shared<const Parameters>(std::move(parameters)),
          .dot = {},
          .bilinear = {},
          .gaussian = {},
          .multi_head = {}};
}

// One entry of queries, keys and values.
struct Rows {
  Tensor queries, keys, values;
  LengthsTensor lens;

  Inputs inputs() const {
    Inputs in{.queries = queries.view(), .keys = keys.view()};
    if (!values.sizes.empty()) in.values = values.view();
    if (!lens.sizes.empty()) in.valid_lens = lens.view();
    return in;
  }
};

// S is 6, so that 2e-7 (4 + S) is 2e-6; the largest value is 3.
const reference::Result kTruth{.output = {}, .attention_weights = {}, .max_score_terms = 6, .max_abs_value = 3};
constexpr double kContract = 2e-6;

// e, which must be what the other figures are made of, for all layers but multi-head.
double slack_of(const tools::Layer& layer, const Rows& rows, const reference::Mask& mask = {}) {
  const tools::Bound bound = tools::bound_of(layer, rows.inputs(), mask, kTruth);
  CHECK(bound.attention_weights == Approx(kContract + bound.score_slack).epsilon(1e-12));
  CHECK(bound.output == Approx(3 * bound.attention_weights).epsilon(1e-12));
  return bound.score_slack;
}

Approx exactly(double x) { return Approx(x).epsilon(1e-12); }

}  // namespace

TEST_CASE("bound: without projections it is the contract's") {
  const Rows rows{.queries = {{1, 1, 1}, {5}}, .keys = {{1, 2, 1}, {7, -9}}, .values = {}, .lens = {}};
  CHECK(slack_of(layer_of(LayerKind::kDot), rows) == 0);
  CHECK(slack_of(layer_of(LayerKind::kGaussian), rows) == 0);
}

TEST_CASE("bound: additive adds the contract's own error and what projections round") {
  // Partial sums of queries 3, 11, with a bias 10; of keys 6 and -2, 1.5 and -0.5.
  std::vector<Named> named = {
      {"W_q.weight", {{2, 2}, {1, 2, 1, 2}}}, {"W_k.weight", {{2, 1}, {3, -1}}}, {"w_v.weight", {{1, 2}, {0.5f, -2}}}};
  const Rows rows{.queries = {{1, 1, 2}, {3, 4}}, .keys = {{1, 2, 1}, {2, 0.5f}}, .values = {}, .lens = {}};
  CHECK(slack_of(layer_of(LayerKind::kAdditive, named), rows) ==
        exactly(4e-7 * 2.5 + 6 * kRounding * std::sqrt(0.25 * (9 + 121 + 36) + 4 * (9 + 121 + 4))));
  named.push_back({"W_q.bias", {{2}, {-1, -1}}});
  CHECK(slack_of(layer_of(LayerKind::kAdditive, named), rows) ==
        exactly(4e-7 * 2.5 + 6 * kRounding * std::sqrt(0.25 * (9 + 121 + 100 + 36) + 4 * (9 + 121 + 100 + 4))));
}

TEST_CASE("bound: rows count where some query that is computed sees them, others and infinite ones do not") {
  const tools::Layer layer =
      layer_of(LayerKind::kAdditive,
               {{"W_q.weight", {{1, 1}, {1}}}, {"W_k.weight", {{1, 1}, {1}}}, {"w_v.weight", {{1, 1}, {1}}}});
  const struct {
    LengthsTensor lens;
    reference::Mask mask;
    double query, key;  // the largest that count
  } kCases[] = {
      {{}, {}, 32, 8},
      {{{1}, {3}}, {}, 32, 4},
      {{{1}, {0}}, {}, 32, 0},
      {{{1, 2}, {1, 3}}, {}, 32, 4},
      {{{1, 2}, {2, 0}}, {}, 32, 2},
      {{}, {.causal = Causal::kTopLeft}, 32, 2},
      {{}, {.causal = Causal::kBottomRight}, 32, 8},
      {{{1}, {3}}, {.causal = Causal::kBottomRight}, 32, 4},
      {{{1}, {1}}, {.padding = Padding::kSkipQueries}, 16, 1},
      {{{1}, {3}}, {.padding = Padding::kSkipQueries}, 32, 4},
      {{{1}, {1}}, {.causal = Causal::kBottomRight, .padding = Padding::kSkipQueries}, 16, 1},
  };
  for (const auto& c : kCases) {
    const Rows rows{.queries = {{1, 2, 1}, {16, 32}}, .keys = {{1, 4, 1}, {1, 2, 4, 8}}, .values = {}, .lens = c.lens};
    INFO("query ", c.query, ", key ", c.key);
    CHECK(slack_of(layer, rows, c.mask) == exactly(4e-7 + 6 * kRounding * std::hypot(c.query, c.key)));
  }
  const Rows infinite{
      .queries = {{1, 2, 1}, {16, kInfinity}}, .keys = {{1, 3, 1}, {1, kInfinity, 2}}, .values = {}, .lens = {}};
  CHECK(slack_of(layer, infinite) == exactly(4e-7 + 6 * kRounding * std::hypot(16, 2)));
  // Fewer keys than queries: the last query sees one bottom right.
  const Rows few{.queries = {{1, 2, 1}, {16, 32}}, .keys = {{1, 1, 1}, {1}}, .values = {}, .lens = {}};
  CHECK(slack_of(layer, few, {.causal = Causal::kBottomRight}) == exactly(4e-7 + 6 * kRounding * std::hypot(32, 1)));
}

TEST_CASE("bound: bilinear is that of the side that would be worse to project") {
  tools::Layer layer = layer_of(LayerKind::kBilinear, {{"W.weight", {{2, 1}, {3, 4}}}});
  layer.bilinear.scale = -0.5f;
  const auto rows = [](float a, float b) {
    return Rows{.queries = {{1, 1, 2}, {a, b}}, .keys = {{1, 3, 1}, {2, kInfinity, -1}}, .values = {}, .lens = {}};
  };
  // W k: 6 and 8. W^T q: 3, 11, and 6, 2.
  CHECK(slack_of(layer, rows(1, 2)) == exactly(6 * 0.5 * kRounding * 2 * std::sqrt(9.0 + 121)));
  CHECK(slack_of(layer, rows(2, -1)) == exactly(6 * 0.5 * kRounding * std::sqrt(5.0) * 8));
}

TEST_CASE("bound: multi-head, two heads that share keys and values") {
  tools::Layer layer = layer_of(LayerKind::kMultiHead, {{"W_q.weight", {{2, 1}, {1, 2}}},
                                                        {"W_k.weight", {{1, 1}, {3}}},
                                                        {"W_v.weight", {{1, 1}, {5}}},
                                                        {"W_o.weight", {{1, 2}, {7, -2}}},
                                                        {"W_o.bias", {{1}, {-11}}}});
  layer.multi_head = {.num_heads = 2, .num_kv_heads = 1};
  const Rows rows{
      .queries = {{1, 1, 1}, {1}}, .keys = {{1, 2, 1}, {1, -2}}, .values = {{1, 2, 1}, {1, -1}}, .lens = {}};
  for (const double scale : {1.0, -0.25}) {  // 1: of heads of size 1 without one
    if (scale != 1) layer.multi_head.scale = static_cast<float>(scale);
    const tools::Bound bound = tools::bound_of(layer, rows.inputs(), {}, kTruth);
    // Queries 1 and 2, keys up to 6, values 5.
    const double first = 6 * std::abs(scale) * kRounding * std::hypot(1 * 6, 1 * 6), second = 2 * first;
    CHECK(bound.score_slack == exactly(second));
    CHECK(bound.attention_weights == exactly(kContract + second));
    CHECK(bound.output == exactly((kContract + first) * 35 + (kContract + second) * 10 + 6 * 9 * 5 * kRounding +
                                  (8e-7 + 6 * kRounding * std::sqrt(2.0)) * std::hypot(35, 10) + 2 * kUnit * 11));
  }
}

TEST_CASE("bound: multi-head, each head with the keys of its group") {
  tools::Layer layer = layer_of(LayerKind::kMultiHead, {{"W_q.weight", {{4, 1}, {1, 3, 1, 2}}},
                                                        {"W_k.weight", {{2, 1}, {1, 2}}},
                                                        {"W_v.weight", {{2, 1}, {0, 0}}},
                                                        {"W_o.weight", {{1, 4}, {0, 0, 0, 0}}}});
  layer.multi_head = {.num_heads = 4, .num_kv_heads = 2};
  const Rows rows{.queries = {{1, 1, 1}, {1}}, .keys = {{1, 1, 1}, {1}}, .values = {}, .lens = {}};
  // The last: 2 and 2.
  CHECK(tools::bound_of(layer, rows.inputs(), {}, kTruth).score_slack ==
        exactly(6 * kRounding * std::hypot(2 * 2, 2 * 2)));
}

TEST_CASE("bound: multi-head, each column of W_o maps the value of its head's group, and the worst output counts") {
  // Heads 0 and 1 see the first head of values, 2 and 3 the second; queries of 0 leave scores exact.
  const double kUnitOf[] = {1, 10, 1, 10, 100, 1000, 100, 1000};
  for (std::size_t j = 0; j < 8; ++j) {
    INFO("column ", j);
    Tensor W_o{{2, 8}, std::vector<float>(16)};
    W_o.data[j] = -2;
    W_o.data[8 + j] = 1;
    tools::Layer layer = layer_of(LayerKind::kMultiHead, {{"W_q.weight", {{8, 1}, std::vector<float>(8)}},
                                                          {"W_k.weight", {{4, 1}, {1, 1, 1, 1}}},
                                                          {"W_v.weight", {{4, 1}, {1, 10, 100, 1000}}},
                                                          {"W_o.weight", W_o}});
    layer.multi_head = {.num_heads = 4, .num_kv_heads = 2};
    const Rows rows{.queries = {{1, 1, 1}, {1}}, .keys = {{1, 1, 1}, {1}}, .values = {{1, 1, 1}, {1}}, .lens = {}};
    const tools::Bound bound = tools::bound_of(layer, rows.inputs(), {}, kTruth);
    CHECK(bound.score_slack == 0);
    CHECK(bound.output ==
          exactly(2 * kUnitOf[j] * (kContract + 6 * kRounding + 8e-7 + 6 * kRounding * std::sqrt(8.0))));
  }
}

TEST_CASE("bound: multi-head's heads have the norms of all their units and the largest of their sigmas") {
  // One head of size 2: queries (3, 4), keys (6, 8).
  tools::Layer layer = layer_of(LayerKind::kMultiHead, {{"W_q.weight", {{2, 1}, {3, 4}}},
                                                        {"W_k.weight", {{2, 1}, {6, 8}}},
                                                        {"W_v.weight", {{1, 1}, {0}}},
                                                        {"W_o.weight", {{1, 1}, {0}}}});
  const Rows rows{.queries = {{1, 1, 1}, {1}}, .keys = {{1, 1, 1}, {1}}, .values = {}, .lens = {}};
  CHECK(tools::bound_of(layer, rows.inputs(), {}, kTruth).score_slack ==
        exactly(6 / std::sqrt(2.0) * kRounding * std::hypot(4 * 10, 5 * 8)));
}

TEST_CASE("bound: multi-head with additive scores, by the units and weights of each head") {
  tools::Layer layer = layer_of(LayerKind::kMultiHead, {{"W_q.weight", {{2, 1}, {1, 2}}},
                                                        {"W_k.weight", {{2, 1}, {3, 4}}},
                                                        {"W_v.weight", {{2, 1}, {0, 0}}},
                                                        {"W_o.weight", {{1, 2}, {0, 0}}},
                                                        {"w_v.weight", {{2, 1}, {0.5f, -2}}}});
  layer.multi_head = {.num_heads = 2, .scoring = Scoring::kAdditive};
  const Rows rows{.queries = {{1, 1, 1}, {1}}, .keys = {{1, 1, 1}, {1}}, .values = {}, .lens = {}};
  CHECK(tools::bound_of(layer, rows.inputs(), {}, kTruth).score_slack ==
        exactly(4e-7 * 2 + 6 * kRounding * 2 * std::hypot(2, 4)));
}

}  // namespace attend::tests
