// Attention weights of so many keys that few queries meet them in chunks: what a chunk leaves are weights only when the
// last is merged. Truth: the reference in double precision.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>

#include <doctest/doctest.h>

#include "attend/attend.h"
#include "tests/support/compare.h"
#include "tests/support/layer_cases.h"
#include "tests/support/run.h"

namespace attend::tests {
namespace {

// Two whole chunks and some of a third; steps of lanes end within it.
constexpr std::int64_t kKeys = 2300;

CaseSpec few_queries() {
  return {.layer = Layer::kDotHeads,
          .batch = 2,
          .num_queries = 3,
          .num_keys = kKeys,
          .num_heads = 4,
          .num_kv_heads = 2,
          .lens = Lens::kNone,
          .seed = 81};
}

bool is_chunked(const LayerCase& c, const char* path) {
  return c.attention.plan(c.shape, {.attention_weights = true, .path = path}).explain().find("chunks of") !=
         std::string::npos;
}

}  // namespace

TEST_CASE("contract 8: weights of keys in chunks, with every mask") {
  for (const Lens lens : kAllLens) {
    for (const Causal causal : {Causal::kNone, Causal::kBottomRight, Causal::kTopLeft}) {
      CaseSpec spec = few_queries();
      spec.lens = lens;
      spec.causal = causal;
      const LayerCase c(spec);
      CHECK(is_chunked(c, "dot/decode"));
      CHECK(is_chunked(c, "dot/lanes"));
      check_truth(c);
    }
  }
}

TEST_CASE("contract 8: asking for weights changes no bit of the output") {
  CaseSpec spec = few_queries();
  spec.lens = Lens::kPerQuery;
  for (const std::int64_t num_keys : {std::int64_t{40}, std::int64_t{700}, kKeys}) {
    spec.num_keys = num_keys;
    const LayerCase c(spec);
    for_each_target([&](const Target& target) {
      for (const char* path : {"dot/decode", "dot/lanes", "dot/fused"}) {
        // Fused tiles have no chunks where weights are asked for: their sums are rounded otherwise.
        if (num_keys == kKeys && std::string(path) == "dot/fused") continue;
        CAPTURE(path);
        const auto output = [&](bool with_weights) {
          const Plan plan =
              c.attention.plan(c.shape, {.target = target, .attention_weights = with_weights, .path = path});
          return run_plan(plan, c.inputs(), with_weights).output;
        };
        CHECK(same_bits(output(true), output(false)));
      }
    });
  }
}

TEST_CASE("contract 8: weights of chunks that some or all queries do not see, and of queries that are skipped") {
  for (const Padding padding : {Padding::kCompute, Padding::kSkipQueries}) {
    CaseSpec spec = few_queries();
    spec.lens = Lens::kPerBatch;
    spec.padding = padding;
    LayerCase c(spec);
    c.lens.data = {2, 1100};
    check_truth(c);
    if (padding == Padding::kSkipQueries) continue;
    c.lens.sizes = {2, 3};
    c.lens.data = {0, 1025, 2300, 1024, 0, 1};
    check_truth(c);
  }
}

TEST_CASE("contract 8: weights whose maximum rises or falls from step to step and chunk to chunk") {
  for (const bool rises : {true, false}) {
    LayerCase c(few_queries());
    for (std::int64_t row = 0; row < 2 * 2 * kKeys; ++row) {
      const std::int64_t j = rises ? row % kKeys : kKeys - 1 - row % kKeys;
      for (std::int64_t k = 0; k < c.key_size(); ++k) {
        c.keys.data[static_cast<std::size_t>(row * c.key_size() + k)] *= static_cast<float>(j) / 100;
      }
    }
    check_truth(c);
  }
}

TEST_CASE("contract 3 and 4: weights of a chunk with NaN or with nothing but -inf") {
  const float kInf = std::numeric_limits<float>::infinity();
  const auto key = [](LayerCase& c, std::int64_t j) -> float& {
    return c.keys.data[static_cast<std::size_t>(j * c.key_size())];
  };
  LayerCase c({.layer = Layer::kDot, .batch = 1, .num_queries = 3, .num_keys = kKeys, .lens = Lens::kNone, .seed = 82});
  for (std::size_t m = 0; m < 3; ++m) c.queries.data[m * 8] = 0.5f;
  const Bound bound = c.bound(c.truth());
  for (std::int64_t j = 1024; j < 2048; ++j) key(c, j) = -kInf;
  const auto check = [&] {
    const reference::Result truth = c.truth();
    check_truth(c, c.inputs(), truth, bound);
    return truth;
  };
  check();
  for (std::int64_t j = 0; j < kKeys; ++j) key(c, j) = -kInf;
  for (const double w : check().attention_weights) CHECK(w == 0);

  // Row 1 sees the NaN of the last chunk, rows 0 and 2 do not.
  c.lens.sizes = {1, 3};
  c.lens.data = {2200, 2250, 1100};
  key(c, 2220) = std::numeric_limits<float>::quiet_NaN();
  const reference::Result truth = check();
  CHECK(truth.attention_weights[0] == 0);
  CHECK(std::isnan(truth.attention_weights[kKeys]));
  CHECK(truth.attention_weights[kKeys + 2250] == 0);
}

}  // namespace attend::tests
