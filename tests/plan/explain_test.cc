// What a plan says of itself.
#include <string>

#include <doctest/doctest.h>

#include "attend/attend.h"
#include "tests/support/compare.h"
#include "tests/support/layer_cases.h"
#include "tests/support/run.h"

namespace attend::tests {
namespace {

using Parts = std::vector<std::string>;

std::string explain(const LayerCase& c, const PlanOptions& options = {}) {
  return c.attention.plan(c.shape, options).explain();
}

}  // namespace

TEST_CASE("explain: path, tiles, target, workspace, work and reasons of every plan") {
  for (const Layer layer : kAllLayers) {
    const LayerCase c({.layer = layer, .num_queries = 100, .num_keys = 1000, .seed = 110});
    for_each_plan(c, [&](const Plan& plan, bool) {
      const std::string text = plan.explain();
      CHECK(missing_parts(text, {std::string(plan.path()), "tiles", std::string(plan.target_name()), "workspace",
                                 std::to_string(plan.workspace_bytes()), "\n  work ", std::string(c.attention.name()),
                                 ": "}) == "");
      CHECK(text.ends_with("\n"));
    });
  }
}

TEST_CASE("explain: what multiplies is named where there are projections, and is never a reference implementation") {
  for (const Layer layer : {Layer::kAdditive, Layer::kBilinear, Layer::kMultiHead, Layer::kMultiHeadAdditive}) {
    for (const std::int64_t size : {1, 3, 17, 64}) {
      const std::string text = explain(LayerCase({.layer = layer, .size = size, .value_size = size, .seed = 111}));
      INFO(text);
      CHECK((text.find("gemm") != std::string::npos || text.find("brg") != std::string::npos ||
             text.find("jit") != std::string::npos || text.find("own kernel") != std::string::npos));
      CHECK(text.find("ref:") == std::string::npos);
      CHECK(text.find("by ref") == std::string::npos);
    }
  }
}

TEST_CASE("explain: a forced path says that it was asked for, a chosen one names the candidates") {
  const LayerCase c({.layer = Layer::kDot});
  CHECK(missing_parts(explain(c), {"dot/fused", "dot/materialised"}) == "");
  CHECK(missing_parts(explain(c, {.path = "dot/materialised"}), {"dot/materialised: asked for"}) == "");
  CHECK(explain(c).find(": asked for") == std::string::npos);
}

TEST_CASE("explain: bilinear says which side is projected and why") {
  LayerCase c({.layer = Layer::kBilinear, .num_queries = 1, .num_keys = 500});
  CHECK(missing_parts(explain(c), {"W is applied to the queries: ", " MFLOP per batch entry"}) == "");
  LayerCase many({.layer = Layer::kBilinear, .num_queries = 500, .num_keys = 1});
  CHECK(missing_parts(explain(many), {"W is applied to the keys: ", " on the other side"}) == "");
}

TEST_CASE("plan: what it was made for") {
  const LayerCase c({.layer = Layer::kMultiHead});
  const Plan plan = c.attention.plan({.batch = 4, .num_queries = 5, .num_keys = 6}, {.attention_weights = true});
  CHECK(plan.shape().batch == 4);
  CHECK(plan.shape().query_size == 8);
  CHECK(plan.shape().key_size == 11);
  CHECK(plan.shape().value_size == 5);
  CHECK(plan.output_size() == 7);
  CHECK(plan.weight_heads() == 3);
  CHECK(c.attention.plan(c.shape, {.concat_queries = true}).output_size() == 15);
  CHECK(LayerCase({.layer = Layer::kDot}).attention.plan({.query_size = 8}).shape().value_size == 8);
}

TEST_CASE("plan: tiles and path do not depend on the thread count, so that results do not") {
  for (const Layer layer : kAllLayers) {
    const LayerCase c({.layer = layer, .num_queries = 100, .num_keys = 1000});
    const auto line_of = [&](int threads, const std::string& what) {
      const std::string text = explain(c, {.threads = threads});
      const std::size_t at = text.find(what);
      REQUIRE(at != std::string::npos);
      return text.substr(at, text.find('\n', at) - at);
    };
    for (const char* what : {"  tiles", "  path"}) CHECK(line_of(1, what) == line_of(16, what));
  }
}

}  // namespace attend::tests
