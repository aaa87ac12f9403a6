// linear/*: r rows through an affine map of i inputs and o outputs, weights packed beforehand, in calls of up to 256
// rows as runs do. FLOPs: 2 r i o, by pairs of terms (TARGET_pairs) and by bfloat16 parts (TARGET_parts, where the CPU
// has tiles) too. Our own kernel on every target; oneDNN once: it chooses its instruction set itself, once per process
// (ONEDNN_MAX_CPU_ISA). Layers go by parts on Intel's CPUs with AMX, by pairs on AMD's with AVX-512; elsewhere they
// take oneDNN up to 768 KiB of weights, our own kernel above.
#include "engine/matmul/linear.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include <benchmark/benchmark.h>

#include "attend/target.h"
#include "bench/benchmarks.h"
#include "bench/support.h"
#include "engine/kernels/linear_rows.h"

namespace attend::bench {
namespace {

using matmul::Implementation;
using matmul::Linear;

struct LinearCase {
  const char* name;
  std::int64_t rows, in, out;
};
// One token, a few, the row counts that oneDNN gets primitives for, ragged ones; a whole sequence; sizes on both sides
// of the 768 KiB; the additive projections; few tokens on 64 MB of weights, which come from memory.
constexpr LinearCase kLinearCases[] = {
    {"r1_i256_o256", 1, 256, 256},       {"r2_i768_o768", 2, 768, 768},         {"r3_i768_o768", 3, 768, 768},
    {"r1_i768_o768", 1, 768, 768},       {"r4_i768_o768", 4, 768, 768},         {"r16_i768_o768", 16, 768, 768},
    {"r48_i768_o768", 48, 768, 768},     {"r64_i768_o768", 64, 768, 768},       {"r100_i768_o768", 100, 768, 768},
    {"r256_i768_o768", 256, 768, 768},   {"r1024_i768_o768", 1024, 768, 768},   {"r1024_i512_o512", 1024, 512, 512},
    {"r512_i256_o256", 512, 256, 256},   {"r512_i1024_o1024", 512, 1024, 1024}, {"r512_i1024_o4096", 512, 1024, 4096},
    {"r64_i192_o256", 64, 192, 256},     {"r1_i2048_o8192", 1, 2048, 8192},     {"r4_i2048_o8192", 4, 2048, 8192},
    {"r16_i2048_o8192", 16, 2048, 8192},
};

void linear(benchmark::State& state, const Linear& map, const LinearCase& c, const Target& target) {
  const std::size_t in = map.in_size(), out = map.out_size(), total = static_cast<std::size_t>(c.rows);
  const AlignedFloats source(total * in), destination(total * out), scratch(map.scratch_bytes() / sizeof(float) + 16);
  const kernels::LinearRowsKernels kernels = kernels::linear_rows_kernels(target.id());
  std::vector<const float*> rows;
  std::vector<float*> results;
  for (std::size_t r = 0; r < total; ++r) {
    rows.push_back(source.data() + r * in);
    results.push_back(destination.data() + r * out);
  }
  bool multiplied = true;
  measure(state, [&] {
    for (std::size_t row = 0; row < total && multiplied; row += Linear::kMaxRows) {
      multiplied = map.multiply(kernels, rows.data() + row, results.data() + row,
                                std::min(Linear::kMaxRows, total - row), reinterpret_cast<std::byte*>(scratch.data()));
    }
  });
  if (!multiplied) return state.SkipWithError("oneDNN failed");
  state.SetLabel(map.implementation());
  const double flops = 2.0 * static_cast<double>(c.rows * c.in * c.out);
  count_flops(state, flops, target);
  count_intensity(state, flops, sizeof(float) * static_cast<double>(c.rows * (c.in + c.out) + c.in * c.out));
}

// One map of each size and implementation, for all targets and cases of that size: the largest take 64 MB and up.
using Maps = std::map<std::tuple<std::int64_t, std::int64_t, Implementation>, std::shared_ptr<Lazy<Linear>>>;

void register_product(Maps& maps, const LinearCase& c, Implementation implementation, const std::string& name,
                      const Target& target) {
  std::shared_ptr<Lazy<Linear>>& map = maps[{c.in, c.out, implementation}];
  if (map == nullptr) map = std::make_shared<Lazy<Linear>>();
  register_case(std::string("linear/") + c.name, name, [map, &c, implementation, target](benchmark::State& state) {
    const auto make = [&] {
      const AlignedTensor W = random_tensor({c.out, c.in}, 1), bias = random_tensor({c.out}, 2);
      return Linear(W.view(), bias.view(), "W", implementation);
    };
    linear(state, map->get(make), c, target);
  });
}

}  // namespace

void register_linear_benchmarks() {
  Maps maps;
  for (const LinearCase& c : kLinearCases) {
#ifdef ATTEND_WITH_ONEDNN
    register_product(maps, c, Implementation::kOneDnn, "oneDNN", Target::best());
#endif
    for (const Target& target : Target::available()) {
      register_product(maps, c, Implementation::kLinearRows, std::string(target.name()), target);
      register_product(maps, c, Implementation::kLinearPairs, std::string(target.name()) + "_pairs", target);
      // Elsewhere tiles are emulated, for tests.
      if (!kernels::linear_rows_kernels(target.id()).has_tiles) continue;
      register_product(maps, c, Implementation::kLinearParts, std::string(target.name()) + "_parts", target);
    }
  }
}

}  // namespace attend::bench
