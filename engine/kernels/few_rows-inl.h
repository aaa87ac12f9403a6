// Few queries against keys and values where they lie, see few_rows.h.
#if defined(ATTEND_KERNELS_FEW_ROWS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ATTEND_KERNELS_FEW_ROWS_INL_H_
#undef ATTEND_KERNELS_FEW_ROWS_INL_H_
#else
#define ATTEND_KERNELS_FEW_ROWS_INL_H_
#endif

#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "engine/kernels/few_rows.h"
#include "engine/kernels/panel-inl.h"
#include "engine/kernels/tile_product.h"
#include "engine/simd/compat-inl.h"
#include "engine/simd/sums-inl.h"
#include "engine/simd/tail-inl.h"
#include "engine/simd/transpose-inl.h"

HWY_BEFORE_NAMESPACE();
namespace attend {
namespace kernels {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
namespace simd = attend::HWY_NAMESPACE;

// Rows of a later call are prefetched while those of this one are at work: the order of calls is the caller's, and
// memory needs the time of 16 rows or more. Rows 4 to 8 further down the same head were in time only within a call;
// behind its last ones, where heads lie side by side, the next calls are of other heads. 33.5 MB, 4 rows, size 128, 16
// keys a call, EPYC (Zen 4, 32 MB of L3), ms by rows further down and by the next call's rows, into L2:
//                       AVX3          AVX2          SSE4
//     (B, N, H * D)   1.89  1.38    2.49  1.56    3.68  2.77
//     (B, H, N, D)    2.33  1.31    2.20  1.37    3.30  2.47
//
// From memory, not every request is met, and more of them pay. Vectors of half a line prefetch twice by themselves.
// AVX3, 32 MB of L3, us of dot/b8_h32_kv8_m1_n1024_d128, dot/b1_h32_kv8_m1_n4096_d128, length/decode_n4096 and _n1024:
//     EPYC (Zen 5)  into L1 once                   2460   880   765   111
//                   again half way                 1600   710   710   126
//     EPYC (Zen 4)  into L2 once                   3620  1410  1160   175
//                   thrice, once after the terms   2570  1120   940   192
//                   and, half way, into L1         3200  1300   950   169
//                   into L1 once                   5470  1920  1510   151
// Twice in a row into L2, a second time half way, four times (no better) and five (worse) were other losers. AVX2
// prefetching four times into L1 lost a seventh from L3 on Zen 5. Alone: few_rows/decode_bhnd_r4_n4096_d128_*.
template <PrefetchInto kInto>
HWY_INLINE void PrefetchLater(const float* p, const LaterRows& later) {
  constexpr bool kThenL1 = kInto == PrefetchInto::kL2ThenL1;
  __builtin_prefetch(p + later.ahead, 0, ends_in_l1(kInto) && !kThenL1 ? 3 : 2);
  if constexpr (kInto == PrefetchInto::kL2Thrice) __builtin_prefetch(p + later.ahead, 0, 2);
  if constexpr (kThenL1 || kInto == PrefetchInto::kL1Twice) __builtin_prefetch(p + later.again, 0, 3);
}

// The third time, when p has been at work.
template <PrefetchInto kInto>
HWY_INLINE void PrefetchAgain(const float* p, const LaterRows& later) {
  if constexpr (kInto == PrefetchInto::kL2Thrice) __builtin_prefetch(p + later.ahead, 0, 2);
}

// Calls run(constant) for the way to prefetch. A branch in the loops cost more than prefetching gained: EPYC (Zen 4),
// into L1, length/decode_n1024 on AVX3 193 us by a branch and 157 by a constant, AVX2 161 and 151, SSE4 266 and 241.
template <class D, class Run>
HWY_INLINE void ForPrefetchInto(D /*d*/, PrefetchInto into, const Run& run) {
  constexpr bool kWholeLines = simd::HoldsWholeLines(D());
  switch (into) {
    case PrefetchInto::kL2ThenL1:
      if constexpr (kWholeLines) return run(std::integral_constant<PrefetchInto, PrefetchInto::kL2ThenL1>());
      return run(std::integral_constant<PrefetchInto, PrefetchInto::kL2>());
    case PrefetchInto::kL2Thrice:
      if constexpr (kWholeLines) return run(std::integral_constant<PrefetchInto, PrefetchInto::kL2Thrice>());
      [[fallthrough]];
    case PrefetchInto::kL2:
      return run(std::integral_constant<PrefetchInto, PrefetchInto::kL2>());
    case PrefetchInto::kL2KeysThenL1:
      if constexpr (kHas32Registers) return run(std::integral_constant<PrefetchInto, PrefetchInto::kL2KeysThenL1>());
      return run(std::integral_constant<PrefetchInto, PrefetchInto::kL2>());
    case PrefetchInto::kL1Twice:
      if constexpr (kWholeLines) return run(std::integral_constant<PrefetchInto, PrefetchInto::kL1Twice>());
      [[fallthrough]];
    case PrefetchInto::kL1:
      return run(std::integral_constant<PrefetchInto, PrefetchInto::kL1>());
  }
}

static constexpr bool kDotsPrefetch = ATTEND_TRANSPOSES_IN_REGISTERS;

#if ATTEND_TRANSPOSES_IN_REGISTERS
// Dot products are summed in lanes, four to a group: 4 groups with 32 registers, 2 with 16.
static constexpr std::size_t kDotGroups = kVectorsPerPanel;

// to[4 g + i] = sum of the blocks of group g's vector. A tree of additions, the same for every sum.
template <class D, class V = hn::Vec<D>>
HWY_INLINE void StoreSums(D d, V g0, V g1, V g2, V g3, float* HWY_RESTRICT to) {
  constexpr std::size_t kLanes = hn::MaxLanes(D());
  static_assert(kLanes == 4 || (kLanes == 8 && kDotGroups == 2) || (kLanes == 16 && kDotGroups == 4));
  if constexpr (kLanes == 4) {
    hn::Store(g0, d, to);
    hn::Store(g1, d, to + 4);
    if constexpr (kDotGroups > 2) {
      hn::Store(g2, d, to + 8);
      hn::Store(g3, d, to + 12);
    }
  } else if constexpr (kLanes == 8) {
    hn::Store(hn::Add(hn::ConcatLowerLower(d, g1, g0), hn::ConcatUpperUpper(d, g1, g0)), d, to);
  } else {
    const V g02 = hn::Add(hn::ConcatLowerLower(d, g2, g0), hn::ConcatUpperUpper(d, g2, g0));  // 0 0 2 2
    const V g13 = hn::Add(hn::ConcatLowerLower(d, g3, g1), hn::ConcatUpperUpper(d, g3, g1));  // 1 1 3 3
    hn::Store(hn::Add(hn::OddEvenBlocks(g13, g02), hn::SwapAdjacentBlocks(hn::OddEvenBlocks(g02, g13))), d, to);
  }
}

// The sums of a row and kKeys keys, of which num_keys are there: its scores, or added to them.
template <std::size_t kKeys>
HWY_INLINE void StoreScores(const float* HWY_RESTRICT sums, std::size_t num_keys, bool add,
                            float* HWY_RESTRICT scores) {
  if (add) {
    for (std::size_t j = 0; j < num_keys; ++j) scores[j] += sums[j];
  } else if (num_keys == kKeys) {
    std::memcpy(scores, sums, sizeof(float) * kKeys);
  } else {
    std::memcpy(scores, sums, sizeof(float) * num_keys);
  }
}

// A vector just loaded, to be multiplied several times. With 16 registers g++ 12 would rather read it from memory each
// time, which takes more loads than a core has ports for: EPYC (Zen 5), AVX2, us of few_rows/dots_r2_n512_d128 5.8 ->
// 4.2, dots_r8_n512_d128 21.5 -> 12.0, dot/b8_h32_kv8_m1_n1024_d128 3080 -> 2380.
template <class V>
HWY_INLINE V LoadOnce(V v) {
#if HWY_ARCH_X86
  if constexpr (!kHas32Registers) asm("" : "+x"(v.raw));
#endif
  return v;
}

// Before a loop two of whose turns are to be one.
#ifndef ATTEND_TWO_TURNS
#if defined(__clang__)
#define ATTEND_TWO_TURNS _Pragma("clang loop unroll_count(2)")
#else
#define ATTEND_TWO_TURNS _Pragma("GCC unroll 2")
#endif
#endif

// kRows queries by 4 (kDotGroups / kRows) keys. Keys beyond num_keys are the last one again, and so is a fourth query
// of three, in place of zeros, which took 8 % longer (few_rows/dots_r3_n512_d128). Neither is stored. The accumulators
// are what latency wants (16, or 8 with 16 registers), and one reduction ends them all: with 16 lanes 45 instructions
// for 16 sums.
template <PrefetchInto kInto, std::size_t kRows, class D>
HWY_INLINE void DotBlock(D d, const DotRowsArgs& args, std::size_t row, std::size_t key, std::size_t first,
                         std::size_t size) {
  using V = hn::Vec<D>;
  constexpr std::size_t kKeyGroups = kDotGroups / kRows;
  const std::size_t lanes = hn::Lanes(d);
  const std::size_t num_keys = std::min(4 * kKeyGroups, args.num_keys - key);
  // Each from the one before: of products that do not need each other g++ 12 makes vectors, and takes them apart again
  // (few_rows/dots_r4_n512_d128, EPYC (Zen 5), AVX3 4.9 us instead of 4.2, AVX2 10.7 instead of 8.5).
  const float* q[4];
  q[0] = args.queries + static_cast<std::ptrdiff_t>(row) * args.queries_stride + first;
  for (std::size_t r = 1; r < kDotGroups / kKeyGroups; ++r) q[r] = q[r - 1] + (r < kRows ? args.queries_stride : 0);
  const float* keys[16];
  keys[0] = args.keys + static_cast<std::ptrdiff_t>(key) * args.keys_stride + first;
  for (std::size_t j = 1; j < 4 * kKeyGroups; ++j) keys[j] = keys[j - 1] + (j < num_keys ? args.keys_stride : 0);
  const V zero = hn::Zero(d);
  V a0 = zero, a1 = zero, a2 = zero, a3 = zero, b0 = zero, b1 = zero, b2 = zero, b3 = zero;
  V c0 = zero, c1 = zero, c2 = zero, c3 = zero, e0 = zero, e1 = zero, e2 = zero, e3 = zero;
  V query = zero, key0 = zero, key1 = zero, key2 = zero, key3 = zero;
// Group g: query g / kKeyGroups, keys 4 (g % kKeyGroups) to + 3; what differs from those of the group before is loaded.
#define ATTEND_GROUP(g, before, s0, s1, s2, s3)                                                 \
  if constexpr (g < kDotGroups) {                                                               \
    constexpr std::size_t kQuery = g / kKeyGroups, kFirst = 4 * (g % kKeyGroups);               \
    if constexpr (g == 0 || kQuery != (before) / kKeyGroups) query = load(q[kQuery] + k);       \
    if constexpr (g == 0 || kFirst != 4 * ((before) % kKeyGroups)) {                            \
      key0 = LoadOnce(load(keys[kFirst] + k)), key1 = LoadOnce(load(keys[kFirst + 1] + k));     \
      key2 = LoadOnce(load(keys[kFirst + 2] + k)), key3 = LoadOnce(load(keys[kFirst + 3] + k)); \
    }                                                                                           \
    s0 = hn::MulAdd(query, key0, s0);                                                           \
    s1 = hn::MulAdd(query, key1, s1);                                                           \
    s2 = hn::MulAdd(query, key2, s2);                                                           \
    s3 = hn::MulAdd(query, key3, s3);                                                           \
  }
#define ATTEND_GROUPS                \
  ATTEND_GROUP(0, 0, a0, a1, a2, a3) \
  ATTEND_GROUP(2, 0, c0, c1, c2, c3) \
  ATTEND_GROUP(3, 2, e0, e1, e2, e3) \
  ATTEND_GROUP(1, kDotGroups > 2 ? 3 : 0, b0, b1, b2, b3)
  std::size_t k = 0;
  {
    const auto load = [d](const float* p) HWY_ATTR { return hn::LoadU(d, p); };
// Two steps a turn: 8 % less for two rows on AVX-512, 17 for three, but on SSE4 10 more for one (EPYC (Zen 5),
// few_rows/dots_r*_n512_d128).
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3
    ATTEND_TWO_TURNS
#endif
    for (; k + lanes <= size; k += lanes) {
      for (std::size_t j = 0; j < 4 * kKeyGroups; ++j) {
        if constexpr (kInto == PrefetchInto::kL2KeysThenL1) hwy::Prefetch(keys[j] + k + 4 * args.keys_stride);
        PrefetchLater<kInto>(keys[j] + k, args.later);
      }
      ATTEND_GROUPS
      for (std::size_t j = 0; j < 4 * kKeyGroups; ++j) PrefetchAgain<kInto>(keys[j] + k, args.later);
    }
  }
  if (k < size) {
    const auto load = [d, left = size - k](const float* p) HWY_ATTR { return simd::LoadTail(d, p, left); };
    ATTEND_GROUPS
  }
#undef ATTEND_GROUPS
#undef ATTEND_GROUP

  HWY_ALIGN float sums[4 * kDotGroups];
  StoreSums(d, simd::SumsOfBlocks(d, a0, a1, a2, a3), simd::SumsOfBlocks(d, b0, b1, b2, b3),
            simd::SumsOfBlocks(d, c0, c1, c2, c3), simd::SumsOfBlocks(d, e0, e1, e2, e3), sums);
  for (std::size_t r = 0; r < kRows; ++r) {
    float* scores = args.scores + static_cast<std::ptrdiff_t>(row + r) * args.scores_stride + key;
    StoreScores<4 * kKeyGroups>(sums + r * 4 * kKeyGroups, num_keys, first > 0, scores);
  }
}

// Keys `key` to end - 1 for kRows rows.
template <PrefetchInto kInto, std::size_t kRows, class D>
HWY_INLINE void DotKeys(D d, const DotRowsArgs& args, std::size_t row, std::size_t key, std::size_t end,
                        std::size_t first, std::size_t size) {
  for (; key < end; key += 4 * (kDotGroups / kRows)) DotBlock<kInto, kRows>(d, args, row, key, first, size);
}

template <PrefetchInto kInto, class D>
HWY_NOINLINE void DotRowsPrefetching(D d, const DotRowsArgs& args, std::size_t num_rows) {
  constexpr std::size_t kKeys = 4 * kDotGroups;
  // As in tile_product.h; the terms of a lane.
  const std::size_t block = kInnerBlock * hn::Lanes(d);
  for (std::size_t first = 0; first == 0 || first < args.size; first += block) {
    const std::size_t size = std::min(block, args.size - first);
    for (std::size_t key = 0; key < args.num_keys; key += kKeys) {
      const std::size_t end = std::min(args.num_keys, key + kKeys);
      std::size_t row = 0;
      if constexpr (kDotGroups == 4) {
        for (; row + 4 <= num_rows; row += 4) DotKeys<kInto, 4>(d, args, row, key, end, first, size);
      }
      for (; row + 2 <= num_rows; row += 2) DotKeys<kInto, 2>(d, args, row, key, end, first, size);
      if (row < num_rows) DotKeys<kInto, 1>(d, args, row, key, end, first, size);
    }
  }
}

// The last three rows. As two and one, which reads all keys twice, they took longer than four: EPYC (Zen 5), AVX3,
// us of few_rows/dots_r3_n512_d128 5.8 -> 4.9, pool_r3_n512_d128 4.9 -> 3.8, decode_bnhd_r3_n4096_d128_block8_l1_twice
// 1100 -> 870. A function of its own: within DotRowsPrefetching, eight rows took 3 to 5 % longer (dots_r8_n512_d128).
template <PrefetchInto kInto, class D>
HWY_NOINLINE void DotThreeRows(D d, const DotRowsArgs& args) {
  const std::size_t block = kInnerBlock * hn::Lanes(d);
  for (std::size_t first = 0; first == 0 || first < args.size; first += block) {
    const std::size_t size = std::min(block, args.size - first);
    DotKeys<kInto, 3>(d, args, args.num_rows - 3, 0, args.num_keys, first, size);
  }
}

template <class D>
void DotRows(D d, const DotRowsArgs& args) {
  ForPrefetchInto(d, args.later.into, [&](auto into) HWY_ATTR {
    if constexpr (kDotGroups == 4) {
      if (args.num_rows % 4 == 3) {
        if (args.num_rows > 3) DotRowsPrefetching<into()>(d, args, args.num_rows - 3);
        return DotThreeRows<into()>(d, args);
      }
    }
    DotRowsPrefetching<into()>(d, args, args.num_rows);
  });
}
#else
// One sum at a time, and nothing prefetched.
template <class D>
void DotRows(D d, const DotRowsArgs& args) {
  using V = hn::Vec<D>;
  const std::size_t lanes = hn::Lanes(d), block = kInnerBlock * lanes;
  for (std::size_t key = 0; key < args.num_keys; ++key) {
    const float* keys = args.keys + static_cast<std::ptrdiff_t>(key) * args.keys_stride;
    for (std::size_t row = 0; row < args.num_rows; ++row) {
      const float* query = args.queries + static_cast<std::ptrdiff_t>(row) * args.queries_stride;
      float score = 0.0f;
      for (std::size_t first = 0; first < args.size; first += block) {
        const std::size_t end = std::min(args.size, first + block);
        V sum = hn::Zero(d);
        std::size_t k = first;
        for (; k + lanes <= end; k += lanes) sum = hn::MulAdd(hn::LoadU(d, query + k), hn::LoadU(d, keys + k), sum);
        if (k < end) sum = hn::MulAdd(simd::LoadTail(d, query + k, end - k), simd::LoadTail(d, keys + k, end - k), sum);
        score += hn::GetLane(hn::SumOfLanes(d, sum));
      }
      args.scores[static_cast<std::ptrdiff_t>(row) * args.scores_stride + static_cast<std::ptrdiff_t>(key)] = score;
    }
  }
}
#endif  // ATTEND_TRANSPOSES_IN_REGISTERS

// Rows of o in registers at a time: 4 x 4 vectors of them, 4 of a value and a broadcast, or 2 x 4 with 16 registers.
static constexpr std::size_t kPoolRows = kVectorsPerPanel;

// kRows rows of o, kVectors vectors of columns from `column`, values [first, end). Sums begin at zero and run in the
// order of the values whatever kRows and kVectors are. left: columns of the last vector.
template <PrefetchInto kInto, std::size_t kRows, std::size_t kVectors, class D>
HWY_INLINE void PoolBlock(D d, const PoolRowsArgs& args, std::size_t row, std::size_t column, std::size_t left,
                          std::size_t first, std::size_t end) {
  using V = hn::Vec<D>;
  static_assert(kRows <= 4 && (kVectors == 1 || kVectors == 4));
  const std::size_t lanes = hn::Lanes(d);
  const V zero = hn::Zero(d);
  V a0 = zero, a1 = zero, a2 = zero, a3 = zero, b0 = zero, b1 = zero, b2 = zero, b3 = zero;
  V c0 = zero, c1 = zero, c2 = zero, c3 = zero, e0 = zero, e1 = zero, e2 = zero, e3 = zero;
  const float* pa = args.p + static_cast<std::ptrdiff_t>(row) * args.p_stride;
  const float* pb = kRows > 1 ? pa + args.p_stride : pa;
  const float* pc = kRows > 2 ? pb + args.p_stride : pa;
  const float* pe = kRows > 3 ? pc + args.p_stride : pa;
  const std::int32_t* lens = args.lens + row;
  const std::size_t la = static_cast<std::size_t>(lens[0]), lb = kRows > 1 ? static_cast<std::size_t>(lens[1]) : la;
  const std::size_t lc = kRows > 2 ? static_cast<std::size_t>(lens[2]) : la;
  const std::size_t le = kRows > 3 ? static_cast<std::size_t>(lens[3]) : la;
  const std::size_t common = std::min(end, std::min(std::min(la, lb), std::min(lc, le)));
  const std::size_t longest = std::min(end, std::max(std::max(la, lb), std::max(lc, le)));

  const float* HWY_RESTRICT value = args.values + static_cast<std::ptrdiff_t>(first) * args.values_stride + column;
  V v0 = zero, v1 = zero, v2 = zero, v3 = zero;
  const auto load = [&]() ATTEND_INLINE_ATTR {
    for (std::size_t i = 0; i < kVectors; ++i) PrefetchLater<kInto>(value + i * lanes, args.later);
    if constexpr (kVectors == 1) {
      v0 = left == lanes ? hn::LoadU(d, value) : simd::LoadTail(d, value, left);
    } else {
      v0 = hn::LoadU(d, value);
      v1 = hn::LoadU(d, value + lanes);
      v2 = hn::LoadU(d, value + 2 * lanes);
      v3 = hn::LoadU(d, value + 3 * lanes);
    }
    value += args.values_stride;
  };
#define ATTEND_ROW(row_index, p, o0, o1, o2, o3) \
  if constexpr (kRows > row_index) {             \
    const V weight = hn::Set(d, p[j]);           \
    o0 = hn::MulAdd(weight, v0, o0);             \
    if constexpr (kVectors > 1) {                \
      o1 = hn::MulAdd(weight, v1, o1);           \
      o2 = hn::MulAdd(weight, v2, o2);           \
      o3 = hn::MulAdd(weight, v3, o3);           \
    }                                            \
  }
  std::size_t j = first;
  for (; j < common; ++j) {
    load();
    ATTEND_ROW(0, pa, a0, a1, a2, a3)
    ATTEND_ROW(1, pb, b0, b1, b2, b3)
    ATTEND_ROW(2, pc, c0, c1, c2, c3)
    ATTEND_ROW(3, pe, e0, e1, e2, e3)
    for (std::size_t i = 0; i < kVectors; ++i) PrefetchAgain<kInto>(value - args.values_stride + i * lanes, args.later);
  }
  for (; j < longest; ++j) {
    load();
    if (j < la) {
      ATTEND_ROW(0, pa, a0, a1, a2, a3)
    }
    if (j < lb) {
      ATTEND_ROW(1, pb, b0, b1, b2, b3)
    }
    if (j < lc) {
      ATTEND_ROW(2, pc, c0, c1, c2, c3)
    }
    if (j < le) {
      ATTEND_ROW(3, pe, e0, e1, e2, e3)
    }
  }
#undef ATTEND_ROW

  float* HWY_RESTRICT o = args.accumulators + static_cast<std::ptrdiff_t>(row) * args.accumulators_stride + column;
#define ATTEND_ROW(row_index, o0, o1, o2, o3)                               \
  if constexpr (kRows > row_index) {                                        \
    hn::Store(hn::Add(o0, hn::Load(d, o)), d, o);                           \
    if constexpr (kVectors > 1) {                                           \
      hn::Store(hn::Add(o1, hn::Load(d, o + lanes)), d, o + lanes);         \
      hn::Store(hn::Add(o2, hn::Load(d, o + 2 * lanes)), d, o + 2 * lanes); \
      hn::Store(hn::Add(o3, hn::Load(d, o + 3 * lanes)), d, o + 3 * lanes); \
    }                                                                       \
    o += args.accumulators_stride;                                          \
  }
  ATTEND_ROW(0, a0, a1, a2, a3)
  ATTEND_ROW(1, b0, b1, b2, b3)
  ATTEND_ROW(2, c0, c1, c2, c3)
  ATTEND_ROW(3, e0, e1, e2, e3)
#undef ATTEND_ROW
}

// All columns of kRows rows.
template <PrefetchInto kInto, std::size_t kRows, class D>
HWY_INLINE void PoolColumns(D d, const PoolRowsArgs& args, std::size_t row, std::size_t first, std::size_t end) {
  const std::size_t lanes = hn::Lanes(d);
  std::size_t column = 0;
  for (; column + 4 * lanes <= args.value_size; column += 4 * lanes) {
    PoolBlock<kInto, kRows, 4>(d, args, row, column, lanes, first, end);
  }
  for (; column < args.value_size; column += lanes) {
    PoolBlock<kInto, kRows, 1>(d, args, row, column, std::min(lanes, args.value_size - column), first, end);
  }
}

template <PrefetchInto kInto, class D>
HWY_NOINLINE void PoolRowsPrefetching(D d, const PoolRowsArgs& args, std::size_t num_rows) {
  for (std::size_t first = 0; first < args.num_values; first += kPoolSum) {
    const std::size_t end = std::min(args.num_values, first + kPoolSum);
    std::size_t row = 0;
    if constexpr (kPoolRows == 4) {
      for (; row + 4 <= num_rows; row += 4) PoolColumns<kInto, 4>(d, args, row, first, end);
    }
    for (; row + 2 <= num_rows; row += 2) PoolColumns<kInto, 2>(d, args, row, first, end);
    if (row < num_rows) PoolColumns<kInto, 1>(d, args, row, first, end);
  }
}

// The last three rows, as above.
template <PrefetchInto kInto, class D>
HWY_NOINLINE void PoolThreeRows(D d, const PoolRowsArgs& args) {
  for (std::size_t first = 0; first < args.num_values; first += kPoolSum) {
    PoolColumns<kInto, 3>(d, args, args.num_rows - 3, first, std::min(args.num_values, first + kPoolSum));
  }
}

template <class D>
void PoolRows(D d, const PoolRowsArgs& args) {
  ForPrefetchInto(d, args.later.into, [&](auto into) HWY_ATTR {
    if constexpr (kPoolRows == 4) {
      if (args.num_rows % 4 == 3) {
        if (args.num_rows > 3) PoolRowsPrefetching<into()>(d, args, args.num_rows - 3);
        return PoolThreeRows<into()>(d, args);
      }
    }
    PoolRowsPrefetching<into()>(d, args, args.num_rows);
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace kernels
}  // namespace attend
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
