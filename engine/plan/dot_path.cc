// Which way of pooling a dot product takes; materialised rows are left to path_rules.cc. Each has its price. dot/decode
// reads keys and values once, each query row paying for sums across lanes. dot/lanes pays for scores by whole vectors
// of query rows, full or not, and reads keys and values where they lie. dot/fused computes at the rate of dense
// products, but first packs keys and most values, which costs as much as some dozens of rows do; prepared keys are
// packed already. All thresholds: bench planner/*, on AVX3, AVX2 and SSE4 of a Cascade Lake, where no other CPU is
// named.
#include "engine/plan/dot_path.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/base/checked.h"
#include "engine/plan/pair_rules.h"
#include "engine/plan/part_rules.h"

namespace attend::detail {
namespace {

// The most rows that are offered to a path, preferred or not: at least as many as the rules below prefer, 14 rows and
// 16 vectors, so that --tune may find another crossing on another machine. For lanes also the most of one group.
constexpr double kMaxDecodeRows = 16, kMaxLanesRows = 64, kMaxVectors = 16;
// Against no more keys than these, lanes are offered any number of rows, and take them group by group: threads can
// share them, and how many make a group hardly matters. EPYC (Zen 5), 8 heads, 32 to 256 rows a group: AVX3, 4096
// queries of 77 keys of size 40 2.75 to 2.97 ms, least for 64 rows, 1024 of size 80 1.15 to 1.20; AVX2, least for 32,
// 4.67 to 4.77 and 2.07 to 2.11.
constexpr std::int64_t kMaxKeysOfGroups = 256;
constexpr std::size_t kLaneGroupRows = 32, kLaneGroupVectors = 4;
// Groups of several heads take more of them until their vectors are so full, or they are the largest: 8 heads of 33
// queries on one, 77 keys of size 64, 36.5 us by one head a group and 31.3 by four. Where all rows of several heads fit
// the largest they stay together: 32 heads on 8, 20 queries of 128 keys of size 64, 127 us, 140 in groups.
constexpr double kFullGroup = 0.9;
// Vectors of lanes that beat the fused tiles: more against few keys, which tiles hardly use once they are packed.
// Against more keys wide ones must be full (kFull), unless values are padded by a fifth or more (kPadding: sizes 32, 80
// and 96, where panels have 64 columns) or keys are far. With one lane to a vector lanes win only from afar.
//
// Tiles against lanes (above 1 lanes win), EPYC (Zen 4), 4 heads of size 64 where nothing else is said; attend plan
// --layer dot --shape 1,17,256,64 --num-heads 4 --tune --target AVX3:
//
//     AVX3   16 keys:   17 queries 1.15, 256 1.19      64 keys: 256 queries 1.07
//            256 keys:  17 queries 0.81, 24 1.02, 32 1.14, 128 1.03, 256 0.99
//            8 heads:   17 queries of 2048 keys 0.92, of 4096 1.15
//     AVX2   16 keys:   128 queries 1.19               64 keys: 128 queries 1.01
//            256 keys:  20 queries 1.15, 32 1.16, 64 1.03, 96 1.02, 128 0.99
//            8 heads of size 128, 512 keys: 32 queries 1.26, 96 0.96
//     SSE4   256 keys:  16 queries 1.20, 32 1.10, 64 1.04
//            8 heads of size 128, 512 keys: 48 queries 1.07, 64 1.00
//
// Zen 5 and Cascade Lake agree as far as planner_map shows, but for AVX2 on Cascade Lake, where 4 vectors and tiles
// were equal. EPYC (Zen 3), AVX2, 8 heads: 128 queries of 64 keys of size 32 1.10, of size 64 1.06, of size 128 1.03;
// 128 of 256 0.96; 96 of 256 1.03, but 4 x 96 of 512, which come from afar, 0.83 to 0.97. So AVX2 has a few keys more.
//
// Zen 5, AVX3, 8 heads, tiles against lanes: there more vectors win against few terms of a row's scores.
//
//     192 queries    48 keys: size 32 1.40, 64 1.19, 96 1.19    128: size 32 1.10, 64 1.04, 80 1.08, 96 1.03
//                    256: size 16 1.10, 32 1.04, 48 1.00, 64 0.95    512: size 16 1.05, 32 1.05, 64 0.94
//     256 queries    48 keys: size 32 1.30, 64 1.15, 96 1.13    128: size 32 1.04, 48 1.02, 64 1.01, 96 0.98
//                    256: size 16 0.98, 32 1.03, 48 0.93, 64 0.90
//
//     512 queries    8 keys: size 16 3.47, 64 2.12, 96 2.13, 128 1.48, 256 1.66    16: size 64 1.55, 128 1.09, 256 1.02
//                    32: size 64 1.15, 128 1.01, 256 1.05    64: size 32 1.20, 64 1.04, 96 1.00, 128 0.92
//                    77: size 40 1.21, 80 1.07, 128 0.97     128: size 32 1.04, 64 0.95
//
// And where each head's rows are together, 4 heads, by attend plan --head-layout apart:
//
//     256 queries    49 keys: size 96 1.30, 160 1.25, 256 1.15    64: size 96 1.11, 160 1.06, 192 1.03, 256 0.98
//                    80: size 96 1.15, 160 1.06, 256 1.01         100: size 96 1.12, 160 1.06
//     1024 queries   49 keys: size 96 1.36, 160 1.17, 192 1.02    64: size 96 1.09, 160 0.97, 192 0.98
//                    80: size 96 1.10, 160 1.02, 192 0.95         100: size 96 1.06, 160 0.96
constexpr double kFewTermsOnZen5 = 6400, kFewKeysOnZen5 = 100, kVectorsForMoreTermsOnZen5 = 12;
constexpr double kFewKeys = 32, kFewKeysOfEight = 64, kAnyVectors = std::numeric_limits<double>::infinity(),
                 kVectors = 8, kVectorsOfFour = 12;
constexpr double kFull = 0.74, kPadding = 1.2;
// Rows, and terms of a row's scores, from which on tiles that score and pool by pairs of terms (pair_rules.cc) beat
// wide lanes; more of narrow heads and on Zen 5, where tiles gain less. Lanes' time by theirs, EPYC (Zen 4), 4 heads:
//
//     size 32:   64 queries of 256 keys 0.95, of 512 0.98, 1024 0.96    96 of 512 0.99, 128 of 256 1.02, of 512 1.07
//     size 48:   56 queries of 128 keys 0.97, of 256 1.04, 64 of 256 1.00, 96 of 256 1.02, 128 of 256 1.06
//     size 64:   48 queries of 256 keys 1.00, of 512 1.02    56 of 64 0.95, of 128 1.06    64 of 128 1.01, of 256 1.05
//                128 of 64 0.93, of 128 1.06, of 512 1.15
//     size 96:   48 of 512 1.01    56 of 128 1.04, of 256 1.11    64 of 128 1.00, 96 of 128 1.05
//     size 128:  48 of 256 1.01    56 of 64 0.99, of 128 1.10    64 of 64 0.95, of 128 1.05    128 of 64 1.02
//
// From afar, 8 to 32 heads and 8.4 to 33.6 MB of keys and values: 64 queries of size 64 0.92 to 1.01, of size 128 1.01
// to 1.05; 96 of 1024 keys 1.11; 128 of size 32 1.07, of size 64 1.06 to 1.17, of size 128 1.13 to 1.18.
//
// On Zen 5 pairs gain a sixth instead of a third (tile_pairs/*), and lanes beat such tiles as far as they beat plain
// ones, up to 127 rows. The same there, 8 heads, medians of three runs in a quiet hour:
//
//     size 32:   128 of 512 0.98, of 1024 0.97      size 48:   128 of 512 1.03
//     size 64:   64 of 256 0.90, of 1024 0.88       96 of 256 0.95, of 512 0.97, of 2048 0.98    112 of 512 1.00
//                128 of 128 0.92, of 256 1.02, of 512 1.05, of 1024 1.03, of 2048 1.08; 4 x 128 of 512 1.11
//     size 96:   64 of 512 0.87    96 of 512 0.94   128 of 128 0.91, of 256 1.03, of 512 1.04
//     size 128:  64 of 512 0.90    96 of 512 0.95   128 of 128 1.03, of 256 1.07, of 512 1.06, of 1024 1.07
constexpr double kRowsForPairs = 49, kFarRowsForPairs = 96, kRowsForPairsOnZen5 = 128, kTermsForPairs = 8192,
                 kMoreTermsForPairs = 16384, kNarrowSize = 48;
// Rows from which on tiles by bfloat16 parts (part_rules.cc), where they are faster than plain ones, beat wide lanes,
// and terms of a row's scores up to which fewer rows do. Lanes' time by theirs, Intel Xeon with AMX, 4 heads:
//
//     size 32:   64 queries of 128 keys 0.90, of 512 0.98    96 of 128 0.91, of 512 1.13
//                128 of 128 1.01, of 512 1.26
//     size 64:   64 of 128 1.00, of 256 1.11, of 1024 0.93    96 of 64 1.02, of 256 1.24    128 of 64 1.06, of 256 1.36
//     size 128:  64 of 128 1.00, of 512 0.89    96 of 64 1.03, of 512 1.02    128 of 128 1.24, of 512 1.20
constexpr double kRowsForParts = 96, kTermsForPartsOfFewer = 32768;
// Where attention_weights are asked for, tiles keep whole rows of scores, which costs them little, while p of the lanes
// is transposed and finished in a second pass. Wide lanes then beat tiles up to so many rows, or so many scores of a
// head. Lanes' time by that of dot/materialised, EPYC (Zen 4), AVX3, 8 heads; attend plan --layer dot --shape
// 1,32,256,128 --num-heads 8 --attention-weights --tune --target AVX3:
//
//     size 64:   24 queries of 256 keys 1.04, of 1024 1.05    32 of 1024 0.94
//                48 of 128 0.93, of 256 1.03, of 1024 1.08    64 of 64 0.90, of 128 0.97, of 256 1.09
//                96 of 64 0.89, of 128 0.98    128 of 64 0.92, of 128 1.00    256 of 32 0.88, of 64 0.94
//     size 128:  32 of 1024 0.84    64 of 128 0.98, of 256 1.04    96 of 64 0.96, of 128 1.02    256 of 32 0.96
//
// Narrow ones win as far as they are asked, 48 rows on SSE4 and 64 on AVX2: 0.73 to 0.98, but for 64 rows of size 32
// and 512 keys on AVX2, 1.07, and of size 64 and 1024 keys, 1.03.
//
// Zen 5, AVX3, 8 heads, where pairs gain tiles less; of least times, medians of three runs in quiet minutes:
//
//     size 32:   128 of 128 0.92, of 256 1.13       size 48:   128 of 256 1.14
//     size 64:   32 of 1024 0.99    48 of 1024 1.08    64 of 256 1.00, of 512 1.01, of 768 1.03, of 1024 1.14
//                80 of 256 1.01, of 512 1.02    96 of 128 0.91, of 192 1.03, of 256 1.08, of 512 1.13
//                128 of 128 0.95, of 160 1.04, of 192 1.10, of 256 1.17, of 512 1.20    8 x 128 of 128 0.97
//     size 128:  64 of 256 0.97    96 of 128 0.94, of 256 1.02, of 512 1.04    128 of 128 1.07, of 256 1.15
constexpr double kWideRowsWithWeights = 32, kWideScoresWithWeights = 8192, kScoresWithWeightsOnZen5 = 20480;
// Lanes from which on vectors are wide.
constexpr double kWideLanes = 16;
// Keys and values that stay in the L2 of a core from run to run, of which servers have 1 to 2 MiB: by arithmetic, and
// below the 4 MB from which on most_decode_rows has another row.
constexpr double kCachedBytes = 2 * 1024 * 1024;
// Those that the core's share of L3 does not hold either: for wide vectors between the 4 and the 8 MB at which
// most_decode_rows was measured. Narrow vectors take longer for the sums across them, memory or not. dot/decode against
// dot/lanes (below 1 decode wins), EPYC (Zen 4), AVX2, 8 heads; attend plan --layer dot
// --shape 1,8,4096,64 --num-heads 8 --tune --target AVX2:
//
//     2048 keys of size 64 (8 MB)    5 rows 1.44, 8 rows 1.63
//     4096                           5 rows 0.94, 8 rows 1.18, 10 rows 1.30
//     8192                           5 rows 0.66, 8 rows 0.78, 10 rows 1.15
//     4096 of size 128 (33 MB)       6 rows 1.00, 8 rows 1.11, 10 rows 1.16
//     8192                           6 rows 0.81, 8 rows 1.00, 10 rows 1.02
//
// SSE4: 1.2 for 8 rows against 8 MB (planner_map/b1_h4_m8_n4096_d64).
constexpr double kWideFarBytes = 6 * 1024 * 1024, kNarrowFarBytes = 12 * 1024 * 1024;

double lanes_of(const PlanImpl& plan) { return static_cast<double>(plan.kernels->query_lanes.lanes); }

double key_value_bytes(const PlanImpl& plan) {
  return 4 * to_double(plan.shape.batch) * to_double(plan.num_kv_heads) * to_double(plan.shape.num_keys) *
         to_double(plan.score_size + plan.head_value_size);
}

double most_lane_rows(const PlanImpl& plan) { return std::max(kMaxLanesRows, kMaxVectors * lanes_of(plan)); }

bool is_wide(const PlanImpl& plan) { return lanes_of(plan) >= kWideLanes; }

// Whether much of what the tiles pack of values is padding.
bool pads_values(const PlanImpl& plan) {
  const auto columns = static_cast<std::size_t>(plan.head_value_size);
  const auto packed = static_cast<double>(round_up(columns, plan.kernels->pack.panel_width));
  return is_wide(plan) && packed >= kPadding * static_cast<double>(columns);
}

// Whether the last vector holds rows enough: on Zen 5, where tiles gain less, two, or one where a row's scores have few
// terms, half as few beside a single full vector. Tiles against lanes there (above 1 lanes win), AVX3, 8 heads, attend
// plan --layer dot --shape 1,18,256,64 --num-heads 8 --tune, below 256 keys batches of 2:
//
//     size 64     36 keys:   17 queries 1.10, 33 1.24, 49 1.27, 65 1.20    50: 1.03, 1.16, 1.18, 1.14
//                 64:        17 0.88, 33 0.99, 49 1.00, 65 0.99            100: 0.97, 1.05, 1.07, 1.03
//                 256:       17 0.88, 18 1.02, 20 1.09, 22 1.10    33 0.95, 34 1.01    65 0.94, 66 1.00
//                 1024:      17 0.89, 18 1.03, 20 1.11, 22 1.12            33 0.98, 34 1.04    65 0.94, 66 1.01
//     size 128    50 keys:   17 0.97, 33 1.05, 49 1.08, 65 1.04            100: 0.87, 0.97, 1.03, 0.98
//                 256:       17 0.81, 18 1.06, 20 1.14, 22 1.15            33 0.90, 36 1.09
//     size 256    256 keys:  17 0.77, 18 1.07, 20 1.17                     33 0.92, 34 1.11
bool fills_lanes(const PlanImpl& plan) {
  const double rows = to_double(plan.rows_per_kv_head()), lanes = lanes_of(plan);
  const double vectors = std::ceil(rows / lanes);
  if (!this_cpu().is_zen5()) return rows >= kFull * vectors * lanes;
  const double terms = to_double(plan.shape.num_keys) * to_double(plan.score_size);
  return rows > (vectors - 1) * lanes + 1 || terms <= (vectors > 2 ? kFewTermsOnZen5 : kFewTermsOnZen5 / 2);
}

// Rows up to which sums across lanes cost less than vectors of rows: the more, the longer the rows of keys are and the
// wider the vectors. Crossings on AVX3: 4, 6, 7 and 9 rows for sizes 32, 64, 96 and 128 (on Zen 4 lanes take 7 as they
// take 8, and of sizes 96 and 128 a tenth less than dot/decode, but not 8); on AVX2 of Zen 4 2, 3, 3 and 4, where 3 of
// size 64 are a draw; on its SSE4 3, and 7 for size 128, where more than 4 rows take two vectors; with one lane 3. The
// longer keys take to arrive, the more it pays to read them in the order of memory: a row more from 4 MB; from 8 MB up
// to 8 rows of size 64 on AVX3, 12 of size 128; from 13 MB 8 rows on AVX2 and SSE4 (attend plan --layer dot --shape
// 1,M,256,D --num-heads 4 --tune for the sizes, with more heads and keys for the bytes).
//
// On Zen 5, AVX3, keys and values of up to 6 MB, dot/decode against dot/lanes (below 1 decode wins), 8 heads:
//
//     256 keys:   size 64   6 rows 1.00, 7 1.07, 8 1.04, 10 1.33    size 96   6 1.04, 8 1.17, 10 1.44
//                 size 128  8 rows 0.96, 9 0.86, 10 1.24, 12 1.35   size 192  8 0.97, 9 0.96, 10 1.23, 12 1.29
//                 size 256  8 rows 0.87, 9 0.70, 10 1.13, 12 1.19
//     640:        size 80   7 rows 1.16, 10 1.37    size 96   7 1.09, 9 1.22    size 128  8 0.95, 9 0.78, 10 1.22
double most_decode_rows(const PlanImpl& plan) {
  constexpr double kMostOnZen5 = 9;
  const double lanes = lanes_of(plan), size = to_double(plan.score_size);
  const bool wide = is_wide(plan);
  double most = wide ? std::min(2.4 + size / 17.5, 12.0) : size < 48 ? 2 : std::clamp(size / 32, 3.0, 5.0);
  if (lanes <= 4) most = lanes == 1 ? 3 : std::clamp(size / 18, 3.0, 7.0);
  const double bytes = key_value_bytes(plan);
  if (bytes > (wide ? kWideFarBytes : kNarrowFarBytes)) return wide ? std::max(most + 2, 8.0) : 8;
  if (wide && this_cpu().is_zen5()) return std::min(most, kMostOnZen5);
  return bytes > kCachedBytes ? most + 1.2 : most;
}

// What lanes do for each (query, key) pair that a mask leaves. With keys they work through all that any row sees; with
// values, 6 or 12 rows at a time, through those that any of these sees, and twice through those that some does not.
// Lengths per query are taken as uniform in 0..N. Lanes against tiles, 8 x 8 heads of size 64, us: causal, AVX3 32 x 32
// 272 and 451, 64 x 64 833 and 938, 96 x 96 1750 and 1880; AVX2 32 x 32 459 and 459; SSE4 16 x 16 348 and 385, 32 x 32
// 1100 and 1030 (attend plan --layer dot --shape 8,64,64,64 --num-heads 8 --causal top-left --tune); lengths per query
// of 256 keys, AVX3 40 queries 2960 and 3100, 64 queries 4180 and 4100.
double lanes_overwork(const PlanImpl& plan) {
  constexpr double kPerQuery = 2.7, kRowsOfValues = 9;
  if (plan.options.valid_lens == ValidLens::kPerQuery) return kPerQuery;
  if (plan.options.causal == Causal::kNone) return 1;
  const double m = to_double(plan.shape.num_queries), n = to_double(plan.shape.num_keys);
  const bool bottom_right = plan.options.causal == Causal::kBottomRight;
  const double longest = bottom_right ? n : std::min(m, n);
  const double shortest = bottom_right ? std::max(n - m + 1, 0.0) : std::min(1.0, n);
  const double mean = std::max((longest + shortest) / 2, 1.0);
  return (longest / mean + 1 + kRowsOfValues / mean) / 2;
}

// Not with a mask: it costs lanes too much even against few keys, as causal 32 x 32 above on SSE4.
bool has_few_keys(const PlanImpl& plan) {
  const double most = lanes_of(plan) == 8 ? kFewKeysOfEight : kFewKeys;
  return to_double(plan.shape.num_keys) <= most && lanes_overwork(plan) == 1;
}

// Vectors of lanes up to which they may beat the fused tiles.
double most_vectors(const PlanImpl& plan) {
  if (has_few_keys(plan)) return kAnyVectors;
  if (is_wide(plan) && this_cpu().is_zen5() && lanes_overwork(plan) == 1) {
    const double keys = to_double(plan.shape.num_keys), terms = keys * to_double(plan.score_size);
    if (terms <= (keys <= kFewKeysOnZen5 ? 2 : 1) * kFewTermsOnZen5) return kAnyVectors;
    if (terms <= 2 * kFewTermsOnZen5) return kVectorsForMoreTermsOnZen5;
  }
  return lanes_of(plan) == 4 ? kVectorsOfFour : kVectors;
}

bool lanes_pay(const PlanImpl& plan) {
  const double rows = to_double(plan.rows_per_kv_head()), lanes = lanes_of(plan);
  const bool pairs_gain_less = this_cpu().is_zen5() && plan.options.pairs != Pairs::kAlways;
  double most = lanes * most_vectors(plan);
  const double keys = to_double(plan.shape.num_keys);
  if (plan.options.attention_weights && is_wide(plan) && !has_few_keys(plan)) {
    const double scores = pairs_gain_less ? kScoresWithWeightsOnZen5 : kWideScoresWithWeights;
    most = std::min(most, std::max(kWideRowsWithWeights, scores / keys));
  }
  if (rows * lanes_overwork(plan) > most) return false;
  const double bytes = key_value_bytes(plan);
  const double terms = keys * to_double(plan.score_size);
  const bool needs_more = pairs_gain_less || to_double(plan.score_size) < kNarrowSize;
  const bool gains_by_pairs = rows >= (pairs_gain_less ? kRowsForPairsOnZen5 : kRowsForPairs) &&
                              terms >= (needs_more ? kMoreTermsForPairs : kTermsForPairs);
  if (gains_by_pairs && !plan.options.attention_weights && (bytes <= kWideFarBytes || rows >= kFarRowsForPairs) &&
      tiles_score_by_pairs(plan, this_cpu())) {
    return false;
  }
  if (!plan.options.attention_weights && (rows >= kRowsForParts || terms <= kTermsForPartsOfFewer) &&
      tiles_go_by_parts(plan, plan.kernels->tile_parts.has_tiles)) {
    return false;
  }
  if (lanes == 1) return bytes > kCachedBytes / 2;
  if (!is_wide(plan) || rows <= lanes || has_few_keys(plan) || pads_values(plan) || bytes > kWideFarBytes) return true;
  return rows > most_lane_rows(plan) || fills_lanes(plan);
}

}  // namespace

LaneGroupSize lane_group_size(const PlanImpl& plan) {
  const std::size_t queries = std::max<std::size_t>(to_size(plan.shape.num_queries), 1);
  const std::size_t heads = to_size(plan.heads_per_kv_head()), lanes = plan.kernels->query_lanes.lanes;
  const std::size_t rows = std::max(kLaneGroupRows, kLaneGroupVectors * lanes);
  const auto fits = [&](std::size_t some) { return static_cast<double>(some * queries) <= most_lane_rows(plan); };
  if (plan.shape.num_keys > kMaxKeysOfGroups || heads * queries <= rows || (heads > 1 && fits(heads))) {
    return {heads, queries};
  }
  // Whole vectors, as many queries in each group.
  if (queries > rows) return {1, round_up(divide_up(queries, divide_up(queries, rows)), lanes)};
  std::size_t best = rows / queries;
  const auto full = [&](std::size_t some) {
    return static_cast<double>(some * queries) / static_cast<double>(round_up(some * queries, lanes));
  };
  for (std::size_t some = best + 1; some <= heads && fits(some) && full(best) < kFullGroup; ++some) {
    if (full(some) > full(best)) best = some;
  }
  return {best, queries};
}

bool dot_path_fits(const PlanImpl& plan, Pooling pooling) {
  const double rows = to_double(plan.rows_per_kv_head());
  // Gaussian scores need the norms that packing appends.
  const bool is_product = plan.layer->score == Score::kDot;
  switch (pooling) {
    case Pooling::kDecode:
      return is_product && rows <= kMaxDecodeRows;
    case Pooling::kLanes:
      return is_product && (rows <= most_lane_rows(plan) || plan.shape.num_keys <= kMaxKeysOfGroups);
    case Pooling::kFused:
    case Pooling::kMaterialised:
      break;
  }
  return true;
}

Pooling preferred_dot_path(const PlanImpl& plan) {
  // Prepared keys do not count, though packed ones would be used fastest (14 against 27 us by dot/decode, 8 queries, 4
  // heads, 256 keys of size 64): a plan for prepared keys gives the bits of one for keys. Who wants the 14 asks for the
  // path dot/fused.
  if (dot_path_fits(plan, Pooling::kDecode) && to_double(plan.rows_per_kv_head()) <= most_decode_rows(plan))
    return Pooling::kDecode;
  return dot_path_fits(plan, Pooling::kLanes) && lanes_pay(plan) ? Pooling::kLanes : Pooling::kFused;
}

std::string why_preferred(const PlanImpl& plan, Pooling pooling) {
  const auto count = static_cast<std::int64_t>(to_double(plan.rows_per_kv_head()));
  std::string rows = count == 1 ? "1 query row meets each key-value head"
                                : std::to_string(count) + " query rows share each key-value head";
  switch (pooling) {
    case Pooling::kDecode:
      return rows + ": reading keys and values once, in the order of memory, takes all the time";
    case Pooling::kLanes:
      if (to_double(plan.rows_per_kv_head()) > most_lane_rows(plan)) {
        return rows + ": they fill the lanes group by group, and so few keys would fill tiles badly";
      }
      return rows + ": they fill the lanes, and packing keys and values would take longer than using them";
    case Pooling::kFused:
      return rows + ", enough to be worth packing keys and values for online softmax";
    case Pooling::kMaterialised:
      break;
  }
  return rows;
}

}  // namespace attend::detail
