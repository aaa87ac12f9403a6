#include "engine/plan/pair_rules.h"

#include "engine/base/checked.h"
#include "engine/plan/prefetch_rules.h"

namespace attend::detail {
namespace {

// From which on pairs win: query rows that share a key-value head, size of a head's keys or values, and terms: that
// size times the keys.
struct Threshold {
  double rows, size, terms;
  bool holds(double its_rows, double its_size, double keys) const {
    return its_rows >= rows && its_size >= size && its_size * keys >= terms;
  }
};

// Scores have to win what looking at rows and keys costs: some 15 ns a row and 3 a key, of which a term saves 5 ps.
// Plain tiles' time by that of pairs, EPYC (Zen 4), AVX3, dot/fused of 4 heads; attend plan --layer dot
// --shape 1,48,128,64 --num-heads 4 --tune, with --pairs always and never:
//
//     size 32:   64 queries of 128 keys 0.99, of 512 1.04    512 queries of 128 keys 1.01, of 512 1.07
//     size 64:   64 queries of  64 keys 0.98, of 128 1.02, of 512 1.08    16 of 512 1.00, 32 1.04
//     size 128:  64 queries of  64 keys 1.01, of 128 1.04, of 512 1.09    512 of 512 1.12
constexpr Threshold kScores{.rows = 48, .size = 32, .terms = 8192};

// With 16 registers (AVX2), where tiles go up to 1.15 times as fast by pairs as plainly (tile_pairs/* and
// tile_product/qk_*), and pooling no faster than its looks take. EPYC (Zen 4) without AVX-512, plain tiles' time by
// that of scores by pairs, attend plan --layer dot --shape 1,512,512,64 --num-heads 12 --measure, and with --pairs
// never:
//
//     size 64:   256 queries of 512 keys 1.01, of 1024 1.02    512 of 512 1.03    2048 of 512 1.03
//     size 128:  256 of 256 1.03    512 of 256 1.03
//
// Fewer terms, and fewer rows, which share what looking at keys takes, are not measured.
constexpr Threshold kScoresWith16Registers{.rows = 256, .size = 64, .terms = 32768};
// Rows of a projection up to which weights from memory are waited for, which whole sums fetch earlier than slices of
// them: plain time by that of pairs, linear/r*_i2048_o8192/AVX2, 4 rows 0.85, 16 rows 0.91; of weights in L3 or L2,
// linear/r*_i768_o768, 1 row 1.18, 4 rows 1.03, 16 rows 1.10, 256 rows 1.12.
constexpr double kFewMappedRows = 16;

// The same of pooling, whose looks are some 6 ns a row of a block of 128 keys and 3 ns a row of 64 values. Plain tiles'
// time by that of pairs, where scores go as above:
//
//     size 64:   32 queries of 128 keys 1.00, of 512 1.01    48 of 64 0.96, of 128 1.02, of 512 1.06
//                128 of 48 1.00, of 64 1.00, of 96 1.05, of 128 1.05    512 of 512 1.10
//     size 128:  32 queries of 512 keys 1.00    48 of 64 0.99, of 128 1.04, of 512 1.06    128 of 48 1.03, of 128 1.08
//     size 32:   64 queries of 128 keys 0.97, of 2048 1.01    128 of 128 1.00, of 512 1.03    512 of 512 1.04
//     size 48:   64 queries of 256 keys 1.00    128 of 512 1.04
constexpr Threshold kPooling{.rows = 48, .size = 64, .terms = 6144},
    kNarrowPooling{.rows = 128, .size = 32, .terms = 8192};

// EPYC (Zen 5), where a tile goes 1.25 times as fast by pairs as plainly, looks not counted (tile_pairs/*,
// value_pairs/*, tile_product/*), in quiet hours. Plain tiles' time by that of scores by pairs, AVX3, 4 heads, pooling
// by pairs from 192 queries and size 32 on; medians of seven runs in turns of attend plan --layer dot --shape
// 1,128,256,64 --num-heads 4 --measure, of builds with the one rule and the other:
//
//     size 32:   256 queries of 512 keys 1.02    512 of 512 1.03, of 1024 1.00
//     size 48:   256 of 256 1.04    512 of 512 1.06
//     size 64:   64 of 512 0.99    128 of 128 0.99, of 256 1.04, of 512 0.99    256 of 128 1.01, of 256 1.05,
//                of 512 1.07    512 of 64 0.95, of 128 1.01, of 256 1.06, of 512 1.08
//     size 96:   256 of 128 1.00    512 of 512 1.08
//     size 128:  128 of 128 1.01, of 512 1.00    256 of 128 1.02    512 of 64 0.99, of 128 1.04, of 512 1.07
//
// Where somebody else's thread shares the core, pairs lose: a step of theirs needs six of the eight instructions that
// the core can start in a cycle. attend plan --layer dot --shape 1,512,512,64 --num-heads 12 --tune, by the rules and
// without pairs, least and median, in the same minute: a core left alone 3.80 and 4.37 ms, 3.97 and 4.59; a shared one
// 5.61 and 5.39, 5.79 and 5.69. --shape 8,512,512,64: 32.0 and 34.9; 45.8 and 42.4, another time 46.7 and 42.0,
// 49.4 and 42.7. Which of the two it will be no fact tells, so that the rule takes a service to have its cores to
// itself, and tune measures.
constexpr Threshold kScoresOnZen5{.rows = 96, .size = 48, .terms = 12288};
// And then that of pooling by pairs as well:
//
//     size 32:   256 of 512 1.01    512 of 128 0.99, of 256 1.01, of 512 1.02
//     size 48:   256 of 256 0.96    512 of 128 0.96, of 512 0.96
//     size 64:   96 of 512 0.98    128 of 256 1.01, of 512 1.01, of 1024 1.00    160 of 512 1.04    192 of 256 1.04
//                256 of 64 0.97, of 128 1.02, of 256 1.03, of 512 1.05    512 of 64 0.99, of 96 1.02, of 128 1.05,
//                of 256 1.05, of 512 1.05, of 1024 1.04; of 512 with a causal mask 1.00
//     size 96:   256 of 256 1.05    512 of 512 1.06
//     size 128:  128 of 512 1.00    192 of 512 1.04    256 of 128 1.07    512 of 64 1.02, of 128 1.06, of 512 1.05
constexpr Threshold kPoolingOnZen5{.rows = 160, .size = 64, .terms = 8192};
// Since next rows are prefetched by fours (kernels/prefetch.h), fewer rows gain as well. Time of dot/fused by that rule
// by its time with this one besides, 8 heads; medians of five runs in turns of attend plan --layer dot --shape
// 1,128,512,64 --num-heads 8 --tune, of two builds, in quiet minutes:
//
//     size 64:   128 of 256 1.03, of 512 1.03, of 1024 1.03    144 of 256 1.01, of 512 1.04
//     size 96:   128 of 256 1.02    size 128:  128 of 128 1.02, of 512 1.02
constexpr Threshold kFewerRowsOnZen5{.rows = 128, .size = 64, .terms = 16384};

// Additive scores take most of the time, and those of many hidden units leave few keys most of the weight, of numbers
// without training at least: rows that are not fit. Value columns per hidden unit, EPYC (Zen 4), 256 queries of 512 or
// 1024 keys, values of 256: 128 hidden units 1.06, 256 0.99; 128 queries 1.02, 64 of 256 units 0.98.
constexpr double kAdditiveRows = 128, kValuesPerHidden = 2;

// Of which the kernels take pairs for four rows at a time, not eight.
bool has_16_registers(const PlanImpl& plan) { return !plan.kernels->few_rows.has_32_registers; }

}  // namespace

bool tiles_score_by_pairs(const PlanImpl& plan, const Cpu& cpu) {
  const double size = to_double(plan.score_size), keys = to_double(plan.shape.num_keys);
  const bool fits = plan.layer->score == Score::kDot && size >= double{kernels::kMinTilePairsSize} &&
                    size <= double{kernels::kMaxTilePairsSize} &&
                    keys >= static_cast<double>(plan.kernels->pack.panel_width);
  if (!fits || plan.parts || plan.options.pairs == Pairs::kNever) return false;
  if (plan.options.pairs == Pairs::kAlways) return true;
  const double rows = to_double(plan.rows_per_kv_head());
  if (!cpu.adds_beside_products() || !plan.kernels->tile_pairs.has_registers_for_pairs) return false;
  if (has_16_registers(plan)) return !cpu.is_zen5() && kScoresWith16Registers.holds(rows, size, keys);
  return (cpu.is_zen5() ? kScoresOnZen5 : kScores).holds(rows, size, keys);
}

bool map_may_go_by_pairs(const PlanImpl& plan, const matmul::Linear& map, double rows, const Cpu& cpu) {
  if (plan.options.pairs == Pairs::kNever) return false;
  if (!has_16_registers(plan) || plan.options.pairs == Pairs::kAlways) return true;
  const std::size_t bytes = map.in_size() * map.out_size() * sizeof(float);
  return rows > kFewMappedRows || bytes < cpu.least_far_bytes();
}

bool tiles_pool_by_pairs(const PlanImpl& plan, const Cpu& cpu) {
  const double keys = to_double(plan.shape.num_keys), size = to_double(plan.head_value_size);
  // Blocks of values are blocks of tiles.
  const bool fits = !plan.reads_rows() && !plan.has_chunks() && size > 0 && keys > 0 &&
                    (plan.tile_keys % kernels::kInnerBlock == 0 || plan.tile_keys == plan.span_keys);
  if (!fits || plan.parts || plan.options.pairs == Pairs::kNever) return false;
  if (plan.options.pairs == Pairs::kAlways) return true;
  if (!cpu.adds_beside_products() || !plan.kernels->value_pairs.has_registers_for_pairs) return false;
  const double rows = to_double(plan.rows_per_kv_head());
  if (plan.layer->score == Score::kAdditive) {
    return rows >= kAdditiveRows && size >= kValuesPerHidden * to_double(plan.score_size);
  }
  if (cpu.is_zen5()) return kPoolingOnZen5.holds(rows, size, keys) || kFewerRowsOnZen5.holds(rows, size, keys);
  return (size >= kPooling.size ? kPooling : kNarrowPooling).holds(rows, size, keys);
}

bool goes_by_pairs(const PlanImpl& plan) {
  if (plan.pairs_scores || plan.pairs_values) return true;
  for (const matmul::Linear* map : {plan.query_map, plan.key_map, plan.value_map, plan.output_map}) {
    if (map != nullptr && map->goes_by_pairs(plan.linear_rows(map))) return true;
  }
  return false;
}

void choose_pairs(PlanImpl& plan) {
  // Chunks of keys: few queries.
  plan.pairs_scores = !plan.has_chunks() && !plan.reads_rows() && tiles_score_by_pairs(plan, this_cpu());
  plan.pairs_values = tiles_pool_by_pairs(plan, this_cpu());
  plan.next_rows_into_l1 = next_rows_go_into_l1(this_cpu());
  const bool is_asked = plan.options.pairs == Pairs::kAlways;
  std::string why =
      is_asked ? "asked for" : "this CPU adds beside multiplying, so that three terms take the time of two";
  if (!is_asked && this_cpu().is_zen5()) why += ", more where other work shares the core: Planner::tune measures both";
  const auto give_reason = [&](const char* name, const char* which) {
    plan.reasons.push_back({name, std::string("by pairs of terms, where ") + which + " are fit for it: " + why});
  };
  if (plan.pairs_scores) give_reason("scores", "queries and keys");
  if (plan.pairs_values) give_reason("pooling", "weights and values");
}

}  // namespace attend::detail
