#include "engine/plan/pair_rules.h"

namespace attend::detail {
namespace {

// Query rows that share a key-value head, size of a head, and terms of a row's scores, from which on pairs win what
// looking at rows and keys costs: some 15 ns a row and 3 a key, of which a term saves 5 ps. Plain tiles' time by that of
// pairs, EPYC (Zen 4), AVX3, dot/fused of 4 heads; attend plan --layer dot --shape 1,48,128,64 --num-heads 4 --tune, with
// --pairs always and never:
//
//     size 32:   64 queries of 128 keys 0.99, of 512 1.04    512 queries of 128 keys 1.01, of 512 1.07
//     size 64:   64 queries of  64 keys 0.98, of 128 1.02, of 512 1.08    16 of 512 1.00, 32 1.04
//     size 128:  64 queries of  64 keys 1.01, of 128 1.04, of 512 1.09    512 of 512 1.12
constexpr double kLeastRows = 48, kLeastSize = 32, kLeastTerms = 8192;

double to_double(std::int64_t n) { return static_cast<double>(n); }

}  // namespace

bool tiles_score_by_pairs(const PlanImpl& plan, const Cpu& cpu) {
  const double size = to_double(plan.score_size), keys = to_double(plan.shape.num_keys);
  const bool fits = plan.layer->score == Score::kDot && size >= double{kernels::kLeastTilePairsSize} &&
                    size <= double{kernels::kMostTilePairsSize} &&
                    keys >= static_cast<double>(plan.kernels->pack.panel_width);
  if (!fits || plan.options.pairs == Pairs::kNever) return false;
  if (plan.options.pairs == Pairs::kAlways) return true;
  const double rows = to_double(plan.shape.num_queries) * to_double(plan.group_heads());
  return cpu.adds_beside_products && plan.kernels->tile_pairs.has_registers_for_pairs && rows >= kLeastRows &&
         size >= kLeastSize && size * keys >= kLeastTerms;
}

void choose_pairs(PlanImpl& plan) {
  // Chunks of keys: few queries.
  plan.pairs_scores = plan.chunk_keys == 0 && !plan.reads_rows() && tiles_score_by_pairs(plan, this_cpu());
  if (!plan.pairs_scores) return;
  plan.reasons.push_back(
      {"scores", std::string("by pairs of terms, where queries and keys are fit for it: ") +
                     (plan.options.pairs == Pairs::kAlways
                          ? "asked for"
                          : "this CPU adds beside multiplying, so that three terms take the time of two")});
}

}  // namespace attend::detail
