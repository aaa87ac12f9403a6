// Dot products of every head size up to 512, through every path that fits, and of so many keys that groups of queries
// meet them pass by pass.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>

#include <doctest/doctest.h>

#include "attend/attend.h"
#include "engine/base/cpus.h"
#include "engine/kernels/kernel_set.h"
#include "engine/kernels/pack.h"
#include "engine/kernels/query_lanes.h"
#include "tests/support/compare.h"
#include "tests/support/for_each_target.h"
#include "tests/support/layer_cases.h"
#include "tests/support/run.h"
#include "tests/support/tiles.h"

namespace attend::tests {
TEST_CASE("contract 6: head sizes up to 512, values of other sizes, for one query, a few and many") {
  for (const std::int64_t size : {1, 6, 48, 63, 80, 96, 127, 128, 200, 256, 511, 512}) {
    for (const std::int64_t num_queries : {1, 5, 33, 70}) {
      CAPTURE(size);
      CAPTURE(num_queries);
      check_truth(LayerCase({.layer = Layer::kDotHeads,
                             .batch = 1,
                             .num_queries = num_queries,
                             .num_keys = 70,
                             .size = size,
                             .value_size = 513 - size,
                             .num_heads = 2,
                             .seed = 71}));
    }
  }
}

TEST_CASE("contract 6: packed keys and values beyond 256 KiB pass groups of queries one after another") {
  const auto check = [](const CaseSpec& spec) {
    const LayerCase c(spec);
    for_each_target([&](const Target& target) {
      PlanOptions options{.target = target, .causal = spec.causal, .padding = spec.padding, .path = "dot/fused"};
      options.parts = Parts::kNever;
      CHECK(missing_parts(c.attention.plan(c.shape, options).explain(), {"queries pass 128 keys"}) == "");
      options.parts = Parts::kAlways;
      CHECK(missing_parts(c.attention.plan(c.shape, options).explain(), {"queries pass 128 keys"}) == "");
    });
    bool takes_long = false;
    for_each_target([&](const Target& target) { takes_long = takes_long || parts_take_long(target); });
    for (const Parts parts : {Parts::kNever, Parts::kAlways}) {
      if (parts == Parts::kAlways && takes_long) continue;
      CaseSpec by = spec;
      by.parts = parts;
      check_truth(LayerCase(by));
    }
  };
  CaseSpec spec{.layer = Layer::kDot,
                .batch = 1,
                .num_queries = 200,
                .num_keys = 224,
                .size = 160,
                .value_size = 150,
                .seed = 72};
  for (const Lens lens : kAllLens) {
    for (const Causal causal : {Causal::kNone, Causal::kBottomRight}) {
      spec.lens = lens;
      spec.causal = causal;
      check(spec);
    }
  }
  // And those of all heads that share keys, padded ones left out.
  spec.layer = Layer::kDotHeads;
  spec.batch = 2;
  spec.num_heads = 4;
  spec.num_kv_heads = 2;
  spec.lens = Lens::kPerBatch;
  check(spec);
  spec.causal = Causal::kNone;
  spec.num_queries = spec.num_keys;
  spec.padding = Padding::kSkipQueries;
  check(spec);
}

TEST_CASE("contract 8: weights of the fused path are those of the materialised one, and pool the values") {
  LayerCase c(
      {.layer = Layer::kDotHeads, .num_queries = 60, .num_keys = 300, .size = 32, .value_size = 32, .seed = 73});
  const reference::Result truth = c.truth();
  for_each_target([&](const Target& target) {
    PlanOptions options{.target = target, .attention_weights = true};
    for (const char* path : {"dot/fused", "dot/materialised"}) {
      options.path = path;
      const RunResult result = run_plan(c.attention.plan(c.shape, options), c.inputs(), true);
      check_within(result.output, result.attention_weights, truth, c.bound(truth));
      // Rows sum to 1, or to 0 without a key.
      for (std::size_t row = 0; row < result.attention_weights.size(); row += 300) {
        double sum = 0;
        for (std::size_t j = 0; j < 300; ++j) sum += static_cast<double>(result.attention_weights[row + j]);
        CHECK((sum == 0 || std::abs(sum - 1) < 1e-6));
      }
    }
  });
}

TEST_CASE("plan: few queries are read in place, many in tiles; rows of scores too long for L2 are scored twice") {
  const DotAttention layer;
  for_each_target([&](const Target& target) {
    const auto path = [&](std::int64_t queries, std::int64_t keys, bool weights) {
      return std::string(layer
                             .plan({.num_queries = queries, .num_keys = keys, .query_size = 64},
                                   {.target = target, .attention_weights = weights})
                             .path());
    };
    CHECK(path(1, 4096, false) == "dot/decode");
    CHECK(path(512, 512, false) == "dot/fused");
    CHECK(path(1, 4096, true) == "dot/decode");
    CHECK(path(512, 512, true) == "dot/materialised");
    CHECK(path(512, 40000, true) == "dot/fused");
    if (target.name() == "SCALAR") return;  // 16 queries are too many for lanes of one
    CHECK(path(16, 4096, false) == "dot/lanes");
    CHECK(path(16, 4096, true) == "dot/lanes");
  });
}

TEST_CASE("plan: tiles take over beyond so many vectors of queries, whether values fill panels or not") {
  const DotAttention layer;
  for_each_target([&](const Target& target) {
    const auto path = [&](std::int64_t queries, std::int64_t keys, std::int64_t size) {
      const Shape shape{.num_queries = queries, .num_keys = keys, .query_size = size, .num_heads = 8};
      return std::string(layer.plan(shape, {.target = target, .pairs = Pairs::kNever, .parts = Parts::kNever}).path());
    };
    const auto lanes = static_cast<std::int64_t>(kernels::query_lanes_kernels(target.id()).lanes);
    const bool wide = lanes >= 16, single = lanes == 1;
    const std::int64_t most = (lanes == 4 ? 12 : 8) * lanes;
    for (const std::int64_t size : {32, 64, 80}) {
      CHECK(path(most, 2048, size) == "dot/lanes");
      CHECK(path(std::max<std::int64_t>(most + 1, 11), 2048, size) == "dot/fused");
    }
    // Against few keys any number of vectors, full or not.
    const std::int64_t few_keys = lanes == 8 ? 64 : 32;
    if (!single) CHECK(path(lanes + 1, few_keys, 64) == "dot/lanes");
    for (const std::int64_t queries : {16 * lanes - 1, 16 * lanes, 16 * lanes + 1, 1000 * lanes}) {
      CHECK(path(queries, few_keys, 64) == (single ? "dot/fused" : "dot/lanes"));
    }
    const Plan in_groups =
        layer.plan({.num_queries = 5000, .num_keys = few_keys, .query_size = 64}, {.target = target});
    CHECK((in_groups.explain().find("the lanes group by group, and so few keys") == std::string::npos) == single);
    if (!(wide && this_cpu().is_zen5())) CHECK(path(16 * lanes, few_keys + 1, 64) == "dot/fused");
    // Beyond 12 MiB, or 6 of wide vectors, keys and values are read in the order of memory for 8 rows, and by wide
    // vectors that are not full.
    const std::int64_t far_keys = wide ? 1536 : 3072;
    CHECK(path(8, far_keys, 64) == "dot/lanes");
    CHECK(path(8, far_keys + 1, 64) == "dot/decode");
    CHECK(path(9, far_keys + 1, 64) == (single ? "dot/fused" : "dot/lanes"));
    CHECK(path(lanes + 1, far_keys, 64) == (wide ? "dot/fused" : single ? "dot/decode" : "dot/lanes"));
    if (wide) CHECK(path(lanes + 1, far_keys + 1, 64) == "dot/lanes");
    // Keys and values in L2: as many vectors, but wide ones must be full unless packing pads values.
    const auto panel = wide ? static_cast<std::int64_t>(kernels::pack_kernels(target.id()).panel_width) : 64;
    CHECK(path(2 * lanes, 64, panel) == (single ? "dot/decode" : "dot/lanes"));
    CHECK(path(most, 64, panel) == (single ? "dot/fused" : "dot/lanes"));
    CHECK(path(2 * lanes + 1, 128, panel) == (single ? "dot/decode" : wide ? "dot/fused" : "dot/lanes"));
    CHECK(path(2 * lanes + 1, 64, panel / 2) == (single ? "dot/decode" : "dot/lanes"));
    if (lanes == 8) {
      CHECK(path(2, 64, 32) == "dot/decode");
      CHECK(path(3, 64, 32) == "dot/lanes");
      CHECK(path(3, 64, 64) == "dot/decode");
      CHECK(path(4, 64, 64) == "dot/lanes");
    }
    if (lanes == 4) {
      CHECK(path(3, 64, 64) == "dot/decode");
      CHECK(path(4, 64, 64) == "dot/lanes");
      CHECK(path(7, 64, 128) == "dot/decode");
      CHECK(path(8, 64, 128) == "dot/lanes");
      // Few keys are no reason for as many vectors where a mask leaves lanes overwork.
      CHECK(path(32, 32, 64) == "dot/lanes");
      const Shape square{.num_queries = 32, .num_keys = 32, .query_size = 64, .num_heads = 8};
      CHECK(layer.plan(square, {.target = target, .causal = Causal::kTopLeft}).path() == "dot/fused");
    }
  });
}

TEST_CASE("plan: on Zen 5, wide lanes go further against few terms, are rarely too empty and follow decoding sooner") {
  const DotAttention layer;
  for_each_target([&](const Target& target) {
    if (!this_cpu().is_zen5() || kernels::query_lanes_kernels(target.id()).lanes < 16) return;
    const auto path = [&](std::int64_t queries, std::int64_t keys, std::int64_t size, Causal causal = Causal::kNone) {
      const Shape shape{.num_queries = queries, .num_keys = keys, .query_size = size, .num_heads = 8};
      return std::string(layer.plan(shape, {.target = target, .causal = causal, .pairs = Pairs::kNever}).path());
    };
    for (const std::int64_t queries : {256, 257, 5000}) {
      CHECK(path(queries, 100, 64) == "dot/lanes");
      CHECK(path(queries, 101, 64) == "dot/fused");
    }
    CHECK(path(512, 100, 128) == "dot/lanes");
    CHECK(path(512, 80, 160) == "dot/lanes");
    CHECK(path(512, 81, 160) == "dot/fused");
    CHECK(path(512, 101, 96) == "dot/fused");
    CHECK(path(192, 200, 64) == "dot/lanes");
    CHECK(path(192, 201, 64) == "dot/fused");
    CHECK(path(193, 101, 64) == "dot/fused");
    CHECK(path(256, 96, 64, Causal::kTopLeft) == "dot/fused");
    CHECK(path(17, 256, 64) == "dot/fused");
    CHECK(path(17, 50, 64) == "dot/lanes");
    CHECK(path(17, 51, 64) == "dot/fused");
    CHECK(path(33, 100, 64) == "dot/lanes");
    CHECK(path(33, 101, 64) == "dot/fused");
    CHECK(path(18, 256, 64) == "dot/lanes");
    CHECK(path(65, 256, 64) == "dot/fused");
    CHECK(path(66, 256, 64) == "dot/lanes");
    CHECK(path(9, 640, 128) == "dot/decode");
    CHECK(path(10, 640, 128) == "dot/lanes");
    CHECK(path(9, 256, 256) == "dot/decode");
    CHECK(path(10, 256, 256) == "dot/lanes");
    CHECK(path(7, 640, 80) == "dot/lanes");
  });
}

TEST_CASE("plan: tiles that go by bfloat16 parts take over from wide lanes, where the CPU has tiles") {
  const DotAttention layer;
  for_each_target([&](const Target& target) {
    const auto path = [&](std::int64_t queries, std::int64_t keys, std::int64_t size, bool weights = false) {
      const Shape shape{.num_queries = queries, .num_keys = keys, .query_size = size, .num_heads = 4};
      return std::string(
          layer.plan(shape, {.target = target, .attention_weights = weights, .pairs = Pairs::kNever}).path());
    };
    if (!kernels::kernel_set(target.id()).tile_parts.has_tiles) return;
    CHECK(path(64, 128, 64) == "dot/fused");
    CHECK(path(64, 127, 64) == "dot/lanes");
    CHECK(path(63, 256, 64) == "dot/lanes");
    CHECK(path(64, 512, 64) == "dot/fused");
    CHECK(path(64, 513, 64) == "dot/lanes");  // lanes gain by few rows of many terms
    CHECK(path(96, 513, 64) == "dot/fused");
    CHECK(path(96, 63, 128) == "dot/lanes");
    CHECK(path(32, 256, 64, true) == "dot/lanes");  // weights, as without parts
  });
}

TEST_CASE("plan: tiles that score by pairs of terms take over from wide lanes earlier") {
  const DotAttention layer;
  for_each_target([&](const Target& target) {
    const auto path = [&](std::int64_t queries, std::int64_t keys, std::int64_t size, Pairs pairs) {
      const Shape shape{.num_queries = queries, .num_keys = keys, .query_size = size, .num_heads = 4};
      return std::string(layer.plan(shape, {.target = target, .pairs = pairs, .parts = Parts::kNever}).path());
    };
    if (kernels::query_lanes_kernels(target.id()).lanes < 16) return;
    CHECK(path(64, 256, 64, Pairs::kNever) == "dot/lanes");
    CHECK(path(64, 256, 64, Pairs::kAlways) == "dot/fused");
    CHECK(path(49, 128, 64, Pairs::kAlways) == "dot/fused");
    CHECK(path(48, 512, 64, Pairs::kAlways) == "dot/lanes");
    CHECK(path(64, 64, 128, Pairs::kAlways) == "dot/fused");
    CHECK(path(64, 127, 64, Pairs::kAlways) == "dot/lanes");
    CHECK(path(64, 349, 47, Pairs::kAlways) == "dot/fused");
    CHECK(path(64, 348, 47, Pairs::kAlways) == "dot/lanes");
    // Keys and values from memory, beyond 6 MiB, want more rows.
    CHECK(path(64, 3072, 64, Pairs::kAlways) == "dot/fused");
    CHECK(path(64, 3073, 64, Pairs::kAlways) == "dot/lanes");
    CHECK(path(95, 8192, 64, Pairs::kAlways) == "dot/lanes");
    CHECK(path(96, 8192, 64, Pairs::kAlways) == "dot/fused");
    const bool has_such_units = this_cpu().adds_beside_products();
    const bool needs_few_rows = has_such_units && !this_cpu().is_zen5();
    CHECK(path(64, 256, 64, Pairs::kWhereFaster) == (needs_few_rows ? "dot/fused" : "dot/lanes"));
    CHECK(path(127, 256, 64, Pairs::kWhereFaster) == (needs_few_rows ? "dot/fused" : "dot/lanes"));
    CHECK(path(128, 255, 64, Pairs::kWhereFaster) == (needs_few_rows ? "dot/fused" : "dot/lanes"));
    CHECK(path(128, 256, 64, Pairs::kWhereFaster) == (has_such_units ? "dot/fused" : "dot/lanes"));
  });
}

TEST_CASE("plan: where weights are wanted, tiles take over from lanes by rows and scores of a head") {
  const DotAttention layer;
  for_each_target([&](const Target& target) {
    const auto path = [&](std::int64_t queries, std::int64_t keys, Pairs pairs = Pairs::kAlways) {
      const Shape shape{.num_queries = queries, .num_keys = keys, .query_size = 64, .num_heads = 8};
      const PlanOptions options{.target = target, .attention_weights = true, .pairs = pairs, .parts = Parts::kNever};
      return std::string(layer.plan(shape, options).path());
    };
    const auto lanes = static_cast<std::int64_t>(kernels::query_lanes_kernels(target.id()).lanes);
    if (lanes == 16) {
      CHECK(path(32, 1024) == "dot/lanes");
      CHECK(path(48, 170) == "dot/lanes");
      CHECK(path(48, 171) == "dot/materialised");
      CHECK(path(128, 64) == "dot/lanes");
      CHECK(path(128, 65) == "dot/materialised");
      CHECK(path(256, 32) == "dot/lanes");
      const char* beyond = this_cpu().is_zen5() ? "dot/lanes" : "dot/materialised";
      CHECK(path(80, 256, Pairs::kWhereFaster) == beyond);
      CHECK(path(80, 257, Pairs::kWhereFaster) == "dot/materialised");
    }
    if (lanes == 8) {
      CHECK(path(64, 512) == "dot/lanes");
      CHECK(path(65, 512) == "dot/materialised");
      CHECK(path(128, 32) == "dot/lanes");
    }
    if (lanes == 4) {
      CHECK(path(48, 512) == "dot/lanes");
      CHECK(path(49, 512) == "dot/materialised");
    }
  });
}

}  // namespace attend::tests
