// From layer and shape to facts: every size filled in and checked, the maps that take part, the scale.
#include "engine/plan/facts.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <limits>

#include "engine/base/checked.h"
#include "engine/base/message.h"

namespace attend::detail {
namespace {

// Floats of a tensor: a pebibyte of them is more than any machine has, and far enough below 2^63 for the rest of
// planning to multiply sizes by bytes, panels and tiles as it likes.
constexpr std::int64_t kMaxFloats = std::int64_t{1} << 48;

void check_at_least(std::int64_t value, std::int64_t least, const char* name) {
  if (value < least) fail(name, " is ", value, ", expected at least ", least);
}

// A row size: from the parameters where they fix it, else from the shape.
std::int64_t resolve_size(std::int64_t from_shape, std::int64_t from_layer, const char* name, const char* layer) {
  check_at_least(from_shape, 0, name);
  if (from_layer != 0 && from_shape != 0 && from_shape != from_layer) {
    fail(name, " is ", from_shape, ", the parameters of the ", layer, " layer expect ", from_layer);
  }
  return from_shape != 0 ? from_shape : from_layer;
}

void resolve_shape(PlanImpl& plan) {
  const LayerImpl& layer = *plan.layer;
  Shape& shape = plan.shape;
  check_at_least(shape.batch, 0, "batch");
  check_at_least(shape.num_queries, 0, "num_queries");
  check_at_least(shape.num_keys, 0, "num_keys");
  if (shape.num_keys > std::numeric_limits<std::int32_t>::max()) {
    fail("num_keys is ", shape.num_keys, ", expected at most ", std::numeric_limits<std::int32_t>::max(),
         ", the largest valid length");
  }
  check_at_least(shape.num_heads, 1, "num_heads");
  if (shape.num_kv_heads < 0 || (shape.num_kv_heads > 0 && shape.num_heads % shape.num_kv_heads != 0)) {
    fail("num_kv_heads is ", shape.num_kv_heads, ", expected a divisor of num_heads, ", shape.num_heads);
  }
  if (shape.num_kv_heads == 0) shape.num_kv_heads = shape.num_heads;
  shape.query_size = resolve_size(shape.query_size, layer.query_size, "query_size", layer.name);
  shape.key_size = resolve_size(shape.key_size, layer.key_size, "key_size", layer.name);
  if (layer.score != Score::kAdditive && !layer.is_multi_head && !layer.either_side) {
    // No parameters: queries meet keys as they are.
    if (shape.query_size == 0) shape.query_size = shape.key_size;
    if (shape.key_size == 0) shape.key_size = shape.query_size;
    if (shape.query_size != shape.key_size) {
      fail("queries have size ", shape.query_size, ", keys have ", shape.key_size, ": ", layer.name,
           " attention needs equal sizes; use additive or bilinear attention, whose parameters map one to the other");
    }
    if (shape.query_size == 0)
      fail("query_size is 0, expected at least 1: ", layer.name, " attention has no parameters to take it from");
  }
  shape.value_size = resolve_size(shape.value_size, layer.value_size, "value_size", layer.name);
  if (shape.value_size == 0) shape.value_size = shape.key_size;
  if (shape.num_heads > 1 && (layer.is_multi_head || layer.score == Score::kAdditive || layer.either_side)) {
    fail("num_heads is ", shape.num_heads, " in the shape, expected 1: ", layer.name,
         layer.is_multi_head ? " attention knows its own heads" : " attention has no heads; use multi-head attention");
  }
}

struct NamedSize {
  const char* name;
  std::int64_t size;
};

// Whether a tensor of such sizes is one that a machine may have. Where there are none of something, one is counted.
void check_fits(const char* what, std::initializer_list<NamedSize> sizes) {
  std::int64_t floats = 1;
  for (const NamedSize& each : sizes) {
    const std::int64_t most = kMaxFloats / floats;
    if (each.size > most) {
      fail(each.name, " is ", each.size, ", expected at most ", most, ": ", what, " would not fit in memory");
    }
    floats *= std::max<std::int64_t>(each.size, 1);
  }
}

// What a run reads and writes, and what lies between. Not the keys of the whole batch: entries may share them.
void check_tensors_fit(const PlanImpl& plan) {
  const Shape& shape = plan.shape;
  const NamedSize batch{"batch", shape.batch}, queries{"num_queries", shape.num_queries},
      keys{"num_keys", shape.num_keys}, heads{"num_heads", shape.num_heads},
      kv_heads{"num_kv_heads", shape.num_kv_heads};
  check_fits("queries", {{"query_size", shape.query_size}, heads, queries, batch});
  check_fits("keys", {{"key_size", shape.key_size}, kv_heads, keys});
  check_fits("values", {{"value_size", shape.value_size}, kv_heads, keys});
  // Per head, of which a multi-head layer has its own.
  const NamedSize pooled_heads{"num_heads", plan.num_heads}, seen_heads{"num_kv_heads", plan.num_kv_heads};
  const NamedSize score{"the size of a head", plan.score_size}, value{"the size of a head", plan.head_value_size};
  check_fits("queries", {score, pooled_heads, queries, batch});
  check_fits("keys", {score, seen_heads, keys});
  check_fits("values", {value, seen_heads, keys});
  check_fits("output", {value, pooled_heads, queries, batch});
  check_fits("output", {{"output_size", plan.context_size}, queries, batch});
}

// Bilinear: q^T W k is (W^T q) . k or q . (W k). Project whichever side makes projection and scores cheaper together.
void choose_bilinear_side(PlanImpl& plan) {
  const auto m = static_cast<double>(plan.shape.num_queries), n = static_cast<double>(plan.shape.num_keys);
  const auto dq = static_cast<double>(plan.shape.query_size), dk = static_cast<double>(plan.shape.key_size);
  const double query_side = m * dq * dk + m * n * dk, key_side = n * dq * dk + m * n * dq;
  const bool project_queries = query_side <= key_side;
  plan.query_map = project_queries ? plan.layer->query.get() : nullptr;
  plan.key_map = project_queries ? nullptr : plan.layer->key.get();
  plan.score_size = project_queries ? plan.shape.key_size : plan.shape.query_size;
  std::ostringstream why;
  why.imbue(std::locale::classic());
  why << "W is applied to the " << (project_queries ? "queries" : "keys") << ": "
      << (project_queries ? query_side : key_side) * 2e-6 << " MFLOP per batch entry with the scores, against "
      << (project_queries ? key_side : query_side) * 2e-6 << " on the other side";
  plan.reasons.push_back({"bilinear", why.str()});
}

void check_options(const PlanOptions& options) {
  if (options.threads < 1) fail("threads is ", options.threads, ", expected at least 1");
  check_is_one_of("valid_lens", options.valid_lens, ValidLens::kAny, ValidLens::kPerQuery,
                  "ValidLens::kAny, kNone, kPerBatch or kPerQuery");
  check_is_one_of("causal", options.causal, Causal::kNone, Causal::kTopLeft, "Causal::kNone, kBottomRight or kTopLeft");
  check_is_one_of("padding", options.padding, Padding::kCompute, Padding::kSkipQueries,
                  "Padding::kCompute or kSkipQueries");
  check_is_one_of("pairs", options.pairs, Pairs::kWhereFaster, Pairs::kAlways,
                  "Pairs::kWhereFaster, kNever or kAlways");
  check_is_one_of("parts", options.parts, Parts::kWhereFaster, Parts::kAlways,
                  "Parts::kWhereFaster, kNever or kAlways");
  check_is_one_of("score_tier", options.score_tier, ScoreTier::kByRange, ScoreTier::kRational,
                  "ScoreTier::kByRange, kEight, kFour, kThree, kTwo, kOne or kRational");
}

}  // namespace

void establish_facts(PlanImpl& plan) {
  const LayerImpl& layer = *plan.layer;
  check_options(plan.options);
  resolve_shape(plan);
  plan.num_heads = layer.is_multi_head ? layer.num_heads : plan.shape.num_heads;
  plan.num_kv_heads = !layer.is_multi_head     ? plan.shape.num_kv_heads
                      : layer.num_kv_heads > 0 ? layer.num_kv_heads
                                               : layer.num_heads;
  plan.head_value_size = layer.head_value_size != 0 ? layer.head_value_size : plan.shape.value_size;
  plan.context_size = layer.output_size != 0 ? layer.output_size : plan.head_value_size;
  plan.score_size = layer.score_size != 0 ? layer.score_size : plan.shape.query_size;
  plan.query_map = layer.query.get();
  plan.key_map = layer.key.get();
  plan.value_map = layer.value.get();
  plan.output_map = layer.output.get();
  plan.reasons.push_back({"layer", std::string(layer.name) + ": " + layer.parameters});
  if (layer.either_side) choose_bilinear_side(plan);
  check_tensors_fit(plan);
  plan.output_size = plan.context_size + (plan.options.concat_queries ? plan.shape.query_size : 0);
  switch (layer.score) {
    case Score::kDot:
      plan.scale = layer.scale.value_or(static_cast<float>(1.0 / std::sqrt(static_cast<double>(plan.score_size))));
      break;
    case Score::kGaussian:
      plan.scale = static_cast<float>(1.0 / (static_cast<double>(layer.sigma) * static_cast<double>(layer.sigma)));
      break;
    case Score::kAdditive:
      break;
  }
}

}  // namespace attend::detail
