// Additive scores, s[m][j] = sum_u w_u tanh(q_mu + k_ju): lanes run over keys, which stand in panels; queries are
// broadcast.
#if defined(ATTEND_KERNELS_ADDITIVE_SCORE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ATTEND_KERNELS_ADDITIVE_SCORE_INL_H_
#undef ATTEND_KERNELS_ADDITIVE_SCORE_INL_H_
#else
#define ATTEND_KERNELS_ADDITIVE_SCORE_INL_H_
#endif

#include <hwy/highway.h>

#include <cstddef>

#include "engine/kernels/additive_score.h"
#include "engine/kernels/panel-inl.h"
#include "engine/simd/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace attend {
namespace kernels {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
namespace simd = attend::HWY_NAMESPACE;

// Terms added plainly before a compensated addition. Eight terms are wrong by at most 4.5 * 2^-24 sum|w| = 2.7e-7
// sum|w|, and the compensated sum of the blocks adds next to nothing for any number of hidden units.
static constexpr size_t kTermsPerBlock = 8;

// s = sum_u w_u tanh(q_u + k_u) for one query and one vector of keys. 0.29 ns per element on AVX3 and 0.38 on AVX2
// (bench additive_rational/m128_n512_u256, Emerald Rapids). One tanh at a time: the terms depend on each other only
// through the last addition, so the CPU overlaps them by itself. Two terms over a common denominator, hence half the
// divisions, gained 4 % on AVX3 and lost 3 % on AVX2: not worth its two roundings.
template <class D>
HWY_INLINE hn::Vec<D> AdditiveScore(D d, const float* HWY_RESTRICT query, const float* HWY_RESTRICT keys,
                                    size_t keys_step, const float* HWY_RESTRICT w_v, size_t num_hiddens) {
  using V = hn::Vec<D>;
  V sum = hn::Zero(d), lost = hn::Zero(d);
  for (size_t block = 0; block < num_hiddens; block += kTermsPerBlock) {
    const size_t end = HWY_MIN(block + kTermsPerBlock, num_hiddens);
    V terms = hn::Zero(d);
    for (size_t u = block; u < end; ++u) {
      const V sum_qk = hn::Add(hn::Set(d, query[u]), hn::Load(d, keys + u * keys_step));
      terms = hn::MulAdd(hn::Set(d, w_v[u]), simd::Tanh(d, sum_qk), terms);
    }
    simd::CompensatedAdd(d, terms, sum, lost);
  }
  return hn::Sub(sum, lost);
}

// Where row m of the queries is; args: AdditiveScoreArgs or FactoredScoreArgs.
template <class Args>
HWY_INLINE const float* QueryRow(const Args& args, size_t m) {
  const std::ptrdiff_t row = args.query_numbers != nullptr ? args.query_numbers[m] : static_cast<std::ptrdiff_t>(m);
  return args.queries + row * args.queries_stride;
}

// One vector of keys, all queries, then the next vector: the keys' column, num_hiddens vectors, stays in L1.
template <class D>
HWY_INLINE void AdditiveScoreDirect(D d, const AdditiveScoreArgs& args) {
  const size_t N = hn::Lanes(d);
  const size_t panel_width = PanelWidth(d);
  for (size_t panel = 0; panel * panel_width < args.num_keys; ++panel) {
    for (size_t lane = 0; lane < panel_width; lane += N) {
      const float* keys = args.keys + panel * args.keys_panel_stride + lane;
      for (size_t m = 0; m < args.num_queries; ++m) {
        const std::ptrdiff_t row = static_cast<std::ptrdiff_t>(m);
        float* scores = args.scores + row * args.scores_stride + panel * panel_width + lane;
        hn::Store(AdditiveScore(d, QueryRow(args, m), keys, panel_width, args.w_v, args.num_hiddens), d, scores);
      }
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace kernels
}  // namespace attend
HWY_AFTER_NAMESPACE();

#endif  // ATTEND_KERNELS_ADDITIVE_SCORE_INL_H_
