// additive_hwy_tanh/*: a contender of the kernels additive_score and additive_rational: the fused loop that a user of
// Highway would write, with the Tanh that comes with Highway (hwy/contrib/math). Same layout, a vector of keys at a
// time, keys packed beforehand. In kernels/ and not in contest/ because it is per-target code.
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <benchmark/benchmark.h>

#include "bench/additive.h"
#include "bench/benchmarks.h"
#include "bench/kernels/hwy_tanh_score.h"
#include "bench/kernels/score_error.h"
#include "bench/support.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "bench/kernels/hwy_tanh_bench.cc"
#include <hwy/foreach_target.h>  // before highway.h
#include <hwy/highway.h>
#include <hwy/contrib/math/math-inl.h>

HWY_BEFORE_NAMESPACE();
namespace attend {
namespace bench {
namespace HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

// s[m][j] = sum_u w_u tanh(q_mu + k_ju).
void Scores(const HwyTanhArgs& args) {
  const hn::ScalableTag<float> d;
  using V = hn::Vec<decltype(d)>;
  const std::size_t N = hn::Lanes(d);
  for (std::size_t panel = 0; panel < args.num_panels; ++panel) {
    const float* HWY_RESTRICT keys = args.keys + panel * args.num_hiddens * N;
    for (std::size_t m = 0; m < args.num_queries; ++m) {
      const float* HWY_RESTRICT query = args.queries + m * args.num_hiddens;
      V sum = hn::Zero(d);
      for (std::size_t u = 0; u < args.num_hiddens; ++u) {
        const V sum_qk = hn::Add(hn::Set(d, query[u]), hn::Load(d, keys + u * N));
        sum = hn::MulAdd(hn::Set(d, args.w_v[u]), hn::Tanh(d, sum_qk), sum);
      }
      hn::Store(sum, d, args.scores + (m * args.num_panels + panel) * N);
    }
  }
}

HwyTanhKernel Kernel() { return {&Scores, hn::Lanes(hn::ScalableTag<float>())}; }

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace bench
}  // namespace attend
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "engine/kernels/for_target.h"

namespace attend::bench {
namespace {

HwyTanhKernel hwy_tanh_kernel(std::int64_t target) { ATTEND_RETURN_FOR_TARGET(target, Kernel); }

void additive_hwy_tanh(benchmark::State& state, const Target& target, std::size_t m, std::size_t n) {
  constexpr std::size_t kHiddens = 256;
  const HwyTanhKernel kernel = hwy_tanh_kernel(target.id());
  const std::size_t lanes = kernel.lanes, num_panels = (n + lanes - 1) / lanes;
  AlignedFloats queries(m * kHiddens, 1), keys(n * kHiddens, 2), w_v(kHiddens, 3);
  AlignedFloats panels(num_panels * kHiddens * lanes), scores(m * num_panels * lanes);
  for (std::size_t j = 0; j < num_panels * lanes; ++j) {
    for (std::size_t u = 0; u < kHiddens; ++u) {
      panels.data()[(j / lanes * kHiddens + u) * lanes + j % lanes] = j < n ? keys.data()[j * kHiddens + u] : 0.0f;
    }
  }
  measure(state, [&] {
    kernel.scores({.queries = queries.data(),
                   .keys = panels.data(),
                   .w_v = w_v.data(),
                   .scores = scores.data(),
                   .num_queries = m,
                   .num_panels = num_panels,
                   .num_hiddens = kHiddens});
  });
  count_elements(state, static_cast<double>(m * n * kHiddens), target);
  state.counters["workspace"] = bytes(0);
  state.counters["max_error"] = max_score_error({.queries = queries.data(),
                                                 .keys = keys.data(),
                                                 .w_v = w_v.data(),
                                                 .scores = scores.data(),
                                                 .scores_stride = num_panels * lanes,
                                                 .num_queries = m,
                                                 .num_keys = n,
                                                 .num_hiddens = kHiddens});
}

}  // namespace

void register_hwy_tanh_benchmarks() {
  struct Case {
    const char* name;
    std::size_t m, n;
  };
  for (const Case& c :
       {Case{"additive_hwy_tanh/m128_n512_u256", 128, 512}, {"additive_hwy_tanh/m1_n100_u256", 1, 100}}) {
    for (const Target& target : Target::available()) {
      register_case(c.name, target.name(),
                    [c, target](benchmark::State& state) { additive_hwy_tanh(state, target, c.m, c.n); });
    }
  }
}

}  // namespace attend::bench
#endif
