// y = W x + b by pairs of terms (pairs.h), for CPUs that can add beside multiplying.
//
// Sums of Gaussian, positive or constant numbers are wrong by at most a third more than chains of multiply-adds, some
// by less (tests/kernels/linear_pairs_test.cc). Rows of x in which few elements hold the norm (kMinSpread), rows of
// zeros and rows that are not finite go the plain way, each by itself. W is looked at where it is packed
// (matmul/packed_rows.cc).
//
// bench: linear/*/AVX3_pairs beside linear/*/AVX3, of a peak of 117 GFLOPS (EPYC, Zen 4): 768 x 768 by 16 rows 166 and
// 111, by 256 rows 165 and 114, by 1024 rows 150 and 112; 256 x 256 by 512 rows 159 and 112.
//
// AVX2 where it is all there is, on a peak of 92: 768 x 768 by 256 rows 102 and 88.
//
// Registers:    as of scores, tile_pairs-inl.h. Nine rows would fit 32 registers; on Zen 5 linear/*/AVX3_pairs takes as
//               long with eight, layers 0 to 5 % less (multi_head/b32_s32_e512_h8).
#if defined(ATTEND_KERNELS_LINEAR_PAIRS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ATTEND_KERNELS_LINEAR_PAIRS_INL_H_
#undef ATTEND_KERNELS_LINEAR_PAIRS_INL_H_
#else
#define ATTEND_KERNELS_LINEAR_PAIRS_INL_H_
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cstddef>
#include <type_traits>

#include "engine/kernels/linear_rows-inl.h"
#include "engine/kernels/linear_rows.h"
#include "engine/kernels/pairs-inl.h"
#include "engine/simd/compat-inl.h"
#include "engine/simd/tail-inl.h"

HWY_BEFORE_NAMESPACE();
namespace attend {
namespace kernels {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
namespace simd = attend::HWY_NAMESPACE;

// Blocks of weights leave L2 to the copies of rows (linear_pairs_rows).
static constexpr size_t kPairedWeightBlock = size_t{128} << 10;
// Terms that weights are prefetched, where they are, as kTermsAhead. EPYC (Zen 5), with 12 terms in steps of fewer than
// eight rows alone, and with 64 in each first step of rows, linear/*/AVX3_pairs r1_i2048_o8192 1.48 and 1.41 ms, r4
// 1.84 and 1.45, r16 3.34 and 2.64; in L3, r1_i768_o768 and r4 take 0 and 2 % longer, r16 6. A layer of 26 MB of
// weights, attend plan --layer multi-head --num-heads 20 --num-hiddens 1280 --measure, --shape 1,128,128,1280 8.4 and
// 7.4 ms.
static constexpr size_t kPairedTermsAhead = 64;
static_assert(6 * kLaterPerTerm <= kLinearPanel);  // one prefetch in six terms leaves out no line
// With 16 registers, four rows at a time would stream weights from L2 twice as fast as eight do. So sums are taken some
// terms at a time, whose weights stay in L1 while all rows pass over them: 288 at the most, 18 KiB, whole sixes. A sum
// that waits in memory loses no bit. EPYC (Zen 4) without AVX-512, AVX2, GFLOPS on a peak of 92, whole sums 89, plain
// ones 88: linear/r256_i768_o768/AVX2_pairs by 144 terms 93, by 192 99, by 288 99, by 384 94.
static constexpr bool kSumsBySlices = !kHas32Registers;
static constexpr size_t kMostTermsOfSlice = 288;

// Copies of rows that go by pairs, scaled, linear_pairs_stride elements each.
template <class D>
class RowCopies {
 public:
  RowCopies(D d, const LinearPairsArgs& args)
      : d_(d),
        size_(args.linear.in),
        stride_(linear_pairs_stride(size_)),
        mean_square_(args.weights_mean_square),
        to_(args.scratch) {}

  // What the copy does not say; its unscale is 0 and there is none if the row is not to go by pairs.
  HWY_INLINE PairedRow Add(const float* row) {
    if constexpr (kSumsBySlices) {
      float scale;
      const PairedRow paired = LookAtRow(d_, row, size_, mean_square_, scale);
      if (scale == 0) return paired;
      rows_[num_rows_] = row;
      scales_[num_rows_] = scale;
      if (++num_rows_ == kRowsOfTerm) Finish();
      return paired;
    } else {
      const PairedRow paired = CopyForPairs(d_, row, size_, mean_square_, to_);
      if (paired.unscale != 0) to_ += stride_;
      return paired;
    }
  }

  // Behind the last one.
  HWY_INLINE void Finish() {
    if constexpr (kSumsBySlices) {
      if (num_rows_ == 0) return;
      for (; num_rows_ < kRowsOfTerm; ++num_rows_) {  // of a step with fewer, which nothing reads
        rows_[num_rows_] = rows_[0];
        scales_[num_rows_] = scales_[0];
      }
      InterleaveRows(d_, rows_, scales_, size_, to_);
      to_ += kRowsOfTerm * stride_;
      num_rows_ = 0;
    }
  }

 private:
  const D d_;
  const size_t size_, stride_;
  const float mean_square_;
  float* to_;
  const float* rows_[kRowsOfTerm];  // that wait for the others of their step
  float scales_[kRowsOfTerm];
  size_t num_rows_ = 0;
};

template <size_t kVectors, class D, class V = hn::Vec<D>>
HWY_INLINE void StorePaired(D d, const ColumnsArgs& args, const PairedRow& row, V y0, V y1,
                            float* HWY_RESTRICT result) {
  const size_t lanes = hn::Lanes(d);
  const V unscale = simd::BroadcastLoad(d, &row.unscale);
  const auto finish = [&](V y, size_t at) ATTEND_INLINE_ATTR {
    return args.bias == nullptr ? hn::Mul(y, unscale) : hn::MulAdd(y, unscale, hn::Load(d, args.bias + at));
  };
  y0 = finish(y0, 0);
  if constexpr (kVectors > 1) {
    hn::StoreU(y0, d, result);
    y0 = finish(y1, lanes);
  }
  result += (kVectors - 1) * lanes;
  const size_t rest = args.columns - (kVectors - 1) * lanes;
  if (HWY_LIKELY(rest >= lanes)) {
    hn::StoreU(y0, d, result);
  } else {
    simd::StoreTail(y0, d, result, rest);
  }
}

// Of a sum that is taken some terms at a time: whether it begins or ends with these, and between, what there is of it.
struct SliceOfSums {
  bool first = true, last = true;
  float* sums = nullptr;  // kMaxPairedVectors vectors of each row, aligned
};

// kRows copies of rows times kVectors vectors, over the whole sum or a slice of it. kAhead: prefetches weights into L1.
template <bool kAhead, size_t kRows, size_t kVectors, class D>
HWY_INLINE void PairsStepInline(D d, const ColumnsArgs& args, const float* HWY_RESTRICT pair_sums,
                                const float* HWY_RESTRICT x, std::ptrdiff_t x_stride,
                                const PairedRow* HWY_RESTRICT paired, float* const* HWY_RESTRICT results,
                                const SliceOfSums& slice) {
  static_assert(kRows <= 8 && kVectors <= kMaxPairedVectors);
  using V = hn::Vec<D>;
  const size_t lanes = hn::Lanes(d), in = args.in;
  const V zero = hn::Zero(d);
  const float* HWY_RESTRICT w0 = args.weights;
  const float* HWY_RESTRICT w1 = args.weights + lanes / kLinearPanel * args.panel_stride + lanes % kLinearPanel;
  const float* HWY_RESTRICT later = args.later;
  // At last of the next panels, of which the second is far: without that, few rows take up to 4 % longer.
  size_t ahead = kPairedTermsAhead * kLinearPanel;
  const size_t next_ahead = ahead + (kVectors * lanes - 1) / kLinearPanel * args.panel_stride;
  const auto fetch = [](const float* weights, size_t at) HWY_ATTR {
    if constexpr (kAhead) __builtin_prefetch(weights + at, 0, 3);
  };
  const V s0 = hn::Load(d, pair_sums), s1 = kVectors > 1 ? hn::Load(d, pair_sums + lanes) : zero;
  const EvenRows rows(x_stride);
#define ATTEND_PAIRS_X(r, i) BroadcastOfRow<r, i>(d, rows, x)
#define ATTEND_PAIRS_ROW(r)         \
  V y##r##0 = zero, y##r##1 = zero; \
  ATTEND_PAIRS_START(r, paired[r])
#define ATTEND_PAIRS_LOAD(first, second, at)                \
  first = hn::Load(d, w0 + (at));                           \
  fetch(w0, (at) + ahead);                                  \
  if constexpr (kVectors > 1) {                             \
    second = hn::Load(d, w1 + (at));                        \
    if (lanes % kLinearPanel == 0) fetch(w1, (at) + ahead); \
  }
#define ATTEND_PAIRS_TERMS(ROW, ALONE)            \
  {                                               \
    V b00, b01 = zero, b10, b11 = zero;           \
    ATTEND_PAIRS_LOAD(b00, b01, 0)                \
    ATTEND_PAIRS_LOAD(b10, b11, kLinearPanel)     \
    ATTEND_PAIRS_ROWS(ROW)                        \
    ATTEND_PAIRS_LOAD(b00, b01, 2 * kLinearPanel) \
    ALONE                                         \
    x += 3 * kRowsOfTerm;                         \
    w0 += 3 * kLinearPanel;                       \
    w1 += 3 * kLinearPanel;                       \
  }
#define ATTEND_PAIRS_RESUME(r)                                      \
  if constexpr (kRows > r) {                                        \
    const float* sum = slice.sums + r * kMaxPairedVectors * lanes;  \
    y##r##0 = hn::Load(d, sum);                                     \
    if constexpr (kVectors > 1) y##r##1 = hn::Load(d, sum + lanes); \
  }
#define ATTEND_PAIRS_KEEP(r)                                        \
  if constexpr (kRows > r) {                                        \
    float* sum = slice.sums + r * kMaxPairedVectors * lanes;        \
    hn::Store(y##r##0, d, sum);                                     \
    if constexpr (kVectors > 1) hn::Store(y##r##1, d, sum + lanes); \
  }
#define ATTEND_PAIRS_STORE(r) \
  if constexpr (kRows > r) StorePaired<kVectors>(d, args, paired[r], y##r##0, y##r##1, results[r] + args.first);
  ATTEND_PAIRS_ROWS(ATTEND_PAIRS_ROW)
  if (kSumsBySlices && !slice.first) {
    ATTEND_PAIRS_ROWS(ATTEND_PAIRS_RESUME)
  }
  size_t k = 0;
  for (; k + 6 <= in; k += 6) {
    __builtin_prefetch(later, 0, 2);
    later += 6 * kLaterPerTerm;
    if constexpr (kAhead) ahead = k + kPairedTermsAhead < in ? ahead : next_ahead;
    ATTEND_PAIRS_TERMS(ATTEND_PAIRS_ADD, ATTEND_PAIRS_ALONE_TOGETHER)
    ATTEND_PAIRS_TERMS(ATTEND_PAIRS_SUBTRACT, ATTEND_PAIRS_ROWS(ATTEND_PAIRS_ALONE))
  }
  for (; k < in; ++k) {
    const V b00 = hn::Load(d, w0), b01 = kVectors > 1 ? hn::Load(d, w1) : zero;
    ATTEND_PAIRS_ROWS(ATTEND_PAIRS_LAST)
    x += kRowsOfTerm;
    w0 += kLinearPanel;
    w1 += kLinearPanel;
  }
  if (kSumsBySlices && !slice.last) {
    ATTEND_PAIRS_ROWS(ATTEND_PAIRS_KEEP)
    return;
  }
  ATTEND_PAIRS_ROWS(ATTEND_PAIRS_STORE)
#undef ATTEND_PAIRS_STORE
#undef ATTEND_PAIRS_KEEP
#undef ATTEND_PAIRS_RESUME
#undef ATTEND_PAIRS_TERMS
#undef ATTEND_PAIRS_LOAD
#undef ATTEND_PAIRS_ROW
#undef ATTEND_PAIRS_X
}

template <bool kAhead, size_t kRows, size_t kVectors, class D>
HWY_NOINLINE void PairsStep(D d, const ColumnsArgs& args, const float* pair_sums, const float* x,
                            std::ptrdiff_t x_stride, const PairedRow* paired, float* const* results,
                            const SliceOfSums& slice) {
  PairsStepInline<kAhead, kRows, kVectors>(d, args, pair_sums, x, x_stride, paired, results, slice);
}

template <bool kAhead, size_t kRows, class D>
HWY_INLINE void PairsColumns(D d, const ColumnsArgs& args, const float* pair_sums, const float* x,
                             std::ptrdiff_t x_stride, const PairedRow* paired, float* const* results,
                             const SliceOfSums& slice) {
  if (args.columns > hn::Lanes(d))
    return PairsStep<kAhead, kRows, 2>(d, args, pair_sums, x, x_stride, paired, results, slice);
  return PairsStep<kAhead, kRows, 1>(d, args, pair_sums, x, x_stride, paired, results, slice);
}

// num_rows <= kRows.
template <bool kAhead, size_t kRows, class D>
HWY_INLINE void PairsAnyRows(D d, const ColumnsArgs& args, size_t num_rows, const float* pair_sums, const float* x,
                             std::ptrdiff_t x_stride, const PairedRow* paired, float* const* results,
                             const SliceOfSums& slice) {
  if constexpr (kRows > 1) {
    if (num_rows < kRows) {
      // Few rows do not need code of their own without prefetches.
      return PairsAnyRows<true, kRows - 1>(d, args, num_rows, pair_sums, x, x_stride, paired, results, slice);
    }
  }
  PairsColumns<kAhead, kRows>(d, args, pair_sums, x, x_stride, paired, results, slice);
}

// What a slice of a group of columns has in all of its steps of rows.
struct SliceArgs {
  ColumnsArgs columns;  // but `later`
  size_t first_term;
  PrefetchElements* later;     // kLaterPerTerm elements a term
  PrefetchRows* written_next;  // of which each step takes so many lines
  size_t written_per_step;

  HWY_INLINE void StartStep() {
    columns.later = later->at();
    if (written_per_step > 0) written_next->fetch_to_write(written_per_step);
  }
  HWY_INLINE void EndStep() const { later->take(columns.in * kLaterPerTerm); }
};

// Steps of kRows rows, one after another, and two vectors. By a call each, it takes 2 to 3 % longer: EPYC (Zen 4)
// without AVX-512, linear/r256_i768_o768/AVX2_pairs 102 GFLOPS instead of 105.
template <size_t kRows, class D>
HWY_NOINLINE void PairsSteps(D d, SliceArgs args, size_t steps, const float* HWY_RESTRICT pair_sums,
                             const float* HWY_RESTRICT x, std::ptrdiff_t x_stride, const PairedRow* HWY_RESTRICT paired,
                             float* const* HWY_RESTRICT results, SliceOfSums sums) {
  for (size_t i = 0; i < steps; ++i) {
    args.StartStep();
    PairsStepInline<false, kRows, 2>(d, args.columns, pair_sums, x, x_stride, paired, results, sums);
    args.EndStep();
    x += static_cast<std::ptrdiff_t>(kRows) * x_stride;
    paired += kRows;
    results += kRows;
    sums.sums += kRows * kMaxPairedVectors * hn::Lanes(d);
  }
}

// Calls slice_of(args, sums) for groups of columns, and of these for slices of their sums. Slices follow one another in
// memory as panels do, so that prefetches run ahead of all.
template <class D, class Slice>
HWY_INLINE void ForEachSlice(D d, const LinearRowsArgs& args, const Slice& slice_of) {
  if (args.num_rows == 0 || args.out == 0) return;
  const size_t in = args.in, width = kMaxPairedVectors * hn::Lanes(d), panel_stride = in * kLinearPanel;
  HWY_ALIGN float sums[kMaxPairsRows * kMaxPairedVectors * hn::MaxLanes(D())];
  const size_t slices = std::max<size_t>(1, hwy::DivCeil(in, kMostTermsOfSlice));
  const size_t groups = hwy::DivCeil(args.out, width), steps = hwy::DivCeil(args.num_rows, kPairedRowsPerStep);
  const size_t written_per_step =
      args.ahead.written == nullptr ? 0 : hwy::DivCeil(args.ahead.written->num_lines(), steps * groups);
  // The next panels, or where all weights stay in L2, what is read next.
  const size_t weights = linear_panels(args.out) * panel_stride;
  const bool all_stay = are_one_block(in, args.out);
  PrefetchElements later({args.later_rows, args.num_rows * in}, args.ahead.read);
  for (size_t column = 0; column < args.out; column += width) {
    const size_t at = column / kLinearPanel * panel_stride + column % kLinearPanel;
    for (size_t i = 0; i < slices; ++i) {
      const size_t first = i * (in / 6) / slices * 6, end = i + 1 < slices ? (i + 1) * (in / 6) / slices * 6 : in;
      if (!all_stay) {
        const bool is_last = end == in && column + width >= args.out;
        const size_t next = is_last ? 0 : at + end * kLinearPanel;
        later = PrefetchElements({args.weights + next, weights - next});
      }
      SliceArgs slice{.columns = {.weights = args.weights + at + first * kLinearPanel,
                                  .panel_stride = panel_stride,
                                  .bias = args.bias == nullptr ? nullptr : args.bias + column,
                                  .in = end - first,
                                  .first = column,
                                  .columns = std::min(args.out - column, width),
                                  .later = nullptr,
                                  .next_rows = nullptr,
                                  .rows_ahead = 0},
                      .first_term = first,
                      .later = &later,
                      .written_next = args.ahead.written,
                      .written_per_step = i == 0 ? written_per_step : 0};
      slice_of(slice, SliceOfSums{i == 0, i + 1 == slices, sums});
    }
  }
}

// Rows some at a time: those that go by pairs from their copies, then the others.
template <class D>
void LinearPairs(D d, const LinearPairsArgs& args) {
  const LinearRowsArgs& all = args.linear;
  const size_t stride = linear_pairs_stride(all.in), most = linear_pairs_rows(all.in, all.num_rows);
  const float *copies[kMaxPairsRows], *others[kMaxPairsRows];
  float *results[kMaxPairsRows], *other_results[kMaxPairsRows];
  PairedRow paired[kMaxPairsRows];
  for (size_t first = 0; first < all.num_rows; first += most) {
    const size_t end = std::min(all.num_rows, first + most);
    LinearRowsArgs by_pairs = all, plain = all;
    by_pairs.rows = copies;
    by_pairs.results = results;
    plain.rows = others;
    plain.results = other_results;
    by_pairs.num_rows = plain.num_rows = 0;
    // What follows these rows in memory is usually copied next, in this call or another. EPYC (Zen 4), AVX3,
    // additive/b64_m1_n100_u256 7.32 -> 7.09 ms, additive/b8_m64_n512_u256 1 %.
    by_pairs.later_rows = all.rows[end - 1] + all.in;
    RowCopies<D> row_copies(d, args);
    for (size_t r = first; r < end; ++r) {
      const size_t i = by_pairs.num_rows;
      copies[i] = args.scratch + i * stride;
      paired[i] = row_copies.Add(all.rows[r]);
      if (paired[i].unscale != 0) {
        results[i] = all.results[r];
        ++by_pairs.num_rows;
      } else {
        others[plain.num_rows] = all.rows[r];
        other_results[plain.num_rows++] = all.results[r];
      }
    }
    row_copies.Finish();
    if (by_pairs.num_rows > 0) plain.ahead = {};
    const std::ptrdiff_t copies_stride = static_cast<std::ptrdiff_t>(stride);
    if constexpr (kSumsBySlices) {
      ForEachSlice(d, by_pairs, [&](SliceArgs& slice, SliceOfSums sums) ATTEND_INLINE_ATTR {
        const float* pair_sums = args.pair_sums + slice.columns.first;
        const float* x = args.scratch + slice.first_term * kRowsOfTerm;
        for (size_t row = 0; row < by_pairs.num_rows;) {
          const size_t left = by_pairs.num_rows - row, rows = std::min(left, kPairedRowsPerStep);
          size_t steps = 1;
          if (row > 0 && rows == kPairedRowsPerStep && slice.columns.columns > hn::Lanes(d)) {
            steps = left / kPairedRowsPerStep;
            PairsSteps<kPairedRowsPerStep>(d, slice, steps, pair_sums, x, copies_stride, paired + row, results + row,
                                           sums);
          } else {
            slice.StartStep();
            PairsAnyRows<true, kPairedRowsPerStep>(d, slice.columns, rows, pair_sums, x, copies_stride, paired + row,
                                                   results + row, sums);
            slice.EndStep();
          }
          row += steps * rows;
          x += steps * rows * stride;
          sums.sums += steps * rows * kMaxPairedVectors * hn::Lanes(d);
        }
      });
    } else {
      ForEachStep<kPairedRowsPerStep, kMaxPairedVectors>(
          d, by_pairs, kPairedWeightBlock, [&](const ColumnsArgs& columns, size_t row, size_t num_rows) HWY_ATTR {
            const auto multiply = [&](auto ahead) ATTEND_INLINE_ATTR {
              PairsAnyRows<ahead, kPairedRowsPerStep>(d, columns, num_rows, args.pair_sums + columns.first,
                                                      args.scratch + row * stride, copies_stride, paired + row,
                                                      results + row, SliceOfSums());
            };
            if (row > 0 && !args.prefetches_again) return multiply(std::false_type());
            multiply(std::true_type());
          });
    }
    LinearRows(d, plain);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace kernels
}  // namespace attend
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
