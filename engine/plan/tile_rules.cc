// How much is at work at a time: tiles of scores that stay in L1 or L2, what is packed beside them, and the chunks of
// keys that workers pool side by side. No number of threads enters here, so that results do not depend on it.
#include "engine/plan/tile_rules.h"

#include <algorithm>
#include <string>

#include "engine/base/checked.h"
#include "engine/base/cpus.h"
#include "engine/plan/dot_path.h"
#include "engine/plan/prefetch_rules.h"

namespace attend::detail {
namespace {

// Query rows of a tile: eight steps of the 6-row register kernel. bench: dot_tile/d64_q48_k128 beside
// dot_tile/d64_q24_k128 and dot_tile/d64_q96_k128, and the same of d128.
constexpr std::size_t kDotTileQueries = 48;
// The same where products go by bfloat16 parts: a step of them.
constexpr std::size_t kPartsTileQueries = kernels::kPartsRowsPerStep;
// Keys of a dot product's tile: one inner block of the tile product. 48 x 128 scores, 24 KiB, stay in L1 while a panel
// of keys passes. 256 and 512 changed nothing for dot/b1_h12_m512_n512_d64 and dot/b1_h32_kv8_m2048_n2048_d128_causal;
// alone: dot_tile/d64_q48_k256 and dot_tile/d64_q48_k512.
constexpr std::size_t kDotTileKeys = kernels::kInnerBlock;
// Bytes of packed keys and values that pass a group of queries before the next group does, and of the queries and sums
// of a group: together less than half of 1 MiB of L2, which has to hold what is prefetched too. Where all keys are
// fewer, a group is a tile. EPYC (Zen 4), AVX3, dot/b1_h32_kv8_m2048_n2048_d128 and _causal: 512 and 512 650 and 336
// ms, 256 and 256 644 and 332, 256 and 128 or 192 and 192 640 and 329; 8 heads of 512 to 4096 keys within 1 %.
constexpr std::size_t kPassBytes = 256 * 1024, kDotGroupBytes = 192 * 1024;
// The same by bfloat16 parts, for CPUs with 2 MiB of L2; groups of more than 768 KiB would leave less of a worker's 1
// MiB than the rest wants. Intel Xeon with AMX, passes of 384 KiB and groups of 384, 768 and 1536: 162 and 274, 157 and
// 267, 146 and 259 ms; passes of 768 KiB 159 and 293, 160 and 282, 154 and 277; of 1536 KiB 178 and 330.
constexpr std::size_t kPartsPassBytes = 384 * 1024, kPartsGroupBytes = 768 * 1024;
// Rows of a group that meets all keys in one pass. dot/b1_h12_m512_n512_d64 with 32, 64, 128, 256 and 512 of them: 4.3,
// 4.1, 4.05, 4.2 and 4.5 ms.
constexpr std::size_t kPartsGroupRows = 4 * kPartsTileQueries;
// Where up to so many groups of queries meet the keys of a head, each group packs them a pass at a time: they stay in
// L2 and are not written to memory and read again. EPYC (Zen 5), AVX3, time by that of packing heads whole, medians of
// five to seven runs in turns of attend plan --layer dot --shape 1,192,2048,128 --num-heads 12 --measure by two
// builds:
//
//     one group:   size 128, 96 or 192 queries of 2048 keys 0.94 to 0.98, of 8192 0.96
//                  size 64, 192 or 384 of 2048 0.97
//     two groups:  size 128, 288 of 8192 keys (8 MiB) 0.76 to 0.9, 192 of 16384 0.86, of 32768 0.81, of 65536 0.79
//                  size 64, 512 of 2048 (1 MiB) 1.03
//     four:        size 128, 384 of 8192 1.04, of 32768 0.9 to 1.0
//     eight:       size 128, 768 of 8192 1.05, of 32768 1.0
constexpr std::size_t kPackingGroups = 1, kFarPackingGroups = 2;
// Queries of an additive tile, and its keys where hidden units and values are few: 16 x 512 scores are 32 KiB. By
// arithmetic: the score is bound by its own from a few rows on, so that little is to be won by either. Others on a
// machine of yours, for additive/b2_m256_n1024_u128: attend plan --layer additive --shape 2,256,1024,192,256,256
// --num-hiddens 128 --tune.
constexpr std::size_t kAdditiveTileQueries = 16;
constexpr std::size_t kAdditiveTileKeys = 4 * kernels::kInnerBlock;
// Bytes of keys, and of values, that an additive worker packs at a time, and of sums and exponentials that it keeps for
// its queries. By arithmetic: 2 x 256 and 384 KiB leave 128 for scores and what else it holds, 1 MiB in all, half of
// 2 MiB of L2, up to 512 hidden units and value columns; up to 1024 where queries and keys are large, too, so that
// weights are our own kernel's, which needs no scratch. Where it projects keys too, their span counts with the window,
// and the block of rows that a projection leaves takes its place (tests/contract_memory_test.cc).
constexpr std::size_t kSpanBytes = 256 * 1024, kGroupBytes = 384 * 1024;
// Up to this many queries, keys are cut into chunks that workers pool side by side. By arithmetic: a chunk of one query
// and 256 hidden units takes 14 us or more, 0.054 ns a term (additive_score/m128_n512_u256, AVX3), and merging it is
// 256 multiply-adds. More queries make items by their ranges (choose_split); where they had better is not measured.
// Chunks are fixed, so that results do not depend on the threads. bench: additive/b1_m1_n16384_u256 and
// dot/b1_h32_kv8_m1_n4096_d128, with _threads2 and without.
constexpr std::size_t kChunkQueries = 32, kChunkKeys = 1024;
// Keys of a step of lanes: a block of the sums over them, and 64 rows of scores are 32 KiB, so they stay in L1. The
// steps of query_lanes/*; 256 and 512 on a machine of yours: attend plan --layer dot --shape 4,16,1024,64 --num-heads 8
// --tune.
constexpr std::size_t kLanesTileKeys = kernels::kInnerBlock;
// Bytes of keys and values of all heads that one worker reads before results are merged. 8 MiB instead of 4, and twice
// the keys of a head at a time, together: dot/b1_h32_kv8_m1_n4096_d128 1.39 -> 1.34 ms, dot/b8_h32_kv8_m1_n1024_d128
// 2.81 -> 2.67.
constexpr std::size_t kDecodeChunkBytes = 8 * 1024 * 1024;

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
  std::size_t span = kAdditiveTileKeys;
  while (span > plan.kernels->pack.panel_width && span * most_columns * sizeof(float) > kSpanBytes) span /= 2;
  return std::min(span, plan.key_capacity);
}

// Of the largest run that the plan is for.
std::size_t most_bytes(const PlanImpl& plan) {
  return plan.num_bytes(plan.shape.batch, plan.shape.num_queries, plan.shape.num_keys);
}

std::string lane_groups_text(const PlanImpl& plan) {
  if (!plan.has_lane_groups()) return "";
  return ", in groups of " + (plan.lane_heads > 1 ? count_text(plan.lane_heads, "head")
                                                  : std::to_string(plan.lane_queries) + " queries of a head");
}

void choose_lanes(PlanImpl& plan) {
  const LaneGroupSize group = lane_group_size(plan);
  plan.lane_heads = group.heads;
  plan.lane_queries = group.queries;
  plan.group_queries = round_up(plan.lane_heads * plan.lane_queries, plan.kernels->query_lanes.lanes);
  plan.tile_queries = plan.group_queries;
  plan.tile_keys = std::min(plan.key_capacity, wanted_or(plan.wanted_tile_keys, kLanesTileKeys));
  plan.chunk_keys = plan.key_capacity > kChunkKeys ? kChunkKeys : 0;
  plan.reasons.push_back({"tiles", std::to_string(plan.group_queries) + " lanes x " + std::to_string(plan.tile_keys) +
                                       " keys, " + who_wants(plan) + "whose scores stay in L1" +
                                       lane_groups_text(plan)});
  plan.lanes_prefetch = lanes_prefetch(this_cpu(), plan.kernels->query_lanes);
  // A group of one head after the other is no order of memory.
  if (plan.has_lane_groups()) plan.lanes_prefetch.in_order = false;
  plan.reasons.push_back({"prefetch", text_of(plan.lanes_prefetch, most_bytes(plan))});
}

void choose_decoding(PlanImpl& plan) {
  plan.group_queries = plan.tile_queries = to_size(plan.rows_per_kv_head());
  const std::size_t key_bytes = to_size(plan.num_kv_heads * (plan.score_size + plan.head_value_size)) * sizeof(float);
  const std::size_t panel = plan.kernels->pack.panel_width;
  const std::size_t chunk = std::clamp(multiple_within(kDecodeChunkBytes, std::max<std::size_t>(key_bytes, 1), panel),
                                       round_up(kernels::kInnerBlock, panel), kChunkKeys);
  plan.chunk_keys = plan.key_capacity > chunk ? chunk : 0;
  plan.tile_keys = plan.scores_stride = std::min(plan.key_capacity, chunk);
  plan.reasons.push_back(
      {"tiles", count_text(plan.group_queries, "row") + " x " + std::to_string(plan.tile_keys) +
                    " keys of every head: " + std::to_string(divide_up(key_bytes * plan.tile_keys, 1024)) +
                    " KiB of keys and values"});
  plan.decode_prefetch = decode_prefetch(this_cpu(), plan.kernels->few_rows);
  plan.reasons.push_back({"prefetch", text_of(plan.decode_prefetch, most_bytes(plan))});
}

// Rows of a tile: by parts, whole steps, so that each tile of a group begins with one.
std::size_t whole_steps(const PlanImpl& plan, std::size_t rows) {
  return plan.parts ? round_up(rows, kernels::kPartsRowsPerStep) : rows;
}

bool is_additive(const PlanImpl& plan) { return plan.layer->score == Score::kAdditive; }

// Of an entry; a tile has a row even where there are none.
std::size_t at_least_one_query(const PlanImpl& plan) {
  return std::max<std::size_t>(to_size(plan.shape.num_queries), 1);
}

// Query rows of a packed tile where nothing else limits them.
std::size_t most_tile_queries(const PlanImpl& plan) {
  if (is_additive(plan)) return kAdditiveTileQueries;
  return plan.parts ? kPartsTileQueries : kDotTileQueries;
}

// The query rows that are wanted, or those by the rules, but no more than there are.
std::size_t packed_tile_queries(const PlanImpl& plan, std::size_t by_rules) {
  return std::min(at_least_one_query(plan), whole_steps(plan, wanted_or(plan.wanted_tile_queries, by_rules)));
}

// How a packed number is kept: by parts as bfloat16 numbers that it is the sum of.
std::size_t packed_number_bytes(const PlanImpl& plan) {
  return plan.parts ? kernels::kNumParts * sizeof(std::uint16_t) : sizeof(float);
}

void explain_packed_tile(PlanImpl& plan, const std::string& why) {
  plan.reasons.push_back({"tiles", std::to_string(plan.tile_queries) + " queries x " + std::to_string(plan.tile_keys) +
                                       " keys, panels of " + std::to_string(plan.kernels->pack.panel_width) + ": " +
                                       who_wants(plan) + why});
}

// Online softmax: the scores of one tile exist at a time, and stay in a cache.
void choose_fused_tile(PlanImpl& plan) {
  const bool additive = is_additive(plan);
  const std::size_t panel = plan.kernels->pack.panel_width;
  plan.tile_queries = packed_tile_queries(plan, most_tile_queries(plan));
  plan.tile_keys = additive
                       ? additive_span(plan)
                       : std::min(plan.key_capacity, round_up(wanted_or(plan.wanted_tile_keys, kDotTileKeys), panel));
  plan.scores_stride = plan.tile_keys;
  if (plan.tile_keys < plan.key_capacity) {
    explain_packed_tile(plan, std::string("scores of a tile stay in ") + (additive ? "L2" : "L1") +
                                  ", sums over keys in blocks of " + std::to_string(kernels::kInnerBlock));
  } else {
    explain_packed_tile(plan, "all keys fit one tile");
  }
}

// Rows of scores are kept whole, whatever part of their keys is scored at a time.
void choose_materialised_tile(PlanImpl& plan) {
  const std::size_t rows =
      kMaterialisedBytes / sizeof(float) / plan.key_capacity / kMinMaterialisedRows * kMinMaterialisedRows;
  plan.tile_queries = packed_tile_queries(plan, std::clamp(rows, kMinMaterialisedRows, most_tile_queries(plan)));
  if (is_additive(plan)) {
    plan.tile_keys = additive_span(plan);
  } else {
    plan.tile_keys = plan.parts ? std::min(plan.key_capacity, kDotTileKeys) : plan.key_capacity;
  }
  plan.scores_stride = plan.key_capacity;
  explain_packed_tile(plan, "whole rows of scores, as many as fit " + std::to_string(kMaterialisedBytes / 1024) +
                                " KiB, at least " + std::to_string(kMinMaterialisedRows));
}

// The keys that are packed at a time, and those of them that meet a group before the next group does.
void choose_pass(PlanImpl& plan) {
  // Of dot products a head's keys and values whole, once for all its queries, or a chunk of them, unless choose_span
  // says otherwise.
  plan.span_keys = is_additive(plan) ? plan.tile_keys : plan.key_capacity;
  if (plan.has_chunks()) plan.span_keys = std::min(plan.span_keys, plan.chunk_keys);
  plan.pass_keys = plan.span_keys;
  if (is_additive(plan) || plan.pooling != Pooling::kFused) return;
  const std::size_t key_bytes = (plan.inner_size + plan.padded_values) * packed_number_bytes(plan);
  const std::size_t pass_bytes = plan.parts ? kPartsPassBytes : kPassBytes;
  if (key_bytes * plan.key_capacity <= pass_bytes) return;
  plan.pass_keys = std::min(multiple_within(pass_bytes, key_bytes, plan.tile_keys), plan.span_keys);
}

std::size_t group_bytes(const PlanImpl& plan) {
  if (is_additive(plan)) return kGroupBytes;
  return plan.parts ? kPartsGroupBytes : kDotGroupBytes;
}

// Tiles of queries that a pass of keys meets before the next one, while their sums are kept.
void choose_group(PlanImpl& plan) {
  plan.group_queries = plan.tile_queries;
  if (plan.pooling != Pooling::kFused) return;
  // Where all keys pass at once, each tile is done with when it has met them.
  const bool one_pass = plan.pass_keys == plan.span_keys;
  if (one_pass && !is_additive(plan) && !plan.parts) return;
  // By parts, queries are kept as floats too.
  const std::size_t inner_bytes = plan.inner_size * (sizeof(float) + (plan.parts ? packed_number_bytes(plan) : 0));
  const std::size_t row_bytes = plan.padded_values * plan.accumulator_levels * sizeof(float) + inner_bytes;
  plan.group_queries = std::min(multiple_within(group_bytes(plan), row_bytes, plan.tile_queries),
                                round_up(at_least_one_query(plan), plan.tile_queries));
  if (plan.parts && one_pass) {
    plan.group_queries = std::min(plan.group_queries, std::max(kPartsGroupRows, plan.tile_queries));
  }
  if (plan.group_queries <= plan.tile_queries) return;
  plan.reasons.push_back({"group", std::to_string(plan.group_queries) + " queries pass " +
                                       std::to_string(plan.pass_keys) +
                                       " keys before the next keys, their sums within " +
                                       std::to_string(group_bytes(plan) / 1024) + " KiB"});
}

// Keys of a span: a pass of them, or all.
void choose_span(PlanImpl& plan) {
  // Weights on request take a head's keys twice.
  if (is_additive(plan) || plan.pooling != Pooling::kFused || plan.options.attention_weights) return;
  if (plan.pass_keys == plan.span_keys) return;
  const std::size_t groups =
      to_size(plan.heads_per_kv_head()) * divide_up(at_least_one_query(plan), plan.group_queries);
  const std::size_t bytes = (plan.inner_size + plan.padded_values) * packed_number_bytes(plan) * plan.span_keys;
  const bool is_far = bytes >= this_cpu().least_far_bytes();
  if (groups > (is_far ? kFarPackingGroups : kPackingGroups)) return;
  plan.span_keys = plan.pass_keys;
  plan.reasons.push_back({"packing", count_text(plan.span_keys, "key") + " at a time, for " +
                                         (groups == 1 ? "the one group of queries that meets them"
                                                      : "each of the 2 groups of queries that meet them")});
}

void choose_packed_tiles(PlanImpl& plan) {
  const bool chunked = pools_in_chunks(plan);
  plan.chunk_keys = chunked ? kChunkKeys : 0;
  plan.accumulator_levels = to_size(plan.shape.num_keys) > plan.keys_per_level() && !chunked ? 2 : 1;
  if (plan.pooling == Pooling::kFused) {
    choose_fused_tile(plan);
  } else {
    choose_materialised_tile(plan);
  }
  choose_pass(plan);
  choose_group(plan);
  choose_span(plan);
  if (plan.may_order_queries()) {
    plan.reasons.push_back({"order",
                            "queries by their valid lengths, where a run gives each its own: a tile takes the time "
                            "of its longest"});
  }
}

}  // namespace

bool pools_in_chunks(const PlanImpl& plan) {
  const std::size_t queries = to_size(plan.shape.num_queries), panel = plan.kernels->pack.panel_width;
  return plan.pooling == Pooling::kFused && queries <= kChunkQueries && !plan.options.attention_weights &&
         round_up(to_size(plan.shape.num_keys), panel) > kChunkKeys;
}

void choose_sizes(PlanImpl& plan) {
  // Whole panels, and where products go by parts, whole tiles of terms.
  const std::size_t panel =
      plan.parts ? std::max(plan.kernels->pack.panel_width, kernels::kPartsTerms) : plan.kernels->pack.panel_width;
  plan.inner_size = to_size(plan.score_size) + (plan.layer->score == Score::kGaussian ? 1 : 0);
  plan.key_capacity = std::max(round_up(to_size(plan.shape.num_keys), panel), panel);
  plan.padded_values = round_up(to_size(plan.head_value_size), panel);
  // Scores of a dot product are exponents of two where the softmax is online, those of an additive score become so.
  const bool exponents = !is_additive(plan) && plan.pooling != Pooling::kMaterialised;
  plan.query_scale = exponents ? plan.scale * kernels::kLog2E : plan.scale;
  plan.score_scale = exponents ? 1.0f : kernels::kLog2E;
}

void choose_tiles(PlanImpl& plan) {
  if (plan.pooling == Pooling::kLanes) return choose_lanes(plan);
  if (plan.pooling == Pooling::kDecode) return choose_decoding(plan);
  choose_packed_tiles(plan);
}

}  // namespace attend::detail
