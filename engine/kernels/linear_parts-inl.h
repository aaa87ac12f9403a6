// y = W x + b by bfloat16 parts (parts.h), for CPUs that multiply tiles of them.
//
// Sums are wrong by less than chains of multiply-adds, whatever the numbers (tests/kernels/linear_parts_test.cc). Rows
// of x that are huge, tiny or not finite go the plain way, each by itself. W is looked at where it is packed
// (matmul/packed_rows.cc).
//
// Blocking:     parts of a block of rows (kMaxPartsRows) stay in L2 while all weights pass, 32 columns at a time;
//               weights are 6 bytes a number and come from L3 once per block. Beside 24 tile products, 384 cycles,
//               there is room for vectors: the results of the step before are stored, and the first columns' steps take
//               parts of the rows that come next, instead of both by themselves: 9 % faster (linear/r1024_i768_o768).
//               Taking those parts in the course of four steps of columns, eight rows each, is no faster.
// Prefetch:     the next columns' weights come into L2 beside the products of these, some lines with each four of them.
//               Xeon with AMX, AVX3_parts: linear/r1024_i768_o768 3.88 -> 3.65 ms, r256_i768_o768 0.97 -> 0.91,
//               r1024_i512_o512 1.83 -> 1.71, multi_head/b8_s128_e768_h12 19.6 -> 17.5. But r48_i768_o768 took 4 % and
//               r16_i768_o768 8 % longer: weights come as fast as they can for so few rows.
#if defined(ATTEND_KERNELS_LINEAR_PARTS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ATTEND_KERNELS_LINEAR_PARTS_INL_H_
#undef ATTEND_KERNELS_LINEAR_PARTS_INL_H_
#else
#define ATTEND_KERNELS_LINEAR_PARTS_INL_H_
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cstddef>

#include "engine/kernels/linear_rows-inl.h"
#include "engine/kernels/linear_rows.h"
#include "engine/kernels/parts-inl.h"
#include "engine/simd/amx-inl.h"
#include "engine/simd/compat-inl.h"
#include "engine/simd/tail-inl.h"

HWY_BEFORE_NAMESPACE();
namespace attend {
namespace kernels {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
namespace simd = attend::HWY_NAMESPACE;

// A slice of the terms of all sums, in tiles.
struct PartsSlice {
  size_t first, steps;
  bool is_first, is_last;
};

// Sums on their way from tiles to results, or back where they wait there for their next slice.
struct TileResults {
  const LinearRowsArgs* args;
  const float* bias;  // of the first column, or nullptr
  size_t column, columns;
  size_t row, end;  // those still to be stored
  const float* sums;

  template <class D>
  HWY_INLINE void Store(D d, size_t count) {
    using V = hn::Vec<D>;
    const size_t lanes = hn::Lanes(d), last = std::min(end, row + count);
    for (; row < last; ++row, sums += kPartsColumnsPerStep) {
      float* HWY_RESTRICT to = args->results[row] + column;
      for (size_t i = 0; i < columns; i += lanes) {
        V y = hn::Load(d, sums + i);
        if (bias != nullptr) y = hn::Add(y, hn::Load(d, bias + i));
        if (HWY_LIKELY(columns - i >= lanes)) {
          hn::StoreU(y, d, to + i);
        } else {
          simd::StoreTail(y, d, to + i, columns - i);
        }
      }
    }
  }
  template <class D>
  HWY_INLINE void Load(D d, float* HWY_RESTRICT to) const {
    const size_t lanes = hn::Lanes(d);
    for (size_t r = row; r < end; ++r, to += kPartsColumnsPerStep) {
      const float* HWY_RESTRICT from = args->results[r] + column;
      for (size_t i = 0; i < columns; i += lanes) {
        const size_t rest = columns - i;
        hn::Store(rest >= lanes ? hn::LoadU(d, from + i) : simd::LoadTail(d, from + i, rest), d, to + i);
      }
    }
  }
};

// Lines of the weights of two tiles' columns, b_block apart, of which a slice has `count` numbers each; then what lies
// behind. Never dereferenced. By PrefetchLines half of what is won was lost.
struct NextWeights {
  const TileNumbers* next;
  const TileNumbers* end;
  const TileNumbers* second;

  NextWeights(const TileNumbers* first, size_t count, size_t b_block)
      : next(first), end(first + count), second(first + b_block) {}

  [[gnu::always_inline]] void fetch(size_t lines) {
    for (; lines > 0; --lines, next += kPartsLine) {
      if (next == end) next = second;
      __builtin_prefetch(next, 0, 2);
    }
  }
};
static constexpr size_t kMinRowsToPrefetch = 64;  // see Prefetch above

// All rows by one slice of their terms: parts of a row's terms are taken while the rows before meet the first columns,
// results stored while the next ones are summed.
template <class T, class D>
HWY_INLINE void MultiplySlice(D d, T& tiles, const LinearRowsArgs& args, const PartsSlice& slice,
                              const TileNumbers* weights, TileNumbers* HWY_RESTRICT parts) {
  const size_t a_block = slice.steps * kNumParts * kPartsTile;
  const size_t b_block = TileSteps(args.in) * kNumParts * kPartsTile;
  weights += slice.first * kNumParts * kPartsTile;
  // What is done beside four products of tiles.
  const size_t groups = slice.steps * kGroupsPerStep, stored = hwy::DivCeil(kPartsRowsPerStep, groups);
  constexpr size_t kTaken = (kPartsRowsPerStep + kGroupsPerStep - 1) / kGroupsPerStep;
  const auto take_parts = [&](size_t first, size_t end, size_t step) ATTEND_INLINE_ATTR {
    const size_t term = (slice.first + step) * kPartsTerms, terms = std::min(args.in - term, kPartsTerms);
    for (size_t r = first; r < std::min(args.num_rows, end); ++r) {
      RowToParts<Cut::kRounded>(d, args.rows[r] + term, terms, r,
                                parts + r / kPartsRows * a_block + step * kNumParts * kPartsTile);
    }
  };
  HWY_ALIGN float sums[2][kPartsRowsPerStep * kPartsColumnsPerStep];
  TileResults done{};
  size_t turn = 0;
  for (size_t step = 0; step < slice.steps; ++step) take_parts(0, kPartsRowsPerStep, step);
  const size_t lines_of_step = kPartsColumnsPerStep / kPartsColumns * a_block / kPartsLine;
  const size_t lines_of_group = hwy::DivCeil(lines_of_step, groups * hwy::DivCeil(args.num_rows, kPartsRowsPerStep));
  for (size_t column = 0; column < args.out; column += kPartsColumnsPerStep) {
    const size_t columns = std::min(kPartsColumnsPerStep, args.out - column);
    const TileNumbers* b = weights + column / kPartsColumns * b_block;
    NextWeights ahead(b + kPartsColumnsPerStep / kPartsColumns * b_block, a_block, b_block);
    const size_t prefetched = args.num_rows < kMinRowsToPrefetch || column + columns == args.out ? 0 : lines_of_group;
    for (size_t row = 0; row < args.num_rows; row += kPartsRowsPerStep, turn ^= 1) {
      const size_t rows = std::min(kPartsRowsPerStep, args.num_rows - row);
      const TileResults results{.args = &args,
                                .bias = slice.is_last && args.bias != nullptr ? args.bias + column : nullptr,
                                .column = column,
                                .columns = columns,
                                .row = row,
                                .end = row + rows,
                                .sums = sums[turn]};
      if (!slice.is_first) results.Load(d, sums[turn]);
      const PartsProductArgs product{.num_rows = rows,
                                     .num_columns = columns,
                                     .a = parts + row / kPartsRows * a_block,
                                     .a_block = a_block,
                                     .b = b,
                                     .b_block = b_block,
                                     .num_steps = slice.steps,
                                     .accumulate = !slice.is_first,
                                     .c = sums[turn],
                                     .c_stride = kPartsColumnsPerStep};
      size_t step = 0, group = 0;
      MultiplyTiles(tiles, product, [&]() ATTEND_INLINE_ATTR {
        done.Store(d, stored);
        ahead.fetch(prefetched);
        if (HWY_UNLIKELY(column == 0)) {
          const size_t next = row + kPartsRowsPerStep + group * kTaken;
          take_parts(next, std::min(next + kTaken, row + 2 * kPartsRowsPerStep), step);
        }
        if (++group < kGroupsPerStep) return;
        group = 0;
        ++step;
      });
      done = results;
    }
  }
  done.Store(d, kPartsRowsPerStep);
}

// Rows in blocks: those that go by parts, then the others.
template <class T, class D>
void LinearParts(D d, const LinearPartsArgs& args) {
  const LinearRowsArgs& all = args.linear;
  const size_t steps = TileSteps(all.in), slices = (steps + kMaxPartsSteps - 1) / kMaxPartsSteps;
  const size_t blocks = (all.num_rows + kMaxPartsRows - 1) / kMaxPartsRows;
  const float *fit[kMaxPartsRows], *others[kMaxPartsRows];
  float *results[kMaxPartsRows], *other_results[kMaxPartsRows];
  T tiles;
  T::Configure();
  for (size_t block = 0, first = 0; block < blocks; ++block) {
    // Shared out evenly, but by whole steps.
    const size_t left = (all.num_rows - first + kPartsRowsPerStep - 1) / kPartsRowsPerStep;
    const size_t end =
        std::min(all.num_rows, first + (left + blocks - block - 1) / (blocks - block) * kPartsRowsPerStep);
    LinearRowsArgs by_parts = all, plain = all;
    by_parts.rows = fit;
    by_parts.results = results;
    plain.rows = others;
    plain.results = other_results;
    by_parts.num_rows = plain.num_rows = 0;
    for (; first < end; ++first) {
      if (IsFitForExactParts(LargestMagnitudeBits(d, all.rows[first], all.in), kMinLinearPart)) {
        fit[by_parts.num_rows] = all.rows[first];
        results[by_parts.num_rows++] = all.results[first];
      } else {
        others[plain.num_rows] = all.rows[first];
        other_results[plain.num_rows++] = all.results[first];
      }
    }
    for (size_t slice = 0; slice < slices && by_parts.num_rows > 0; ++slice) {
      const size_t from = steps * slice / slices, to = steps * (slice + 1) / slices;
      MultiplySlice(d, tiles, by_parts, {from, to - from, slice == 0, slice + 1 == slices}, args.parts, args.scratch);
    }
    LinearRows(d, plain);
  }
  T::Release();
}

template <class D>
void LinearPackParts(D d, const float* panels, size_t in, size_t out, TileNumbers* parts) {
  for (size_t panel = 0; panel < linear_panels(out); ++panel) {
    const float* from = panels + panel * in * kLinearPanel;
    ColumnsToParts(
        d, [from](size_t i) { return from + i; }, kLinearPanel, in, kPartsColumns, nullptr, nullptr,
        parts + panel * parts_size(kPartsColumns, in));
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace kernels
}  // namespace attend
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
