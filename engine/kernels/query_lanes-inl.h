// Attention with queries in the lanes, see query_lanes.h.
#if defined(ATTEND_KERNELS_QUERY_LANES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ATTEND_KERNELS_QUERY_LANES_INL_H_
#undef ATTEND_KERNELS_QUERY_LANES_INL_H_
#else
#define ATTEND_KERNELS_QUERY_LANES_INL_H_
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "engine/kernels/lane_product-inl.h"
#include "engine/kernels/query_lanes.h"
#include "engine/kernels/softmax_row-inl.h"
#include "engine/simd/compat-inl.h"
#include "engine/simd/math-inl.h"
#include "engine/simd/tail-inl.h"
#include "engine/simd/transpose-inl.h"

HWY_BEFORE_NAMESPACE();
namespace attend {
namespace kernels {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
namespace simd = attend::HWY_NAMESPACE;

// The larger of a score and a maximum; a NaN score is dropped or stays, both will do.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V LaneMax(D d, const float* scores, std::size_t num_lanes, std::size_t num_keys, V max) {
  // Four maxima for the latency of four cycles.
  V max1 = max, max2 = max, max3 = max;
  std::size_t j = 0;
  for (; j + 4 <= num_keys; j += 4, scores += 4 * num_lanes) {
    max = hn::Max(hn::Load(d, scores), max);
    max1 = hn::Max(hn::Load(d, scores + num_lanes), max1);
    max2 = hn::Max(hn::Load(d, scores + 2 * num_lanes), max2);
    max3 = hn::Max(hn::Load(d, scores + 3 * num_lanes), max3);
  }
  for (; j < num_keys; ++j, scores += num_lanes) max = hn::Max(hn::Load(d, scores), max);
  return hn::Max(hn::Max(max, max1), hn::Max(max2, max3));
}

// Scores become p, and their sums are added to sum - lost: in fours from the first key on, so that keys beyond a lane's
// own, whose p is 0, leave its sum as it is wherever num_keys ends.
template <class D, class V = hn::Vec<D>>
HWY_INLINE void LaneExps(D d, float* HWY_RESTRICT scores, std::size_t num_lanes, std::size_t num_keys, V m, V& sum,
                         V& lost) {
  const auto exp2 = [&](float* at) ATTEND_INLINE_ATTR {
    const V p = simd::Exp2(d, hn::Sub(hn::Load(d, at), m));
    hn::Store(p, d, at);
    return p;
  };
  std::size_t j = 0;
  for (; j + 4 <= num_keys; j += 4, scores += 4 * num_lanes) {
    const V p0 = exp2(scores), p1 = exp2(scores + num_lanes);
    const V p2 = exp2(scores + 2 * num_lanes), p3 = exp2(scores + 3 * num_lanes);
    simd::CompensatedAdd(d, hn::Add(hn::Add(p0, p1), hn::Add(p2, p3)), sum, lost);
  }
  if (j == num_keys) return;
  V rest = exp2(scores);
  if (j + 1 < num_keys) rest = hn::Add(rest, exp2(scores + num_lanes));
  if (j + 2 < num_keys) rest = hn::Add(rest, exp2(scores + 2 * num_lanes));
  simd::CompensatedAdd(d, rest, sum, lost);
}

// A row of accumulators: whole vectors.
template <class D>
HWY_INLINE std::size_t LaneRowSize(D d, std::size_t value_size) {
  return hwy::RoundUpTo(value_size, hn::Lanes(d));
}

// o of one vector of lanes times its lane of factor.
template <class D>
HWY_INLINE void ScaleRows(D d, const LanesArgs& args, std::size_t lane, hn::Vec<D> factor) {
  HWY_ALIGN float factors[hn::MaxLanes(D())];
  hn::Store(factor, d, factors);
  const std::size_t row_size = LaneRowSize(d, args.value_size);
  const std::size_t count = std::min(hn::Lanes(d), args.num_used - lane);
  for (std::size_t i = 0; i < count; ++i) {
    if (factors[i] == 1.0f) continue;
    float* HWY_RESTRICT o = args.accumulators + (lane + i) * row_size;
    const hn::Vec<D> by = hn::Set(d, factors[i]);
    for (std::size_t n = 0; n < row_size; n += hn::Lanes(d)) hn::Store(hn::Mul(hn::Load(d, o + n), by), d, o + n);
  }
}

// The softmax of one vector of lanes: moves m if it must, rescales l and o by 2^(m - m'), and turns scores into p.
template <class D>
HWY_INLINE void LaneSoftmax(D d, const LanesArgs& args, std::size_t lane) {
  using V = hn::Vec<D>;
  const hn::RebindToSigned<D> di;
  const V lowest = hn::Set(d, -std::numeric_limits<float>::infinity());
  const std::size_t L = args.num_lanes;
  float* HWY_RESTRICT scores = args.scores + lane;
  V max = LaneMax(d, scores, L, args.shortest, lowest);
  const auto lens = hn::Load(di, args.lens + lane);
  for (std::size_t j = args.shortest; j < args.num_keys; ++j) {
    const hn::Mask<D> seen = hn::RebindMask(d, hn::Gt(lens, hn::Set(di, static_cast<std::int32_t>(j))));
    const V s = hn::IfThenElse(seen, hn::Load(d, scores + j * L), lowest);
    hn::Store(s, d, scores + j * L);
    max = hn::Max(s, max);
  }

  const V zero = hn::Zero(d);
  V m = args.first ? lowest : hn::Load(d, args.lane_max + lane);
  V sum = args.first ? zero : hn::Load(d, args.lane_sum + lane);
  V lost = args.first ? zero : hn::Load(d, args.lane_lost + lane);
  const hn::Mask<D> moves = hn::Gt(max, hn::Add(m, hn::Set(d, kMaxRise)));  // false for NaN
  if (!hn::AllFalse(d, moves)) {
    const V before = m;
    m = hn::IfThenElse(moves, hn::Round(max), m);
    // While m is -inf, l and o hold nothing but zeros (or NaN), which any factor leaves as they are.
    const hn::Mask<D> scaled = hn::And(moves, hn::Gt(before, lowest));
    if (!hn::AllFalse(d, scaled)) {
      const V factor = hn::IfThenElse(scaled, simd::Exp2(d, hn::Sub(before, m)), hn::Set(d, 1.0f));
      sum = hn::Mul(sum, factor);
      lost = hn::Mul(lost, factor);
      ScaleRows(d, args, lane, factor);
    }
  }

  hn::Store(m, d, args.lane_max + lane);
  // Lanes that have seen nothing but -inf: their p are 2^-inf = 0 with any finite m.
  LaneExps(d, scores, L, args.num_keys, hn::IfThenZeroElse(hn::Eq(m, lowest), m), sum, lost);
  hn::Store(sum, d, args.lane_sum + lane);
  hn::Store(lost, d, args.lane_lost + lane);
}

// A lane that has seen nothing.
template <class D>
HWY_INLINE void BeginLanes(D d, const LanesArgs& args) {
  std::fill_n(args.lane_max, args.num_lanes, -std::numeric_limits<float>::infinity());
  std::fill_n(args.lane_sum, args.num_lanes, 0.0f);
  std::fill_n(args.lane_lost, args.num_lanes, 0.0f);
  std::fill_n(args.accumulators, args.num_used * LaneRowSize(d, args.value_size), 0.0f);
}

// rows[i] = the row of lane + i, for count lanes.
template <class T>
HWY_INLINE void RowsOfLanes(T* first, std::ptrdiff_t head_stride, std::ptrdiff_t row_stride, std::size_t num_queries,
                            std::size_t lane, std::size_t count, T** rows) {
  std::size_t head = lane / num_queries, query = lane % num_queries;
  for (std::size_t i = 0; i < count; ++i) {
    rows[i] = first + static_cast<std::ptrdiff_t>(head) * head_stride + static_cast<std::ptrdiff_t>(query) * row_stride;
    if (++query == num_queries) query = 0, ++head;
  }
}

#if ATTEND_TRANSPOSES_IN_REGISTERS
// Four elements of rows that lie anywhere; zeros beyond the last row and element.
struct RowsAnywhere {
  const float* const* rows;
  std::size_t num_rows, k, num_columns;

  HWY_INLINE hn::Vec<hn::Full128<float>> operator[](std::size_t row) const {
    const hn::Full128<float> d;
    if (row >= num_rows) return hn::Zero(d);
    return num_columns >= 4 ? hn::LoadU(d, rows[row] + k) : simd::LoadTail(d, rows[row] + k, num_columns);
  }
};
struct ScaledStore {
  float scale;

  template <class D>
  HWY_INLINE void operator()(hn::Vec<D> v, D d, float* HWY_RESTRICT to) const {
    hn::Store(hn::Mul(v, hn::Set(d, scale)), d, to);
  }
};
#endif

template <class D>
void PackLanes(D d, const PackLanesArgs& args) {
  const std::size_t lanes = hn::Lanes(d), size = args.size;
  const float* rows[hn::MaxLanes(D())];
  const std::size_t used = args.num_heads * args.num_queries;
  const std::size_t L = hwy::RoundUpTo(used, lanes);
  for (std::size_t lane = 0; lane < L; lane += lanes) {
    float* HWY_RESTRICT packed = args.packed + lane;
    const std::size_t count = std::min(lanes, used - lane);
    std::size_t k = 0;
#if ATTEND_TRANSPOSES_IN_REGISTERS
    const ScaledStore store{args.scale};
    const std::size_t head = lane / args.num_queries, query = lane % args.num_queries;
    if (query + lanes <= args.num_queries) {  // one head's, evenly spaced
      const float* first = args.queries + static_cast<std::ptrdiff_t>(head) * args.head_stride +
                           static_cast<std::ptrdiff_t>(query) * args.row_stride;
      for (simd::transpose::WholeRows whole(d, first, args.row_stride); k + 4 <= size; k += 4, whole.go_on()) {
        simd::transpose::FourColumns(d, whole, 4, packed + k * L, L, store);
      }
      if (k == size) continue;
    }
    RowsOfLanes(args.queries, args.head_stride, args.row_stride, args.num_queries, lane, count, rows);
    for (; k < size; k += 4) {
      const std::size_t left = std::min<std::size_t>(4, size - k);
      simd::transpose::FourColumns(d, RowsAnywhere{rows, count, k, left}, left, packed + k * L, L, store);
    }
#else
    RowsOfLanes(args.queries, args.head_stride, args.row_stride, args.num_queries, lane, count, rows);
    for (; k < size; ++k) {
      for (std::size_t i = 0; i < lanes; ++i) packed[k * L + i] = i < count ? args.scale * rows[i][k] : 0.0f;
    }
#endif
  }
}

#if ATTEND_TRANSPOSES_IN_REGISTERS
// FourColumns gives the lanes one after another: each goes to elements n to n + left - 1 of its row, times its factor.
// Where FourColumns would store them is ignored.
struct StoreToRows {
  float* const* rows;
  const float* factors;
  std::size_t n, left;
  std::size_t* lane;

  template <class D>
  HWY_INLINE void operator()(hn::Vec<D> v, D d, float* /*to*/) const {
    v = TimesFactor(d, v, hn::Set(d, factors[*lane]));
    if (left == hn::Lanes(d)) {
      hn::StoreU(v, d, rows[*lane] + n);
    } else {
      simd::StoreTail(v, d, rows[*lane] + n, left);
    }
    ++*lane;
  }
};
#endif

// factors = 1 / l of a vector of lanes, 0 where l is 0; 1 if nothing is to be divided. Once per lane, and a product per
// element: a division of 16 lanes takes as long as 16 products. It costs a rounding more. In double, as finish_weights
// (run/pool.h) does: weights have the same bits whichever of the two they get their sum from.
template <class D>
HWY_INLINE void LaneFactors(D d, const StoreLanesArgs& args, size_t lane, float* HWY_RESTRICT factors) {
  if (!args.divide) return hn::Store(hn::Set(d, 1.0f), d, factors);
  const hn::ScalableTag<double> dd;
  const hn::Rebind<float, decltype(dd)> half;
  for (size_t i = 0; i < hn::Lanes(d); i += hn::Lanes(dd)) {
    const auto sum = hn::Sub(hn::PromoteTo(dd, hn::Load(half, args.lane_sum + lane + i)),
                             hn::PromoteTo(dd, hn::Load(half, args.lane_lost + lane + i)));
    const auto inverse = hn::Div(hn::Set(dd, 1.0), sum);
    hn::Store(hn::DemoteTo(half, hn::IfThenZeroElse(hn::Eq(sum, hn::Zero(dd)), inverse)), half, factors + i);
  }
}

// Calls store(lane, count, rows, factors) for each vector of lanes: where the results of its `count` queries go, and
// what they are multiplied by.
template <class D, class Store>
HWY_INLINE void ForVectorsOfLanes(D d, const StoreLanesArgs& args, const Store& store) {
  const std::size_t lanes = hn::Lanes(d);
  constexpr std::size_t kMaxLanes = hn::MaxLanes(D());
  HWY_ALIGN float factors[kMaxLanes];
  float* rows[kMaxLanes];
  const std::size_t used = args.num_heads * args.num_queries;
  for (std::size_t lane = 0; lane < used; lane += lanes) {
    const std::size_t count = std::min(lanes, used - lane);
    RowsOfLanes(args.output, args.head_stride, args.row_stride, args.num_queries, lane, count, rows);
    LaneFactors(d, args, lane, factors);
    store(lane, count, rows, factors);
  }
}

template <class D>
void StoreLanes(D d, const StoreLanesArgs& args) {
  using V = hn::Vec<D>;
  const std::size_t lanes = hn::Lanes(d), row_size = LaneRowSize(d, args.size);
  ForVectorsOfLanes(d, args, [&](std::size_t lane, std::size_t count, float* const* rows, float* factors) HWY_ATTR {
    const float* from = args.from + lane * row_size;
    for (std::size_t i = 0; i < count; ++i, from += row_size) {
      const V factor = hn::Set(d, factors[i]);
      const auto element = [&](std::size_t n) HWY_ATTR { return TimesFactor(d, hn::Load(d, from + n), factor); };
      std::size_t n = 0;
      for (; n + lanes <= args.size; n += lanes) hn::StoreU(element(n), d, rows[i] + n);
      if (n < args.size) simd::StoreTail(element(n), d, rows[i] + n, args.size - n);
    }
  });
}

template <class D>
void LanesStep(D d, const LanesArgs& args) {
  if (args.num_keys == 0) {
    if (args.first) BeginLanes(d, args);
    if (args.store != nullptr) StoreLanes(d, *args.store);
    return;
  }
  const std::size_t L = args.num_lanes;
  MultiplyKeys(d, {.a = args.keys,
                   .a_stride = args.keys_stride,
                   .num_rows = args.num_keys,
                   .padded_rows = args.num_keys,
                   .b = args.queries,
                   .b_stride = static_cast<std::ptrdiff_t>(L),
                   .num_columns = L,
                   .inner = args.size,
                   .common = args.size,
                   .lens = nullptr,
                   .c = args.scores,
                   .c_stride = L,
                   .add = false,
                   .ahead = args.ahead,
                   .two_lines = args.two_lines});
  for (std::size_t lane = 0; lane < L; lane += hn::Lanes(d)) LaneSoftmax(d, args, lane);
  // Rows of one head lie evenly spaced: results go there at once.
  const bool at_once = args.store != nullptr && args.store->num_heads == 1;
  if (at_once) {
    for (std::size_t lane = 0; lane < L; lane += hn::Lanes(d)) LaneFactors(d, *args.store, lane, args.factors + lane);
  }
  const LaneResults results =
      at_once ? LaneResults{args.factors, args.store->output, args.store->row_stride} : LaneResults{};
  MultiplyValues(d, {.a = args.scores,
                     .a_stride = static_cast<std::ptrdiff_t>(L),
                     .num_rows = args.num_used,
                     .padded_rows = L,
                     .b = args.values,
                     .b_stride = args.values_stride,
                     .num_columns = args.value_size,
                     .inner = args.num_keys,
                     .common = args.shortest,
                     .lens = args.lens,
                     .c = args.accumulators,
                     .c_stride = LaneRowSize(d, args.value_size),
                     .add = !args.first,
                     .ahead = args.ahead,
                     .fetches = args.ahead_of_values,
                     .keep_values = args.keep_values,
                     .results = at_once ? &results : nullptr});
  if (args.store != nullptr && !at_once) StoreLanes(d, *args.store);
}

// The way of weights: p lies key by key, lane by lane.
template <class D>
void StoreLaneWeights(D d, const StoreLanesArgs& args) {
  const std::size_t lanes = hn::Lanes(d);
  const std::size_t L = hwy::RoundUpTo(args.num_heads * args.num_queries, lanes);
  ForVectorsOfLanes(d, args, [&](std::size_t lane, std::size_t count, float* const* rows, float* factors) HWY_ATTR {
    for (std::size_t n = 0; n < args.size; n += lanes) {
      const float* from = args.from + n * L + lane;
      const std::size_t left = std::min(lanes, args.size - n);
#if ATTEND_TRANSPOSES_IN_REGISTERS
      const std::ptrdiff_t stride = static_cast<std::ptrdiff_t>(L);
      std::size_t i = 0;
      const StoreToRows store{rows, factors, n, left, &i};
      if (left == lanes) {
        for (simd::transpose::WholeRows whole(d, from, stride); i + 4 <= count; whole.go_on()) {
          simd::transpose::FourColumns(d, whole, 4, factors, 0, store);
        }
      }
      while (i < count) {
        simd::transpose::FourColumns(d, simd::transpose::EndingRows{from + i, stride, left, 4},
                                     std::min<std::size_t>(4, count - i), factors, 0, store);
      }
#else
      for (std::size_t i = 0; i < count; ++i) {
        for (std::size_t k = 0; k < left; ++k) rows[i][n + k] = factors[i] == 0 ? 0 : from[k * L + i] * factors[i];
      }
#endif
    }
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace kernels
}  // namespace attend
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
