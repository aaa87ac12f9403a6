// The written rules: facts in, choices and their reasons out.
#include "engine/plan/rules.h"

#include <algorithm>
#include <string>
#include <vector>

#include "engine/base/carver.h"
#include "engine/base/checked.h"
#include "engine/base/message.h"
#include "engine/kernels/tile_product.h"

namespace attend::detail {
namespace {

// Query rows of a tile: eight steps of the 6-row register kernel. 48 rows of a 512-key score tile are 96 KiB, which
// with the keys and values passing by stays within a 1 MiB share of L2. bench: dot/*.
constexpr std::size_t kDotTileQueries = 48;
// The additive score is bound by its arithmetic from a few rows on; 16 keep the score tile at 32 KiB. bench:
// additive/*.
constexpr std::size_t kAdditiveTileQueries = 16;
// Keys of a tile: four inner blocks of the tile product. Longer tiles rescale less often but fall out of L1 and L2.
constexpr std::size_t kTileKeys = 4 * kernels::kInnerBlock;
// Bytes of materialised scores a worker may hold at a time: a quarter of a 1 MiB share of L2.
constexpr std::size_t kMaterialisedBytes = 256 * 1024;
// The register kernel's rows; row tiles are multiples of it.
constexpr std::size_t kRowStep = 6;
// Queries from which the factored additive score pays: one query alone takes longer, for the keys' exponentials, than
// its scores by the rational tanh (0.37 against 0.30 ns per key and hidden unit, AVX3). bench:
// additive_score/m1_n100_u256 beside additive_rational/*.
constexpr std::int64_t kFactoredQueries = 2;
// Work items per thread: enough that uneven lengths even out.
constexpr std::size_t kItemsPerThread = 4;

std::size_t to_size(std::int64_t n) { return static_cast<std::size_t>(n); }

struct Candidate {
  std::string path;
  Pooling pooling;
  bool factored;
};

// The paths that fit, the one the rules would take first. attention_weights need whole rows at once.
std::vector<Candidate> candidates(const PlanImpl& plan) {
  std::vector<Candidate> all;
  if (plan.layer->score == Score::kAdditive) {
    // A query's exponentials cost as much as one key's scores by the rational tanh, and a key's as much as one query's.
    const bool factored_first = plan.shape.num_queries >= kFactoredQueries;
    for (const bool factored : {factored_first, !factored_first}) {
      const std::string path = factored ? "additive/factored" : "additive/rational";
      if (!plan.options.attention_weights) all.push_back({path, Pooling::kFused, factored});
      all.push_back({path + "-materialised", Pooling::kMaterialised, factored});
    }
  } else {
    if (!plan.options.attention_weights) all.push_back({"dot/fused", Pooling::kFused, false});
    all.push_back({"dot/materialised", Pooling::kMaterialised, false});
  }
  return all;
}

std::string why_first(const PlanImpl& plan, const Candidate& first) {
  std::string why = first.pooling == Pooling::kMaterialised
                        ? "attention_weights are asked for, so each row's weights exist anyway and pool the values "
                          "from where they lie"
                        : "attention_weights are not asked for, so scores live one tile at a time (online softmax)";
  if (plan.layer->score != Score::kAdditive) return why;
  why += first.factored ? "; tanh from exponentials taken once per query and key, four terms per division"
                        : "; tanh of each sum, since fewer than " + std::to_string(kFactoredQueries) +
                              " queries do not pay for the keys' exponentials";
  return why;
}

void choose_path(PlanImpl& plan) {
  const std::vector<Candidate> fit = candidates(plan);
  std::string names;
  for (const Candidate& candidate : fit) names += (names.empty() ? "" : ", ") + candidate.path;
  const std::string& forced = plan.options.path;
  const Candidate* chosen = &fit.front();
  if (!forced.empty()) {
    const auto place = std::find_if(fit.begin(), fit.end(), [&](const Candidate& c) { return c.path == forced; });
    if (place == fit.end()) {
      fail("path is \"", forced, "\", expected one ",
           plan.options.attention_weights ? "that returns attention_weights: " : "of: ", names);
    }
    chosen = &*place;
  }
  plan.path = chosen->path;
  plan.pooling = chosen->pooling;
  plan.factored = chosen->factored;
  const std::string why = forced.empty() ? why_first(plan, *chosen) : "asked for";
  plan.reasons.push_back({"path", plan.path + ": " + why + " (candidates: " + names + ")"});
}

void choose_tiles(PlanImpl& plan) {
  const std::size_t panel = plan.kernels->pack.panel_width;
  const std::size_t most_queries = plan.layer->score == Score::kAdditive ? kAdditiveTileQueries : kDotTileQueries;
  const std::size_t queries = std::max<std::size_t>(to_size(plan.shape.num_queries), 1);
  const std::size_t padded_keys = std::max(round_up(to_size(plan.shape.num_keys), panel), panel);
  std::string why;
  if (plan.pooling == Pooling::kFused) {
    plan.tile_queries = std::min(queries, most_queries);
    plan.tile_keys = std::min(padded_keys, round_up(kTileKeys, panel));
    why = plan.tile_keys < padded_keys
              ? "scores of a tile stay in L2, sums over keys in blocks of " + std::to_string(kernels::kInnerBlock)
              : "all keys fit one tile";
  } else {
    const std::size_t fit = kMaterialisedBytes / sizeof(float) / padded_keys / kRowStep * kRowStep;
    plan.tile_queries = std::min(queries, std::clamp(fit, kRowStep, most_queries));
    plan.tile_keys = padded_keys;
    why = "whole rows of scores, as many as fit " + std::to_string(kMaterialisedBytes / 1024) + " KiB, at least " +
          std::to_string(kRowStep);
  }
  plan.accumulator_levels = to_size(plan.shape.num_keys) > kKeysPerLevel ? 2 : 1;
  plan.reasons.push_back({"tiles", std::to_string(plan.tile_queries) + " queries x " + std::to_string(plan.tile_keys) +
                                       " keys, panels of " + std::to_string(panel) + ": " + why});
}

void choose_split(PlanImpl& plan) {
  const std::size_t heads = std::max<std::size_t>(to_size(plan.shape.batch * plan.num_heads), 1);
  const std::size_t wanted = kItemsPerThread * to_size(plan.options.threads);
  const std::size_t tiles = divide_up(std::max<std::size_t>(to_size(plan.shape.num_queries), 1), plan.tile_queries);
  plan.query_ranges = plan.options.threads == 1 ? 1 : std::clamp<std::size_t>(divide_up(wanted, heads), 1, tiles);
  plan.reasons.push_back(
      {"split", std::to_string(heads * plan.query_ranges) + " items for " + std::to_string(plan.options.threads) +
                    (plan.options.threads == 1 ? " thread: " : " threads: ") +
                    (plan.query_ranges == 1 ? std::string("one per head and batch entry, its keys packed once")
                                            : std::to_string(plan.query_ranges) +
                                                  " ranges of queries per head, since heads alone are fewer than " +
                                                  std::to_string(kItemsPerThread) + " per thread") +
                    "; results do not depend on it"});
}

std::size_t map_out(const matmul::Linear* map) { return map == nullptr ? 0 : map->out_size(); }

}  // namespace

void apply_rules(PlanImpl& plan) {
  choose_path(plan);
  choose_tiles(plan);
  choose_split(plan);
  const auto map_reason = [&](const matmul::Linear* map, const char* name) {
    if (map == nullptr) return;
    plan.reasons.push_back({name, std::to_string(map->in_size()) + " -> " + std::to_string(map->out_size()) + " by " +
                                      map->implementation() + ", weights packed once"});
  };
  map_reason(plan.query_map, "query map");
  map_reason(plan.key_map, "key map");
  map_reason(plan.value_map, "value map");
  map_reason(plan.output_map, "output map");
}

void lay_out_workspace(PlanImpl& plan) {
  const char* what = "workspace";
  const std::size_t batch = to_size(plan.shape.batch), heads = to_size(plan.num_heads);
  const std::size_t query_rows = checked_multiply(batch, to_size(plan.shape.num_queries), what);
  const std::size_t key_rows = checked_multiply(batch, to_size(plan.shape.num_keys), what);
  const std::size_t panel = plan.kernels->pack.panel_width;
  WorkspaceLayout& layout = plan.layout;

  Carver shared;
  layout.key_limits = shared.take(batch, sizeof(std::int32_t));
  layout.row_starts = shared.take(batch + 1, sizeof(std::int64_t));
  layout.query = shared.take(checked_multiply(query_rows, map_out(plan.query_map), what), sizeof(float));
  layout.key = shared.take(checked_multiply(key_rows, map_out(plan.key_map), what), sizeof(float));
  layout.value = shared.take(checked_multiply(key_rows, map_out(plan.value_map), what), sizeof(float));
  const std::size_t pooled_size = plan.output_map == nullptr ? 0 : heads * to_size(plan.head_value_size);
  layout.pooled = shared.take(checked_multiply(query_rows, pooled_size, what), sizeof(float));
  layout.workers = shared.bytes();

  const std::size_t inner = to_size(plan.score_size) + (plan.layer->score == Score::kGaussian ? 1 : 0);
  const std::size_t padded_keys = std::max(round_up(to_size(plan.shape.num_keys), panel), panel);
  const std::size_t padded_values = round_up(to_size(plan.head_value_size), panel);
  Carver pooling;
  layout.packed_keys = pooling.take(checked_multiply(padded_keys, inner, what), sizeof(float));
  layout.packed_values = pooling.take(checked_multiply(padded_keys, padded_values, what), sizeof(float));
  layout.packed_queries = pooling.take(checked_multiply(plan.tile_queries, inner, what), sizeof(float));
  layout.scores = pooling.take(checked_multiply(plan.tile_queries, plan.tile_keys, what), sizeof(float));
  layout.accumulators =
      pooling.take(checked_multiply(plan.tile_queries, padded_values * plan.accumulator_levels, what), sizeof(float));
  if (plan.factored) {
    layout.key_exps = pooling.take(checked_multiply(padded_keys, inner, what), sizeof(float));
    layout.key_max = pooling.take(padded_keys, sizeof(float));
    layout.query_exps = pooling.take(checked_multiply(plan.tile_queries, inner, what), sizeof(float));
    layout.query_max = pooling.take(plan.tile_queries, sizeof(float));
  }
  layout.row_max = pooling.take(plan.tile_queries, sizeof(float));
  layout.row_sum = pooling.take(plan.tile_queries, sizeof(double));
  layout.row_lens = pooling.take(plan.tile_queries, sizeof(std::int32_t));
  layout.tile_lens = pooling.take(plan.tile_queries, sizeof(std::int32_t));

  // Pooling and projecting take turns in a worker's part.
  std::size_t most_in = 0, most_out = 0, most_scratch = 0;
  for (const matmul::Linear* map : {plan.query_map, plan.key_map, plan.value_map, plan.output_map}) {
    if (map == nullptr) continue;
    most_in = std::max(most_in, map->in_size());
    most_out = std::max(most_out, map->out_size());
    most_scratch = std::max(most_scratch, map->scratch_bytes());
  }
  Carver projecting;
  layout.rows_in = projecting.take(checked_multiply(matmul::Linear::kRowBlock, most_in, what), sizeof(float));
  layout.rows_out = projecting.take(checked_multiply(matmul::Linear::kRowBlock, most_out, what), sizeof(float));
  layout.map_scratch = projecting.take(most_scratch, 1);

  layout.worker_bytes = std::max(pooling.bytes(), projecting.bytes());
  layout.total =
      checked_add(layout.workers, checked_multiply(to_size(plan.options.threads), layout.worker_bytes, what), what);
}

void estimate_work(PlanImpl& plan) {
  const double batch = static_cast<double>(plan.shape.batch), m = static_cast<double>(plan.shape.num_queries);
  const double n = static_cast<double>(plan.shape.num_keys), heads = static_cast<double>(plan.num_heads);
  const double d = static_cast<double>(plan.score_size), dv = static_cast<double>(plan.head_value_size);
  const double floats_in = batch * (m * static_cast<double>(plan.shape.query_size) +
                                    n * static_cast<double>(plan.shape.key_size + plan.shape.value_size));
  const double weights = plan.options.attention_weights ? batch * (plan.layer->is_multi_head ? heads : 1) * m * n : 0;
  plan.bytes = 4 * (floats_in + batch * m * static_cast<double>(plan.output_size) + weights);
  plan.flops = 2 * batch * heads * m * n * dv;
  if (plan.layer->score != Score::kAdditive) plan.flops += 2 * batch * heads * m * n * d;
  const auto add_map = [&](const matmul::Linear* map, double rows) {
    if (map != nullptr)
      plan.flops += 2 * rows * static_cast<double>(map->in_size()) * static_cast<double>(map->out_size());
  };
  add_map(plan.query_map, batch * m);
  add_map(plan.key_map, batch * n);
  add_map(plan.value_map, batch * n);
  add_map(plan.output_map, batch * m);
  plan.tanhs = plan.layer->score == Score::kAdditive ? batch * heads * m * n * d : 0;
}

}  // namespace attend::detail
