// Rows become columns, a vector's worth of rows at a time. Moves bits only.
//
// The vector is first filled so that 4x4 transpositions inside 128-bit blocks are all there is to do: block b of the
// i-th of four vectors is four elements of row 4 b + i. With 16 lanes that is 8 shuffles and 12 insertions for four
// columns, the insertions mostly folded into loads; whole rows and a 16x16 network would need 16 shuffles.
#if defined(ATTEND_SIMD_TRANSPOSE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ATTEND_SIMD_TRANSPOSE_INL_H_
#undef ATTEND_SIMD_TRANSPOSE_INL_H_
#else
#define ATTEND_SIMD_TRANSPOSE_INL_H_
#endif

#include <hwy/highway.h>

#include <cstddef>
#include <cstdint>

#include "engine/simd/compat-inl.h"
#include "engine/simd/tail-inl.h"

// Evaluated where used. SCALAR has no swizzles, SVE and RVV have no vector size to unroll for.
#ifndef ATTEND_TRANSPOSES_IN_REGISTERS
#define ATTEND_TRANSPOSES_IN_REGISTERS (!ATTEND_TARGET_IS_EMULATED && !HWY_HAVE_SCALABLE)
#endif

HWY_BEFORE_NAMESPACE();
namespace attend {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

#if ATTEND_TRANSPOSES_IN_REGISTERS
namespace transpose {

// The next four columns of a vector of rows; rows[i] is the 128-bit block of one row. Four rows share a base, so that
// base + {0, 1, 2, 3} * stride needs few registers and no arithmetic.
template <class D>
class WholeRows {
 public:
  static constexpr size_t kNumBases = hn::MaxLanes(D()) / 4;

  HWY_INLINE WholeRows(D /*d*/, const float* from, std::ptrdiff_t stride) : stride_(stride) {
    for (size_t i = 0; i < kNumBases; ++i) bases_[i] = from + static_cast<std::ptrdiff_t>(4 * i) * stride;
  }
  HWY_INLINE void go_on() {
    for (const float*& base : bases_) base += 4;
  }
  HWY_INLINE const float* at(size_t row) const {
    return bases_[row / 4] + static_cast<std::ptrdiff_t>(row % 4) * stride_;
  }
  HWY_INLINE hn::Vec<hn::Full128<float>> operator[](size_t row) const {
    return hn::LoadU(hn::Full128<float>(), at(row));
  }

 private:
  const float* bases_[kNumBases];
  std::ptrdiff_t stride_;
};

// The same where rows are missing, but not all: the last one takes their place.
template <class D>
class FewerRows {
 public:
  HWY_INLINE FewerRows(D /*d*/, const float* from, std::ptrdiff_t stride, size_t num_rows) {
    for (size_t i = 0; i < hn::MaxLanes(D()); ++i) {
      rows_[i] = from + static_cast<std::ptrdiff_t>(HWY_MIN(i, num_rows - 1)) * stride;
    }
  }
  HWY_INLINE void go_on() { done_ += 4; }
  HWY_INLINE const float* at(size_t row) const { return rows_[row] + done_; }
  HWY_INLINE hn::Vec<hn::Full128<float>> operator[](size_t row) const {
    return hn::LoadU(hn::Full128<float>(), at(row));
  }

 private:
  const float* rows_[hn::MaxLanes(D())];
  size_t done_ = 0;
};

// Four columns where rows or columns end: zeros beyond either, which are not read.
struct EndingRows {
  const float* from;
  std::ptrdiff_t stride;
  size_t num_rows;
  size_t num_columns;

  HWY_INLINE hn::Vec<hn::Full128<float>> operator[](size_t row) const {
    const hn::Full128<float> d;
    if (row >= num_rows) return hn::Zero(d);
    const float* p = from + static_cast<std::ptrdiff_t>(row) * stride;
    return num_columns >= 4 ? hn::LoadU(d, p) : LoadTail(d, p, num_columns);
  }
};

// Block b is rows[row + 4 b].
template <class D, class Rows>
HWY_INLINE hn::Vec<D> GatherBlocks(D d, const Rows& rows, size_t row) {
  constexpr size_t kLanes = hn::MaxLanes(D());
  if constexpr (kLanes == 4) {
    (void)d;
    return rows[row];
  } else {
    const hn::Half<D> half;
    return hn::Combine(d, GatherBlocks(half, rows, row + kLanes / 2), GatherBlocks(half, rows, row));
  }
}
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3
// Masked loads that broadcast: insertions into a vector's upper half would be shuffles.
template <class D, class Rows>
requires requires(const Rows& rows) { rows.at(0); }
HWY_INLINE hn::Vec<D> GatherBlocks(D d, const Rows& rows, size_t row) {
  static_assert(hn::MaxLanes(D()) == 16);
  hn::Vec<D> blocks = hn::LoadDup128(d, rows.at(row + 12));
  blocks = hn::IfThenElse(hn::FirstN(d, 12), hn::LoadDup128(d, rows.at(row + 8)), blocks);
  blocks = hn::IfThenElse(hn::FirstN(d, 8), hn::LoadDup128(d, rows.at(row + 4)), blocks);
  return hn::IfThenElse(hn::FirstN(d, 4), hn::LoadDup128(d, rows.at(row)), blocks);
}
#endif

// Where a vector of rows goes: all of it, aligned, or its first lanes only, anywhere.
struct WholeStore {
  template <class D>
  HWY_INLINE void operator()(hn::Vec<D> v, D d, float* HWY_RESTRICT to) const {
    hn::Store(v, d, to);
  }
};
struct ExactStore {
  size_t num_rows;

  template <class D>
  HWY_INLINE void operator()(hn::Vec<D> v, D d, float* HWY_RESTRICT to) const {
    StoreTail(v, d, to, num_rows);
  }
};

// to[k * to_stride + row] = rows[row][k] for the first num_columns <= 4 values of k and a vector of rows.
template <class D, class Rows, class Store>
HWY_INLINE void FourColumns(D d, const Rows& rows, size_t num_columns, float* HWY_RESTRICT to, size_t to_stride,
                            const Store& store) {
  using V = hn::Vec<D>;
  const hn::Repartition<uint64_t, D> pairs;
  using P = hn::Vec<decltype(pairs)>;
  const V row0 = GatherBlocks(d, rows, 0), row1 = GatherBlocks(d, rows, 1);
  const V row2 = GatherBlocks(d, rows, 2), row3 = GatherBlocks(d, rows, 3);
  // In each block: 0[0] 1[0] 0[1] 1[1], then 2[0] 3[0] 2[1] 3[1], and the same of elements 2 and 3.
  const P lower01 = hn::BitCast(pairs, hn::InterleaveLower(d, row0, row1));
  const P lower23 = hn::BitCast(pairs, hn::InterleaveLower(d, row2, row3));
  store(hn::BitCast(d, hn::InterleaveLower(pairs, lower01, lower23)), d, to);
  if (num_columns > 1) store(hn::BitCast(d, hn::InterleaveUpper(pairs, lower01, lower23)), d, to + to_stride);
  if (num_columns <= 2) return;
  const P upper01 = hn::BitCast(pairs, hn::InterleaveUpper(d, row0, row1));
  const P upper23 = hn::BitCast(pairs, hn::InterleaveUpper(d, row2, row3));
  store(hn::BitCast(d, hn::InterleaveLower(pairs, upper01, upper23)), d, to + 2 * to_stride);
  if (num_columns > 3) store(hn::BitCast(d, hn::InterleaveUpper(pairs, upper01, upper23)), d, to + 3 * to_stride);
}

// The same for any number of columns.
template <class D, class Store>
HWY_INLINE void AllColumns(D d, const float* from, std::ptrdiff_t from_stride, size_t num_rows, size_t num_columns,
                           float* HWY_RESTRICT to, size_t to_stride, const Store& store) {
  size_t k = 0;
  const auto all = [&](auto rows) ATTEND_INLINE_ATTR {
    for (; k + 4 <= num_columns; k += 4, rows.go_on()) FourColumns(d, rows, 4, to + k * to_stride, to_stride, store);
  };
  if (num_rows == hn::Lanes(d)) {
    all(WholeRows(d, from, from_stride));
  } else if (num_rows > 0) {
    all(FewerRows(d, from, from_stride, num_rows));
  }
  for (; k < num_columns; k += 4) {
    const size_t left = num_columns - k;
    const EndingRows rows{from + k, from_stride, num_rows, left};
    FourColumns(d, rows, left, to + k * to_stride, to_stride, store);
  }
}

}  // namespace transpose
#endif  // ATTEND_TRANSPOSES_IN_REGISTERS

// to[k * to_stride + row] = from[row * from_stride + k] for row < num_rows <= Lanes(d) and k < num_columns; reads and
// writes nothing else. `to` may have any alignment.
template <class D>
HWY_INLINE void TransposeRowsExactly(D d, const float* from, std::ptrdiff_t from_stride, size_t num_rows,
                                     size_t num_columns, float* HWY_RESTRICT to, size_t to_stride) {
#if ATTEND_TRANSPOSES_IN_REGISTERS
  const transpose::ExactStore store{num_rows};
  transpose::AllColumns(d, from, from_stride, num_rows, num_columns, to, to_stride, store);
#else
  (void)d;
  for (size_t row = 0; row < num_rows; ++row) {
    const float* HWY_RESTRICT p = from + static_cast<std::ptrdiff_t>(row) * from_stride;
    for (size_t k = 0; k < num_columns; ++k) to[k * to_stride + row] = p[k];
  }
#endif
}

// to[k * to_stride + row] = from[row * from_stride + k] for row < num_rows <= Lanes(d) and k < num_columns; reads
// nothing else. Writes whole vectors: to[k * to_stride + row] is unspecified for num_rows <= row < Lanes(d). `to` is
// aligned and to_stride a multiple of Lanes(d).
template <class D>
HWY_INLINE void TransposeRows(D d, const float* from, std::ptrdiff_t from_stride, size_t num_rows, size_t num_columns,
                              float* HWY_RESTRICT to, size_t to_stride) {
#if ATTEND_TRANSPOSES_IN_REGISTERS
  transpose::AllColumns(d, from, from_stride, num_rows, num_columns, to, to_stride, transpose::WholeStore());
#else
  TransposeRowsExactly(d, from, from_stride, num_rows, num_columns, to, to_stride);
#endif
}

}  // namespace HWY_NAMESPACE
}  // namespace attend
HWY_AFTER_NAMESPACE();

#endif  // ATTEND_SIMD_TRANSPOSE_INL_H_
