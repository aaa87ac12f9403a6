// One step of the online softmax over a tile of scores, and the division that ends it. The recurrence is in
// softmax_tile.h.
#if defined(ATTEND_KERNELS_SOFTMAX_TILE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ATTEND_KERNELS_SOFTMAX_TILE_INL_H_
#undef ATTEND_KERNELS_SOFTMAX_TILE_INL_H_
#else
#define ATTEND_KERNELS_SOFTMAX_TILE_INL_H_
#endif

#include <hwy/highway.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>

#include "engine/kernels/softmax_row-inl.h"
#include "engine/kernels/softmax_tile.h"

HWY_BEFORE_NAMESPACE();
namespace attend {
namespace kernels {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
namespace simd = attend::HWY_NAMESPACE;

// m moves only when a tile's maximum exceeds it by more than this, so m is the maximum to within kMaxRise and p_j may
// reach exp(8) = 2981: nothing overflows, and o / l, as exp(s - m) / l, does not depend on m. It saves most
// multiplications of o by c. And it keeps accuracy: every c is wrong by up to a ULP, the same way each time if maxima
// creep up evenly, and 128 tiles that each raise the maximum by 0.001 would add up to 4e-6. Now the number of
// rescalings is at most (range of scores) / 8.
//
// What is left is l itself, one float: T tiles are T roundings. They average out except for equal tiles, which round
// the same way: 128 tiles of 512 equal p = 0.985 leave l wrong by 1.9e-6, 16 tiles by 2.4e-7 at most. Beyond some 8192
// keys, restart m, l and o and merge, rather than run on.
static constexpr float kMaxRise = 8.0f;

// exp(x) of one number, by the same code as the vectors.
HWY_INLINE float ExpOfOne(float x) {
  const hn::CappedTag<float, 1> d;
  return hn::GetLane(simd::Exp(d, hn::Set(d, x)));
}

// row_k *= factor, whole aligned vectors.
template <class D>
HWY_INLINE void ScaleAccumulators(D d, float* HWY_RESTRICT row, size_t n, float factor) {
  const hn::Vec<D> f = hn::Set(d, factor);
  for (size_t k = 0; k < n; k += hn::Lanes(d)) hn::Store(hn::Mul(hn::Load(d, row + k), f), d, row + k);
}

template <class D>
HWY_INLINE void SoftmaxTileStep(D d, const SoftmaxTileArgs& args) {
  for (size_t r = 0; r < args.num_rows; ++r) {
    const std::ptrdiff_t row = static_cast<std::ptrdiff_t>(r);
    float* scores = args.scores + row * args.scores_stride;
    const size_t len = static_cast<size_t>(args.lens[r]);
    std::memset(scores + len, 0, (args.num_columns - len) * sizeof(float));
    if (len == 0) continue;  // m, l and o stay

    float& m = args.row_max[r];
    float c = 1.0f;
    const float tile_max = RowMax(d, scores, len);
    if (tile_max > m + kMaxRise) {  // false for NaN: p and l become NaN without its help
      // While m is -inf, l and o hold nothing but zeros (or NaN), which any c leaves as they are.
      if (m != -std::numeric_limits<float>::infinity()) c = ExpOfOne(m - tile_max);
      m = tile_max;
    }

    double& l = args.row_sum[r];
    l = static_cast<double>(c) * l + ExpAndSum(d, scores, scores, len, ShiftForMax(m));
    if (c != 1.0f) {
      ScaleAccumulators(d, args.accumulators + row * args.accumulators_stride, args.accumulator_columns, c);
    }
  }
}

// output = o / l. A division, not a product with 1 / l: one rounding instead of two, once per row of output.
template <class D>
HWY_INLINE void SoftmaxFinishRows(D d, const FinishRowsArgs& args) {
  const size_t N = hn::Lanes(d);
  for (size_t r = 0; r < args.num_rows; ++r) {
    const std::ptrdiff_t row = static_cast<std::ptrdiff_t>(r);
    const float* HWY_RESTRICT o = args.accumulators + row * args.accumulators_stride;
    float* HWY_RESTRICT output = args.output + row * args.output_stride;
    const double l = args.row_sum == nullptr ? 1.0 : args.row_sum[r];
    if (l == 0.0) {  // no key, or none above -inf
      std::memset(output, 0, args.num_columns * sizeof(float));
      continue;
    }
    const hn::Vec<D> divisor = hn::Set(d, static_cast<float>(l));
    size_t k = 0;
    for (; k + N <= args.num_columns; k += N) hn::StoreU(hn::Div(hn::Load(d, o + k), divisor), d, output + k);
    // Rows of o are padded to whole vectors, rows of the output are not.
    if (k < args.num_columns)
      simd::StoreTail(hn::Div(hn::Load(d, o + k), divisor), d, output + k, args.num_columns - k);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace kernels
}  // namespace attend
HWY_AFTER_NAMESPACE();

#endif  // ATTEND_KERNELS_SOFTMAX_TILE_INL_H_
