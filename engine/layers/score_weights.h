// The weights w_v of an additive score, one row per head, in both forms that kernels read.
#ifndef ATTEND_LAYERS_SCORE_WEIGHTS_H_
#define ATTEND_LAYERS_SCORE_WEIGHTS_H_

#include <cstddef>
#include <utility>
#include <vector>

#include "engine/kernels/additive_score.h"
#include "engine/plan/layer.h"

namespace attend::detail {

// w_v: (num_heads, score_size), dense. The layer's num_heads and score_size are set.
inline void set_score_weights(LayerImpl& layer, std::vector<float> w_v) {
  const auto size = static_cast<std::size_t>(layer.score_size), folded_size = kernels::folded_w_v_size(size);
  const auto heads = static_cast<std::size_t>(layer.num_heads);
  layer.w_v = std::move(w_v);
  layer.folded_w_v.resize(heads * folded_size);
  for (std::size_t h = 0; h < heads; ++h) {
    layer.w_v_scales.push_back(kernels::fold_w_v(&layer.w_v[h * size], size, &layer.folded_w_v[h * folded_size]));
  }
}

}  // namespace attend::detail

#endif  // ATTEND_LAYERS_SCORE_WEIGHTS_H_
