// Attention of one query, or a handful (decoding): bound by reading keys and values once, so these read them where they
// lie, in order, for all queries at a time.
//
//     dots:  scores[r][j] = sum_k queries[r][k] keys[j][k]
//     pool:  o[r][n]     += sum_j p[r][j] values[j][n]        j < lens[r]
//
// Made to be called for few keys at a time: where several key-value heads lie side by side in one row, a block of keys
// of one head, then the same keys of the next.
//
// A score depends on its query and key alone, and what is added to a row of o on its p, its length and the values of
// the call, never on the other rows. Values are summed kPoolSum at a time and the sums added to o: calls of so many, or
// of a multiple, come to the same bits.
#ifndef ATTEND_KERNELS_FEW_ROWS_H_
#define ATTEND_KERNELS_FEW_ROWS_H_

#include <cstddef>
#include <cstdint>

namespace attend::kernels {

// Sums of 16 are faster from L2, by 2 to 5 % on AVX3 and 2 to 19 on AVX2 (few_rows/pool_r*_n512_d128, Zen 5), but calls
// of 8 are wanted: run/pool_decode.cc.
inline constexpr std::size_t kPoolSum = 8;

// Which cache later rows are prefetched into: at distance `ahead`, and where the name has a second level, again at the
// shorter distance `again`. Vectors of less than a line prefetch each line several times anyway: they take kL1Twice for
// kL1 and the others for kL2 (kL2ThenL1 cost AVX2 a tenth, length/decode_n*, Zen 4).
enum class PrefetchInto {
  kL2,
  kL2KeysThenL1,  // keys again 4 rows further down the same head; kL2 with 16 registers
  kL2Thrice,
  kL2ThenL1,
  kL1,
  kL1Twice,
};

constexpr bool ends_in_l1(PrefetchInto into) { return into >= PrefetchInto::kL2ThenL1; }

// Keys or values of later calls, prefetched while a call is at work; elements from its own to those. No result changes.
struct LaterRows {
  PrefetchInto into = PrefetchInto::kL2;
  std::ptrdiff_t ahead = 0;
  std::ptrdiff_t again = 0;  // nearer
};

struct DotRowsArgs {
  const float* queries;           // row r at queries + r * queries_stride, size elements, scaled
  std::ptrdiff_t queries_stride;  // elements, any
  std::size_t num_rows;
  const float* keys;           // key j at keys + j * keys_stride
  std::ptrdiff_t keys_stride;  // elements, any
  std::size_t num_keys;
  std::size_t size;              // D
  float* scores;                 // scores[r * scores_stride + j] are written exactly
  std::ptrdiff_t scores_stride;  // elements, any
  LaterRows later = {};
};

struct PoolRowsArgs {
  const float* p;  // p[r * p_stride + j]
  std::ptrdiff_t p_stride;
  std::size_t num_rows;
  const std::int32_t* lens;  // per row, 0 <= lens[r] <= num_values; values from there on are not added: 0 * inf is NaN
  const float* values;       // value j at values + j * values_stride
  std::ptrdiff_t values_stride;
  std::size_t num_values;
  std::size_t value_size;              // Dv
  float* accumulators;                 // row r at accumulators + r * accumulators_stride, aligned, whole vectors
  std::ptrdiff_t accumulators_stride;  // elements, a multiple of the lanes
  LaterRows later = {};
};

struct FewRowsKernels {
  void (*dots)(const DotRowsArgs&);
  void (*pool)(const PoolRowsArgs&);
  bool whole_lines;       // a vector may hold a line of memory, 64 bytes
  bool has_32_registers;  // else keys are not prefetched once more (kL2KeysThenL1)
  bool prefetches_keys;   // whether dots heeds DotRowsArgs::later; pool always heeds its own
};

FewRowsKernels few_rows_kernels(std::int64_t target);

}  // namespace attend::kernels

#endif  // ATTEND_KERNELS_FEW_ROWS_H_
