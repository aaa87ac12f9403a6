// The written rules, in the order in which they build on each other: facts in, choices and their reasons out.
#include "engine/plan/rules.h"

#include <string>

#include "engine/plan/pair_rules.h"
#include "engine/plan/part_rules.h"
#include "engine/plan/path_rules.h"
#include "engine/plan/score_tier_rules.h"
#include "engine/plan/split_rules.h"
#include "engine/plan/tile_rules.h"

namespace attend::detail {
namespace {

// What multiplies by a map, and why this plan has it multiply plainly, where it might do otherwise.
void explain_map(PlanImpl& plan, const matmul::Linear* map, const char* name) {
  if (map == nullptr) return;
  const auto goes_plainly = [map](const kernels::LinearRowsKernels& kernels) {
    return !map->goes_by_parts(kernels) && !map->goes_by_pairs(kernels);
  };
  const char* unless = "";
  if (goes_plainly(plan.linear_rows(map)) && !goes_plainly(plan.kernels->linear_rows)) {
    const bool is_asked = plan.options.parts == Parts::kNever || plan.options.pairs == Pairs::kNever;
    unless = is_asked ? " unless plain sums are asked for, as here" : " unless rows are few, as here";
  }
  plan.reasons.push_back({name, std::to_string(map->in_size()) + " -> " + std::to_string(map->out_size()) + " by " +
                                    map->implementation() + unless + ", weights packed once"});
}

}  // namespace

void apply_rules(PlanImpl& plan) {
  choose_path(plan);
  choose_first_tier(plan);
  choose_parts(plan);
  choose_sizes(plan);
  choose_tiles(plan);
  choose_pairs(plan);
  choose_projection(plan);
  choose_split(plan);
  explain_map(plan, plan.query_map, "query map");
  explain_map(plan, plan.key_map, "key map");
  explain_map(plan, plan.value_map, "value map");
  explain_map(plan, plan.output_map, "output map");
}

}  // namespace attend::detail
