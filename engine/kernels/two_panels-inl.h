// The tile product where 16 registers hold its sums by name (simd::kSumsStay: AVX2): three rows of A by two panels of
// B, four vectors, instead of six rows by one panel.
//
// Registers: 12 sums, 3 broadcasts, and 1 vector of B at a time. A term takes 7 loads for 12 multiply-adds instead of
// 8, and steps of rows follow one another without a call. EPYC (Zen 3), relative to six rows: tile_product/*_m48_* 0.97
// to 0.99, qk_m32_n32_d64 0.95, qk_m1_n512_d64 0.72; attend turns --layer dot --shape 1,512,512,64 --num-heads 12 0.96,
// and 0.94 while others' threads run on the core, whose instructions ours then wait for.
#if defined(ATTEND_KERNELS_TWO_PANELS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ATTEND_KERNELS_TWO_PANELS_INL_H_
#undef ATTEND_KERNELS_TWO_PANELS_INL_H_
#else
#define ATTEND_KERNELS_TWO_PANELS_INL_H_
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cstddef>

#include "engine/kernels/panel-inl.h"
#include "engine/kernels/tile_block-inl.h"
#include "engine/kernels/tile_product.h"
#include "engine/simd/compat-inl.h"

HWY_BEFORE_NAMESPACE();
namespace attend {
namespace kernels {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
namespace simd = attend::HWY_NAMESPACE;

// `steps` times kRows rows of A. An element's operations are those of MultiplyRows, and so are rows prefetched for so
// many multiply-adds: three rows by two panels are as many as six by one.
template <std::size_t kRows, class D>
HWY_NOINLINE void MultiplyRowsByTwoPanels(D d, const BlockArgs& args, size_t steps, const float* HWY_RESTRICT a,
                                          size_t inner, float* HWY_RESTRICT c, float* HWY_RESTRICT max_lanes) {
  static_assert(1 <= kRows && kRows <= 3);
  using V = hn::Vec<D>;
  const size_t lanes = hn::Lanes(d);
  const std::ptrdiff_t a_stride = args.a_stride, b_stride = args.b_stride, c_stride = args.c_stride;
  const size_t next = max_lanes == nullptr ? 0 : lanes;
  for (; steps > 0; --steps) {
    if (args.ahead != nullptr) args.ahead->fetch(kPrefetchRowsPerStep);
    const V zero = hn::Zero(d);
    V c00 = zero, c01 = zero, c02 = zero, c03 = zero;
    V c10 = zero, c11 = zero, c12 = zero, c13 = zero;
    V c20 = zero, c21 = zero, c22 = zero, c23 = zero;
    V x1 = zero, x2 = zero;
    const float* HWY_RESTRICT b = args.b;
    const float* HWY_RESTRICT e = args.b + args.b_panel_stride;
    const float* HWY_RESTRICT a0 = a;
    const float* HWY_RESTRICT a1 = kRows > 1 ? a0 + a_stride : a0;
    const float* HWY_RESTRICT a2 = kRows > 2 ? a1 + a_stride : a0;
#define ATTEND_COLUMN(from, r0, r1, r2) simd::AddColumnInOrder<kRows>(d, x0, x1, x2, hn::LoadU(d, from), r0, r1, r2);
#define ATTEND_TERM(k, row)                                  \
  {                                                          \
    const V x0 = hn::Set(d, a0[k]);                          \
    if constexpr (kRows > 1) x1 = hn::Set(d, a1[k]);         \
    if constexpr (kRows > 2) x2 = hn::Set(d, a2[k]);         \
    ATTEND_COLUMN(b + (row)*b_stride, c00, c10, c20)         \
    ATTEND_COLUMN(b + (row)*b_stride + lanes, c01, c11, c21) \
    ATTEND_COLUMN(e + (row)*b_stride, c02, c12, c22)         \
    ATTEND_COLUMN(e + (row)*b_stride + lanes, c03, c13, c23) \
  }
    size_t k = 0;
    for (; k + 4 <= inner; k += 4) {
      ATTEND_TERM(k, 0)
      ATTEND_TERM(k + 1, 1)
      ATTEND_TERM(k + 2, 2)
      ATTEND_TERM(k + 3, 3)
      b += 4 * b_stride;
      e += 4 * b_stride;
    }
    for (; k < inner; ++k) {
      ATTEND_TERM(k, 0)
      b += b_stride;
      e += b_stride;
    }
#undef ATTEND_TERM
#undef ATTEND_COLUMN
    StoreRow<4>(d, args, c00, c01, c02, c03, c, max_lanes);
    if constexpr (kRows > 1) StoreRow<4>(d, args, c10, c11, c12, c13, c += c_stride, max_lanes += next);
    if constexpr (kRows > 2) StoreRow<4>(d, args, c20, c21, c22, c23, c += c_stride, max_lanes += next);
    a += static_cast<std::ptrdiff_t>(kRows) * a_stride;
    c += c_stride;
    max_lanes += next;
  }
}

// Where the columns of both are wanted, and packed: rows used where they lie share few sets of L1 and would be read
// from L2 again for every three rows of A, not six.
template <class D>
HWY_INLINE bool TwoPanelsAreFaster(D d, const TileProductArgs& args, size_t panel) {
  const size_t lanes = hn::Lanes(d), first = panel * kVectorsPerPanel;
  const bool is_packed =
      args.b_row_stride == static_cast<std::ptrdiff_t>(PanelWidth(d)) || args.b_panel_stride != PanelWidth(d);
  return args.num_columns > (first + 3) * lanes && is_packed;
}

// All rows of the tile, block by block of the inner dimension. What three do not divide goes by two, which have eight
// sums, as many as two FMA ports want: one alone takes as long as two.
template <class D>
HWY_INLINE void MultiplyTwoPanels(D d, const TileProductArgs& args, size_t panel) {
  const size_t rows = args.num_rows;
  const size_t twos = rows % 3 == 2 ? 1 : rows % 3 == 1 && rows > 1 ? 2 : 0;
  const size_t threes = (rows - 2 * twos) / 3;
  for (size_t k = 0; k == 0 || k < args.inner; k += kInnerBlock) {
    const BlockArgs block = BlockOf(d, args, panel, k);
    const size_t inner = std::min(kInnerBlock, args.inner - k);
    const float* a = args.a + k;
    float* c = args.c + panel * PanelWidth(d);
    float* max_lanes = k + inner == args.inner ? args.max_lanes : nullptr;
    const auto advance = [&](size_t by) {
      a += static_cast<std::ptrdiff_t>(by) * args.a_stride;
      c += static_cast<std::ptrdiff_t>(by) * args.c_stride;
      if (max_lanes != nullptr) max_lanes += by * hn::Lanes(d);
    };
    MultiplyRowsByTwoPanels<3>(d, block, threes, a, inner, c, max_lanes);
    advance(3 * threes);
    MultiplyRowsByTwoPanels<2>(d, block, twos, a, inner, c, max_lanes);
    advance(2 * twos);
    if (rows == 1) MultiplyRowsByTwoPanels<1>(d, block, 1, a, inner, c, max_lanes);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace kernels
}  // namespace attend
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
