// The terms of a product of lanes (lane_product-inl.h), one after another, and what is prefetched meanwhile.
#if defined(ATTEND_KERNELS_LANE_TERMS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ATTEND_KERNELS_LANE_TERMS_INL_H_
#undef ATTEND_KERNELS_LANE_TERMS_INL_H_
#else
#define ATTEND_KERNELS_LANE_TERMS_INL_H_
#endif

#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "engine/kernels/prefetch.h"
#include "engine/simd/compat-inl.h"

HWY_BEFORE_NAMESPACE();
namespace attend {
namespace kernels {
namespace HWY_NAMESPACE {
namespace simd = attend::HWY_NAMESPACE;

// Where sums of values go that are complete, instead of to c: times the factor of their row, 0 where that is 0 (o may
// be NaN where l is 0, of p = 0 times an infinite value).
struct LaneResults {
  const float* factors;  // per row, those of padding lanes included
  float* output;         // row i at output + i * stride
  std::ptrdiff_t stride;
};

// c[i][n] (+)= sum_k a[i][k] b[k][n], both products. Keys: row i is a key, column n a lane. Values: row i is a lane,
// and column n one of the values'.
struct LaneProduct {
  const float* a;  // keys: element k of row i at a + i * a_stride + k; values: p, at a + i + k * a_stride
  std::ptrdiff_t a_stride;
  std::size_t num_rows;
  std::size_t padded_rows;  // values: with those that pad vectors
  const float* b;           // row k at b + k * b_stride; keys: packed queries, aligned; values: where they lie
  std::ptrdiff_t b_stride;
  std::size_t num_columns;  // keys: whole vectors
  std::size_t inner;
  std::size_t common;        // values: terms that count for every row; from there on, term k counts where lens > k
  const std::int32_t* lens;  // values: per padded row
  float* c;                  // row i at c + i * c_stride, aligned, whole vectors
  std::size_t c_stride;
  bool add;                              // to c
  std::span<PrefetchRows> ahead;         // keys: rows to prefetch meanwhile; values: if there are any, values come from
                                         // memory, and these are prefetched if fetches
  bool fetches = false;                  // values: these rows are prefetched meanwhile, too
  bool two_lines = false;                // of `ahead` a term, where 16 keys are at work
  bool keep_values = false;              // values: as LanesArgs has it
  const LaneResults* results = nullptr;  // values
};

// How many rows further down values are prefetched. Where rows are a multiple of 4 KiB apart it is the next one: they
// share one set of L1, and with those that the processor runs ahead to by itself, 8 more push each other out. EPYC (Zen
// 5, 12 ways), 8 rows, 2, 1 and none: query_lanes/q32_n1024_d128_l3_ahead_row1024 on AVX3 3050, 2850, 2910, 2880 us;
// q16_n512_d128_row1024/AVX3 25.5, 24.7, 24.1, 25.3 us. Rows 2 KiB apart, 4 instead of 8: the same on Zen 5
// (dot/b4_h8_m16_n1024_d64), not measured with 8 ways.
static constexpr std::ptrdiff_t kValuesAhead = 8;

// The same where what is loaded is also kept (LaneRowsOfKept). Rows of p that follow do not load these lines again, and
// of values from memory the processor no longer sees enough to bring the columns that come next by itself: they are
// prefetched, two lines further in the same row, beyond the head's end as well, where the next head's may be. EPYC (Zen
// 4), AVX2, ms: 8 x 8192 keys of size 64, 4 heads, 1.33, up to the head's end alone 1.88; 12 x 4096 of size 128, 8
// heads, 3.86 and 4.36 (attend plan --layer dot --shape 1,8,8192,64 --num-heads 4 --tune --target AVX2). From 65536
// keys on, where the next head's turn is too far off, prefetching beyond it brings nothing.
static constexpr std::ptrdiff_t kKeptValuesAhead = 2;
static constexpr std::ptrdiff_t kKeptColumnsAhead = 2 * PrefetchRows::kLine;

// Terms 0 to count - 1 of a step of rows, each by term(), and what is prefetched meanwhile. term() moves a and b on.
//
// Rows of several heads are too far apart for the hardware to follow, so that lines are fetched here, into L1, and
// only those that come next: rows some power of two apart share few sets and would not stay. Of keys, one line of
// every row while the line before is at work; of values, those of kValuesAhead keys further down. Losers, times
// relative to this with 16 queries, 1024 keys, 512 apart, rows 16 bytes off a line (as malloc has them,
// dot/b4_h8_m16_n1024_d64 from L3, AVX3): lines of the next rows into L2 instead, 1.17; the rows of the next step
// into L2 as well, a line per multiplication, 1.07, which is what p.ahead does where they come from memory; copying
// rows side by side, in bulk or while sums run, 1.1 to 1.35 (with 16 registers it wins: kKeepsValues). Several lines
// of p.ahead a term, or as many while values are at work, delay what is wanted first: 1.05 to 1.2 on Cascade Lake.
//
// But 16 keys and values of equal sizes have two lines a term, and at one a term values come unasked. EPYC (Zen 4),
// AVX3: query_lanes/q16_n1024_d64_l3_ahead 1.79 ms, by two (_by2) 1.53; dot/b4_h8_m16_n1024_d64 1.69 and 1.55. Steps
// of fewer keys have no more than one: 12 x 8192 of size 128 in rows of 4 KiB, so 8 keys a step, 6.6 and 7.4 ms.
//
// On AVX2, four terms make a turn, and no more lines are prefetched than a step has keys: what is started beside
// multiply-adds counts where others' threads run on the core. EPYC (Zen 3), relative to one term a turn, on a core of
// one's own and on a shared one: query_lanes/q64_n512_d64 0.97 and 0.94, q16_n1024_d64_l3_ahead 0.90 to 0.96 and 0.83
// to 0.93. Rows of values that are kept four to a turn as well: nothing.
template <bool kAhead, std::size_t kRows, class Term>
HWY_INLINE void KeyTerms(const LaneProduct& p, std::size_t count, const float* const& a, const float* b,
                         const Term& term) {
  PrefetchLines lines(p.ahead, b);
  const float* next_rows = a + static_cast<std::ptrdiff_t>(kRows) * p.a_stride + 15;
  for (std::size_t k = 0; k < count;) {
    const float* line = k + 16 < count ? a + 31 : next_rows;
    const std::size_t end = std::min(count, k + 16);
    if constexpr (simd::kSumsStay) {
      static_assert(kRows <= 12);  // no step for p.two_lines
      for (; k + 4 <= end; k += 4) {
        for (std::size_t i = 0; i < hwy::DivCeil(kRows, std::size_t{4}); ++i) {
          hwy::Prefetch(line);
          line += p.a_stride;
        }
        for (std::size_t i = 0; i < 4; ++i) {
          if constexpr (kAhead) lines.fetch();
          term();
        }
      }
    }
    for (; k < end; ++k) {
      if constexpr (kAhead) lines.fetch();
      if constexpr (kAhead && kRows > 12) {
        if (p.two_lines) lines.fetch();
      }
      hwy::Prefetch(line);
      line += p.a_stride;
      term();
    }
  }
  if constexpr (kAhead) lines.stop();
}

// The same of values, which lie `stride` apart.
template <bool kAhead, std::size_t kVectors, class Term>
HWY_INLINE void ValueTerms(const LaneProduct& p, std::size_t count, const float* HWY_RESTRICT const& b,
                           std::ptrdiff_t stride, std::size_t lanes, const Term& term) {
  std::size_t k = 0;
  // A loop of its own: with the distance in a register, SSE4 lost 7 % (query_lanes/q16_n512_d128).
  if (stride % kSetsRepeat == 0) {
    for (; k < count; ++k) {
      for (std::size_t v = 0; v < kVectors; ++v) hwy::Prefetch(b + stride + v * lanes);
      term();
    }
  }
  PrefetchLines lines(p.ahead, b);
  for (; k < count; ++k) {
    for (std::size_t v = 0; v < kVectors; ++v) {
      if (simd::kSumsStay && v * lanes % PrefetchRows::kLine != 0) continue;
      hwy::Prefetch(b + kValuesAhead * stride + v * lanes);
    }
    if constexpr (kAhead) lines.fetch();
    term();
  }
  if constexpr (kAhead) lines.stop();
}

// And of values that are kept meanwhile.
template <class Term>
HWY_INLINE void KeepingTerms(const LaneProduct& p, std::size_t count, const float* HWY_RESTRICT const& b,
                             std::ptrdiff_t stride, const Term& term) {
  std::size_t k = 0;
  if (!p.ahead.empty()) {
    for (; k < count; ++k) {
      hwy::Prefetch(b + kKeptValuesAhead * stride);
      __builtin_prefetch(b + kKeptColumnsAhead, 0, 2);
      term();
    }
  }
  for (; k < count; ++k) {
    hwy::Prefetch(b + kKeptValuesAhead * stride);
    term();
  }
}

// And of values that were kept before, which are in L1: nothing is prefetched.
template <class Term>
HWY_INLINE void KeptTerms(std::size_t count, const Term& term) {
  std::size_t k = 0;
  if constexpr (simd::kSumsStay) {
    for (; k + 4 <= count; k += 4) {
      term();
      term();
      term();
      term();
    }
  }
  for (; k < count; ++k) term();
}

}  // namespace HWY_NAMESPACE
}  // namespace kernels
}  // namespace attend
HWY_AFTER_NAMESPACE();

#endif  // ATTEND_KERNELS_LANE_TERMS_INL_H_
