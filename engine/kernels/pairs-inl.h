// Per target: what products by pairs of terms share, see pairs.h.
#if defined(ATTEND_KERNELS_PAIRS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ATTEND_KERNELS_PAIRS_INL_H_
#undef ATTEND_KERNELS_PAIRS_INL_H_
#else
#define ATTEND_KERNELS_PAIRS_INL_H_
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "engine/kernels/pairs.h"
#include "engine/kernels/panel-inl.h"
#include "engine/simd/compat-inl.h"
#include "engine/simd/tail-inl.h"

// Steps of a kernel that keeps kRows rows, at most 8, times kVectors vectors, 1 or 2, of sums y<row><vector> in
// registers: what row r adds to its own. ATTEND_PAIRS_X(r, i) broadcasts its elements, 0 and 1 of a pair and 2 of one
// that stands alone; b<term><vector> are those of the columns. All named by the kernel.
#undef ATTEND_PAIRS_ROWS
#undef ATTEND_PAIRS_X
#undef ATTEND_PAIRS_START
#undef ATTEND_PAIRS_ADD
#undef ATTEND_PAIRS_SUBTRACT
#undef ATTEND_PAIRS_TERM
#undef ATTEND_PAIRS_ALONE
#undef ATTEND_PAIRS_ALONE_OF
#undef ATTEND_PAIRS_ALONE_TOGETHER
#undef ATTEND_PAIRS_LAST
#define ATTEND_PAIRS_ROWS(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7)
// Sums begin with minus the row's and, in s<vector>, the columns' products of pairs. EPYC (Zen 5), AVX3, against zeros
// and subtractions at the end, which waited for the last terms: tile_pairs/qk_m48_n128_d128 2 to 3 %.
#define ATTEND_PAIRS_START(r, row)                                     \
  if constexpr (kRows > r) {                                           \
    const V minus_row = simd::BroadcastLoad(d, &(row).minus_pair_sum); \
    y##r##0 = hn::Sub(minus_row, s0);                                  \
    if constexpr (kVectors > 1) y##r##1 = hn::Sub(minus_row, s1);      \
  }
// (x0 + w1) (x1 + w0)
#define ATTEND_PAIRS_ADD(r)                                                               \
  if constexpr (kRows > r) {                                                              \
    const V p = ATTEND_PAIRS_X(r, 0), q = ATTEND_PAIRS_X(r, 1);                           \
    AddProduct(d, hn::Add(p, b10), hn::Add(q, b00), y##r##0);                             \
    if constexpr (kVectors > 1) AddProduct(d, hn::Add(p, b11), hn::Add(q, b01), y##r##1); \
  }
// (x0 - w1) (w0 - x1)
#define ATTEND_PAIRS_SUBTRACT(r)                                                          \
  if constexpr (kRows > r) {                                                              \
    const V p = ATTEND_PAIRS_X(r, 0), q = ATTEND_PAIRS_X(r, 1);                           \
    AddProduct(d, hn::Sub(p, b10), hn::Sub(b00, q), y##r##0);                             \
    if constexpr (kVectors > 1) AddProduct(d, hn::Sub(p, b11), hn::Sub(b01, q), y##r##1); \
  }
// x w, of an element x
#define ATTEND_PAIRS_TERM(r, x)                                 \
  if constexpr (kRows > r) {                                    \
    const V p = x;                                              \
    AddProduct(d, p, b00, y##r##0);                             \
    if constexpr (kVectors > 1) AddProduct(d, p, b01, y##r##1); \
  }
// x w of the element that stands alone; and of all rows' by one load, at x of the kernel, where that pays.
#define ATTEND_PAIRS_ALONE(r) ATTEND_PAIRS_TERM(r, ATTEND_PAIRS_X(r, 2))
#define ATTEND_PAIRS_ALONE_OF(r) ATTEND_PAIRS_TERM(r, hn::Broadcast<r>(x_of_rows))
#define ATTEND_PAIRS_ALONE_TOGETHER                             \
  if constexpr (kLoadsRowsTogether<kRows>) {                    \
    const V x_of_rows = hn::LoadDup128(d, x + 2 * kRowsOfTerm); \
    ATTEND_PAIRS_ROWS(ATTEND_PAIRS_ALONE_OF)                    \
  } else {                                                      \
    ATTEND_PAIRS_ROWS(ATTEND_PAIRS_ALONE)                       \
  }
#define ATTEND_PAIRS_LAST(r) ATTEND_PAIRS_TERM(r, ATTEND_PAIRS_X(r, 0))  // behind all pairs

HWY_BEFORE_NAMESPACE();
namespace attend {
namespace kernels {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
namespace simd = attend::HWY_NAMESPACE;

// Rows and vectors of a step; tile_pairs-inl.h counts registers.
static constexpr size_t kPairedRowsPerStep = kHas32Registers ? 8 : 4;
static constexpr size_t kMaxPairedVectors = 2;
static_assert(kVectorsPerPanel % kMaxPairedVectors == 0);

HWY_INLINE std::int32_t BitsOf(float x) {
  std::int32_t bits;
  std::memcpy(&bits, &x, sizeof(bits));
  return bits;
}

HWY_INLINE float FloatOf(std::int32_t bits) {
  float x;
  std::memcpy(&x, &bits, sizeof(x));
  return x;
}

// A power of two p with p^2 b within 2.3 of a, either way; a and b are positive normal numbers. By their bits, which
// grow like logarithms: a division takes as long as much of what is done per row.
HWY_INLINE float PowerOfTwoNearSqrt(float a, float b) {
  const std::int32_t exponent = (BitsOf(a) - BitsOf(b)) >> 23;
  return FloatOf((((exponent + 1) >> 1) + 127) << 23);
}

// 1 / p for a power of two p, normal as p is.
HWY_INLINE float InverseOfPower(float p) { return FloatOf((254 << 23) - BitsOf(p)); }

// What a row x of n elements is to be multiplied by, a power of two that brings it to the size of those it meets; 0: it
// is not to go by pairs. pair_sum: of x, the products of pairs, added and subtracted in turn.
template <class D>
HWY_INLINE float ScaleOfRow(D d, const float* HWY_RESTRICT x, size_t n, float mean_square_wanted, float& pair_sum) {
  using V = hn::Vec<D>;
  // Of term k and the next, from k % 6 on.
  static constexpr float kSigns[] = {1, 0, 0, -1, 0, 0, 1, 0, 0, -1, 0, 0, 1, 0, 0, -1, 0, 0, 1, 0, 0, -1};
  static_assert(sizeof(kSigns) / sizeof(float) >= 5 + hn::MaxLanes(D()));
  const size_t N = hn::Lanes(d), end = 3 * num_pairs(n);
  V squares = hn::Zero(d), sizes = hn::Zero(d), pairs = hn::Zero(d);
  const auto take = [&](V a, V& its_squares, V& its_sizes) ATTEND_INLINE_ATTR {
    its_squares = hn::MulAdd(a, a, its_squares);
    its_sizes = hn::Add(its_sizes, hn::Abs(a));
  };
  size_t k = 0;
  // Signs come round in three vectors, each of which has sums of its own: one would wait for itself. EPYC (Zen 4)
  // without AVX-512, vectors one by one and so: tile_pairs/qk_m48_n128_d128_rows/AVX2 1638 and 1231 ns, _d64 981, 856.
  if constexpr (hn::MaxLanes(D()) % 2 == 0) {
    const V signs0 = hn::LoadU(d, kSigns), signs1 = hn::LoadU(d, kSigns + N % 6),
            signs2 = hn::LoadU(d, kSigns + 2 * N % 6);
    V squares1 = squares, squares2 = squares, sizes1 = sizes, sizes2 = sizes, pairs1 = pairs, pairs2 = pairs;
    for (; k + 3 * N < end; k += 3 * N) {
      const V a = hn::LoadU(d, x + k), b = hn::LoadU(d, x + k + N), c = hn::LoadU(d, x + k + 2 * N);
      take(a, squares, sizes);
      take(b, squares1, sizes1);
      take(c, squares2, sizes2);
      pairs = hn::MulAdd(hn::Mul(a, hn::LoadU(d, x + k + 1)), signs0, pairs);
      pairs1 = hn::MulAdd(hn::Mul(b, hn::LoadU(d, x + k + N + 1)), signs1, pairs1);
      pairs2 = hn::MulAdd(hn::Mul(c, hn::LoadU(d, x + k + 2 * N + 1)), signs2, pairs2);
    }
    squares = hn::Add(squares, hn::Add(squares1, squares2));
    sizes = hn::Add(sizes, hn::Add(sizes1, sizes2));
    pairs = hn::Add(pairs, hn::Add(pairs1, pairs2));
  }
  for (; k + N < end; k += N) {
    const V a = hn::LoadU(d, x + k);
    take(a, squares, sizes);
    pairs = hn::MulAdd(hn::Mul(a, hn::LoadU(d, x + k + 1)), hn::LoadU(d, kSigns + k % 6), pairs);
  }
  for (; k < n; k += N) {
    take(simd::LoadTail(d, x + k, std::min(N, n - k)), squares, sizes);
    if (k + 1 >= end) continue;
    const V products =
        hn::Mul(simd::LoadTail(d, x + k, std::min(N, end - k)), simd::LoadTail(d, x + k + 1, std::min(N, end - k - 1)));
    pairs = hn::MulAdd(products, hn::LoadU(d, kSigns + k % 6), pairs);
  }
  pair_sum = hn::GetLane(hn::SumOfLanes(d, pairs));
  const float inverse = 1.0f / static_cast<float>(n);
  const float mean_square = hn::GetLane(hn::SumOfLanes(d, squares)) * inverse;
  const float mean_size = hn::GetLane(hn::SumOfLanes(d, sizes)) * inverse;
  // Comparisons fail for NaN, and sums that overflow are beyond them.
  const bool in_range = mean_square >= 1e-24f && mean_square <= 1e24f;
  const bool is_spread = mean_size * mean_size >= kMinSpread * mean_square;
  return in_range && is_spread ? PowerOfTwoNearSqrt(mean_square_wanted, mean_square) : 0.0f;
}

// What there is to know of scale x, if x is to go by pairs with those of such a mean square; else scale is 0. Its
// pair_sum is taken of x, since vectors of a copy are not yet in memory for loads that straddle them.
template <class D>
HWY_INLINE PairedRow LookAtRow(D d, const float* HWY_RESTRICT x, size_t n, float mean_square_wanted, float& scale) {
  float pair_sum;
  scale = ScaleOfRow(d, x, n, mean_square_wanted, pair_sum);
  if (scale == 0) return {0, 0};
  return {-pair_sum * scale * scale, InverseOfPower(scale)};
}

// The same, and copy = scale x.
template <class D>
HWY_INLINE PairedRow CopyForPairs(D d, const float* HWY_RESTRICT x, size_t n, float mean_square_wanted,
                                  float* HWY_RESTRICT copy) {
  const size_t N = hn::Lanes(d);
  float scale;
  const PairedRow paired = LookAtRow(d, x, n, mean_square_wanted, scale);
  if (scale == 0) return paired;
  const hn::Vec<D> factor = hn::Set(d, scale);
  size_t k = 0;
  for (; k + N <= n; k += N) hn::StoreU(hn::Mul(hn::LoadU(d, x + k), factor), d, copy + k);
  for (; k < n; ++k) copy[k] = x[k] * scale;
  return paired;
}

// sum += a b. On AVX-512 and AVX2 told by name to leave the sum where it is: g++ 12 puts every second one into a
// register of a or b, of which 7 in 12 terms have to be moved back. On Zen 5, whose vector units take hardly 6
// instructions a cycle, of which 4 compute, that shows: tile_pairs/qk_m48_n128_d64/AVX3 and _d128 5 %; on Zen 4 with
// AVX2 3 %, addresses below included.
template <class D>
HWY_INLINE void AddProduct(D /* d */, hn::Vec<D> a, hn::Vec<D> b, hn::Vec<D>& sum) {
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2
  asm("vfmadd231ps %2, %1, %0" : "+v"(sum.raw) : "v"(a.raw), "v"(b.raw));
#else
  sum = hn::MulAdd(a, b, sum);
#endif
}

// Where there are 16 registers, copies of the rows of a step lie term by term, one stream of memory instead of four:
// element k of row r at (r / 4 * stride + k) * 4 + r % 4. EPYC (Zen 4) without AVX-512, AVX2: linear/r256_i768_o768
// by pairs 99 and 102 GFLOPS, multi_head/b8_s128_e768_h12 56.5 and 54.6 ms; tile_pairs/qk_m48_n128_d64 7.65 and 7.52
// us, _d128 14.9 and 14.4; rows are looked at once for all keys, _d64_rows 829 and 964 ns, _d128_rows 1222 and 1345.
static constexpr size_t kRowsOfTerm = kHas32Registers ? 1 : 4;
static_assert(kRowsOfTerm == 1 || kRowsOfTerm == kPairedRowsPerStep);
// Loads limit AVX2. So of the two terms in six that stand alone, the first takes its element of all rows by one load,
// and each row's of that by a permutation. EPYC (Zen 4) without AVX-512, none, one and both of them so:
// tile_pairs/qk_m48_n128_d128 14.4, 14.2 and 15.1 us, _d64 7.55, 7.50 and 7.75, linear/r256_i768_o768/AVX2_pairs 2.88,
// 2.86 and 2.98 ms: permutations take units of sums and products.
template <size_t kRows>
static constexpr bool kLoadsRowsTogether = ATTEND_TARGET_IS_AVX2_FMA != 0 && kRows == kRowsOfTerm;

// Copies of the rows of a step, n elements each.
template <class D>
HWY_INLINE void InterleaveRows(D d, const float* const* rows, const float* scales, size_t n, float* HWY_RESTRICT to) {
  const size_t N = hn::Lanes(d);
  const auto load = [&](size_t r, size_t k)
                        ATTEND_INLINE_ATTR { return hn::Mul(hn::LoadU(d, rows[r] + k), hn::Set(d, scales[r])); };
  size_t k = 0;
  for (; k + N <= n; k += N) {
    hn::StoreInterleaved4(load(0, k), load(1, k), load(2, k), load(3, k), d, to + kRowsOfTerm * k);
  }
  for (; k < n; ++k) {
    for (size_t r = 0; r < kRowsOfTerm; ++r) to[kRowsOfTerm * k + r] = rows[r][k] * scales[r];
  }
}

// Whether all rows go by pairs, as those of most tiles do. EPYC (Zen 4), AVX3, dot/b8_h12_m512_n512_d64_lens takes 1 %
// less than where rows are asked one by one.
HWY_INLINE bool AllGoByPairs(const PairedRow* paired, size_t num_rows) {
  size_t num_plain = 0;
  for (size_t row = 0; row < num_rows; ++row) num_plain += paired[row].unscale == 0 ? 1u : 0u;
  return num_plain == 0;
}

// Rows that are evenly apart.
class EvenRows {
 public:
  explicit EvenRows(std::ptrdiff_t stride)  // elements
      : one_(stride * kBytes), three_(3 * one_), five_(5 * one_), seven_(7 * one_) {}

  // Element kAt behind x of row kRow in every lane, x pointing into row 0. There, too, the address is told by name:
  // compilers keep a pointer or an offset for each row. These do not find registers beside those of the columns, and
  // wait in vector registers, from where they come back behind all products that are under way. EPYC (Zen 4), AVX3,
  // GFLOPS with eight pointers and so: tile_pairs/qk_m48_n128_d64 153 and 157, _d128 158 and 164,
  // linear/r256_i768_o768 161 and 165.
  template <size_t kRow, size_t kAt, class D>
  HWY_INLINE hn::Vec<D> Broadcast(D d, const float* x) const {
    static_assert(kRow < 8);
#if HWY_ARCH_X86_64 && HWY_TARGET <= HWY_AVX2
    // Nothing writes to rows while a step reads them, so that telling of one element is enough.
    const float& row = *x;
    hn::Vec<D> v;  // not hn::Undefined, of which g++ warns in builds for the sanitizers
    if constexpr (kRow == 0) {
      asm("vpbroadcastd %c2(%1), %0" : "=v"(v.raw) : "r"(x), "i"(kAt * kBytes), "m"(row));
    } else {
      constexpr size_t kScale = kRow == 2 || kRow == 6 ? 2 : kRow == 4 ? 4 : 1;
      const std::ptrdiff_t offset = kRow == 3 || kRow == 6 ? three_ : kRow == 5 ? five_ : kRow == 7 ? seven_ : one_;
      asm("vpbroadcastd %c2(%1,%3,%c4), %0"
          : "=v"(v.raw)
          : "r"(x), "i"(kAt * kBytes), "r"(offset), "i"(kScale), "m"(row));
    }
    return v;
#else
    return simd::BroadcastLoad(d, x + static_cast<std::ptrdiff_t>(kRow) * (one_ / kBytes) + kAt);
#endif
  }

 private:
  static constexpr std::ptrdiff_t kBytes = sizeof(float);
  std::ptrdiff_t one_;  // bytes
  [[maybe_unused]] std::ptrdiff_t three_, five_, seven_;
};

// Element kAt behind x of row kRow of a step in every lane, x pointing into its first row's copy.
template <size_t kRow, size_t kAt, class D>
HWY_INLINE hn::Vec<D> BroadcastOfRow(D d, const EvenRows& rows, const float* x) {
  if constexpr (kRowsOfTerm > 1) {
    return simd::BroadcastLoad(d, x + kAt * kRowsOfTerm + kRow);
  } else {
    return rows.Broadcast<kRow, kAt>(d, x);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace kernels
}  // namespace attend
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
