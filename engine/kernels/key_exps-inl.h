// Exponentials of projected keys: rows b of keys become columns of e^2b, and max|b| of each key is taken on the way.
// The transposition of pack-inl.h with an exponential between its shuffles and its stores: each is read once and
// written once.
#if defined(ATTEND_KERNELS_KEY_EXPS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ATTEND_KERNELS_KEY_EXPS_INL_H_
#undef ATTEND_KERNELS_KEY_EXPS_INL_H_
#else
#define ATTEND_KERNELS_KEY_EXPS_INL_H_
#endif

#include <hwy/highway.h>

#include <cstddef>

#include "engine/kernels/additive_score.h"
#include "engine/kernels/factored_score-inl.h"
#include "engine/simd/compat-inl.h"
#include "engine/simd/math-inl.h"
#include "engine/simd/tail-inl.h"
#include "engine/simd/transpose-inl.h"

HWY_BEFORE_NAMESPACE();
namespace attend {
namespace kernels {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
namespace simd = attend::HWY_NAMESPACE;

// e^2b, for b in the range of a tier; max becomes max(max, |b|), or stays where b is NaN.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V ExpAndMax(D d, V b, V& max) {
  max = simd::MaxKeepNaN(d, max, hn::Abs(b));  // NaN is passed over
  return simd::ExpInRange<2>(d, b);
}

// At most a vector of keys. to: their columns, units `width` apart, of which num_columns >= num_keys are written, with
// 1 where there is no key; kWhole: a vector of them, aligned.
template <bool kWhole, class D>
HWY_INLINE void ExpVectorOfKeys(D d, const float* rows, std::ptrdiff_t stride, size_t num_keys, size_t num_columns,
                                size_t num_hiddens, float* HWY_RESTRICT to, size_t width, float* HWY_RESTRICT key_max) {
  using V = hn::Vec<D>;
  const size_t step = kWhole ? hn::Lanes(d) : width;
  V max = hn::Zero(d);
#if ATTEND_TRANSPOSES_IN_REGISTERS
  const auto store = [&max, num_keys, num_columns](V b, D tag, float* HWY_RESTRICT p) ATTEND_INLINE_ATTR {
    if (num_keys < num_columns) b = hn::IfThenElseZero(hn::FirstN(tag, num_keys), b);
    const V exps = ExpAndMax(tag, b, max);
    if constexpr (kWhole) {
      hn::Store(exps, tag, p);
    } else {
      simd::StoreTail(exps, tag, p, num_columns);
    }
  };
  simd::transpose::AllColumns(d, rows, stride, num_keys, num_hiddens, to, step, store);
#else
  simd::TransposeRowsExactly(d, rows, stride, num_keys, num_hiddens, to, step);
  for (size_t u = 0; u < num_hiddens; ++u) {
    const V b = simd::LoadTail(d, to + u * step, num_keys);
    simd::StoreTail(ExpAndMax(d, b, max), d, to + u * step, num_columns);
  }
#endif
  simd::StoreTail(max, d, key_max, num_keys);
}

template <class D>
HWY_INLINE void ExpKeys(D d, const ExpKeysArgs& args) {
  const size_t lanes = hn::Lanes(d);
  const size_t end = args.first + args.num_keys;
  for (size_t j = args.first; j < end;) {
    const size_t column = j % lanes, vector = j - column, count = HWY_MIN(lanes - column, end - j);
    const size_t width = exps_width(args.num_all - vector, lanes);
    // Behind the last key, the rest of its vector: what stood there might be slow to compute with.
    const size_t columns = end == args.num_all ? width - column : count;
    float* HWY_RESTRICT to = args.exps + vector * args.num_hiddens + column;
    float* HWY_RESTRICT key_max = args.key_max + j;
    const float* rows = args.rows + static_cast<std::ptrdiff_t>(j - args.first) * args.stride;
    if (columns == lanes) {
      ExpVectorOfKeys<true>(d, rows, args.stride, count, columns, args.num_hiddens, to, width, key_max);
    } else {
      ExpVectorOfKeys<false>(d, rows, args.stride, count, columns, args.num_hiddens, to, width, key_max);
    }
    j += count;
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace kernels
}  // namespace attend
HWY_AFTER_NAMESPACE();

#endif  // ATTEND_KERNELS_KEY_EXPS_INL_H_
