// What all layers share: planning, and the choice of a layer from its parameters.
#include "attend/layers.h"
#include "engine/base/message.h"
#include "engine/plan/layer.h"
#include "engine/plan/planner.h"

namespace attend {

Plan Attention::plan(const Shape& shape, const PlanOptions& options) const {
  return Plan(detail::make_plan(impl_, shape, options));
}

std::string_view Attention::name() const noexcept { return impl_->name; }

Attention Attention::choose(const Parameters& parameters, std::int64_t query_size, std::int64_t key_size) {
  const detail::ParametersPresent present{
      .W_q = parameters.contains("W_q.weight"),
      .W_k = parameters.contains("W_k.weight"),
      .w_v = parameters.contains("w_v.weight"),
      .W = parameters.contains("W.weight") || parameters.contains("W"),
      .multi_head = parameters.contains("W_o.weight") || parameters.contains("in_proj_weight") ||
                    parameters.contains("q_proj_weight") || parameters.contains("query.weight") ||
                    parameters.contains("self.query.weight"),
      .any = !parameters.empty(),
      .source = parameters.source()};
  switch (detail::choose_layer(present, query_size, key_size)) {
    case detail::LayerChoice::kAdditive:
      return AdditiveAttention(parameters);
    case detail::LayerChoice::kBilinear:
      return BilinearAttention(parameters);
    case detail::LayerChoice::kDot:
      break;
  }
  return DotAttention();
}

}  // namespace attend
