#include "engine/plan/part_rules.h"

#include "engine/base/checked.h"
#include "engine/base/cpus.h"
#include "engine/plan/pair_rules.h"
#include "engine/plan/tile_rules.h"

namespace attend::detail {
namespace {

// Queries of a head, those of all heads that share keys, keys, sizes, and terms of the scores of these queries, from
// which on products by parts win what taking keys and values apart costs beside packing, some 10 and 13 ns each of size
// 64: plain tiles' time by that of parts, Intel Xeon with AMX, AVX3, dot/fused of 4 heads; attend plan --layer dot
// --shape 1,64,128,64 --num-heads 4 --tune, with --parts never and without:
//
//     size 32:   64 queries of 128 keys 0.98, of 512 1.10    96 of 128 0.99, of 512 1.21    128 of 64 0.90, of 128 1.05
//     size 64:   48 of 128 0.99, of 256 0.86, of 1024 0.80    64 of 64 0.97, of 128 1.03, of 256 1.14, of 1024 1.04
//                96 of 64 1.10, of 256 1.30    128 of 64 1.20, of 256 1.34    256 of 256 1.45, of 1024 1.54
//     size 128:  64 of 64 1.00, of 128 1.07, of 512 1.03    96 of 64 1.08, of 512 1.20    128 of 512 1.37
//
// Queries in lanes stay with plain products: a kernel that took keys and values apart where they lie, beside the tiles'
// products, and used them once was 1.2 to 1.4 times as slow (dot/b64_h8_m32_n32_d64 2.0 ms for 1.6, b4_h8_m16_n1024_d64
// 2.3 for 1.7, when lanes did not read in order yet).
constexpr double kMinQueries = 24, kMinSharedRows = 64, kMinKeys = 64, kMinSize = 32;
constexpr double kMinTerms = 512 * 1024;
// Where whole rows of scores are kept, tiles and vectors take turns: dot/materialised, as above with
// --attention-weights: 128 queries of 128 keys of size 64 1.02, of 512 1.07, 512 of 512 1.16, 1024 of 1024 1.15. Up to
// as many keys as leave a step of rows in kMaterialisedBytes.
constexpr double kMinTermsOfWholeRows = 2 * 1024 * 1024;
constexpr double kMaxKeysOfWholeRows = kMaterialisedBytes / sizeof(float) / kernels::kPartsRowsPerStep;

// Rows of a projection: weights' parts are 6 bytes where floats are 4, which a few rows wait for. linear/r*_i768_o768,
// Intel Xeon with AMX, plain time by that of parts: 1 row 0.4, 4 rows 0.4, 16 rows 0.9, 48 rows 1.7; crossing at some
// 18 rows, of 256 x 256 weights at 8.
constexpr double kMinMappedRows = 24;

}  // namespace

// By pairs of terms and by bfloat16 parts unless the caller refuses them, and only if the plan is for enough rows: how
// many a run has does not touch their bits.
kernels::LinearRowsKernels PlanImpl::linear_rows(const matmul::Linear* map) const {
  const bool of_keys = map == key_map || map == value_map;
  const double rows = to_double(shape.batch) * to_double(of_keys ? shape.num_keys : shape.num_queries);
  kernels::LinearRowsKernels linear = kernels->linear_rows;
  linear.has_registers_for_pairs = linear.has_registers_for_pairs && map_may_go_by_pairs(*this, *map, rows, this_cpu());
  linear.has_tiles = linear.has_tiles && options.parts != Parts::kNever && rows >= kMinMappedRows;
  return linear;
}

bool tiles_go_by_parts(const PlanImpl& plan, bool has_tiles) {
  const bool fits = plan.layer->score != Score::kAdditive && plan.score_size > 0 && plan.head_value_size > 0 &&
                    plan.shape.num_keys > 0;
  if (!fits || plan.options.parts == Parts::kNever) return false;
  if (plan.options.parts == Parts::kAlways) return true;
  if (!has_tiles || plan.options.pairs == Pairs::kAlways) return false;
  const double queries = to_double(plan.shape.num_queries), rows = queries * to_double(plan.heads_per_kv_head());
  const double keys = to_double(plan.shape.num_keys), size = to_double(plan.score_size);
  if (queries < kMinQueries || rows < kMinSharedRows || keys < kMinKeys) return false;
  if (size < kMinSize || to_double(plan.head_value_size) < kMinSize) return false;
  if (plan.pooling != Pooling::kMaterialised) return rows * keys * size >= kMinTerms;
  return rows * keys * size >= kMinTermsOfWholeRows && keys <= kMaxKeysOfWholeRows;
}

void choose_parts(PlanImpl& plan) {
  plan.parts =
      !plan.reads_rows() && !pools_in_chunks(plan) && tiles_go_by_parts(plan, plan.kernels->tile_parts.has_tiles);
  if (!plan.parts) return;
  plan.reasons.push_back({"products", plan.options.parts == Parts::kAlways
                                          ? "by bfloat16 parts, where numbers have them: asked for"
                                          : "by bfloat16 parts, where numbers have them: this CPU multiplies tiles of "
                                            "such at 16 times the rate of floats, and six products make one of these"});
}

}  // namespace attend::detail
