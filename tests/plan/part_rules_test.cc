// Which tiles go by bfloat16 parts, by whether the CPU has tiles and how large a problem is.
#include "engine/plan/part_rules.h"

#include <cstdint>
#include <memory>

#include <doctest/doctest.h>

#include "attend/attend.h"
#include "engine/base/cpus.h"
#include "engine/kernels/kernel_set.h"
#include "tests/support/for_each_target.h"

namespace attend::tests {
namespace {

struct Problem {
  std::int64_t queries = 128, keys = 128, size = 64, values = 64, num_heads = 1, num_kv_heads = 1;
  Parts parts = Parts::kWhereFaster;
  Pairs pairs = Pairs::kWhereFaster;
  detail::Score score = detail::Score::kDot;
  detail::Pooling pooling = detail::Pooling::kFused;
};

bool by_parts(const Problem& problem, bool has_tiles = true) {
  const auto layer = std::make_shared<detail::LayerImpl>();
  layer->score = problem.score;
  detail::PlanImpl plan;
  plan.layer = layer;
  plan.shape = {.num_queries = problem.queries, .num_keys = problem.keys};
  plan.num_heads = problem.num_heads;
  plan.num_kv_heads = problem.num_kv_heads;
  plan.score_size = problem.size;
  plan.head_value_size = problem.values;
  plan.options.parts = problem.parts;
  plan.options.pairs = problem.pairs;
  plan.pooling = problem.pooling;
  return detail::tiles_go_by_parts(plan, has_tiles);
}

}  // namespace

TEST_CASE("part rules: where the CPU has tiles, from where they win") {
  CHECK(by_parts({}));
  CHECK(!by_parts({}, false));
  CHECK(!by_parts({.parts = Parts::kNever}));
  CHECK(!by_parts({.pairs = Pairs::kAlways}));
  CHECK(by_parts({.pairs = Pairs::kNever}));
  CHECK(by_parts({.score = detail::Score::kGaussian}));
  CHECK(!by_parts({.score = detail::Score::kAdditive}));
  CHECK(by_parts({.queries = 64, .keys = 128}));
  CHECK(!by_parts({.queries = 63, .keys = 512}));
  CHECK(!by_parts({.queries = 64, .keys = 127}));
  CHECK(by_parts({.queries = 128, .keys = 64}));
  CHECK(!by_parts({.queries = 1024, .keys = 63}));
  CHECK(by_parts({.queries = 128, .keys = 128, .size = 32}));
  CHECK(!by_parts({.queries = 1024, .size = 31}));
  CHECK(!by_parts({.values = 31}));
  // Heads that share keys pay together for taking these apart; but each has rows of its own.
  CHECK(by_parts({.queries = 24, .num_heads = 8, .num_kv_heads = 1}));
  CHECK(!by_parts({.queries = 24, .num_heads = 8, .num_kv_heads = 8}));
  CHECK(!by_parts({.queries = 23, .keys = 512, .num_heads = 8, .num_kv_heads = 1}));
  // Whole rows of scores.
  CHECK(!by_parts({.pooling = detail::Pooling::kMaterialised}));
  CHECK(by_parts({.queries = 256, .pooling = detail::Pooling::kMaterialised}));
  CHECK(by_parts({.keys = 2048, .pooling = detail::Pooling::kMaterialised}));
  CHECK(!by_parts({.keys = 2049, .pooling = detail::Pooling::kMaterialised}));
  // Sizes whose product no integer holds.
  CHECK(by_parts({.queries = std::int64_t{1} << 62, .num_heads = 8, .num_kv_heads = 1}));
}

TEST_CASE("part rules: always is wherever queries, keys and values have some size") {
  for (const bool has_tiles : {false, true}) {
    CHECK(by_parts({.queries = 1, .keys = 1, .size = 1, .values = 1, .parts = Parts::kAlways}, has_tiles));
    CHECK(!by_parts({.keys = 0, .parts = Parts::kAlways}, has_tiles));
    CHECK(!by_parts({.size = 0, .parts = Parts::kAlways}, has_tiles));
    CHECK(!by_parts({.values = 0, .parts = Parts::kAlways}, has_tiles));
    CHECK(!by_parts({.parts = Parts::kAlways, .score = detail::Score::kAdditive}, has_tiles));
  }
}

TEST_CASE("part rules: kernels say that they have tiles where the CPU has them and vectors are as long") {
  for_each_target([](const Target& target) {
    const bool has_tiles = this_cpu().has_tiles && target.name().starts_with("AVX3");
    CHECK(kernels::kernel_set(target.id()).tile_parts.has_tiles == has_tiles);
  });
}

}  // namespace attend::tests
