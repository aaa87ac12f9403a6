// dot_materialised/*: attention from three oneDNN primitives, as a user of that library writes it: all scores of a head
// by one matmul (scale as a post-op), softmax over them, weights times values by another matmul. One thread. Heads are
// copied into (H, M, D) beforehand, untimed: in that layout oneDNN is at its best. Scores of one head at a time, so
// that they stay in L2.
//
// The only benchmark that knows oneDNN.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include <benchmark/benchmark.h>
#include <dnnl.hpp>

#include "bench/benchmarks.h"
#include "bench/problem.h"
#include "bench/support.h"
#include "engine/matmul/dnnl_compat.h"

namespace attend::bench {
namespace {

using dnnl::memory;

memory::desc matrix(std::int64_t rows, std::int64_t columns, memory::format_tag tag = memory::format_tag::ab) {
  return {{rows, columns}, memory::data_type::f32, tag};
}

dnnl::softmax_forward::primitive_desc softmax_descriptor(const dnnl::engine& engine, const memory::desc& scores) {
  constexpr auto kKind = dnnl::prop_kind::forward_inference;
#if DNNL_VERSION_MAJOR >= 3
  return dnnl::softmax_forward::primitive_desc(engine, kKind, dnnl::algorithm::softmax_accurate, scores, scores, 1);
#else
  return dnnl::softmax_forward::primitive_desc(dnnl::softmax_forward::desc(kKind, scores, 1), engine);
#endif
}

dnnl::primitive_attr scaled(float scale) {
  dnnl::post_ops post_ops;
#if DNNL_VERSION_MAJOR >= 3
  post_ops.append_eltwise(dnnl::algorithm::eltwise_linear, scale, 0.0f);
#else
  post_ops.append_eltwise(1.0f, dnnl::algorithm::eltwise_linear, scale, 0.0f);
#endif
  dnnl::primitive_attr attributes;
  attributes.set_post_ops(post_ops);
  return attributes;
}

// (M, H * D) to (H, M, D).
std::vector<float> heads_first(const Tensor& rows, std::int64_t heads, std::int64_t size) {
  const TensorView<const float> split = split_heads(rows.view(), heads);
  std::vector<float> copy;
  for (std::int64_t h = 0; h < heads; ++h) {
    for (std::int64_t m = 0; m < split.size(2); ++m)
      copy.insert(copy.end(), split.at(0, h, m), split.at(0, h, m) + size);
  }
  return copy;
}

// The three primitives for one head, and its operands, which are rebound from head to head.
class Materialised {
 public:
  Materialised(std::int64_t m, std::int64_t n, std::int64_t d)
      : engine_(dnnl::engine::kind::cpu, 0),
        stream_(engine_),
        scores_(matrix(m, n), engine_),
        queries_(matrix(m, d), engine_, nullptr),
        keys_(matrix(d, n, memory::format_tag::ba), engine_, nullptr),
        values_(matrix(n, d), engine_, nullptr),
        output_(matrix(m, d), engine_, nullptr) {
    const auto first = matmul::matmul_descriptor(engine_, queries_.get_desc(), keys_.get_desc(), nullptr,
                                                 scores_.get_desc(), scaled(1.0f / std::sqrt(static_cast<float>(d))));
    const auto last =
        matmul::matmul_descriptor(engine_, scores_.get_desc(), values_.get_desc(), nullptr, output_.get_desc(), {});
    const auto softmax = softmax_descriptor(engine_, scores_.get_desc());
    label_ = std::string(first.impl_info_str()) + ", " + softmax.impl_info_str() + ", " + last.impl_info_str();
    score_ = dnnl::matmul(first);
    softmax_ = dnnl::softmax_forward(softmax);
    pool_ = dnnl::matmul(last);
  }

  void run(float* queries, float* keys, float* values, float* output) {
    queries_.set_data_handle(queries);
    keys_.set_data_handle(keys);
    values_.set_data_handle(values);
    output_.set_data_handle(output);
    score_.execute(stream_, {{DNNL_ARG_SRC, queries_}, {DNNL_ARG_WEIGHTS, keys_}, {DNNL_ARG_DST, scores_}});
    softmax_.execute(stream_, {{DNNL_ARG_SRC, scores_}, {DNNL_ARG_DST, scores_}});
    pool_.execute(stream_, {{DNNL_ARG_SRC, scores_}, {DNNL_ARG_WEIGHTS, values_}, {DNNL_ARG_DST, output_}});
  }
  const std::string& label() const { return label_; }

 private:
  dnnl::engine engine_;
  dnnl::stream stream_;
  memory scores_, queries_, keys_, values_, output_;
  dnnl::primitive score_, softmax_, pool_;
  std::string label_;
};

void dot_materialised(benchmark::State& state, const Problem& problem) {
  const Shape& shape = problem.shape;
  const std::int64_t heads = shape.num_heads, m = shape.num_queries, n = shape.num_keys, d = shape.query_size;
  std::vector<float> queries = heads_first(problem.queries, heads, d), keys = heads_first(problem.keys, heads, d);
  std::vector<float> values = heads_first(problem.values, heads, d), output(queries.size());
  Materialised head(m, n, d);
  for (auto _ : state) {
    for (std::int64_t h = 0; h < heads; ++h) {
      head.run(queries.data() + h * m * d, keys.data() + h * n * d, values.data() + h * n * d,
               output.data() + h * m * d);
    }
    benchmark::ClobberMemory();
  }
  state.SetLabel(head.label());
  count_flops(state, 4.0 * static_cast<double>(heads * d * problem.pairs()), Target::best());
  state.counters["max_error"] = problem.max_error(TensorView<const float>(output.data(), {1, heads, m, d}));
}

}  // namespace

std::string onednn_version() {
  static const std::unordered_map<int, std::string> kNames = {
      {static_cast<int>(dnnl::cpu_isa::sse41), "SSE4.1"},
      {static_cast<int>(dnnl::cpu_isa::avx2), "AVX2"},
      {static_cast<int>(dnnl::cpu_isa::avx512_core), "AVX-512"},
      {static_cast<int>(dnnl::cpu_isa::avx512_core_vnni), "AVX-512 VNNI"},
      {static_cast<int>(dnnl::cpu_isa::avx512_core_bf16), "AVX-512 BF16"}};
  const auto name = kNames.find(static_cast<int>(dnnl::get_effective_cpu_isa()));
  return matmul::dnnl_version_text() + (name == kNames.end() ? "" : ", runs on " + name->second);
}

void register_dnnl_materialised_benchmarks() {
  const auto problem = std::make_shared<Lazy<Problem>>();
  register_case("dot_materialised/b1_h12_m512_n512_d64", "oneDNN", [problem](benchmark::State& state) {
    dot_materialised(state, problem->get([] { return dot_problem(1, 12, 512, 512, 64); }));
  })->Unit(benchmark::kMicrosecond);
}

}  // namespace attend::bench
