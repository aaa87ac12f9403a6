// Softmax of rows in memory, in three passes: max; powers of two and sum; scale.
//
//     m = round(log2(e) max_j s_j)     p_j = 2^(log2(e) s_j - m)     weight_j = p_j / sum_j p_j
//
// Two passes (a running maximum, as in softmax_tile) would save one reading of the row but cost a second exponential
// per element; a row of up to 8192 scores stays in L1, where the third pass is nearly free.
#if defined(ATTEND_KERNELS_MASKED_SOFTMAX_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ATTEND_KERNELS_MASKED_SOFTMAX_INL_H_
#undef ATTEND_KERNELS_MASKED_SOFTMAX_INL_H_
#else
#define ATTEND_KERNELS_MASKED_SOFTMAX_INL_H_
#endif

#include <hwy/highway.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>

#include "engine/kernels/masked_softmax.h"
#include "engine/kernels/softmax_row-inl.h"

HWY_BEFORE_NAMESPACE();
namespace attend {
namespace kernels {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
namespace simd = attend::HWY_NAMESPACE;

// row_j *= factor.
template <class D>
HWY_INLINE void ScaleRow(D d, float* HWY_RESTRICT row, size_t n, float factor) {
  const size_t N = hn::Lanes(d);
  const hn::Vec<D> f = hn::Set(d, factor);
  size_t j = 0;
  for (; j + 4 * N <= n; j += 4 * N) {
    const hn::Vec<D> p0 = hn::Mul(hn::LoadU(d, row + j), f), p1 = hn::Mul(hn::LoadU(d, row + j + N), f);
    const hn::Vec<D> p2 = hn::Mul(hn::LoadU(d, row + j + 2 * N), f), p3 = hn::Mul(hn::LoadU(d, row + j + 3 * N), f);
    hn::StoreU(p0, d, row + j);
    hn::StoreU(p1, d, row + j + N);
    hn::StoreU(p2, d, row + j + 2 * N);
    hn::StoreU(p3, d, row + j + 3 * N);
  }
  for (; j + N <= n; j += N) hn::StoreU(hn::Mul(hn::LoadU(d, row + j), f), d, row + j);
  if (j < n) simd::StoreTail(hn::Mul(simd::LoadTail(d, row + j, n - j), f), d, row + j, n - j);
}

// The row that comes next. Its scores, as far as they are valid, and its place in the output are asked for while the
// powers of the present row are computed, the one pass in which memory has time, and while its zeros are written.
// masked_softmax/r4096_n1024 and _lens on AVX3, Cascade Lake, 32 MB: 3.1 -> 2.0 ms and 2.7 -> 1.7. In the pass that
// scales instead, 2.7; into L2, 2.25; the scores alone and the output in the pass that scales, 2.6. Zen 4 is faster
// where its own prefetchers are left alone (run/masked_softmax.cc).
struct NextRow {
  const float* input;
  size_t len;           // of input to ask for
  const float* output;  // nullptr: not asked for

  HWY_INLINE void operator()(size_t j, size_t count) const {
    constexpr size_t kLine = 64 / sizeof(float);
    if (output != nullptr) {
      for (size_t i = j; i < j + count; i += kLine) __builtin_prefetch(output + i, 1, 3);
    }
    if (j >= len) return;
    for (size_t i = j; i < j + count; i += kLine) __builtin_prefetch(input + i, 0, 3);
  }
};

// row_j = 0 for begin <= j < end.
template <class D>
HWY_INLINE void ClearRow(D d, float* HWY_RESTRICT row, size_t begin, size_t end, const NextRow& next) {
  const size_t N = hn::Lanes(d);
  if (end - begin >= 32 * N) {
    const size_t first = hwy::RoundUpTo(begin, N);
    std::memset(row + begin, 0, (first - begin) * sizeof(float));
    for (begin = first; begin + 8 * N <= end; begin += 8 * N) {
      next(begin, 8 * N);
      for (size_t i = 0; i < 8; ++i) hn::StoreU(hn::Zero(d), d, row + begin + i * N);
    }
  }
  std::memset(row + begin, 0, (end - begin) * sizeof(float));
}

// p_j of one row, and what they are to be multiplied by.
template <class D>
HWY_INLINE float UnscaledSoftmax(D d, const float* input, size_t n, float* p, const NextRow& next) {
  using V = hn::Vec<D>;
  const float max = simd::HorizontalMax(d, RowMaxLanes(d, input, n));
  constexpr float kInverse = 1.0f / kLog2E, kPlain = 0x1p20f;
  RowExponent exponent{Exponents::kClamped, kLog2E, 0.0f, 0.0f, max};
  // With FMA, log2(e) s - m is rounded once: what that may be wrong by grows with the distance from the maximum, as the
  // weight falls, and not with the score. Otherwise, and for scores of a million, the maximum is subtracted first.
  if (simd::kScalesExactly && max > -kPlain && max < kPlain) {
    const hn::CappedTag<float, 1> one;
    const float m = hn::GetLane(hn::Round(hn::Set(one, max * kLog2E)));
    exponent = ExponentOfRow(kLog2E, kInverse, m);
  } else if (max == -std::numeric_limits<float>::infinity()) {
    exponent.subtract = 0.0f;  // no score above -inf: all weigh 0
  }
  V sums = hn::Zero(d), lost = hn::Zero(d);
  ExponentialsAndSum(d, input, p, n, exponent, next, sums, lost);
  const double sum = simd::HorizontalSum(d, sums, lost);
  // A sum of 0 means that all scores are -inf: the row stays 0. NaN is not 0, and spreads to the whole row.
  return sum == 0.0 ? 0.0f : static_cast<float>(1.0 / sum);
}

// Streaming stores lost before the next row was asked for (Emerald Rapids), past the caches from a buffer that held the
// row: 1.68 ms instead of 1.51 for masked_softmax/r4096_n1024 (1.86 with the next row's input fetched ahead). The copy
// alone takes 1.23 ms, by streaming stores 1.00: but they come in bursts here, between passes that wait for nothing.
template <class D>
HWY_INLINE void MaskedSoftmaxRows(D d, const MaskedSoftmaxArgs& args) {
  if (args.num_columns == 0) return;  // there may be no memory
  const auto length = [&args](size_t r) {
    return args.valid_lens == nullptr
               ? args.num_columns
               : static_cast<size_t>(args.valid_lens[static_cast<std::ptrdiff_t>(r) * args.valid_lens_stride]);
  };
  for (size_t r = 0; r < args.num_rows; ++r) {
    const std::ptrdiff_t row = static_cast<std::ptrdiff_t>(r);
    const float* input = args.input + row * args.input_stride;
    float* output = args.output + row * args.output_stride;
    const size_t len = length(r);
    NextRow next{input + args.input_stride, length(r + 1 < args.num_rows ? r + 1 : r), output + args.output_stride};
    if (args.ask_ahead == AskAhead::kBreaks) {
      next.output = nullptr;
      if (args.input_stride == static_cast<std::ptrdiff_t>(len)) next.len = 0;  // the next row goes on from this one
    }
    if (len != 0) ScaleRow(d, output, len, UnscaledSoftmax(d, input, len, output, next));
    ClearRow(d, output, len, args.num_columns, next);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace kernels
}  // namespace attend
HWY_AFTER_NAMESPACE();

#endif  // ATTEND_KERNELS_MASKED_SOFTMAX_INL_H_
