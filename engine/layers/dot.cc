// The layers that lower to a dot product: dot itself, bilinear after one projection, gaussian with a bias per key.
#include <cmath>

#include "attend/layers.h"
#include "engine/layers/names.h"
#include "engine/plan/layer.h"

namespace attend {
namespace {

std::shared_ptr<const detail::LayerImpl> build_dot(const DotOptions& options) {
  if (options.scale) detail::check_scale(*options.scale);
  auto layer = std::make_shared<detail::LayerImpl>();
  layer->name = "dot";
  layer->parameters = "no parameters and equal query and key sizes make this dot-product attention, scale q . k";
  layer->score = detail::Score::kDot;
  layer->scale = options.scale;
  return layer;
}

std::shared_ptr<const detail::LayerImpl> build_gaussian(const GaussianOptions& options) {
  const auto inverse =
      static_cast<float>(1.0 / (static_cast<double>(options.sigma) * static_cast<double>(options.sigma)));
  // By a scale of 0, a key that counts as infinitely far would have no number for a score.
  if (!(options.sigma > 0) || !(inverse > 0) || !detail::is_scale(inverse)) {
    fail("sigma is ", options.sigma,
         ", expected a positive number whose 1 / sigma^2 is above 0 and finite, also when multiplied by log2(e)");
  }
  auto layer = std::make_shared<detail::LayerImpl>();
  layer->name = "gaussian";
  layer->parameters = "sigma makes this a gaussian kernel, -|q - k|^2 / (2 sigma^2): a dot product with a bias per key";
  layer->score = detail::Score::kGaussian;
  layer->sigma = options.sigma;
  return layer;
}

std::shared_ptr<const detail::LayerImpl> build_bilinear(const BilinearParameters& p, const BilinearOptions& options) {
  detail::check_scale(options.scale);
  detail::check_parameter(p.W, "W.weight", {{"Dq"}, {"Dk"}});
  auto layer = std::make_shared<detail::LayerImpl>();
  layer->name = "bilinear";
  layer->parameters = "W makes this bilinear attention, q^T W k";
  layer->score = detail::Score::kDot;
  layer->either_side = true;
  layer->query_size = p.W.size(0);
  layer->key_size = p.W.size(1);
  // Both sides are packed: which one costs less depends on the shape of each plan.
  const TensorView<const float> transposed(p.W.data(), {p.W.size(1), p.W.size(0)}, {p.W.stride(1), p.W.stride(0)});
  layer->query = std::make_shared<matmul::Linear>(transposed, TensorView<const float>(), "W.weight");
  layer->key = std::make_shared<matmul::Linear>(p.W, TensorView<const float>(), "W.weight");
  layer->scale = options.scale;
  return layer;
}

}  // namespace

BilinearParameters BilinearParameters::from(const Parameters& parameters) {
  const bool bare = parameters.contains("W") && !parameters.contains("W.weight");
  return {.W = detail::require(parameters, bare ? "W" : "W.weight", "the (Dq, Dk) matrix of bilinear attention")};
}

DotAttention::DotAttention(const DotOptions& options) : Attention(build_dot(options)) {}
GaussianAttention::GaussianAttention(const GaussianOptions& options) : Attention(build_gaussian(options)) {}
BilinearAttention::BilinearAttention(const BilinearParameters& parameters, const BilinearOptions& options)
    : Attention(build_bilinear(parameters, options)) {}

}  // namespace attend
