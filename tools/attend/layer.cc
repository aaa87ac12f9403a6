#include "tools/attend/layer.h"

#include <string_view>
#include <utility>

#include "attend/error.h"
#include "tools/attend/argument.h"
#include "tools/attend/generate.h"
#include "tools/attend/memory.h"

namespace attend::tools {
namespace {

constexpr std::int64_t kAdditiveHiddens = 64;
constexpr std::int64_t kHiddensPerHead = 16;

MultiHeadOptions multi_head_options(const LayerWords& words) {
  return {.num_heads = words.num_heads.value_or(1),
          .scoring = words.additive_scoring ? Scoring::kAdditive : Scoring::kDot,
          .scale = words.scale,
          .num_kv_heads = words.num_kv_heads.value_or(0)};
}

BilinearOptions bilinear_options(const LayerWords& words) {
  BilinearOptions options;
  if (words.scale) options.scale = *words.scale;
  return options;
}

GaussianOptions gaussian_options(const LayerWords& words) {
  GaussianOptions options;
  if (words.sigma) options.sigma = *words.sigma;
  return options;
}

Parameters invent_parameters(const LayerWords& words, const Shape& shape) {
  InventedSizes sizes{.query_size = shape.query_size,
                      .key_size = shape.key_size,
                      .value_size = shape.value_size,
                      .num_hiddens = words.num_hiddens.value_or(kAdditiveHiddens),
                      .num_heads = words.num_heads.value_or(1),
                      .num_kv_heads = words.num_kv_heads.value_or(words.num_heads.value_or(1)),
                      .additive_scoring = words.additive_scoring};
  switch (words.kind) {
    case LayerKind::kAdditive:
      return invent_additive(sizes);
    case LayerKind::kBilinear:
      return invent_bilinear(sizes);
    case LayerKind::kMultiHead:
      if (!words.num_hiddens) {
        sizes.num_hiddens = static_cast<std::int64_t>(num_elements({kHiddensPerHead, sizes.num_heads}));
      }
      return invent_multi_head(sizes);
    default:
      return {};
  }
}

Attention build(const LayerWords& words, const Parameters& parameters, const Shape& sizes) {
  switch (words.kind) {
    case LayerKind::kAdditive:
      return AdditiveAttention(parameters);
    case LayerKind::kDot:
      return DotAttention({.scale = words.scale});
    case LayerKind::kBilinear:
      return BilinearAttention(parameters, bilinear_options(words));
    case LayerKind::kGaussian:
      return GaussianAttention(gaussian_options(words));
    case LayerKind::kMultiHead:
      return MultiHeadAttention(multi_head_options(words), parameters);
    case LayerKind::kAuto:
      break;
  }
  return Attention::choose(parameters, sizes.query_size, sizes.key_size);
}

bool are_multi_head(const Parameters& parameters) {
  try {
    static_cast<void>(MultiHeadParameters::from(parameters));
    return true;
  } catch (const Error&) {
    return false;
  }
}

LayerKind kind_of(std::string_view name) {
  if (name == "additive") return LayerKind::kAdditive;
  if (name == "bilinear") return LayerKind::kBilinear;
  if (name == "gaussian") return LayerKind::kGaussian;
  return name == "multi-head" ? LayerKind::kMultiHead : LayerKind::kDot;
}

}  // namespace

Layer make_layer(const LayerWords& words, const Shape& sizes, io::Notices& notices) {
  auto parameters = std::make_shared<const Parameters>(
      words.weights.empty() ? invent_parameters(words, sizes) : read_argument("--weights", [&] {
        return io::load(words.weights, words.prefix, &notices);
      }));
  if (words.kind == LayerKind::kAuto && are_multi_head(*parameters)) {
    throw Error(parameters->source() +
                ": these are the parameters of multi-head attention, whose number of heads they do " +
                "not say: expected --layer multi-head --num-heads H");
  }
  if (words.kind == LayerKind::kMultiHead && !words.num_heads) {
    notices.push_back("--num-heads is not given: 1 head");
  }
  const Attention attention = with_memory_for("the packed weights of " + parameters->source(),
                                              [&] { return build(words, *parameters, sizes); });
  return {.attention = attention,
          .kind = kind_of(attention.name()),
          .parameters = std::move(parameters),
          .dot = {.scale = words.scale},
          .bilinear = bilinear_options(words),
          .gaussian = gaussian_options(words),
          .multi_head = multi_head_options(words)};
}

reference::Result truth(const Layer& layer, const Inputs& inputs, const reference::Mask& mask) {
  const Parameters& parameters = *layer.parameters;
  switch (layer.kind) {
    case LayerKind::kAdditive:
      return reference::additive(AdditiveParameters::from(parameters), inputs, mask);
    case LayerKind::kBilinear:
      return reference::bilinear(BilinearParameters::from(parameters), layer.bilinear, inputs, mask);
    case LayerKind::kGaussian:
      return reference::gaussian(layer.gaussian, inputs, mask);
    case LayerKind::kMultiHead:
      return reference::multi_head(layer.multi_head, MultiHeadParameters::from(parameters), inputs, mask);
    default:
      return reference::dot(layer.dot, inputs, mask);
  }
}

}  // namespace attend::tools
