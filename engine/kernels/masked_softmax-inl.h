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

static constexpr size_t kLine = 64 / sizeof(float);

HWY_INLINE size_t ValidLength(const MaskedSoftmaxArgs& args, size_t r) {
  return args.valid_lens == nullptr
             ? args.num_columns
             : static_cast<size_t>(args.valid_lens[static_cast<std::ptrdiff_t>(r) * args.valid_lens_stride]);
}

// SoftmaxPrefetch::kLinesIntoL2: lines of rows one after another, of scores as far as each row is valid, of the output
// in full. As many are prefetched as are used, so that the way ahead stays what it was at first. Not PrefetchLines,
// whose rows are of one size. Into L1 instead, Zen 5 wins 3 to 9 % while nobody else uses L3 and loses a fifth while
// others do (softmax_prefetch, plan/prefetch_rules.cc).
class LinesOfRows {
 public:
  LinesOfRows(const MaskedSoftmaxArgs& args, bool output)
      : args_(args),
        output_(output),
        stride_(output ? args.output_stride : args.input_stride),
        rows_(output ? args.output : args.input) {
    begin_row();
  }

  HWY_INLINE void fetch(size_t count) {
    while (count > 0 && row_ < args_.num_rows) {
      for (; count > 0 && line_ < end_; --count, line_ += kLine) __builtin_prefetch(line_, 0, 2);
      if (line_ < end_) return;
      ++row_;
      begin_row();
    }
  }

 private:
  HWY_INLINE void begin_row() {
    if (row_ >= args_.num_rows) return;
    line_ = rows_ + static_cast<std::ptrdiff_t>(row_) * stride_;
    end_ = line_ + (output_ ? args_.num_columns : ValidLength(args_, row_));
  }

  const MaskedSoftmaxArgs& args_;
  const bool output_;
  const std::ptrdiff_t stride_;
  const float* const rows_;
  size_t row_ = 0;
  const float* line_ = nullptr;
  const float* end_ = nullptr;
};

// How far: 8 KiB each of scores and output. EPYC (Zen 5, into its L1 of 48 KiB), us, masked_softmax/r4096_n1024 and
// _lens on AVX3 by 4, 6, 8, 12 and 16 KiB: 858 828, 824 625, 745 610, 760 638, 830 699, before pieces of lines were
// counted by position; by kBreaks 927 and 825.
static constexpr size_t kLinesAhead = 128;

// Lines that end among elements j to j + count - 1 of a row, so that the pieces of a row sum to its lines.
HWY_INLINE size_t LinesOf(size_t j, size_t count) { return hwy::DivCeil(j + count, kLine) - hwy::DivCeil(j, kLine); }

// The row that comes next. Its scores, as far as they are valid, and its place in the output are prefetched while the
// powers of the present row are computed, the one pass in which memory has time, and while its zeros are written.
// masked_softmax/r4096_n1024 and _lens on AVX3, Cascade Lake, 32 MB: 3.1 -> 2.0 ms and 2.7 -> 1.7. In the pass that
// scales instead, 2.7; into L2, 2.25; the scores alone and the output in the pass that scales, 2.6. Zen 4 is faster
// where its own prefetchers are left alone, but for rows with lengths from memory (softmax_prefetch,
// plan/prefetch_rules.cc).
struct NextRow {
  const float* input;
  size_t len;                     // of input to prefetch
  const float* output;            // nullptr: not prefetched
  LinesOfRows* scores = nullptr;  // with results, what is prefetched instead
  LinesOfRows* results = nullptr;

  HWY_INLINE void operator()(size_t j, size_t count) const {
    if (scores != nullptr) {
      scores->fetch(LinesOf(j, count));
      results->fetch(LinesOf(j, count));
      return;
    }
    if (output != nullptr) {
      for (size_t i = j; i < j + count; i += kLine) __builtin_prefetch(output + i, 1, 3);
    }
    if (j >= len) return;
    for (size_t i = j; i < j + count; i += kLine) __builtin_prefetch(input + i, 0, 3);
  }
  // Before zeros j to j + count - 1 are written.
  HWY_INLINE void before_zeros(size_t j, size_t count) const {
    if (results == nullptr) {
      (*this)(j, count);
    } else {
      results->fetch(LinesOf(j, count));
    }
  }
  // The same for the last of them, which are too few to prefetch more than the output's share.
  HWY_INLINE void before_last_zeros(size_t j, size_t count) const {
    if (results != nullptr) results->fetch(LinesOf(j, count));
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
      next.before_zeros(begin, 8 * N);
      for (size_t i = 0; i < 8; ++i) hn::StoreU(hn::Zero(d), d, row + begin + i * N);
    }
  }
  next.before_last_zeros(begin, end - begin);
  std::memset(row + begin, 0, (end - begin) * sizeof(float));
}

// How a row's powers are taken, from its maximum.
HWY_INLINE RowExponent ExponentOfSoftmax(float max) {
  constexpr float kInverse = 1.0f / kLog2E, kMillion = 0x1p20f;
  RowExponent exponent{Exponents::kClamped, kLog2E, 0.0f, 0.0f, max};
  // With FMA, log2(e) s - m is rounded once: what that may be wrong by grows with the distance from the maximum, as the
  // weight falls, and not with the score. Otherwise, and for scores of a million, the maximum is subtracted first.
  if (simd::kScalesExactly && max > -kMillion && max < kMillion) {
    const hn::CappedTag<float, 1> one;
    const float m = hn::GetLane(hn::Round(hn::Set(one, max * kLog2E)));
    exponent = ExponentOfRow(kLog2E, kInverse, m);
  } else if (max == -std::numeric_limits<float>::infinity()) {
    exponent.subtract = 0.0f;  // no score above -inf: all weigh 0
  }
  return exponent;
}

template <class D>
HWY_INLINE RowExponent ExponentOfRow(D d, const float* input, size_t len) {
  return ExponentOfSoftmax(simd::HorizontalMax(d, RowMaxLanes(d, input, len)));
}

// What powers are to be multiplied by.
template <class D, class V = hn::Vec<D>>
HWY_INLINE float FactorOfSum(D d, V sums, V lost) {
  const double sum = simd::HorizontalSum(d, sums, lost);
  // A sum of 0 means that all scores are -inf: the row stays 0. NaN is not 0, and spreads to the whole row.
  return sum == 0.0 ? 0.0f : static_cast<float>(1.0 / sum);
}

// p_j of one row, and what they are to be multiplied by.
template <class D>
HWY_INLINE float UnscaledSoftmax(D d, const float* input, size_t n, float* p, const RowExponent& exponent,
                                 const NextRow& next) {
  hn::Vec<D> sums = hn::Zero(d), lost = hn::Zero(d);
  ExponentialsAndSum<4>(d, input, p, n, exponent, next, sums, lost);
  return FactorOfSum(d, sums, lost);
}

// The same, while the row before is multiplied by its factor and the lanes of the next row's maximum are taken: three
// passes in one loop, of rows of one length.
template <class D, class V = hn::Vec<D>>
HWY_INLINE float PassesOfThreeRows(D d, const float* input, size_t n, float* p, const RowExponent& exponent,
                                   const NextRow& next, float* HWY_RESTRICT before, float factor,
                                   const float* HWY_RESTRICT after, V& max) {
  const size_t N = hn::Lanes(d);
  const V f = hn::Set(d, factor);
  V sums = hn::Zero(d), lost = hn::Zero(d);
  V max0 = hn::Set(d, -std::numeric_limits<float>::infinity()), max1 = max0;
  const auto scale = [&](size_t j) HWY_ATTR { hn::StoreU(hn::Mul(hn::LoadU(d, before + j), f), d, before + j); };
  size_t j = 0;
  for (; j + 4 * N <= n; j += 4 * N) {
    next(j, 4 * N);
    const V s0 = hn::LoadU(d, input + j), s1 = hn::LoadU(d, input + j + N);
    const V s2 = hn::LoadU(d, input + j + 2 * N), s3 = hn::LoadU(d, input + j + 3 * N);
    max0 = hn::Max(max0, hn::Max(hn::LoadU(d, after + j), hn::LoadU(d, after + j + N)));
    max1 = hn::Max(max1, hn::Max(hn::LoadU(d, after + j + 2 * N), hn::LoadU(d, after + j + 3 * N)));
    scale(j);
    scale(j + N);
    scale(j + 2 * N);
    scale(j + 3 * N);
    const V p0 = Exponential<Exponents::kScaled>(d, s0, exponent),
            p1 = Exponential<Exponents::kScaled>(d, s1, exponent);
    hn::StoreU(p0, d, p + j);
    hn::StoreU(p1, d, p + j + N);
    const V p2 = Exponential<Exponents::kScaled>(d, s2, exponent),
            p3 = Exponential<Exponents::kScaled>(d, s3, exponent);
    hn::StoreU(p2, d, p + j + 2 * N);
    hn::StoreU(p3, d, p + j + 3 * N);
    simd::CompensatedAddOfAny(d, hn::Add(hn::Add(p0, p1), hn::Add(p2, p3)), sums, lost);
  }
  max = hn::Max(max0, max1);
  if (j < n) {
    const auto rest = [&next, j](size_t k, size_t count) ATTEND_INLINE_ATTR { next(j + k, count); };
    ExponentialsAndSum<Exponents::kScaled, 4>(d, input + j, p + j, n - j, exponent, rest, sums, lost);
    ScaleRow(d, before + j, n - j, factor);
    max = hn::Max(max, RowMaxLanes(d, after + j, n - j));
  }
  return FactorOfSum(d, sums, lost);
}

// What is prefetched while a row of length len is at work: scores of one row and the output of another.
HWY_INLINE NextRow NextOf(const MaskedSoftmaxArgs& args, size_t len, size_t next_input, size_t next_output,
                          LinesOfRows& scores, LinesOfRows& results) {
  NextRow next{args.input + static_cast<std::ptrdiff_t>(next_input) * args.input_stride,
               next_input < args.num_rows ? ValidLength(args, next_input) : len,
               args.output + static_cast<std::ptrdiff_t>(next_output) * args.output_stride};
  if (args.prefetch == SoftmaxPrefetch::kLinesIntoL2) {
    next.scores = &scores;
    next.results = &results;
  }
  if (args.prefetch == SoftmaxPrefetch::kBreaks) {
    next.output = nullptr;
    if (args.input_stride == static_cast<std::ptrdiff_t>(len)) next.len = 0;  // the next row goes on from this one
  }
  return next;
}

template <class D>
HWY_INLINE void OneRowAtATime(D d, const MaskedSoftmaxArgs& args, LinesOfRows& scores, LinesOfRows& results) {
  for (size_t r = 0; r < args.num_rows; ++r) {
    const std::ptrdiff_t row = static_cast<std::ptrdiff_t>(r);
    const float* input = args.input + row * args.input_stride;
    float* output = args.output + row * args.output_stride;
    const size_t len = ValidLength(args, r);
    const NextRow next = NextOf(args, len, r + 1, r + 1, scores, results);
    if (len != 0) {
      ScaleRow(d, output, len, UnscaledSoftmax(d, input, len, output, ExponentOfRow(d, input, len), next));
    }
    if (len < args.num_columns) ClearRow(d, output, len, args.num_columns, next);
  }
}

// The powers of a row between the maximum of the row after it and the scaling of the row before it, so that nothing
// waits for sums and maxima across lanes; where all three are as long, in one loop.
template <class D>
HWY_INLINE void RowsTogether(D d, const MaskedSoftmaxArgs& args, LinesOfRows& scores, LinesOfRows& results) {
  const float* input = args.input;
  float *output = args.output, *before = output;
  size_t len = ValidLength(args, 0), len_before = 0;
  RowExponent exponent = ExponentOfRow(d, input, len);
  float factor_before = 0.0f;
  for (size_t r = 0; r < args.num_rows; ++r) {
    const bool is_last = r + 1 == args.num_rows;
    const size_t len_after = is_last ? 0 : ValidLength(args, r + 1);
    const float* const after = input + args.input_stride;
    // Two rows ahead of the maximum at work and of the powers. One row ahead, masked_softmax/r4096_n1024/AVX3 took 3 %
    // longer.
    const NextRow next = NextOf(args, len, r + 3, r + 2, scores, results);
    RowExponent exponent_after;
    float factor;
    if (len == len_before && len == len_after && exponent.kind == Exponents::kScaled) {
      hn::Vec<D> max;
      factor = PassesOfThreeRows(d, input, len, output, exponent, next, before, factor_before, after, max);
      exponent_after = ExponentOfSoftmax(simd::HorizontalMax(d, max));
    } else {
      exponent_after = ExponentOfRow(d, after, len_after);
      factor = UnscaledSoftmax(d, input, len, output, exponent, next);
      if (len_before != 0) ScaleRow(d, before, len_before, factor_before);
    }
    if (len < args.num_columns) ClearRow(d, output, len, args.num_columns, next);
    exponent = exponent_after;
    factor_before = factor;
    len_before = len;
    len = len_after;
    input = after;
    before = output;
    output += args.output_stride;
  }
  if (len_before != 0) ScaleRow(d, before, len_before, factor_before);
}

// Longer rows go one at a time: several of them do not fit the nearest caches.
static constexpr size_t kMostTogether = 4096;

// Streaming stores lost before the next row was prefetched (Emerald Rapids), past the caches from a buffer that held
// the row: 1.68 ms instead of 1.51 for masked_softmax/r4096_n1024 (1.86 with the next row's input fetched ahead). The
// copy alone takes 1.23 ms, by streaming stores 1.00: but they come in bursts here, between passes that wait for
// nothing. On Zen 4 they win where all is valid, 1.26 -> 1.14, and lose with lengths, 0.93 -> 1.36; whoever reads the
// weights next would have them from memory.
template <class D>
HWY_INLINE void MaskedSoftmaxRows(D d, const MaskedSoftmaxArgs& args) {
  if (args.num_columns == 0 || args.num_rows == 0) return;  // there may be no memory
  LinesOfRows scores(args, false), results(args, true);
  if (args.prefetch == SoftmaxPrefetch::kLinesIntoL2) {
    scores.fetch(kLinesAhead);
    results.fetch(kLinesAhead);
  }
  if (args.together && args.num_columns <= kMostTogether) {
    RowsTogether(d, args, scores, results);
  } else {
    OneRowAtATime(d, args, scores, results);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace kernels
}  // namespace attend
HWY_AFTER_NAMESPACE();

#endif  // ATTEND_KERNELS_MASKED_SOFTMAX_INL_H_
