// Problems and counters that several families of whole layers share: layers_bench.cc, length_bench.cc,
// threads_bench.cc.
#ifndef ATTEND_BENCH_LAYERS_LAYER_CASES_H_
#define ATTEND_BENCH_LAYERS_LAYER_CASES_H_

#include <cstdint>
#include <vector>

#include <benchmark/benchmark.h>

#include "attend/plan.h"
#include "attend/target.h"
#include "bench/problem.h"

namespace attend::bench {

// Two products over the visible pairs: 4 H D sum_b(M len_b), half of it where the mask is causal. Softmax is not
// counted.
void count_dot(benchmark::State& state, const Problem& problem, const PlanOptions& options);

// The products over the visible pairs, 2 (Dk + Dv) sum_b(M len_b), and those with W of the queries, 2 B M Dq Dk, which
// are the fewer.
void count_bilinear(benchmark::State& state, const Problem& problem, const PlanOptions& options);

// One query: keys and values are read once, and nothing else takes time.
void count_decode(benchmark::State& state, const Problem& problem, const PlanOptions& options);

// Self-attention of `length` rows of `size`, biases and all; lens: valid lengths, none where empty.
Problem multi_head_problem(std::int64_t batch, std::int64_t length, std::int64_t size, std::int64_t heads,
                           const std::vector<std::int32_t>& lens);

// Queries and output: 4 E^2 per computed query row; keys and values: 4 E^2 per valid key; pooling as in dot with H D =
// E. The share is of the target's peak, so for E of 512 and more, whose projections keep to the plan's target.
void count_multi_head(benchmark::State& state, const Problem& problem, const PlanOptions& options);

// The operation on its own, (32, rows / 32, columns) scores, not in place. GB and read_percent: valid scores read and
// all written, each once. Lines that a cache fetches because they are to be written are not counted.
void run_masked_softmax(benchmark::State& state, const Target& target, std::int64_t rows, std::int64_t columns,
                        bool with_lens);

}  // namespace attend::bench

#endif  // ATTEND_BENCH_LAYERS_LAYER_CASES_H_
