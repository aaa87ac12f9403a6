#include <utility>
#include <vector>

#include "attend/layers.h"
#include "engine/layers/names.h"
#include "engine/layers/score_weights.h"
#include "engine/plan/layer.h"

namespace attend {

AdditiveParameters AdditiveParameters::from(const Parameters& parameters) {
  AdditiveParameters p;
  p.W_q = detail::require(parameters, "W_q.weight", "the (U, Dq) matrix of additive attention");
  p.W_k = detail::require(parameters, "W_k.weight", "the (U, Dk) matrix of additive attention");
  p.w_v = detail::require(parameters, "w_v.weight", "the (1, U) vector of additive attention");
  p.b_q = parameters.find("W_q.bias");
  p.b_k = parameters.find("W_k.bias");
  return p;
}

namespace {

std::shared_ptr<const detail::LayerImpl> build(const AdditiveParameters& p) {
  detail::check_parameter(p.W_q, "W_q.weight", {{"U"}, {"Dq"}});
  const std::int64_t num_hiddens = p.W_q.size(0);
  detail::check_parameter(p.W_k, "W_k.weight", {{"U", num_hiddens}, {"Dk"}});
  if (p.w_v.rank() == 2) {
    detail::check_parameter(p.w_v, "w_v.weight", {{"1", 1}, {"U", num_hiddens}});
  } else {
    detail::check_parameter(p.w_v, "w_v.weight", {{"U", num_hiddens}});
  }
  detail::check_bias(p.b_q, "W_q.bias", num_hiddens);
  detail::check_bias(p.b_k, "W_k.bias", num_hiddens);

  auto layer = std::make_shared<detail::LayerImpl>();
  layer->name = "additive";
  layer->parameters = "W_q, W_k and w_v make this additive attention, w_v . tanh(W_q q + W_k k)";
  layer->score = detail::Score::kAdditive;
  layer->num_heads = 1;
  layer->query_size = p.W_q.size(1);
  layer->key_size = p.W_k.size(1);
  layer->score_size = num_hiddens;
  layer->query = std::make_shared<matmul::Linear>(p.W_q, p.b_q, "W_q.weight");
  layer->key = std::make_shared<matmul::Linear>(p.W_k, p.b_k, "W_k.weight");
  std::vector<float> w_v;
  for (std::int64_t u = 0; u < num_hiddens; ++u) w_v.push_back(p.w_v.rank() == 2 ? *p.w_v.at(0, u) : *p.w_v.at(u));
  detail::set_score_weights(*layer, std::move(w_v));
  return layer;
}

}  // namespace

AdditiveAttention::AdditiveAttention(const AdditiveParameters& parameters) : Attention(build(parameters)) {}

}  // namespace attend
