// The cases of additive attention and what is counted of them, the same for our layer and for every contender.
#ifndef ATTEND_BENCH_ADDITIVE_H_
#define ATTEND_BENCH_ADDITIVE_H_

#include <cstdint>
#include <vector>

#include <benchmark/benchmark.h>

#include "attend/target.h"
#include "bench/problem.h"
#include "bench/support.h"

namespace attend::bench {

// Query size 192, key and value size 256. b64_m1: one step of a decoder.
struct AdditiveCase {
  const char* name;
  std::int64_t batch, num_queries, num_keys, num_hiddens;
};
inline constexpr AdditiveCase kAdditiveCases[] = {{"b8_m64_n512_u256", 8, 64, 512, 256},
                                                  {"b64_m1_n100_u256", 64, 1, 100, 256},
                                                  {"b1_m128_n512_u256", 1, 128, 512, 256},
                                                  {"b2_m256_n1024_u128", 2, 256, 1024, 128}};

inline Problem additive_problem(const AdditiveCase& c, const std::vector<std::int32_t>& lens = {}) {
  return additive_problem(c.batch, c.num_queries, c.num_keys, c.num_hiddens, lens);
}
// The case's _lens: random lengths.
inline Problem padded_additive_problem(const AdditiveCase& c) {
  return additive_problem(c, random_lens(c.batch, c.num_keys, kLensSeed));
}

// Vector instructions that the factored score takes per vector of elements, an element being one (query, key, hidden
// unit), by one division for eight of them: 27 multiplications and additions beside it
// (engine/kernels/factored_score-inl.h). By three divisions, which take as long as several others each, they are 22.
// Loads, broadcasts and the compensated sums, four in 32 elements, are not counted.
inline constexpr double kScoreInstructions = (27 + 1) / 8.0;

// per_element: time of everything / elements.
// fma_issue_percent: 100 * (elements / lanes * kScoreInstructions) / (vector multiply-adds that `threads` cores could
// have begun in that time); fma_peak counts two FLOPs per lane and multiply-add.
inline void count_elements(benchmark::State& state, double elements, const Target& target, int threads = 1) {
  state.counters["per_element"] = seconds_each(elements);
  state.counters["fma_issue_percent"] =
      per_second(100 * elements * kScoreInstructions * 2 / fma_peak(target) / threads);
}

// Elements are sum_b(M len_b) U. valid_share: valid keys / all keys, of all queries.
inline void count_additive(benchmark::State& state, const Problem& problem, std::int64_t num_hiddens,
                           const Target& target, int threads = 1) {
  count_elements(state, static_cast<double>(problem.pairs() * num_hiddens), target, threads);
  state.counters["valid_share"] =
      static_cast<double>(problem.pairs()) /
      static_cast<double>(problem.shape.batch * problem.shape.num_queries * problem.shape.num_keys);
}

}  // namespace attend::bench

#endif  // ATTEND_BENCH_ADDITIVE_H_
