// Attention of queries in the lanes, few of them at a time: nothing of keys or values is packed. They are read where
// they lie, one number at a time, and broadcast against vectors whose lanes are queries:
//
//     scores[key][lane] = sum_k keys[key][k] packed[k][lane]
//     p[key][lane]      = 2^(scores[key][lane] - m[lane])
//     l[lane]          += sum_key p[key][lane]
//     o[lane][n]       += sum_key p[key][lane] values[key][n]
//
// The recurrence is the one of softmax_tile.h, but elementwise over lanes: no maximum and no sum goes across them. Only
// the last product has values in its vectors and broadcasts p, so that results lie in rows as they are wanted. Scores
// are exponents of two (the packed queries hold log2(e)), and m is a whole number.
//
// Lane i = g * num_queries + m belongs to query m of head g of the group that shares these keys and values. num_lanes,
// L below, is their number rounded up to whole vectors. Lanes beyond the last query are padding: they hold queries of
// zeros, and what becomes of them reaches no result.
//
// What becomes of a lane depends on its query, its keys and the steps they are cut into: never on the other lanes.
#ifndef ATTEND_KERNELS_QUERY_LANES_H_
#define ATTEND_KERNELS_QUERY_LANES_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "engine/kernels/prefetch.h"

namespace attend::kernels {

struct PackLanesArgs {
  const float* queries;        // query m of head g at queries + g * head_stride + m * row_stride, size elements
  std::ptrdiff_t head_stride;  // elements, any
  std::ptrdiff_t row_stride;   // elements, any
  std::size_t num_heads;
  std::size_t num_queries;  // per head
  std::size_t size;         // D
  float scale;              // times log2(e)
  float* packed;            // aligned; packed[k * L + lane] = scale * query[k], padding lanes 0
};

struct StoreLanesArgs {
  const float* from;      // of a step: its accumulators; store_weights: p, of `size` keys
  const float* lane_sum;  // with lane_lost: l, as of LanesArgs
  const float* lane_lost;
  std::size_t num_heads;
  std::size_t num_queries;
  std::size_t size;            // elements of a row
  float* output;               // row of query m of head g at output + g * head_stride + m * row_stride
  std::ptrdiff_t head_stride;  // elements, any
  std::ptrdiff_t row_stride;
  bool divide;  // by l, 0 where l is 0; false: as it is (a chunk of keys, to be merged)
};

struct LanesArgs {             // one step over some keys
  const float* queries;        // packed
  std::size_t num_lanes;       // L
  std::size_t num_used;        // lanes that belong to a query: all but padding
  std::size_t size;            // D
  std::size_t value_size;      // Dv
  const float* keys;           // key j at keys + j * keys_stride
  std::ptrdiff_t keys_stride;  // elements, any
  const float* values;         // value j at values + j * values_stride
  std::ptrdiff_t values_stride;
  std::size_t num_keys;      // the most that any lane sees here
  std::size_t shortest;      // the fewest that any lane but padding sees here; those beyond cost twice as much
  const std::int32_t* lens;  // aligned; per lane, 0 <= lens[i] <= num_keys, padding lanes 0
  float* scores;             // aligned scratch, num_keys * L; p when the step is done
  bool first;                // what follows is not read but begun
  float* lane_max;           // aligned; m per lane
  float* lane_sum;           // aligned; l is sum - lost (simd::CompensatedAdd)
  float* lane_lost;
  float* accumulators;  // aligned; row o[lane] of value_size rounded up to whole vectors, num_used of them
  std::span<PrefetchRows> ahead = {};  // rows to prefetch meanwhile, a line per term of the product with keys,
  bool two_lines = false;              // or two while 16 keys are at work: 32 registers, one vector of queries;
  bool ahead_of_values = false;        // a line per term of the product with values as well, for whole vectors in twos
  // With 16 registers: values are kept side by side while the first queries meet them, for the others. Not wanted where
  // they are far (Cpu::least_far_bytes) and nothing is prefetched. No result changes.
  bool keep_values = true;
  // The last step: the results go where they belong, of one head at once, so that accumulators hold anything then.
  const StoreLanesArgs* store = nullptr;
  float* factors = nullptr;  // for that: aligned scratch, a number per lane
};

struct QueryLanesKernels {
  std::size_t lanes;      // of a vector
  bool prefetches;        // whether step heeds LanesArgs::ahead
  bool has_32_registers;  // else a term is half as many sums, and prefetching twice its part
  void (*pack)(const PackLanesArgs&);
  void (*step)(const LanesArgs&);
  void (*store_weights)(const StoreLanesArgs&);
};

QueryLanesKernels query_lanes_kernels(std::int64_t target);

}  // namespace attend::kernels

#endif  // ATTEND_KERNELS_QUERY_LANES_H_
