// y = W x + b for any rows x, wherever each lies, from weights packed once for all targets.
#ifndef ATTEND_KERNELS_LINEAR_ROWS_H_
#define ATTEND_KERNELS_LINEAR_ROWS_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "engine/kernels/pairs.h"
#include "engine/kernels/parts.h"
#include "engine/kernels/prefetch.h"

namespace attend::kernels {

// Weights lie in panels of 16 columns of W^T, one cache line per term of the sum whatever the target: column o of
// term k at (o / 16 * in + k) * 16 + o % 16, zeros after the last. 16 floats are a vector of AVX-512, two of AVX2,
// four of SSE and NEON; a wider kernel reads several panels side by side. Longer vectors (SVE, RVV) use 16 lanes.
inline constexpr std::size_t kLinearPanel = 16;

inline constexpr std::size_t linear_panels(std::size_t out) { return (out + kLinearPanel - 1) / kLinearPanel; }

// What the caller of a product touches next, for the product to prefetch. Of no account for results.
struct LinearAhead {
  std::span<const float> read{};    // by pairs_by_slices, where weights are_one_block
  PrefetchRows* written = nullptr;  // from the results: some lines in each step; by parts none, which is not measured
};

// Bytes of weights that stay in L2 while rows pass over them: this block, the next one and 128 rows of 768 inputs fit 1
// MiB. On a core with 2 MiB, two or four times as much is within 1 %; with 1 MiB, twice as much costs 2 to 5 %.
inline constexpr std::size_t kWeightBlock = std::size_t{320} << 10;
// Whether all weights do.
inline constexpr bool are_one_block(std::size_t in, std::size_t out) {
  return linear_panels(out) * kLinearPanel * in * sizeof(float) <= kWeightBlock;
}

struct LinearRowsArgs {
  const float* const* rows;  // x of row r at rows[r], `in` elements, read as scalars; the same row may come twice
  float* const* results;     // y of row r at results[r], exactly `out` elements are written; overlap nothing
  std::size_t num_rows;
  const float* weights;  // panels, aligned to a cache line
  const float* bias;     // linear_panels(out) * kLinearPanel elements, zeros after the last; nullptr: none
  std::size_t in;
  std::size_t out;
  // num_rows * in elements to prefetch where all weights stay in L2, nullptr: none. Of no account for results.
  const float* later_rows = nullptr;
  LinearAhead ahead{};
};

// What Winograd's inner products want beside that (pairs.h, linear_pairs-inl.h).
struct LinearPairsArgs {
  LinearRowsArgs linear;
  const float* pair_sums;     // of column o: sum over j of (-1)^j W[o][3 j] W[o][3 j + 1]; as many as bias, aligned
  float weights_mean_square;  // of an element of W: rows of x are brought to it by powers of two
  float* scratch;             // linear_pairs_scratch(in, num_rows) elements, aligned to a cache line
  // Weights are prefetched into L1 by the first step of rows that comes to them: whether by later ones, too, which
  // find them in L2. Of no account for results.
  bool prefetches_again;
};

// Rows of x are copied, scaled; a copy takes so many elements. Strides of a multiple of 4 KiB would put all rows of a
// step into the same few lines of L1.
inline constexpr std::size_t linear_pairs_stride(std::size_t in) { return (in + 15) / 16 * 16 + 16; }
// Rows that are copied at a time, up to sixteen steps of eight: 400 KiB, which beside two blocks of weights
// (kPairedWeightBlock) stay in 1 MiB of L2; in calls of few rows 208 KiB, where scratch is to be little. All weights
// come from L3 or memory once for so many rows. EPYC (Zen 5), AVX3, time by that of 72 rows and blocks of 320 KiB:
// linear/r256_i768_o768 and r1024_i512_o512 0.96, multi_head/b8_s128_e768_h12 and b1_s512_e768_h12 0.96,
// b32_s32_e512_h8 0.96 to 0.99; with 200 rows 1 % more than with 128.
inline constexpr std::size_t kMaxPairsSteps = 16, kMaxPairsRows = 8 * kMaxPairsSteps, kFewPairsRows = 64;
inline constexpr std::size_t linear_pairs_rows(std::size_t in, std::size_t num_rows) {
  const std::size_t bytes = std::size_t{num_rows <= kFewPairsRows ? 208u : 400u} << 10;
  const std::size_t steps = bytes / (8 * linear_pairs_stride(in) * sizeof(float));
  return 8 * (steps < 1 ? 1 : steps > kMaxPairsSteps ? kMaxPairsSteps : steps);
}
// Of calls of up to most_rows rows.
inline constexpr std::size_t linear_pairs_scratch(std::size_t in, std::size_t most_rows) {
  const std::size_t rows = linear_pairs_rows(in, most_rows), all = (most_rows + 7) / 8 * 8;
  return (rows < all ? rows : all) * linear_pairs_stride(in);
}

// What products by bfloat16 parts want beside that (parts.h, linear_parts-inl.h).
struct LinearPartsArgs {
  LinearRowsArgs linear;
  const std::uint16_t* parts;  // of W^T as tiles of B: parts_size(out, in) numbers, aligned to a cache line
  std::uint16_t* scratch;      // linear_parts_scratch(in, num_rows) numbers, aligned to a cache line
};

// Largest magnitudes of a row of W that has parts, and the least one of a row of x, beside rows of zeros (the largest
// is kMaxWithParts). What tiles take as zeros, below 2^-126, is then less than 2^-46 of the largest product, and sums
// of parts overflow nowhere.
inline constexpr float kMinLinearPart = 0x1p-40f, kMaxWeightWithParts = 0x1p40f;

// Rows whose parts lie in scratch at a time, 768 KiB at most of 2 MiB of L2, and tiles of their terms: longer sums are
// cut into slices and wait in the results, which costs no bits. 64 rows are 10 % slower, for weights come from L3 twice
// as often, slices of 10 tiles 20 % (Intel with AMX, linear/r1024_i768_o768). Calls of fewer rows take less, by whole
// steps.
inline constexpr std::size_t kMaxPartsRows = 128, kMaxPartsSteps = 32;
inline constexpr std::size_t linear_parts_scratch(std::size_t in, std::size_t num_rows) {
  const std::size_t rows = (num_rows + kPartsRowsPerStep - 1) / kPartsRowsPerStep * kPartsRowsPerStep;
  return parts_size(rows < kMaxPartsRows ? rows : kMaxPartsRows,
                    in < kMaxPartsSteps * kPartsTerms ? in : kMaxPartsSteps * kPartsTerms);
}
// Rows of a call that take 192 KiB at most.
inline constexpr std::size_t linear_parts_few_rows(std::size_t in) {
  constexpr std::size_t kTerms = kMaxPartsSteps * kPartsTerms;
  return kPartsRowsPerStep * (in <= kTerms / 4 ? 4 : in <= kTerms / 2 ? 2 : 1);
}

struct LinearRowsKernels {
  // An element of y depends on its row of x and its row of W alone, never on the other rows of the call nor on their
  // number: each is one chain of multiply-adds, from 0, in the order of k, then the bias.
  void (*multiply)(const LinearRowsArgs&);
  // The same promise, but for the chain: a row of x goes by pairs or, where that would cost accuracy, as by multiply.
  void (*multiply_by_pairs)(const LinearPairsArgs&);
  // Likewise: by parts or as by multiply.
  void (*multiply_by_parts)(const LinearPartsArgs&);
  // Weights as multiply_by_parts wants them, from panels.
  void (*pack_parts)(const float* panels, std::size_t in, std::size_t out, std::uint16_t* parts);
  // Whether multiply_by_pairs is the faster one on CPUs whose vector units add beside multiplying.
  bool has_registers_for_pairs;
  // Whether multiply_by_pairs takes sums some terms at a time, whose weights come into L1 once for all rows of a call.
  bool pairs_by_slices;
  // Whether multiply_by_parts is the faster one: this CPU has tiles, and so has the target.
  bool has_tiles;
};

LinearRowsKernels linear_rows_kernels(std::int64_t target);

}  // namespace attend::kernels

#endif  // ATTEND_KERNELS_LINEAR_ROWS_H_
