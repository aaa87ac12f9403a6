// y = W x + b by outer products: one element of each row of x against vectors of columns of W^T.
//
// Scalar step:  y[r][o] += x[r][k] * W[o][k]
// Registers:    kLinearRows rows times kLinearVectors vectors. AVX-512: 9 x 3 accumulators + 3 of W + 1 broadcast = 31
//               of 32; NEON and SVE: 6 x 4 + 4 + 1 = 29 of 32, whole panels; 16 registers: 6 x 2 + 2 + 1,
//               and of one or two rows 2 x 4 + 4 + 1.
//               The latter are bound by loads where another thread has a share in them: see LinearStep.
// Blocking:     a result stays in registers for its whole sum. A block of weights (kWeightBlock) stays in L2 while all
//               rows pass over it, nine at a time; weights stream from L2, 3 lines per 27 multiply-adds, and the next
//               block and the next nine rows are fetched meanwhile. bench: linear/*.
#if defined(ATTEND_KERNELS_LINEAR_ROWS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ATTEND_KERNELS_LINEAR_ROWS_INL_H_
#undef ATTEND_KERNELS_LINEAR_ROWS_INL_H_
#else
#define ATTEND_KERNELS_LINEAR_ROWS_INL_H_
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cstddef>

#include "engine/kernels/linear_rows.h"
#include "engine/simd/compat-inl.h"
#include "engine/simd/tail-inl.h"

HWY_BEFORE_NAMESPACE();
namespace attend {
namespace kernels {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
namespace simd = attend::HWY_NAMESPACE;

#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3
static constexpr size_t kLinearRows = 9, kLinearVectors = 3;
#elif HWY_ARCH_ARM_A64 || HWY_TARGET == HWY_RVV
static constexpr size_t kLinearRows = 6, kLinearVectors = 4;
#else
static constexpr size_t kLinearRows = 6, kLinearVectors = 2;
#endif
// Up to so many rows go by more vectors at a time, lest their few sums wait for themselves: EPYC (Zen 4) without
// AVX-512, us by two vectors and by four, linear/*/AVX2: r1_i256_o256 5.47 and 3.65, r1_i768_o768, from L3, 53.7 and
// 45.3, r2_i768_o768 57.2 and 50.2, r3_i768_o768 59.7 and 63.1.
static constexpr size_t kFewLinearRows = kLinearVectors == 2 ? 2 : 0, kFewRowsVectors = 4;
// Terms of the sum that weights are prefetched: some 4 to 16 KiB, for what comes from memory. EPYC (Zen 5), with 8
// terms and these, linear/r1_i2048_o8192 AVX2 2.21 and 1.49 ms, AVX3 1.50 and 1.35; r4 3.01 and 1.83, 1.80 and 1.39;
// r16 6.86 and 5.89, 3.55 and 2.87. In L3, r1_i768_o768 to r16_i768_o768 take as long on AVX2, up to 5 % longer on
// AVX3.
static constexpr size_t kTermsAhead = kLinearVectors > 2 ? 64 : 128;
// Floats of the next block of weights that are prefetched per term: a line in 8 terms. Prefetching each line 8 times is
// faster than a branch or an inner loop (768 x 768: 96 % of the peak against 92 and 95; without, 95).
static constexpr size_t kLaterPerTerm = 2;

// The columns of one call: kVectors vectors from `weights` on.
struct ColumnsArgs {
  const float* weights;
  size_t panel_stride;  // elements from one panel to the next
  const float* bias;    // or nullptr
  size_t in;
  size_t first;            // column, of the results
  size_t columns;          // that exist; the last vector may be cut short
  const float* later;      // in * kLaterPerTerm elements that will be read before long
  const float* next_rows;  // in * rows_ahead elements, of the next step's rows
  size_t rows_ahead;
};

template <size_t kVectors, class D, class V = hn::Vec<D>>
HWY_INLINE void StoreResult(D d, const ColumnsArgs& args, V y0, V y1, V y2, V y3, float* HWY_RESTRICT result) {
  const size_t lanes = hn::Lanes(d);
  if (args.bias != nullptr) {
    y0 = hn::Add(y0, hn::Load(d, args.bias));
    if constexpr (kVectors > 1) y1 = hn::Add(y1, hn::Load(d, args.bias + lanes));
    if constexpr (kVectors > 2) y2 = hn::Add(y2, hn::Load(d, args.bias + 2 * lanes));
    if constexpr (kVectors > 3) y3 = hn::Add(y3, hn::Load(d, args.bias + 3 * lanes));
  }
  const V last = kVectors > 3 ? y3 : kVectors > 2 ? y2 : kVectors > 1 ? y1 : y0;
  if constexpr (kVectors > 1) hn::StoreU(y0, d, result);
  if constexpr (kVectors > 2) hn::StoreU(y1, d, result + lanes);
  if constexpr (kVectors > 3) hn::StoreU(y2, d, result + 2 * lanes);
  result += (kVectors - 1) * lanes;
  const size_t rest = args.columns - (kVectors - 1) * lanes;
  if (HWY_LIKELY(rest >= lanes)) {
    hn::StoreU(last, d, result);
  } else {
    simd::StoreTail(last, d, result, rest);
  }
}

// kRows rows times kVectors vectors, over the whole sum. Not inlined, as MultiplyRows of tile_product-inl.h.
//
// With 6 x 2, a term is 8 loads beside 12 multiply-adds, and every prefetch one more. EPYC (Zen 3), AVX2: with three
// prefetches in each term, 94 to 96 % of the peak on a core of one's own (linear/*/AVX2), and with seven in four terms
// as well. While others' threads ran on the same core (machine/core_share), the latter took 0.72 to 0.78 of the time,
// both called in turns in one process.
template <size_t kRows, size_t kVectors, class D>
HWY_NOINLINE void LinearStep(D d, const ColumnsArgs& args, const float* const* HWY_RESTRICT rows,
                             float* const* HWY_RESTRICT results) {
  static_assert(kRows <= 9 && kVectors <= 4);
  using V = hn::Vec<D>;
  const size_t lanes = hn::Lanes(d), in = args.in;
  const V zero = hn::Zero(d);
  // Vector v of a term: lanes v * lanes to (v + 1) * lanes - 1 of the panels side by side.
  const auto vector = [&](size_t v) HWY_ATTR {
    return args.weights + v * lanes / kLinearPanel * args.panel_stride + v * lanes % kLinearPanel;
  };
  const float* HWY_RESTRICT w0 = vector(0);
  const float* HWY_RESTRICT w1 = vector(1);
  const float* HWY_RESTRICT w2 = vector(2);
  const float* HWY_RESTRICT w3 = vector(3);
  const float* HWY_RESTRICT later = args.later;
  const float* HWY_RESTRICT next_rows = args.next_rows;
  const size_t rows_ahead = args.rows_ahead;
#define ATTEND_LINEAR_ROWS(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8)
#define ATTEND_LINEAR_START(r)                              \
  const float* HWY_RESTRICT x##r = rows[r < kRows ? r : 0]; \
  V y##r##0 = zero, y##r##1 = zero, y##r##2 = zero, y##r##3 = zero;
#define ATTEND_LINEAR_TERM(r)                                               \
  if constexpr (kRows > r) {                                                \
    const V x = hn::Set(d, x##r[k]);                                        \
    simd::AddProductInOrder(d, x, b0, y##r##0);                             \
    if constexpr (kVectors > 1) simd::AddProductInOrder(d, x, b1, y##r##1); \
    if constexpr (kVectors > 2) simd::AddProductInOrder(d, x, b2, y##r##2); \
    if constexpr (kVectors > 3) simd::AddProductInOrder(d, x, b3, y##r##3); \
  }
#define ATTEND_LINEAR_STORE(r) \
  if constexpr (kRows > r) StoreResult<kVectors>(d, args, y##r##0, y##r##1, y##r##2, y##r##3, results[r] + args.first);
  ATTEND_LINEAR_ROWS(ATTEND_LINEAR_START)
  V b1 = zero, b2 = zero, b3 = zero;
  const auto term = [&](size_t k) ATTEND_INLINE_ATTR {
    const size_t at = k * kLinearPanel, ahead = at + kTermsAhead * kLinearPanel;
    const V b0 = hn::Load(d, w0 + at);
    __builtin_prefetch(w0 + ahead, 0, 3);
    if constexpr (kVectors > 1) {
      b1 = hn::Load(d, w1 + at);
      if (1 * lanes % kLinearPanel == 0) __builtin_prefetch(w1 + ahead, 0, 3);
    }
    if constexpr (kVectors > 2) {
      b2 = hn::Load(d, w2 + at);
      if (2 * lanes % kLinearPanel == 0) __builtin_prefetch(w2 + ahead, 0, 3);
    }
    if constexpr (kVectors > 3) {
      b3 = hn::Load(d, w3 + at);
      if (3 * lanes % kLinearPanel == 0) __builtin_prefetch(w3 + ahead, 0, 3);
    }
    ATTEND_LINEAR_ROWS(ATTEND_LINEAR_TERM)
  };
  size_t k = 0;
  // Four terms per turn are a quarter and a half as many of these prefetches. Up to eight rows_ahead, no line is left
  // out: two terms pass over 16 floats at most.
  if constexpr (simd::kSumsStay) {
    for (; k + 4 <= in; k += 4) {
      __builtin_prefetch(later + k * kLaterPerTerm, 0, 2);
      __builtin_prefetch(next_rows + k * rows_ahead, 0, 2);
      term(k);
      term(k + 1);
      __builtin_prefetch(next_rows + (k + 2) * rows_ahead, 0, 2);
      term(k + 2);
      term(k + 3);
    }
  }
  for (; k < in; ++k) {
    __builtin_prefetch(later + k * kLaterPerTerm, 0, 2);
    __builtin_prefetch(next_rows + k * rows_ahead, 0, 2);
    term(k);
  }
  ATTEND_LINEAR_ROWS(ATTEND_LINEAR_STORE)
#undef ATTEND_LINEAR_STORE
#undef ATTEND_LINEAR_TERM
#undef ATTEND_LINEAR_START
#undef ATTEND_LINEAR_ROWS
}

template <size_t kRows, class D>
HWY_INLINE void LinearColumns(D d, const ColumnsArgs& args, const float* const* rows, float* const* results) {
  constexpr size_t kVectors = kRows <= kFewLinearRows ? kFewRowsVectors : kLinearVectors;
  const size_t lanes = hn::Lanes(d);
  if constexpr (kVectors > 3) {
    if (args.columns > 3 * lanes) return LinearStep<kRows, 4>(d, args, rows, results);
  }
  if constexpr (kVectors > 2) {
    if (args.columns > 2 * lanes) return LinearStep<kRows, 3>(d, args, rows, results);
  }
  if (args.columns > lanes) return LinearStep<kRows, 2>(d, args, rows, results);
  return LinearStep<kRows, 1>(d, args, rows, results);
}

template <class D>
HWY_INLINE void LinearAnyRows(D d, const ColumnsArgs& args, size_t num_rows, const float* const* rows,
                              float* const* results) {
  switch (num_rows) {
    case 1:
      return LinearColumns<1>(d, args, rows, results);
    case 2:
      return LinearColumns<2>(d, args, rows, results);
    case 3:
      return LinearColumns<3>(d, args, rows, results);
    case 4:
      return LinearColumns<4>(d, args, rows, results);
    case 5:
      return LinearColumns<5>(d, args, rows, results);
    case 6:
      return LinearColumns<6>(d, args, rows, results);
    case 7:
      if constexpr (kLinearRows >= 7) return LinearColumns<7>(d, args, rows, results);
      break;
    case 8:
      if constexpr (kLinearRows >= 8) return LinearColumns<8>(d, args, rows, results);
      break;
    default:
      if constexpr (kLinearRows >= 9) return LinearColumns<9>(d, args, rows, results);
      break;
  }
}

// Calls step(columns, first row, number of rows) for blocks of weights, steps of up to kRows rows, groups of up to
// kVectors vectors of columns. All are shared out evenly: 10 rows as 5 + 5 rather than 9 + 1, 16 vectors as 3 + 3 + 3 +
// 3 + 2 + 2.
// block_bytes: of weights, where not all of them are one block.
template <size_t kRows, size_t kVectors, class D, class Step>
HWY_INLINE void ForEachStep(D d, const LinearRowsArgs& args, size_t block_bytes, const Step& step_of) {
  if (args.num_rows == 0 || args.out == 0) return;
  const size_t vectors = kVectors * hn::Lanes(d), panel_stride = args.in * kLinearPanel;
  // Groups that span several panels begin at whole ones, so that their vectors are aligned.
  const size_t unit = std::min(vectors, kLinearPanel), most = vectors / unit;
  const size_t units = (args.out + unit - 1) / unit, groups = (units + most - 1) / most;
  const size_t group_bytes = std::max<size_t>(1, args.in * vectors * sizeof(float));
  const size_t most_bytes = groups * group_bytes <= kWeightBlock ? kWeightBlock : block_bytes;
  const size_t per_block = std::max<size_t>(1, most_bytes / group_bytes);
  const size_t blocks = (groups + per_block - 1) / per_block;
  const size_t steps = (args.num_rows + kRows - 1) / kRows;
  const auto first_column = [&](size_t group) { return group * units / groups * unit; };
  const auto first_group = [&](size_t block) { return block * groups / blocks; };
  const auto weights_of = [&](size_t block) {
    return args.weights + first_column(first_group(block)) / kLinearPanel * panel_stride;
  };
  const size_t written_per_step =
      args.ahead.written == nullptr ? 0 : (args.ahead.written->num_lines() + steps * groups - 1) / (steps * groups);
  for (size_t block = 0; block < blocks; ++block) {
    // The next call will want the first block again. Where there is one block, it is there already: later rows take its
    // place, or a row that is at work, which costs nothing.
    const size_t following = block + 1 < blocks ? block + 1 : 0;
    const float* later = weights_of(following);
    const float* later_end = weights_of(following + 1);
    if (blocks == 1) {
      later = args.later_rows != nullptr ? args.later_rows : args.rows[0];
      later_end = args.later_rows != nullptr ? later + args.num_rows * args.in : later;
    }
    // The next step's rows are shared out to the groups. A group that has several takes them to follow one another in
    // memory; where they do not, it fetches lines that nobody wants. One step has none. EPYC (Zen 5), AVX3,
    // linear/r1024_i768_o768 4950 us without, 4780 with.
    const size_t end_group = first_group(block + 1), its_groups = end_group - first_group(block);
    const size_t rows_per_step = (args.num_rows + steps - 1) / steps;
    const size_t rows_ahead = steps == 1 ? 0 : (rows_per_step + its_groups - 1) / its_groups;
    for (size_t step = 0, row = 0; step < steps; ++step) {
      const size_t next_row = (step + 1) * args.num_rows / steps;
      for (size_t group = first_group(block), ahead = next_row; group < end_group; ++group, ahead += rows_ahead) {
        const size_t column = first_column(group);
        const ColumnsArgs columns{
            .weights = args.weights + column / kLinearPanel * panel_stride + column % kLinearPanel,
            .panel_stride = panel_stride,
            .bias = args.bias == nullptr ? nullptr : args.bias + column,
            .in = args.in,
            .first = column,
            .columns = std::min(args.out, first_column(group + 1)) - column,
            .later = later,
            .next_rows = args.rows[ahead % args.num_rows],  // behind the last, the first: the next block's
            .rows_ahead = rows_ahead};
        if (later + args.in * kLaterPerTerm < later_end) later += args.in * kLaterPerTerm;
        if (written_per_step > 0) args.ahead.written->fetch_to_write(written_per_step);
        step_of(columns, row, next_row - row);
      }
      row = next_row;
    }
  }
}

template <class D>
void LinearRows(D d, const LinearRowsArgs& args) {
  const auto step = [&](const ColumnsArgs& columns, size_t row, size_t num_rows)
                        HWY_ATTR { LinearAnyRows(d, columns, num_rows, args.rows + row, args.results + row); };
  if constexpr (kFewLinearRows > 0) {
    if (args.num_rows <= kFewLinearRows) {
      return ForEachStep<kFewLinearRows, kFewRowsVectors>(d, args, kWeightBlock, step);
    }
  }
  ForEachStep<kLinearRows, kLinearVectors>(d, args, kWeightBlock, step);
}

}  // namespace HWY_NAMESPACE
}  // namespace kernels
}  // namespace attend
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
