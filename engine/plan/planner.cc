#include "engine/plan/planner.h"

#include <utility>

#include "engine/base/checked.h"
#include "engine/base/message.h"
#include "engine/plan/facts.h"
#include "engine/plan/layout.h"
#include "engine/plan/rules.h"

namespace attend::detail {
namespace {

void lay_out(PlanImpl& plan) {
  try {
    lay_out_workspace(plan);
    lay_out_prepared(plan);
  } catch (const TooLarge& error) {
    fail("shape (", sizes_text(plan), ") on ", plan.options.threads, plan.options.threads == 1 ? " thread" : " threads",
         " needs ", error.what());
  }
}

}  // namespace

std::shared_ptr<const PlanImpl> make_plan(std::shared_ptr<const LayerImpl> layer, const Shape& shape,
                                          const PlanOptions& options) {
  auto plan = std::make_shared<PlanImpl>();
  plan->layer = std::move(layer);
  plan->shape = shape;
  plan->options = options;
  plan->kernels = &kernels::kernel_set(options.target.id());
  establish_facts(*plan);
  apply_rules(*plan);
  lay_out(*plan);
  for (const matmul::Linear* map : {plan->query_map, plan->key_map, plan->value_map, plan->output_map}) {
    if (map != nullptr) map->prepare_for(options.threads);
  }
  plan->options.profile = nullptr;  // the caller's, and no longer needed
  return plan;
}

LayerChoice choose_layer(const ParametersPresent& present, std::int64_t query_size, std::int64_t key_size) {
  if (present.multi_head) {
    fail(
        present.source.empty() ? "parameters" : present.source,
        ": these are parameters of multi-head attention, expected W_q, W_k and w_v (additive) or W (bilinear); build a "
        "multi-head layer, which needs num_heads");
  }
  if (present.W_q && present.W_k && present.w_v) return LayerChoice::kAdditive;
  if (present.W) return LayerChoice::kBilinear;
  if (present.any) {
    fail(present.source.empty() ? "parameters" : present.source,
         ": W_q, W_k and w_v (additive attention) or W (bilinear attention) expected, found", present.W_q ? " W_q" : "",
         present.W_k ? " W_k" : "", present.w_v ? " w_v" : "",
         present.W_q || present.W_k || present.w_v ? " alone" : " none of them");
  }
  if (query_size != key_size) {
    fail("queries have size ", query_size, ", keys have ", key_size,
         ", and there are no parameters to map one to the other: give W_q, W_k and w_v for additive attention or W (",
         query_size, ", ", key_size, ") for bilinear attention");
  }
  return LayerChoice::kDot;
}

}  // namespace attend::detail
