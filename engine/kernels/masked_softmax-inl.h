// Softmax of rows in memory, in three passes: max; exp and sum; scale.
//
//     m = max_j s_j     p_j = exp(s_j - m)     weight_j = p_j / sum_j p_j
//
// Two passes (a running maximum, as in softmax_tile) would save one reading of the row but cost a second exp per
// element; a row of up to 8192 scores stays in L1, where the third pass is nearly free.
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
  for (; j + N <= n; j += N) hn::StoreU(hn::Mul(hn::LoadU(d, row + j), f), d, row + j);
  if (j < n) simd::StoreTail(hn::Mul(simd::LoadTail(d, row + j, n - j), f), d, row + j, n - j);
}

template <class D>
HWY_INLINE void MaskedSoftmaxRows(D d, const MaskedSoftmaxArgs& args) {
  for (size_t r = 0; r < args.num_rows; ++r) {
    const std::ptrdiff_t row = static_cast<std::ptrdiff_t>(r);
    const float* input = args.input + row * args.input_stride;
    float* output = args.output + row * args.output_stride;
    const size_t len = args.valid_lens == nullptr ? args.num_columns
                                                  : static_cast<size_t>(args.valid_lens[row * args.valid_lens_stride]);
    if (len != 0) {
      const float max = RowMax(d, input, len);
      const double sum = ExpAndSum(d, input, output, len, ShiftForMax(max));
      // A sum of 0 means that all scores are -inf: the row stays 0. NaN is not 0, and spreads to the whole row here.
      ScaleRow(d, output, len, sum == 0.0 ? 0.0f : static_cast<float>(1.0 / sum));
    }
    // Not for nothing: a row without columns may have no memory, and memset wants some.
    if (len < args.num_columns) std::memset(output + len, 0, (args.num_columns - len) * sizeof(float));
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace kernels
}  // namespace attend
HWY_AFTER_NAMESPACE();

#endif  // ATTEND_KERNELS_MASKED_SOFTMAX_INL_H_
