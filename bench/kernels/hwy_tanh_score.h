#ifndef ATTEND_BENCH_KERNELS_HWY_TANH_SCORE_H_
#define ATTEND_BENCH_KERNELS_HWY_TANH_SCORE_H_

#include <cstddef>

namespace attend::bench {

struct HwyTanhArgs {
  const float* queries;  // (num_queries, num_hiddens), dense
  const float* keys;     // panels one vector wide: panel p at keys + p * num_hiddens * lanes, [u][lane], aligned
  const float* w_v;      // num_hiddens
  float* scores;         // (num_queries, num_panels * lanes), dense, aligned
  std::size_t num_queries, num_panels, num_hiddens;
};

// The contender's code of one target.
struct HwyTanhKernel {
  void (*scores)(const HwyTanhArgs&);
  std::size_t lanes;
};

}  // namespace attend::bench

#endif  // ATTEND_BENCH_KERNELS_HWY_TANH_SCORE_H_
