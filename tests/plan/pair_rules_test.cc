// Which scores and pooling of tiles go by pairs of terms, by whose CPU it is and how large a problem.
#include "engine/plan/pair_rules.h"

#include <cstdint>
#include <memory>

#include <doctest/doctest.h>

#include "attend/attend.h"
#include "engine/kernels/kernel_set.h"
#include "engine/matmul/linear.h"
#include "tests/support/for_each_target.h"
#include "tests/support/random.h"

namespace attend::tests {
namespace {

constexpr Cpu kAddsBeside{.is_amd = true, .has_avx512 = true};
constexpr Cpu kZen5{.is_amd = true, .has_avx512 = true, .l1_bytes = 48u << 10};
constexpr Cpu kOther{.is_amd = true};

struct Problem {
  std::int64_t queries = 64, keys = 512, size = 64, values = 64, num_heads = 1, num_kv_heads = 1;
  Pairs pairs = Pairs::kWhereFaster;
  detail::Score score = detail::Score::kDot;
  detail::Pooling pooling = detail::Pooling::kFused;
  std::size_t tile_keys = 128, chunk_keys = 0;
};

detail::PlanImpl plan_of(const Target& target, const Problem& problem) {
  const auto layer = std::make_shared<detail::LayerImpl>();
  layer->score = problem.score;
  detail::PlanImpl plan;
  plan.layer = layer;
  plan.kernels = &kernels::kernel_set(target.id());
  plan.shape = {.num_queries = problem.queries, .num_keys = problem.keys};
  plan.num_heads = problem.num_heads;
  plan.num_kv_heads = problem.num_kv_heads;
  plan.score_size = problem.size;
  plan.head_value_size = problem.values;
  plan.options.pairs = problem.pairs;
  plan.pooling = problem.pooling;
  plan.tile_keys = problem.tile_keys;
  plan.chunk_keys = problem.chunk_keys;
  plan.span_keys = 512;
  return plan;
}

bool by_pairs(const Target& target, const Problem& problem, const Cpu& cpu = kAddsBeside) {
  return detail::tiles_score_by_pairs(plan_of(target, problem), cpu);
}
bool pools(const Target& target, const Problem& problem, const Cpu& cpu = kAddsBeside) {
  return detail::tiles_pool_by_pairs(plan_of(target, problem), cpu);
}

}  // namespace

TEST_CASE("pair rules: on CPUs that add beside multiplying, with the registers, from where they win") {
  for_each_target([](const Target& target) {
    const bool here = target.name().starts_with("AVX3");
    CHECK(by_pairs(target, {}) == here);
    CHECK(!by_pairs(target, {}, kOther));
    CHECK(!by_pairs(target, {.pairs = Pairs::kNever}));
    // Rows that share a key-value head.
    CHECK(by_pairs(target, {.queries = 48}) == here);
    CHECK(!by_pairs(target, {.queries = 47}));
    CHECK(by_pairs(target, {.queries = 12, .num_heads = 8, .num_kv_heads = 2}) == here);
    // Terms of a row's scores.
    CHECK(by_pairs(target, {.keys = 128}) == here);
    CHECK(!by_pairs(target, {.keys = 127}));
    CHECK(by_pairs(target, {.keys = 256, .size = 32}) == here);
    CHECK(!by_pairs(target, {.keys = 2048, .size = 31}));
    CHECK(by_pairs(target, {.keys = 64, .size = 128}) == here);
    CHECK(!by_pairs(target, {.size = 129}));
  });
}

TEST_CASE("pair rules: with 16 registers from more rows and terms on, not on Zen 5") {
  for_each_target([](const Target& target) {
    if (target.name() != "AVX2") return;
    CHECK(by_pairs(target, {.queries = 256, .keys = 512}));
    CHECK(!by_pairs(target, {.queries = 255, .keys = 512}));
    CHECK(!by_pairs(target, {.queries = 256, .keys = 511}));
    CHECK(by_pairs(target, {.queries = 32, .size = 128, .num_heads = 8}));
    CHECK(!by_pairs(target, {.queries = 512, .keys = 4096, .size = 63}));
    CHECK(!by_pairs(target, {.queries = 512, .keys = 4096}, kZen5));
    CHECK(!by_pairs(target, {.queries = 512, .keys = 4096}, kOther));
    CHECK(!pools(target, {.queries = 512, .keys = 4096, .values = 128}));
  });
}

TEST_CASE("pair rules: projections of few rows by far weights go plainly with 16 registers") {
  constexpr Cpu kCpu{.is_amd = true, .l2_bytes = 1u << 20, .l3_bytes = 32u << 20};  // 8 MiB are far
  const Tensor near = Random(3).normal({1024, 2047}), far = Random(4).normal({1024, 2048});
  const matmul::Linear near_map(near.view(), {}, "near", matmul::Implementation::kLinearRows),
      far_map(far.view(), {}, "far", matmul::Implementation::kLinearRows);
  for_each_target([&](const Target& target) {
    const auto may = [&](const matmul::Linear& map, double rows, Pairs pairs = Pairs::kWhereFaster) {
      return detail::map_may_go_by_pairs(plan_of(target, {.pairs = pairs}), map, rows, kCpu);
    };
    const bool has_32 = kernels::kernel_set(target.id()).few_rows.has_32_registers;
    CHECK(may(near_map, 1));
    CHECK(may(far_map, 17));
    CHECK(may(far_map, 16) == has_32);
    CHECK(may(far_map, 16, Pairs::kAlways));
    CHECK(!may(near_map, 100, Pairs::kNever));
  });
}

TEST_CASE("pair rules: on Zen 5 from more rows, larger heads and more terms on") {
  for_each_target([](const Target& target) {
    const bool here = target.name().starts_with("AVX3");
    CHECK(by_pairs(target, {.queries = 96}, kZen5) == here);
    CHECK(!by_pairs(target, {.queries = 95}, kZen5));
    CHECK(by_pairs(target, {.queries = 96, .keys = 192}, kZen5) == here);
    CHECK(!by_pairs(target, {.queries = 96, .keys = 191}, kZen5));
    CHECK(!by_pairs(target, {.queries = 512, .keys = 4096, .size = 47}, kZen5));
    CHECK(pools(target, {.queries = 160, .keys = 128}, kZen5) == here);
    CHECK(!pools(target, {.queries = 159, .keys = 255}, kZen5));
    CHECK(pools(target, {.queries = 128, .keys = 256}, kZen5) == here);
    CHECK(!pools(target, {.queries = 127, .keys = 1024}, kZen5));
    CHECK(!pools(target, {.queries = 512, .keys = 127}, kZen5));
    CHECK(pools(target, {.queries = 160, .keys = 64, .values = 128}, kZen5) == here);
    CHECK(!pools(target, {.queries = 512, .keys = 4096, .values = 63}, kZen5));
  });
}

TEST_CASE("pair rules: wherever they can be where they are asked for") {
  for_each_target([](const Target& target) {
    const auto panel = static_cast<std::int64_t>(kernels::kernel_set(target.id()).pack.panel_width);
    CHECK(by_pairs(target, {.queries = 1, .keys = panel, .size = 12, .pairs = Pairs::kAlways}, kOther));
    CHECK(!by_pairs(target, {.keys = panel - 1, .pairs = Pairs::kAlways}));
    CHECK(!by_pairs(target, {.size = 11, .pairs = Pairs::kAlways}));
    CHECK(by_pairs(target, {.size = 128, .pairs = Pairs::kAlways}, kOther));
    CHECK(!by_pairs(target, {.size = 129, .pairs = Pairs::kAlways}));
    CHECK(!by_pairs(target, {.pairs = Pairs::kAlways, .score = detail::Score::kGaussian}));
    CHECK(!by_pairs(target, {.pairs = Pairs::kAlways, .score = detail::Score::kAdditive}));
  });
}

TEST_CASE("pair rules: pooling on CPUs that add beside multiplying, with the registers, from where it wins") {
  for_each_target([](const Target& target) {
    const bool here = target.name().starts_with("AVX3");
    CHECK(kernels::kernel_set(target.id()).value_pairs.has_registers_for_pairs == here);
    CHECK(pools(target, {}) == here);
    CHECK(pools(target, {.score = detail::Score::kGaussian}) == here);
    CHECK(!pools(target, {}, kOther));
    CHECK(!pools(target, {.pairs = Pairs::kNever}));
    // Rows that share a key-value head, and terms of a column.
    CHECK(pools(target, {.queries = 48}) == here);
    CHECK(!pools(target, {.queries = 47}));
    CHECK(pools(target, {.queries = 12, .num_heads = 4}) == here);
    CHECK(pools(target, {.keys = 96}) == here);
    CHECK(!pools(target, {.keys = 95}));
    CHECK(pools(target, {.keys = 48, .values = 128}) == here);
    // Narrow values.
    CHECK(pools(target, {.queries = 128, .keys = 256, .values = 32}) == here);
    CHECK(!pools(target, {.queries = 127, .keys = 256, .values = 32}));
    CHECK(!pools(target, {.queries = 128, .keys = 255, .values = 32}));
    CHECK(!pools(target, {.queries = 512, .values = 31}));
    // Additive scores.
    const auto additive = [](std::int64_t queries, std::int64_t values) {
      return Problem{.queries = queries, .size = 128, .values = values, .score = detail::Score::kAdditive};
    };
    CHECK(pools(target, additive(128, 256)) == here);
    CHECK(!pools(target, additive(127, 256)));
    CHECK(!pools(target, additive(128, 255)));
  });
}

TEST_CASE("pair rules: pooling wherever blocks of values are blocks of tiles, where it is asked for") {
  for_each_target([](const Target& target) {
    const auto always = [&](Problem problem) {
      problem.pairs = Pairs::kAlways;
      return pools(target, problem, kOther);
    };
    CHECK(always({.queries = 1, .keys = 1, .values = 1}));
    CHECK(always({.score = detail::Score::kAdditive}));
    CHECK(always({.tile_keys = 256}));
    CHECK(always({.tile_keys = 512}));
    CHECK(!always({.tile_keys = 192}));
    CHECK(!always({.tile_keys = 64}));
    CHECK(always({.pooling = detail::Pooling::kMaterialised}));
    CHECK(!always({.pooling = detail::Pooling::kDecode}));
    CHECK(!always({.pooling = detail::Pooling::kLanes}));
    CHECK(!always({.chunk_keys = 1024}));
    CHECK(!always({.keys = 0}));
    CHECK(!always({.values = 0}));
  });
}

}  // namespace attend::tests
