// Lane sums in registers: one step of a product with queries in the lanes, LaneRows. How steps follow each other:
// lane_product-inl.h.
#if defined(ATTEND_KERNELS_LANE_ROWS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ATTEND_KERNELS_LANE_ROWS_INL_H_
#undef ATTEND_KERNELS_LANE_ROWS_INL_H_
#else
#define ATTEND_KERNELS_LANE_ROWS_INL_H_
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "engine/kernels/lane_terms-inl.h"
#include "engine/kernels/panel-inl.h"
#include "engine/simd/compat-inl.h"
#include "engine/simd/tail-inl.h"

HWY_BEFORE_NAMESPACE();
namespace attend {
namespace kernels {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
namespace simd = attend::HWY_NAMESPACE;

// Whether 3 rows by 4 vectors go at a time, where there are so many: 7 loads beside 12 multiply-adds instead of 8, as
// in two_panels-inl.h. EPYC (Zen 3), AVX2, relative to 6 by 2: query_lanes/q32_n32_d64 0.95, _l3_ahead 0.92,
// q32_n256_d128_off4 0.89; attend turns --layer dot --shape 64,32,32,64 --num-heads 8 0.95, with others on the core
// 0.94.
static constexpr bool kFourVectors = simd::kSumsStay;

// Vectors of queries that are in registers at a time, in the product with keys.
static constexpr std::size_t kMaxKeyVectors = kHas32Registers ? 3 : kFourVectors ? 4 : 2;

// Rows of a that are in registers at a time, for the number of vectors. Keys: 16, 8 x 2 or 8 x 3 sums with 32
// registers, 12 or 6 x 2 with 16. With one vector every multiplication loads what it broadcasts, and two loads a cycle
// are all there are. 24 x 1, 12 x 1, 12 x 2 and 6 x 4 were no faster on AVX3; 8 and 16 divide the usual sizes. Values:
// 12 x 2 with 32 registers, but 6 x 4 where they come from memory: rows are read once from end to end, which memory
// answers sooner (query_lanes/q32_n32_d64_l3_ahead 2.3 ms instead of 2.6; q16_n1024_d64, whose values are in L2, 50 us
// instead of 46).
template <bool kValues, std::size_t kVectors>
constexpr std::size_t LaneRowsPerStep() {
  if (!kHas32Registers) return 12 / kVectors;
  if (kVectors == 1) return 16;
  if (!kValues) return 8;
  return kVectors == 2 ? 12 : 6;
}

// Of values: whether a block is kept side by side, or was before.
enum class Kept { kNot, kNow, kBefore };

// A block of terms and columns of b.
struct LaneTerms {
  const float* b;
  std::ptrdiff_t stride;
  std::size_t first, count;  // terms
  std::size_t column;
  bool add;     // to c
  bool last;    // and results are complete
  float* kept;  // Kept::kNow: where both vectors of each term go as well, term k at kept + k * kept_stride
  std::size_t kept_stride;
};

// A step of kRows rows may run up to so many rows beyond the last of p: padding lanes take their place, and their sums
// are dropped. With 16 registers 5 rows are 6, not 4 + 1, with 32 registers 7 are 8. EPYC (Zen 4), us: AVX2 3
// rows 28.2 -> 20.9, 5 rows 27.6 -> 21.9, 9 rows 41.0 -> 37.3; AVX3 7 rows 38.0 -> 29.9, 11 rows 42.5 -> 34.7; SSE4 3
// rows 40.8 -> 33.8 (attend plan --layer dot --shape 1,5,256,64 --num-heads 4 --tune --target AVX2).
template <std::size_t kRows>
constexpr std::size_t MaxMissingRows() {
  if (kRows > 6) return 2;
  return kRows > 3 ? 1 : 0;
}

// Whether row r of a step is one of the `rows` that p has.
template <std::size_t kRows>
HWY_INLINE bool HasLaneRow(std::size_t r, std::size_t rows) {
  return r + MaxMissingRows<kRows>() < kRows || r < rows;
}

// What a step reads at the present term: an element of each row of a and a vector or more of b.
template <bool kValues, std::size_t kRows, std::size_t kVectors, bool kTail, class D>
struct LaneOperands {
  using V = hn::Vec<D>;
  // Four rows of keys share a base, so that base + {0, 1, 2, 3} * stride needs few registers.
  const float* a0;
  const float* a4;
  const float* a8;
  const float* a12;
  std::ptrdiff_t stride, stride3;
  const float* HWY_RESTRICT b;
  std::ptrdiff_t b_stride;
  std::size_t left;  // columns of the last vector

  HWY_INLINE LaneOperands(D d, const LaneProduct& p, const LaneTerms& terms, std::size_t row)
      : stride(p.a_stride), stride3(3 * p.a_stride), b(terms.b), b_stride(terms.stride) {
    const std::ptrdiff_t first = static_cast<std::ptrdiff_t>(terms.first), r = static_cast<std::ptrdiff_t>(row);
    a0 = p.a + (kValues ? first * stride + r : r * stride + first);
    a4 = kValues || kRows <= 4 ? a0 : a0 + 4 * stride;
    a8 = kValues || kRows <= 8 ? a0 : a0 + 8 * stride;
    a12 = kValues || kRows <= 12 ? a0 : a0 + 12 * stride;
    left = kTail ? p.num_columns - terms.column - (kVectors - 1) * hn::Lanes(d) : hn::Lanes(d);
  }
  HWY_INLINE V element(D d, std::size_t r) const {
    if constexpr (kValues) return hn::Set(d, a0[r]);
    const float* base = r < 4 ? a0 : r < 8 ? a4 : r < 12 ? a8 : a12;
    return hn::Set(d, r % 4 == 0 ? *base : r % 4 == 1 ? base[stride] : r % 4 == 2 ? base[2 * stride] : base[stride3]);
  }
  HWY_INLINE V vector(D d, std::size_t v) const {
    const float* from = b + v * hn::Lanes(d);
    if constexpr (!kValues) return hn::Load(d, from);
    if constexpr (kTail) {
      if (v + 1 == kVectors) return simd::LoadTail(d, from, left);
    }
    return hn::LoadU(d, from);
  }
  HWY_INLINE void advance() {
    b += b_stride;
    const std::ptrdiff_t by = kValues ? stride : 1;
    a0 += by;
    if constexpr (!kValues && kRows > 4) a4 += by;
    if constexpr (!kValues && kRows > 8) a8 += by;
    if constexpr (!kValues && kRows > 12) a12 += by;
  }
};

// Terms of a block that count for all rows of a step, and for any.
struct SeenTerms {
  std::size_t common, any;
};

template <std::size_t kRows>
HWY_INLINE SeenTerms SeenByRows(const LaneProduct& p, const LaneTerms& terms, std::size_t row) {
  if (p.common >= terms.first + terms.count) return {terms.count, terms.count};
  const auto [least, most] = std::minmax_element(p.lens + row, p.lens + std::min(row + kRows, p.num_rows));
  const auto within = [&](std::int32_t len) {
    return std::min(terms.count, std::max(static_cast<std::size_t>(len), terms.first) - terms.first);
  };
  return {within(*least), within(*most)};
}

// v times factor, but 0 where that is 0, whatever v is (LaneResults says why).
template <class D, class V = hn::Vec<D>>
HWY_INLINE V TimesFactor(D d, V v, V factor) {
  return hn::IfThenZeroElse(hn::Eq(factor, hn::Zero(d)), hn::Mul(v, factor));
}

// The sums of rows [row, row + kRows) and kVectors vectors of columns over a block of terms. Sums of a block begin at
// zero and run in the order of k whatever kRows and kVectors are. kTail: the last vector may be narrow.
template <bool kValues, bool kAhead, std::size_t kRows, std::size_t kVectors, bool kTail, Kept kKept, class D>
HWY_INLINE void LaneRows(D d, const LaneProduct& p, const LaneTerms& terms, std::size_t row) {
  using V = hn::Vec<D>;
  static_assert(kRows <= 16 && kVectors <= 4 && kRows * kVectors <= 24);
  static_assert(kKept == Kept::kNot || (kValues && !kTail));
  static_assert(kKept != Kept::kNow || kVectors == 2);
  const std::size_t lanes = hn::Lanes(d);
  LaneOperands<kValues, kRows, kVectors, kTail, D> operands(d, p, terms, row);
  [[maybe_unused]] float* kept = terms.kept;

  const V zero = hn::Zero(d);
  V c0 = zero, c1 = zero, c2 = zero, c3 = zero, c4 = zero, c5 = zero, c6 = zero, c7 = zero;
  V c8 = zero, c9 = zero, c10 = zero, c11 = zero, c12 = zero, c13 = zero, c14 = zero, c15 = zero;
  V c16 = zero, c17 = zero, c18 = zero, c19 = zero, c20 = zero, c21 = zero, c22 = zero, c23 = zero;
#define ATTEND_ALL_LANE_SUMS(step)                                                                                    \
  step(0) step(1) step(2) step(3) step(4) step(5) step(6) step(7) step(8) step(9) step(10) step(11) step(12) step(13) \
      step(14) step(15) step(16) step(17) step(18) step(19) step(20) step(21) step(22) step(23)
  V b0 = zero, b1 = zero, b2 = zero, b3 = zero;
  const auto load_all = [&]() ATTEND_INLINE_ATTR {
    b0 = operands.vector(d, 0);
    if constexpr (kVectors > 1) b1 = operands.vector(d, 1);
    if constexpr (kVectors > 2) b2 = operands.vector(d, 2);
    if constexpr (kVectors > 3) b3 = operands.vector(d, 3);
  };
  // Of sum i, at the present term.
  const auto element = [&](std::size_t i) ATTEND_INLINE_ATTR { return operands.element(d, i / kVectors); };
#define ATTEND_PICK(i) (i % kVectors == 0 ? b0 : i % kVectors == 1 ? b1 : i % kVectors == 2 ? b2 : b3)

  // Rows by four vectors: one vector at a time, since 12 sums leave four of 16 registers.
  const auto step_by_columns = [&]() ATTEND_INLINE_ATTR {
    const V x0 = element(0), x1 = kRows > 1 ? element(4) : zero, x2 = kRows > 2 ? element(8) : zero;
    simd::AddColumnInOrder<kRows>(d, x0, x1, x2, operands.vector(d, 0), c0, c4, c8);
    simd::AddColumnInOrder<kRows>(d, x0, x1, x2, operands.vector(d, 1), c1, c5, c9);
    simd::AddColumnInOrder<kRows>(d, x0, x1, x2, operands.vector(d, 2), c2, c6, c10);
    simd::AddColumnInOrder<kRows>(d, x0, x1, x2, operands.vector(d, 3), c3, c7, c11);
  };
  const auto step = [&]() ATTEND_INLINE_ATTR {
    if constexpr (kFourVectors && kVectors == 4) {
      step_by_columns();
    } else {
      load_all();
      if constexpr (kKept == Kept::kNow) {
        hn::Store(b0, d, kept);
        hn::Store(b1, d, kept + lanes);
        kept += terms.kept_stride;
      }
#define ATTEND_STEP(i) \
  if constexpr (i < kRows * kVectors) simd::AddProductInOrder(d, element(i), ATTEND_PICK(i), c##i);
      ATTEND_ALL_LANE_SUMS(ATTEND_STEP)
#undef ATTEND_STEP
    }
    operands.advance();
  };
  SeenTerms seen{terms.count, terms.count};
  if constexpr (kValues && kKept == Kept::kNot) {
    seen = SeenByRows<kRows>(p, terms, row);
    if (seen.any == 0 && terms.add && !terms.last) return;
  }
  if constexpr (kKept == Kept::kBefore) {
    KeptTerms(seen.common, step);
  } else if constexpr (kKept == Kept::kNow) {
    KeepingTerms(p, seen.common, operands.b, operands.b_stride, step);
  } else if constexpr (kValues) {
    ValueTerms<kAhead, kVectors>(p, seen.common, operands.b, operands.b_stride, lanes, step);
  } else {
    KeyTerms<kAhead, kRows>(p, seen.common, operands.a0, operands.b, step);
  }
  if constexpr (kValues && kKept == Kept::kNot) {
    const hn::RebindToSigned<D> di;
    for (std::size_t k = seen.common; k < seen.any; ++k) {
      // p is 0 where the lane does not see the value, but 0 * inf and 0 * NaN are NaN.
      const hn::Vec<decltype(di)> at = hn::Set(di, static_cast<std::int32_t>(terms.first + k));
      const auto sees = [&](std::size_t i)
                            HWY_ATTR { return hn::RebindMask(d, hn::Gt(hn::Set(di, p.lens[row + i / kVectors]), at)); };
      load_all();
#define ATTEND_STEP(i)                \
  if constexpr (i < kRows * kVectors) \
    c##i = hn::IfThenElse(sees(i), hn::MulAdd(element(i), ATTEND_PICK(i), c##i), c##i);
      ATTEND_ALL_LANE_SUMS(ATTEND_STEP)
#undef ATTEND_STEP
      operands.advance();
    }
  }

  const std::size_t rows = kValues ? p.num_rows - row : kRows;
  const auto at_c = [&](std::size_t i) HWY_ATTR {
    return p.c + (row + i / kVectors) * p.c_stride + terms.column + i % kVectors * lanes;
  };
  if constexpr (kValues) {
    if (terms.last && p.results != nullptr) {
      // Copies: a vector that is stored might change what p refers to, for all that the compiler knows.
      const float* const factors = p.results->factors + row;
      const std::ptrdiff_t to_stride = p.results->stride;
      float* const output = p.results->output + static_cast<std::ptrdiff_t>(row) * to_stride + terms.column;
#define ATTEND_STEP(i)                                                                                 \
  if constexpr (i < kRows * kVectors) {                                                                \
    constexpr std::size_t r = i / kVectors, v = i % kVectors;                                          \
    if (!HasLaneRow<kRows>(r, rows)) return;                                                           \
    if (terms.add) c##i = hn::Add(c##i, hn::Load(d, at_c(i)));                                         \
    c##i = TimesFactor(d, c##i, hn::Set(d, factors[r]));                                               \
    float* to = output + static_cast<std::ptrdiff_t>(r) * to_stride + v * lanes;                       \
    kTail&& v + 1 == kVectors ? simd::StoreTail(c##i, d, to, operands.left) : hn::StoreU(c##i, d, to); \
  }
      ATTEND_ALL_LANE_SUMS(ATTEND_STEP)
#undef ATTEND_STEP
      return;
    }
  }
#define ATTEND_STEP(i)                                         \
  if constexpr (i < kRows * kVectors) {                        \
    if (!HasLaneRow<kRows>(i / kVectors, rows)) return;        \
    if (terms.add) c##i = hn::Add(c##i, hn::Load(d, at_c(i))); \
    hn::Store(c##i, d, at_c(i));                               \
  }
  ATTEND_ALL_LANE_SUMS(ATTEND_STEP)
#undef ATTEND_STEP
#undef ATTEND_PICK
#undef ATTEND_ALL_LANE_SUMS
}

}  // namespace HWY_NAMESPACE
}  // namespace kernels
}  // namespace attend
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
