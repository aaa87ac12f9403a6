// What all layers share: planning, and the choice of a layer from its parameters.
#include <algorithm>
#include <array>

#include "attend/layers.h"
#include "engine/base/message.h"
#include "engine/layers/names.h"
#include "engine/plan/layer.h"
#include "engine/plan/planner.h"

namespace attend {
namespace {

// Names that multi-head attention alone has: MultiHeadParameters::from.
bool are_multi_head(const Parameters& parameters) {
  constexpr std::array kNames = {"W_v.weight",   "W_o.weight",        "in_proj_weight", "q_proj_weight",
                                 "query.weight", "self.query.weight", "q_proj.weight"};
  return std::any_of(kNames.begin(), kNames.end(), [&](const char* name) { return parameters.contains(name); });
}

// Parameters of two layers at once say nothing of which is meant.
void check_are_of_one_layer(const Parameters& parameters) {
  const char* bilinear = parameters.contains("W.weight") ? "W.weight" : "W";
  if (!parameters.contains(bilinear)) return;
  for (const char* additive : {"W_q.weight", "W_k.weight", "w_v.weight"}) {
    if (!parameters.contains(additive)) continue;
    fail(detail::source_of(parameters), ": ", bilinear, " and ", additive,
         " are both present, expected parameters of one layer: W_q, W_k and w_v (additive) or W (bilinear)");
  }
}

}  // namespace

Plan Attention::plan(const Shape& shape, const PlanOptions& options) const {
  return Plan(detail::make_plan(impl_, shape, options));
}

std::string_view Attention::name() const noexcept { return impl_->name; }

Attention Attention::choose(const Parameters& parameters, std::int64_t query_size, std::int64_t key_size) {
  const detail::ParametersPresent present{.W_q = parameters.contains("W_q.weight"),
                                          .W_k = parameters.contains("W_k.weight"),
                                          .w_v = parameters.contains("w_v.weight"),
                                          .W = parameters.contains("W.weight") || parameters.contains("W"),
                                          .multi_head = are_multi_head(parameters),
                                          .any = !parameters.empty(),
                                          .source = parameters.source()};
  if (!present.multi_head) check_are_of_one_layer(parameters);
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
