#include "engine/kernels/additive_score.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>

// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/kernels/additive_score.cc"
#include <hwy/foreach_target.h>  // before highway.h
#include <hwy/highway.h>
#include "engine/kernels/for_target.h"
#include "engine/kernels/additive_score-inl.h"
#include "engine/kernels/factored_score-inl.h"
#include "engine/kernels/key_exps-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace attend {
namespace kernels {
namespace HWY_NAMESPACE {
namespace {

void Direct(const AdditiveScoreArgs& args) { AdditiveScoreDirect(hn::ScalableTag<float>(), args); }
void Factored(const FactoredScoreArgs& args) { FactoredScore(hn::ScalableTag<float>(), args); }
void ExpPanelsF32(const ExpPanelsArgs& args) { ExpPanels(hn::ScalableTag<float>(), args); }
void ExpKeysF32(const ExpKeysArgs& args) { ExpKeys(hn::ScalableTag<float>(), args); }
void ExpRowsF32(const ExpRowsArgs& args) { ExpRows(hn::ScalableTag<float>(), args); }

AdditiveScoreKernels Kernels() {
  AdditiveScoreKernels kernels;
  kernels.direct = &Direct;
  kernels.factored = &Factored;
  kernels.exp_panels = &ExpPanelsF32;
  kernels.exp_keys = &ExpKeysF32;
  kernels.exp_rows = &ExpRowsF32;
  return kernels;
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace kernels
}  // namespace attend
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace attend::kernels {

AdditiveScoreKernels additive_score_kernels(std::int64_t target) { ATTEND_RETURN_FOR_TARGET(target, Kernels); }

float fold_w_v(const float* w_v, std::size_t num_hiddens, float* folded) {
  float max = 0.0f;
  for (std::size_t u = 0; u < num_hiddens; ++u) {
    if (std::abs(w_v[u]) > max) max = std::abs(w_v[u]);
  }
  int exponent = 0;
  if (max > 0.0f && max <= std::numeric_limits<float>::max()) exponent = std::min(std::ilogb(max) + 1, 127);
  for (std::size_t u = 0; u < num_hiddens; u += 4, folded += 6) {
    float x[4] = {};
    for (std::size_t i = 0; i < std::min<std::size_t>(4, num_hiddens - u); ++i) {
      x[i] = std::scalbn(w_v[u + i], -exponent);
      if (std::abs(x[i]) < std::numeric_limits<float>::min()) x[i] = 0.0f;
      folded[i] = -2.0f * x[i];
    }
    for (std::size_t i = std::min<std::size_t>(4, num_hiddens - u); i < 4; ++i) folded[i] = 0.0f;
    folded[4] = x[0] + x[1];
    folded[5] = x[2] + x[3];
  }
  return std::scalbn(1.0f, exponent);
}

}  // namespace attend::kernels
#endif
