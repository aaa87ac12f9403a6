// linear/*: r rows through an affine map of i inputs and o outputs, weights packed by oneDNN, in blocks of 256 rows
// as runs do. FLOPs: 2 r i o. One registration: oneDNN chooses its instruction set itself, once per process
// (ONEDNN_MAX_CPU_ISA).
#include "engine/matmul/linear.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include <benchmark/benchmark.h>

#include "attend/target.h"
#include "bench/benchmarks.h"
#include "bench/support.h"

namespace attend::bench {
namespace {

struct LinearCase {
  const char* name;
  std::int64_t rows, in, out;
};
// One token, the row counts that Linear has primitives for, one with padding; a whole sequence; the additive
// projections.
constexpr LinearCase kLinearCases[] = {
    {"r1_i768_o768", 1, 768, 768},       {"r4_i768_o768", 4, 768, 768},     {"r16_i768_o768", 16, 768, 768},
    {"r40_i768_o768", 40, 768, 768},     {"r48_i768_o768", 48, 768, 768},   {"r64_i768_o768", 64, 768, 768},
    {"r128_i768_o768", 128, 768, 768},   {"r256_i768_o768", 256, 768, 768}, {"r1024_i768_o768", 1024, 768, 768},
    {"r1024_i512_o512", 1024, 512, 512}, {"r512_i256_o256", 512, 256, 256}, {"r512_i1024_o1024", 512, 1024, 1024},
    {"r64_i192_o256", 64, 192, 256},
};

void linear(benchmark::State& state, const matmul::Linear& map, const LinearCase& c) {
  const std::size_t in = map.in_size(), out = map.out_size(), total = static_cast<std::size_t>(c.rows);
  constexpr std::size_t kBlock = matmul::Linear::kMostRows;
  const std::size_t padded = (total + kBlock - 1) / kBlock * kBlock;
  const AlignedFloats source(padded * in), destination(padded * out), scratch(map.scratch_bytes() / sizeof(float) + 16);
  auto* scratch_bytes = reinterpret_cast<std::byte*>(scratch.data());
  for (auto _ : state) {
    for (std::size_t row = 0; row < total; row += kBlock) {
      if (!map.multiply(source.data() + row * in, destination.data() + row * out, std::min(kBlock, total - row),
                        scratch_bytes)) {
        return state.SkipWithError("oneDNN failed");
      }
    }
    benchmark::ClobberMemory();
  }
  state.SetLabel(map.implementation());
  count_flops(state, 2.0 * static_cast<double>(c.rows * c.in * c.out), Target::best());
}

}  // namespace

void register_linear_benchmarks() {
  for (const LinearCase& c : kLinearCases) {
    const auto map = std::make_shared<Lazy<matmul::Linear>>();
    register_case(std::string("linear/") + c.name, "oneDNN", [map, &c](benchmark::State& state) {
      linear(state, map->get([&] {
        const AlignedTensor W = random_tensor({c.out, c.in}, 1), bias = random_tensor({c.out}, 2);
        return matmul::Linear(W.view(), bias.view(), "W");
      }),
             c);
    });
  }
}

}  // namespace attend::bench
