// Shapes that no machine has memory for: refused by the name of the size, and nothing wraps on the way.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "attend/attend.h"
#include "tests/support/compare.h"
#include "tests/support/for_each_target.h"
#include "tests/support/layer_cases.h"

namespace attend::tests {
namespace {

constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();

std::string plan_fault(const Attention& layer, const Shape& shape, const PlanOptions& options = {}) {
  return error_message([&] { layer.plan(shape, options); });
}

// The sizes that a caller may choose; key_size follows query_size.
constexpr std::int64_t Shape::*kSizes[] = {&Shape::batch,       &Shape::num_queries, &Shape::num_keys,
                                           &Shape::query_size,  &Shape::value_size,  &Shape::num_heads,
                                           &Shape::num_kv_heads};

std::vector<std::string> paths_of(Layer layer) {
  if (layer == Layer::kAdditive || layer == Layer::kMultiHeadAdditive) {
    return {"additive/factored", "additive/factored-materialised", "additive/rational",
            "additive/rational-materialised"};
  }
  return {"dot/decode", "dot/lanes", "dot/fused", "dot/materialised"};
}

}  // namespace

TEST_CASE("contract 10: a size that fits in no memory is named, with the most that would") {
  const DotAttention dot;
  constexpr std::int64_t kHuge = (std::int64_t{1} << 62) - 128;  // whose bytes and those of 64 values wrap to 0
  const Shape shape{.num_queries = 100, .num_keys = 10000, .query_size = kHuge, .value_size = 64};
  for (const char* path : {"", "dot/fused", "dot/materialised"}) {
    CHECK(missing_parts(plan_fault(dot, shape, {.path = path}),
                        {"query_size is 4611686018427387776, expected at most 281474976710656"}) == "");
  }
  const struct {
    Shape shape;
    std::vector<std::string> parts;
  } kFaults[] = {
      {{.batch = std::int64_t{1} << 62, .query_size = 8}, {"batch is 4611686018427387904, expected at most 35184372"}},
      {{.num_queries = kHuge, .query_size = 8}, {"num_queries is 4611686018427387776, expected at most 35184372"}},
      {{.query_size = 8, .value_size = kHuge}, {"value_size is 4611686018427387776, expected at most"}},
      {{.query_size = 8, .num_heads = kHuge}, {"num_heads is 4611686018427387776, expected at most"}},
      {{.num_keys = 1 << 30, .query_size = 1 << 20}, {"num_keys is 1073741824, expected at most 268435456", "keys"}},
      {{.num_queries = 1 << 30, .query_size = 1, .value_size = 1 << 20},
       {"num_queries is 1073741824, expected at most 268435456", "output"}},
  };
  for (const auto& fault : kFaults) CHECK(missing_parts(plan_fault(dot, fault.shape), fault.parts) == "");
  // With more heads of their own.
  const LayerCase multi_head({.layer = Layer::kMultiHead});
  Shape many = multi_head.shape;
  many.num_queries = std::int64_t{1} << 46;
  CHECK(missing_parts(plan_fault(multi_head.attention, many), {"num_queries is 70368744177664, expected at most"}) ==
        "");
  // Large, and yet a plan.
  CHECK(plan_fault(dot, {.num_queries = 1 << 20, .num_keys = 1 << 20, .query_size = 128, .num_heads = 64}) == "");
}

TEST_CASE("contract 10: any shape is refused or planned, whatever the path, and a plan knows its cost") {
  constexpr std::int64_t kExtremes[] = {1,
                                        std::numeric_limits<std::int32_t>::max(),
                                        std::int64_t{1} << 44,
                                        std::int64_t{1} << 48,
                                        (std::int64_t{1} << 62) - 128,
                                        kMax};
  const Machine machine{.flops = 1e11, .projection_flops = 1e11};
  int planned = 0, refused = 0;
  const auto check = [&](const LayerCase& c, const Shape& shape, const PlanOptions& options) {
    INFO(layer_name(c.spec.layer), ", path ", options.path, ", B ", shape.batch, ", M ", shape.num_queries, ", N ",
         shape.num_keys, ", Dq ", shape.query_size, ", Dv ", shape.value_size, ", H ", shape.num_heads, ", Hkv ",
         shape.num_kv_heads);
    std::optional<Plan> plan;
    const std::string message = error_message([&] { plan = c.attention.plan(shape, options); });
    ++(plan ? planned : refused);
    CHECK(plan.has_value() == (message == ""));
    if (!plan) return;
    CHECK(plan->explain().find(plan->path()) != std::string::npos);
    CHECK(std::isfinite(plan->cost(machine).seconds));
  };
  for_each_target([&](const Target& target) {
    for (const Layer layer : kAllLayers) {
      const LayerCase c({.layer = layer});
      for (const std::string& path : paths_of(layer)) {
        const bool few = path == "dot/decode" || path == "dot/lanes";
        const PlanOptions options{.threads = path.ends_with("materialised") ? 1 : 5, .target = target, .path = path};
        for (std::size_t pair = 0; pair < std::size(kSizes) * std::size(kSizes); ++pair) {
          const std::size_t first = pair / std::size(kSizes), second = pair % std::size(kSizes);
          if (first > second) continue;
          for (const std::int64_t large : kExtremes) {
            for (const std::int64_t other : kExtremes) {
              Shape shape = c.shape;
              shape.num_queries = few ? 3 : 100;
              if (c.without_parameters()) shape.key_size = 0;
              shape.*kSizes[first] = large;
              shape.*kSizes[second] = other;
              check(c, shape, options);
            }
          }
        }
      }
    }
  });
  CHECK(planned > 1000);
  CHECK(refused > 1000);
}

}  // namespace attend::tests
