// oneDNN's primitives for contenders: made beforehand, operands bound, run many times on one thread (main.cc sets the
// number that they are made for). onednn.cc is the only file of bench/ that knows the library.
#ifndef ATTEND_BENCH_CONTEST_ONEDNN_H_
#define ATTEND_BENCH_CONTEST_ONEDNN_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace attend::bench::onednn {

// A dense tensor in the caller's memory, which outlives the primitive. Written where it is the output: oneDNN's memory
// objects know no const.
struct Operand {
  const float* data;
  std::vector<std::int64_t> sizes;
};

struct Primitive {
  std::string implementation;  // as oneDNN names it; "ref" would be its slow one
  std::function<void()> run;
};

// out (M, N) = a (M, K) b (K, N), or all with a batch in front. Errors of all: dnnl::error.
Primitive matmul(const Operand& a, const Operand& b, const Operand& out);
// out (M, N) = scale a (M, K) b^T + addend, b (N, K); addend (M, N), or (1, N) for all rows, or nullptr.
Primitive matmul_transposed(const Operand& a, const Operand& b, const Operand& out, float scale,
                            const Operand* addend = nullptr);
// out (R, O) = rows (R, I) W^T, W (O, I), which is packed now. The inner product primitive: a matmul is as fast with
// 128 or 256 outputs and takes 1.5 times as long with one.
Primitive linear(const Operand& rows, const Operand& W, const Operand& out);
// In place, over the innermost axis of (R, N).
Primitive softmax(const Operand& x);
// In place.
Primitive tanh(const Operand& x);

// out = softmax(scale queries keys^T + addend) values, which oneDNN's Graph takes as one: queries and out (..., M, D),
// keys (..., N, D), values (..., N, Dv), addend (..., 1 or M, N) or nullptr; sizes in front are equal or 1. Throws
// std::runtime_error where the Graph would take it apart, or this oneDNN has none.
Primitive attention(const Operand& queries, const Operand& keys, const Operand& values, const Operand* addend,
                    const Operand& out, float scale);
// Whether this oneDNN has a Graph: 3.x, unless built without.
bool has_graph();

}  // namespace attend::bench::onednn

#endif  // ATTEND_BENCH_CONTEST_ONEDNN_H_
