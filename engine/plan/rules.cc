// The written rules: facts in, choices and their reasons out.
#include "engine/plan/rules.h"

#include <algorithm>
#include <string>
#include <vector>

#include "engine/base/checked.h"
#include "engine/base/cpus.h"
#include "engine/base/message.h"
#include "engine/kernels/tile_product.h"
#include "engine/plan/prefetch_rules.h"
#include "engine/plan/dot_path.h"
#include "engine/plan/profile.h"

namespace attend::detail {
namespace {

// Query rows of a tile: eight steps of the 6-row register kernel. bench: dot_tile/*.
constexpr std::size_t kDotTileQueries = 48;
// Keys of a dot product's tile: one inner block of the tile product. 48 x 128 scores and a panel of keys stay in L1.
constexpr std::size_t kDotTileKeys = kernels::kInnerBlock;
// Bytes of packed keys and values that pass a group of queries before the next group does, and of the queries and sums
// of a group: together half of 2 MiB of L2. Where all keys are fewer, a group is a tile. bench:
// dot/b1_h32_kv8_m2048_n2048_d128.
constexpr std::size_t kPassBytes = 512 * 1024, kDotGroupBytes = 512 * 1024;
// The additive score is bound by its arithmetic from a few rows on; 16 keep the score tile at 32 KiB. bench:
// additive/*.
constexpr std::size_t kAdditiveTileQueries = 16;
// Keys of an additive tile, and of a materialised row at a time.
constexpr std::size_t kTileKeys = 4 * kernels::kInnerBlock;
// Bytes of keys, and of values, that an additive worker packs at a time, and of sums and exponentials that it keeps for
// its queries: with scores and staging, 1 MiB per worker up to 512 hidden units and value columns.
constexpr std::size_t kSpanBytes = 256 * 1024, kGroupBytes = 384 * 1024;
// Bytes of exponentials of the keys that a worker projects and pools itself, beside that: a quarter of 2 MiB of L2.
constexpr std::size_t kWindowBytes = 512 * 1024;
// Bytes of materialised scores a worker may hold at a time: a quarter of a 1 MiB share of L2.
constexpr std::size_t kMaterialisedBytes = 256 * 1024;
// The register kernel's rows; row tiles are multiples of it.
constexpr std::size_t kRowStep = 6;
// Up to this many queries, keys are cut into chunks that workers pool side by side. A chunk of one query and 256 hidden
// units takes some 20 us, merging it well below one. Chunks are fixed, so that results do not depend on the threads.
constexpr std::size_t kChunkQueries = 32, kChunkKeys = 1024;
// Keys of a step of lanes. bench: query_lanes/*.
constexpr std::size_t kLanesTileKeys = 128;
// Bytes of keys and values of all heads that one worker reads before results are merged.
constexpr std::size_t kDecodeChunkBytes = 8 * 1024 * 1024;
// The least bytes of keys and values of a decoder's work item that heads are split into. EPYC (Zen 4), 2 threads, us,
// all heads in one item and in two: 16 keys of 8 heads of size 128, 128 KiB, 5.6 and 4.0; 64 keys 18.5 and 10.5, 1024
// keys 278 and 147, but 160 in four or eight, whose rows are read in smaller pieces (attend plan --layer dot --shape
// 1,1,1024,128 --num-heads 32 --num-kv-heads 8 --threads 2 --measure).
constexpr std::size_t kDecodeItemBytes = 64 * 1024;
// Work items per thread: enough that uneven lengths even out.
constexpr std::size_t kItemsPerThread = 4;

std::size_t to_size(std::int64_t n) { return static_cast<std::size_t>(n); }

// "1 item", "2 items".
std::string count_text(std::size_t n, const char* what) { return std::to_string(n) + " " + what + (n == 1 ? "" : "s"); }

struct Candidate {
  std::string path;
  Pooling pooling;
  bool factored;
};

// Query rows that share a key-value head.
std::size_t group_rows(const PlanImpl& plan) {
  return std::max<std::size_t>(to_size(plan.shape.num_queries) * to_size(plan.group_heads()), 1);
}

// The option that only factored scores can follow, where it is set; else null.
const char* tier_option(const PlanOptions& options) {
  if (options.count_tiers) return "count_tiers";
  return options.score_tier == ScoreTier::kByRange ? nullptr : "score_tier";
}

// The paths that fit, the one the rules would take first.
std::vector<Candidate> candidates(const PlanImpl& plan) {
  std::vector<Candidate> all;
  if (plan.layer->score == Score::kAdditive) {
    // Also for one query, where a key's exponentials cost as much as its score by the rational tanh: 0.35 against 0.30
    // ns per key and hidden unit (AVX3), beside 3 ns for its projection. Prepared keys have them, and runs with
    // prepared keys and without agree to the bit. bench: additive/b64_m1_n100_u256 beside additive_rational.
    for (const bool factored : {true, false}) {
      if (!factored && tier_option(plan.options) != nullptr) continue;
      const std::string path = factored ? "additive/factored" : "additive/rational";
      if (!plan.options.attention_weights) all.push_back({path, Pooling::kFused, factored});
      all.push_back({path + "-materialised", Pooling::kMaterialised, factored});
    }
    return all;
  }
  const Candidate fused{"dot/fused", Pooling::kFused, false};
  const Candidate materialised{"dot/materialised", Pooling::kMaterialised, false};
  for (const Candidate& each : {Candidate{"dot/decode", Pooling::kDecode, false},
                                Candidate{"dot/lanes", Pooling::kLanes, false}, fused, materialised}) {
    if (dot_path_fits(plan, each.pooling)) all.push_back(each);
  }
  Pooling preferred = preferred_dot_path(plan);
  const bool rows_fit = kRowStep * to_size(plan.shape.num_keys) * sizeof(float) <= kMaterialisedBytes;
  if (preferred == Pooling::kFused && plan.options.attention_weights && rows_fit) preferred = Pooling::kMaterialised;
  std::stable_partition(all.begin(), all.end(), [&](const Candidate& each) { return each.pooling == preferred; });
  return all;
}

std::string why_first(const PlanImpl& plan, const Candidate& first) {
  const bool additive = plan.layer->score == Score::kAdditive;
  const bool in_tiles = first.pooling == Pooling::kFused || first.pooling == Pooling::kMaterialised;
  if (!in_tiles || (!additive && !plan.options.attention_weights)) return why_preferred(plan, first.pooling);
  std::string why;
  if (first.pooling == Pooling::kMaterialised) {
    why = "attention_weights are asked for, so each row's weights exist anyway and pool the values from where they lie";
  } else if (plan.options.attention_weights) {
    why = "rows of scores exceed " + std::to_string(kMaterialisedBytes / 1024) +
          " KiB, so attention_weights are scored again once their sums are known";
  } else {
    why = "attention_weights are not asked for, so scores live one tile at a time (online softmax)";
  }
  if (!additive) return why;
  return why + "; tanh from exponentials taken once per query and key, several terms per division";
}

const Candidate* find_path(const std::vector<Candidate>& all, const std::string& path) {
  const auto place = std::find_if(all.begin(), all.end(), [&](const Candidate& c) { return c.path == path; });
  return place == all.end() ? nullptr : &*place;
}

// What the path's name must be one of, before the names.
std::string expected_paths(const PlanImpl& plan) {
  std::string text = plan.options.attention_weights ? "that returns attention_weights" : "";
  const char* option = plan.layer->score == Score::kAdditive ? tier_option(plan.options) : nullptr;
  if (option != nullptr) {
    text += std::string(text.empty() ? "that" : " and") + " has tiers, since " + option + " is set";
  }
  return text.empty() ? "of" : text;
}

// Whether the path has the tiles that the caller asks for.
bool has_asked_tiles(const PlanImpl& plan, const Candidate& candidate) {
  return (plan.options.tile_queries == 0 || plan.has_tile_queries(candidate.pooling)) &&
         (plan.options.tile_keys == 0 || plan.has_tile_keys(candidate.pooling));
}

// What was asked for, else what a profile has for exactly this problem, else what the rules say.
void choose_path(PlanImpl& plan) {
  const PlanOptions& options = plan.options;
  const std::vector<Candidate> all = candidates(plan);
  std::string names;
  for (const Candidate& candidate : all) {
    names += (names.empty() ? "" : ", ") + candidate.path;
    plan.candidates.push_back(candidate.path);
  }
  plan.wanted_tile_queries = to_size(options.tile_queries);
  plan.wanted_tile_keys = to_size(options.tile_keys);
  const Candidate* chosen = &all.front();
  std::string why = why_first(plan, *chosen);
  const ProfileEntry* measured =
      options.profile == nullptr || !options.path.empty() ? nullptr : options.profile->find(problem_text(plan));
  const Candidate* of_profile = measured == nullptr ? nullptr : find_path(all, measured->path);
  if (!options.path.empty()) {
    chosen = find_path(all, options.path);
    if (chosen == nullptr) {
      fail("path is \"", options.path, "\", expected one ", expected_paths(plan), ": ", names);
    }
    why = "asked for";
  } else if (of_profile != nullptr && has_asked_tiles(plan, *of_profile)) {
    chosen = of_profile;
    if (options.tile_queries == 0) plan.wanted_tile_queries = to_size(measured->tile_queries);
    if (options.tile_keys == 0) plan.wanted_tile_keys = to_size(measured->tile_keys);
    why = "by the profile, " + microseconds_text(measured->microseconds) + " us when tuned";
  } else if (measured != nullptr) {
    why += "; the profile's " + measured->path +
           (of_profile == nullptr ? " is not among the candidates" : " does not have the tiles asked for");
  }
  plan.path = chosen->path;
  plan.pooling = chosen->pooling;
  plan.factored = chosen->factored;
  plan.reasons.push_back({"path", plan.path + ": " + why + " (candidates: " + names + ")"});
}

// What the caller asks for must fit; a profile's tiles that the path does not have are passed over.
void check_tiles(PlanImpl& plan) {
  const PlanOptions& options = plan.options;
  const auto check = [&](const char* name, std::int64_t tile, const std::string& fault, bool has) {
    if (!fault.empty()) fail(name, " is ", tile, fault);
    if (tile != 0 && !has) fail(name, " is ", tile, ", expected 0: path ", plan.path, " has no such tiles");
  };
  check("tile_queries", options.tile_queries, tile_queries_fault(options.tile_queries), plan.has_tile_queries());
  check("tile_keys", options.tile_keys, tile_keys_fault(options.tile_keys), plan.has_tile_keys());
  if (!plan.has_tile_queries()) plan.wanted_tile_queries = 0;
  if (!plan.has_tile_keys()) plan.wanted_tile_keys = 0;
}

// What is wanted, or what the rules say.
std::size_t wanted_or(std::size_t wanted, std::size_t by_rules) { return wanted > 0 ? wanted : by_rules; }

// For the reason of tiles.
std::string who_wants(const PlanImpl& plan) {
  const PlanOptions& options = plan.options;
  if (plan.wanted_tile_queries == 0 && plan.wanted_tile_keys == 0) return "";
  return options.tile_queries > 0 || options.tile_keys > 0 ? "asked for; " : "by the profile; ";
}

// The largest multiple of step that fits into bytes, at least step.
std::size_t multiple_within(std::size_t bytes, std::size_t bytes_each, std::size_t step) {
  return std::max<std::size_t>(bytes / bytes_each / step * step, step);
}

// Keys of an additive span: a power of two, so that spans divide chunks and levels; whole panels at the least.
std::size_t additive_span(const PlanImpl& plan) {
  const std::size_t most_columns = std::max({to_size(plan.score_size), plan.padded_values, std::size_t{1}});
  if (plan.wanted_tile_keys > 0) return std::min(plan.wanted_tile_keys, plan.key_capacity);
  std::size_t span = kTileKeys;
  while (span > plan.kernels->pack.panel_width && span * most_columns * sizeof(float) > kSpanBytes) span /= 2;
  return std::min(span, plan.key_capacity);
}

// Sizes that every path shares.
void choose_sizes(PlanImpl& plan) {
  const std::size_t panel = plan.kernels->pack.panel_width;
  plan.inner_size = to_size(plan.score_size) + (plan.layer->score == Score::kGaussian ? 1 : 0);
  plan.key_capacity = std::max(round_up(to_size(plan.shape.num_keys), panel), panel);
  plan.padded_values = round_up(to_size(plan.head_value_size), panel);
  // Scores of a dot product are exponents of two where the softmax is online, those of an additive score become so.
  const bool additive = plan.layer->score == Score::kAdditive;
  const bool exponents = !additive && plan.pooling != Pooling::kMaterialised;
  plan.query_scale = exponents ? plan.scale * kernels::kLog2E : plan.scale;
  plan.score_scale = exponents ? 1.0f : kernels::kLog2E;
}

// Of the largest run that the plan is for.
std::size_t most_bytes(const PlanImpl& plan) {
  return plan.num_bytes(plan.shape.batch, plan.shape.num_queries, plan.shape.num_keys);
}

void choose_lanes(PlanImpl& plan) {
  plan.group_queries = round_up(group_rows(plan), plan.kernels->query_lanes.lanes);
  plan.tile_queries = plan.group_queries;
  plan.tile_keys = std::min(plan.key_capacity, wanted_or(plan.wanted_tile_keys, kLanesTileKeys));
  plan.chunk_keys = plan.key_capacity > kChunkKeys ? kChunkKeys : 0;
  plan.reasons.push_back({"tiles", std::to_string(plan.group_queries) + " lanes x " + std::to_string(plan.tile_keys) +
                                       " keys, " + who_wants(plan) + "whose scores stay in L1"});
  plan.lanes_prefetch = lanes_prefetch(this_cpu(), plan.kernels->query_lanes);
  plan.reasons.push_back({"prefetch", text_of(plan.lanes_prefetch, most_bytes(plan))});
}

void choose_decoding(PlanImpl& plan) {
  plan.group_queries = plan.tile_queries = group_rows(plan);
  const std::size_t key_bytes = to_size(plan.num_kv_heads * (plan.score_size + plan.head_value_size)) * sizeof(float);
  const std::size_t panel = plan.kernels->pack.panel_width;
  const std::size_t chunk = std::clamp(multiple_within(kDecodeChunkBytes, std::max<std::size_t>(key_bytes, 1), panel),
                                       round_up(kernels::kInnerBlock, panel), kChunkKeys);
  plan.chunk_keys = plan.key_capacity > chunk ? chunk : 0;
  plan.tile_keys = plan.scores_stride = std::min(plan.key_capacity, chunk);
  plan.reasons.push_back({"tiles", count_text(plan.group_queries, "row") + " x " + std::to_string(plan.tile_keys) +
                                       " keys of every head: " + std::to_string(key_bytes * plan.tile_keys / 1024) +
                                       " KiB of keys and values"});
  plan.decode_prefetch = decode_prefetch(this_cpu(), plan.kernels->few_rows);
  plan.reasons.push_back({"prefetch", text_of(plan.decode_prefetch, most_bytes(plan))});
}

void choose_tiles(PlanImpl& plan) {
  const std::size_t panel = plan.kernels->pack.panel_width;
  const bool additive = plan.layer->score == Score::kAdditive, fused = plan.pooling == Pooling::kFused;
  const std::size_t most_queries = additive ? kAdditiveTileQueries : kDotTileQueries;
  const std::size_t queries = std::max<std::size_t>(to_size(plan.shape.num_queries), 1);
  const bool chunked =
      fused && queries <= kChunkQueries && plan.key_capacity > kChunkKeys && !plan.options.attention_weights;
  plan.chunk_keys = chunked ? kChunkKeys : 0;
  plan.accumulator_levels = to_size(plan.shape.num_keys) > kKeysPerLevel && !chunked ? 2 : 1;
  std::string why;
  if (fused) {
    plan.tile_queries = std::min(queries, wanted_or(plan.wanted_tile_queries, most_queries));
    plan.tile_keys = additive
                         ? additive_span(plan)
                         : std::min(plan.key_capacity, round_up(wanted_or(plan.wanted_tile_keys, kDotTileKeys), panel));
    why = plan.tile_keys < plan.key_capacity
              ? std::string(additive ? "scores of a tile stay in L2" : "scores of a tile stay in L1") +
                    ", sums over keys in blocks of " + std::to_string(kernels::kInnerBlock)
              : "all keys fit one tile";
  } else {
    const std::size_t rows = kMaterialisedBytes / sizeof(float) / plan.key_capacity / kRowStep * kRowStep;
    plan.tile_queries =
        std::min(queries, wanted_or(plan.wanted_tile_queries, std::clamp(rows, kRowStep, most_queries)));
    plan.tile_keys = additive ? additive_span(plan) : plan.key_capacity;
    why = "whole rows of scores, as many as fit " + std::to_string(kMaterialisedBytes / 1024) + " KiB, at least " +
          std::to_string(kRowStep);
  }
  plan.scores_stride = fused ? plan.tile_keys : plan.key_capacity;
  // Dot products pack a head's keys and values whole, once for all its queries.
  plan.span_keys = additive ? plan.tile_keys : plan.key_capacity;
  plan.pass_keys = plan.span_keys;
  plan.group_queries = plan.tile_queries;
  const std::size_t pass_bytes = (plan.inner_size + plan.padded_values) * sizeof(float);
  if (!additive && fused && pass_bytes * plan.key_capacity > kPassBytes) {
    plan.pass_keys = std::min(multiple_within(kPassBytes, pass_bytes, plan.tile_keys), plan.span_keys);
  }
  if (fused && (additive || plan.pass_keys < plan.span_keys)) {
    const std::size_t row_bytes = (plan.padded_values * plan.accumulator_levels + plan.inner_size) * sizeof(float);
    plan.group_queries =
        std::min(multiple_within(additive ? kGroupBytes : kDotGroupBytes, row_bytes, plan.tile_queries),
                 round_up(queries, plan.tile_queries));
  }
  plan.reasons.push_back({"tiles", std::to_string(plan.tile_queries) + " queries x " + std::to_string(plan.tile_keys) +
                                       " keys, panels of " + std::to_string(panel) + ": " + who_wants(plan) + why});
  if (plan.group_queries > plan.tile_queries) {
    plan.reasons.push_back({"group", std::to_string(plan.group_queries) + " queries pass " +
                                         std::to_string(plan.pass_keys) +
                                         " keys before the next keys, their sums within " +
                                         std::to_string((additive ? kGroupBytes : kDotGroupBytes) / 1024) + " KiB"});
  }
}

std::size_t num_chunks(const PlanImpl& plan) {
  return plan.chunk_keys == 0 ? 1 : divide_up(plan.key_capacity, plan.chunk_keys);
}

// Where all queries of an entry fit one group, nobody else wants its projected keys: they never leave the worker's
// cache. Several small entries together fill the blocks of rows that projections are made in. One entry must not keep
// the other threads waiting, though.
void choose_projection(PlanImpl& plan) {
  if (!plan.factored || plan.layer->is_multi_head || plan.options.prepared_keys) return;
  const std::size_t batch = to_size(plan.shape.batch), threads = to_size(plan.options.threads);
  const bool enough_items = threads == 1 || batch * num_chunks(plan) >= kItemsPerThread * threads;
  const bool one_group = plan.pooling == Pooling::kFused && to_size(plan.shape.num_queries) <= plan.group_queries;
  if (enough_items && one_group) {
    const std::size_t fitting = kWindowBytes / (std::max<std::size_t>(plan.inner_size, 1) * sizeof(float));
    const std::size_t most = std::max<std::size_t>(batch / (threads == 1 ? 1 : kItemsPerThread * threads), 1);
    const bool whole = plan.chunk_keys == 0 && plan.key_capacity <= fitting;
    if (whole) plan.entries_per_item = std::clamp<std::size_t>(fitting / plan.key_capacity, 1, most);
    plan.window_keys = whole ? plan.entries_per_item * plan.key_capacity : plan.span_keys;
  }
  plan.reasons.push_back(
      {"projection", plan.window_keys == 0
                         ? std::string("keys are projected before they are pooled: several workers or groups of "
                                       "queries want them")
                         : "keys are projected " + std::to_string(plan.window_keys) +
                               " at a time by the worker that pools them, " + std::to_string(plan.entries_per_item) +
                               (plan.entries_per_item == 1 ? " entry" : " entries") + " of the batch per item"});
}

// Into how many ranges of heads decoding cuts each of so many items, so that the busiest thread has less to do.
std::size_t decode_head_ranges(const PlanImpl& plan, std::size_t items) {
  constexpr double kWorthIt = 0.9;  // rows in smaller pieces take longer to read
  const std::size_t keys = plan.chunk_keys == 0 ? to_size(plan.shape.num_keys) : plan.chunk_keys;
  const std::size_t row_bytes = to_size(plan.num_kv_heads * (plan.score_size + plan.head_value_size)) * sizeof(float);
  const std::size_t threads = to_size(plan.options.threads);
  const std::size_t most = std::min({to_size(plan.num_kv_heads), keys * row_bytes / kDecodeItemBytes, threads});
  const auto busiest = [&](std::size_t ranges) {  // in items before the cut
    return static_cast<double>(divide_up(items * ranges, threads)) / static_cast<double>(ranges);
  };
  std::size_t best = 1;
  for (std::size_t ranges = 2; ranges <= most; ++ranges) {
    if (busiest(ranges) < kWorthIt * busiest(best)) best = ranges;
  }
  return best;
}

void choose_split(PlanImpl& plan) {
  const bool decode = plan.pooling == Pooling::kDecode;
  const std::size_t heads =
      std::max<std::size_t>(to_size(plan.shape.batch) * (decode ? 1 : to_size(plan.num_kv_heads)), 1);
  const std::size_t wanted = kItemsPerThread * to_size(plan.options.threads);
  const std::size_t tiles = divide_up(std::max<std::size_t>(to_size(plan.shape.num_queries), 1), plan.tile_queries);
  plan.query_ranges = plan.options.threads == 1 ? 1 : std::clamp<std::size_t>(divide_up(wanted, heads), 1, tiles);
  const std::size_t chunks = num_chunks(plan);
  if (chunks > 1 || plan.window_keys > 0 || plan.reads_rows()) plan.query_ranges = 1;
  if (decode) plan.head_ranges = decode_head_ranges(plan, heads * chunks);
  std::string why = plan.entries_per_item > 1 ? std::string("several entries of the batch each")
                    : plan.head_ranges > 1    ? std::to_string(plan.head_ranges) + " ranges of heads per batch entry"
                    : decode                  ? std::string("one per batch entry")
                    : plan.query_ranges == 1  ? std::string("one per key-value head and batch entry")
                                              : std::to_string(plan.query_ranges) +
                                                   " ranges of queries per head, since heads alone are fewer than " +
                                                   std::to_string(kItemsPerThread) + " per thread";
  if (chunks > 1) {
    why = std::to_string(chunks) + " chunks of " + std::to_string(plan.chunk_keys) +
          (plan.head_ranges > 1 ? " keys of " + std::to_string(plan.head_ranges) + " ranges of heads"
           : decode             ? std::string(" keys of all heads")
                                : std::string(" keys per head")) +
          ", merged in order, since few queries share them";
  }
  plan.reasons.push_back(
      {"split",
       count_text(divide_up(heads, plan.entries_per_item) * plan.query_ranges * plan.head_ranges * chunks, "item") +
           " for " + std::to_string(plan.options.threads) + (plan.options.threads == 1 ? " thread: " : " threads: ") +
           why + "; results do not depend on the threads"});
}

void check_tier_options(const PlanImpl& plan) {
  if (plan.factored) return;
  const char* option = tier_option(plan.options);
  if (option != nullptr) fail(option, " is set, expected path additive/factored, which has tiers; path is ", plan.path);
}

}  // namespace

void apply_rules(PlanImpl& plan) {
  choose_path(plan);
  check_tiles(plan);
  check_tier_options(plan);
  choose_sizes(plan);
  if (plan.pooling == Pooling::kLanes) {
    choose_lanes(plan);
  } else if (plan.pooling == Pooling::kDecode) {
    choose_decoding(plan);
  } else {
    choose_tiles(plan);
  }
  choose_projection(plan);
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

}  // namespace attend::detail
