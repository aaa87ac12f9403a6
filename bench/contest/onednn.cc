#include "bench/contest/onednn.h"

#include <cstddef>
#include <memory>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include <dnnl.hpp>
#ifdef ONEDNN_BUILD_GRAPH
#include <oneapi/dnnl/dnnl_graph.hpp>
#endif

#include "bench/facts.h"
#include "engine/matmul/dnnl_compat.h"

namespace attend::bench {
namespace onednn {
namespace {

using dnnl::memory;
constexpr auto kForward = dnnl::prop_kind::forward_inference;

const dnnl::engine& cpu() {
  static const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  return engine;
}

memory::desc with_tag(const std::vector<std::int64_t>& sizes, memory::format_tag tag) {
  return {sizes, memory::data_type::f32, tag};
}
memory::desc dense(const Operand& x) {
  return with_tag(x.sizes, x.sizes.size() == 3 ? memory::format_tag::abc : memory::format_tag::ab);
}

memory bind(const memory::desc& desc, const Operand& x) { return memory(desc, cpu(), const_cast<float*>(x.data)); }

Primitive bound(const dnnl::primitive_desc_base& descriptor, const dnnl::primitive& primitive,
                std::unordered_map<int, memory> operands) {
  return {descriptor.impl_info_str(), [primitive, operands = std::move(operands), stream = dnnl::stream(cpu())] {
            primitive.execute(stream, operands);
          }};
}

Primitive multiply(const Operand& a, const Operand& b, const memory::desc& b_desc, const Operand& out, float scale,
                   const Operand* addend) {
  dnnl::primitive_attr attributes;
  dnnl::post_ops post_ops;
  if (scale != 1.0f) {
#if DNNL_VERSION_MAJOR >= 3
    post_ops.append_eltwise(dnnl::algorithm::eltwise_linear, scale, 0.0f);
#else
    post_ops.append_eltwise(1.0f, dnnl::algorithm::eltwise_linear, scale, 0.0f);
#endif
  }
  std::unordered_map<int, memory> operands = {
      {DNNL_ARG_SRC, bind(dense(a), a)}, {DNNL_ARG_WEIGHTS, bind(b_desc, b)}, {DNNL_ARG_DST, bind(dense(out), out)}};
  if (addend != nullptr) {
    operands.emplace(DNNL_ARG_ATTR_MULTIPLE_POST_OP(post_ops.len()) | DNNL_ARG_SRC_1, bind(dense(*addend), *addend));
    post_ops.append_binary(dnnl::algorithm::binary_add, dense(*addend));
  }
  attributes.set_post_ops(post_ops);
  const auto descriptor = matmul::matmul_descriptor(cpu(), dense(a), b_desc, nullptr, dense(out), attributes);
  return bound(descriptor, dnnl::matmul(descriptor), std::move(operands));
}

// A primitive that replaces x.
Primitive in_place(const dnnl::primitive_desc_base& descriptor, const dnnl::primitive& primitive, const Operand& x) {
  const memory data = bind(dense(x), x);
  return bound(descriptor, primitive, {{DNNL_ARG_SRC, data}, {DNNL_ARG_DST, data}});
}

}  // namespace

Primitive matmul(const Operand& a, const Operand& b, const Operand& out) {
  return multiply(a, b, dense(b), out, 1.0f, nullptr);
}

Primitive matmul_transposed(const Operand& a, const Operand& b, const Operand& out, float scale,
                            const Operand* addend) {
  return multiply(a, b, with_tag({b.sizes[1], b.sizes[0]}, memory::format_tag::ba), out, scale, addend);
}

Primitive linear(const Operand& rows, const Operand& W, const Operand& out) {
  using dnnl::inner_product_forward;
  const memory::desc any = with_tag(W.sizes, memory::format_tag::any);
#if DNNL_VERSION_MAJOR >= 3
  const inner_product_forward::primitive_desc descriptor(cpu(), kForward, dense(rows), any, dense(out));
#else
  const inner_product_forward::primitive_desc descriptor(
      inner_product_forward::desc(kForward, dense(rows), any, dense(out)), cpu());
#endif
  memory plain = bind(dense(W), W), packed(descriptor.weights_desc(), cpu());
  dnnl::stream stream(cpu());
  dnnl::reorder(plain, packed).execute(stream, plain, packed);
  stream.wait();
  return bound(
      descriptor, inner_product_forward(descriptor),
      {{DNNL_ARG_SRC, bind(dense(rows), rows)}, {DNNL_ARG_WEIGHTS, packed}, {DNNL_ARG_DST, bind(dense(out), out)}});
}

Primitive softmax(const Operand& x) {
  using dnnl::softmax_forward;
#if DNNL_VERSION_MAJOR >= 3
  const softmax_forward::primitive_desc descriptor(cpu(), kForward, dnnl::algorithm::softmax_accurate, dense(x),
                                                   dense(x), 1);
#else
  const softmax_forward::primitive_desc descriptor(softmax_forward::desc(kForward, dense(x), 1), cpu());
#endif
  return in_place(descriptor, softmax_forward(descriptor), x);
}

Primitive tanh(const Operand& x) {
  using dnnl::eltwise_forward;
#if DNNL_VERSION_MAJOR >= 3
  const eltwise_forward::primitive_desc descriptor(cpu(), kForward, dnnl::algorithm::eltwise_tanh, dense(x), dense(x));
#else
  const eltwise_forward::primitive_desc descriptor(
      eltwise_forward::desc(kForward, dnnl::algorithm::eltwise_tanh, dense(x)), cpu());
#endif
  return in_place(descriptor, eltwise_forward(descriptor), x);
}

#ifdef ONEDNN_BUILD_GRAPH
namespace {

using Tensor = dnnl::graph::logical_tensor;
using Op = dnnl::graph::op;

// A graph under construction: operations in their order, and where the caller's operands are.
class Graph {
 public:
  // An operand of the caller's.
  Tensor operand(const Operand& x) {
    const Tensor tensor = intermediate(x.sizes);
    memory_of_.emplace(tensor.get_id(), const_cast<float*>(x.data));
    return tensor;
  }
  Tensor intermediate(const std::vector<std::int64_t>& sizes) {
    return Tensor(next_++, Tensor::data_type::f32, sizes, Tensor::layout_type::strided);
  }
  void multiply(const Tensor& a, const Tensor& b, const Tensor& out, bool transpose_b) {
    Op op(next_++, Op::kind::MatMul, {a, b}, {out}, "product");
    op.set_attr<bool>(Op::attr::transpose_b, transpose_b);
    graph_.add_op(op);
  }
  void softmax(const Tensor& x, const Tensor& out) {
    Op op(next_++, Op::kind::SoftMax, {x}, {out}, "softmax");
    op.set_attr<std::int64_t>(Op::attr::axis, -1);
    graph_.add_op(op);
  }
  void elementwise(Op::kind kind, const Tensor& a, const Tensor& b, const Tensor& out) {
    graph_.add_op(Op(next_++, kind, {a, b}, {out}, "elementwise"));
  }
  // All of it, if it is one partition.
  std::function<void()> compile(const Tensor& out) {
    graph_.finalize();
    const std::vector<dnnl::graph::partition> partitions = graph_.get_partitions();
    if (partitions.size() != 1 || !partitions[0].is_supported()) {
      throw std::runtime_error("oneDNN's Graph takes this for " + std::to_string(partitions.size()) + " partitions");
    }
    const std::vector<Tensor> inputs = partitions[0].get_input_ports();
    const auto compiled = partitions[0].compile(inputs, {out}, cpu());
    std::vector<dnnl::graph::tensor> in;
    for (const Tensor& input : inputs) in.emplace_back(input, cpu(), memory_of_.at(input.get_id()));
    const dnnl::graph::tensor result(out, cpu(), memory_of_.at(out.get_id()));
    return [compiled, in, result, stream = dnnl::stream(cpu())]() mutable {
      compiled.execute(stream, in, {result});
      stream.wait();
    };
  }

 private:
  dnnl::graph::graph graph_{dnnl::engine::kind::cpu};
  std::unordered_map<std::size_t, float*> memory_of_;
  std::size_t next_ = 0;
};

}  // namespace

bool has_graph() { return true; }

Primitive attention(const Operand& queries, const Operand& keys, const Operand& values, const Operand* addend,
                    const Operand& out, float scale) {
  Graph graph;
  std::vector<std::int64_t> sizes = queries.sizes;  // of scores
  sizes.back() = *(keys.sizes.end() - 2);
  const auto factor = std::make_shared<const float>(scale);
  const Tensor products = graph.intermediate(sizes), weights = graph.intermediate(sizes);
  Tensor scores = graph.intermediate(sizes);
  graph.multiply(graph.operand(queries), graph.operand(keys), products, true);
  graph.elementwise(Op::kind::Multiply, products, graph.operand({factor.get(), {1}}), scores);
  if (addend != nullptr) {
    const Tensor masked = graph.intermediate(sizes);
    graph.elementwise(Op::kind::Add, scores, graph.operand(*addend), masked);
    scores = masked;
  }
  graph.softmax(scores, weights);
  const Tensor result = graph.operand(out);
  graph.multiply(weights, graph.operand(values), result, false);
  return {"graph", [run = graph.compile(result), factor]() mutable { run(); }};
}
#else
bool has_graph() { return false; }

Primitive attention(const Operand&, const Operand&, const Operand&, const Operand*, const Operand&, float) {
  throw std::runtime_error("this oneDNN has no Graph");
}
#endif

}  // namespace onednn

std::string onednn_version() { return matmul::dnnl_version_text(); }

std::string onednn_isa() {
  static const std::unordered_map<int, std::string> kNames = {
      {static_cast<int>(dnnl::cpu_isa::sse41), "SSE4.1"},
      {static_cast<int>(dnnl::cpu_isa::avx), "AVX"},
      {static_cast<int>(dnnl::cpu_isa::avx2), "AVX2"},
      {static_cast<int>(dnnl::cpu_isa::avx2_vnni), "AVX2 VNNI"},
      {static_cast<int>(dnnl::cpu_isa::avx512_core), "AVX-512"},
      {static_cast<int>(dnnl::cpu_isa::avx512_core_vnni), "AVX-512 VNNI"},
      {static_cast<int>(dnnl::cpu_isa::avx512_core_bf16), "AVX-512 BF16"},
      {static_cast<int>(dnnl::cpu_isa::avx512_core_amx), "AMX"}};
  const auto name = kNames.find(static_cast<int>(dnnl::get_effective_cpu_isa()));
  return name == kNames.end() ? "unknown" : name->second;
}

}  // namespace attend::bench
