// pack_keys/*, pack_values/*, pack_queries/*: a head's rows into panels. Rows lie 12 heads apart (stride 768, as in (B,
// N, H * D)), or 64 (stride 4096 bytes times four, where every row maps to the same cache sets). GB: bytes read and
// written, per second.
#include "engine/kernels/pack.h"

#include <cstddef>
#include <cstdint>
#include <string>

#include <benchmark/benchmark.h>

#include "attend/target.h"
#include "bench/benchmarks.h"
#include "bench/support.h"

namespace attend::bench {
namespace {

struct PackCase {
  const char* name;
  std::size_t rows, size, stride;
};
constexpr PackCase kKeysAndValues[] = {
    {"n512_d64", 512, 64, 768}, {"n512_d128", 512, 128, 1536}, {"n512_d64_stride4096", 512, 64, 4096},
    {"n32_d64", 32, 64, 512},   {"n37_d61", 37, 61, 512},      {"n512_u256", 512, 256, 256}};
constexpr PackCase kQueries[] = {{"m48_d64", 48, 64, 768}, {"m1_d128", 1, 128, 4096}};

// The panels of rows x size elements, whichever of the two runs along the panel.
std::size_t panel_elements(std::size_t along, std::size_t across, std::size_t width) {
  return (across + width - 1) / width * width * along;
}

void count_bytes(benchmark::State& state, const PackCase& c) {
  state.counters["GB"] = per_second(2.0 * sizeof(float) * static_cast<double>(c.rows * c.size) * 1e-9);
}

void pack_keys(benchmark::State& state, const Target& target, const PackCase& c, bool half_norms) {
  const kernels::PackKernels kernels = kernels::pack_kernels(target.id());
  const std::size_t inner = c.size + (half_norms ? 1 : 0);
  const AlignedFloats rows(c.rows * c.stride), panels(panel_elements(inner, c.rows, kernels.panel_width));
  measure(state, [&] {
    kernels.keys({.keys = rows.data(),
                  .keys_stride = static_cast<std::ptrdiff_t>(c.stride),
                  .num_keys = c.rows,
                  .size = c.size,
                  .center = half_norms ? rows.data() : nullptr,
                  .half_norms = half_norms,
                  .panels = panels.data(),
                  .panel_stride = inner * kernels.panel_width});
  });
  count_bytes(state, c);
}

void pack_values(benchmark::State& state, const Target& target, const PackCase& c) {
  const kernels::PackKernels kernels = kernels::pack_kernels(target.id());
  const AlignedFloats rows(c.rows * c.stride), panels(panel_elements(c.rows, c.size, kernels.panel_width));
  measure(state, [&] {
    bool finite = kernels.values({.values = rows.data(),
                                  .values_stride = static_cast<std::ptrdiff_t>(c.stride),
                                  .num_values = c.rows,
                                  .size = c.size,
                                  .panels = panels.data(),
                                  .panel_stride = c.rows * kernels.panel_width,
                                  .row_stride = kernels.panel_width});
    benchmark::DoNotOptimize(finite);
  });
  count_bytes(state, c);
}

void pack_queries(benchmark::State& state, const Target& target, const PackCase& c) {
  const kernels::PackKernels kernels = kernels::pack_kernels(target.id());
  const AlignedFloats rows(c.rows * c.stride), packed(c.rows * c.size);
  measure(state, [&] {
    kernels.queries({.queries = rows.data(),
                     .queries_stride = static_cast<std::ptrdiff_t>(c.stride),
                     .num_queries = c.rows,
                     .size = c.size,
                     .center = nullptr,
                     .scale = 0.125f,
                     .append_scale = false,
                     .packed = packed.data(),
                     .packed_stride = static_cast<std::ptrdiff_t>(c.size)});
  });
  count_bytes(state, c);
}

}  // namespace

void register_pack_benchmarks() {
  for (const Target& target : Target::available()) {
    for (const PackCase& c : kKeysAndValues) {
      register_case(std::string("pack_keys/") + c.name, target.name(),
                    [target, &c](benchmark::State& state) { pack_keys(state, target, c, false); });
      register_case(std::string("pack_values/") + c.name, target.name(),
                    [target, &c](benchmark::State& state) { pack_values(state, target, c); });
    }
    register_case("pack_keys/n512_d64_half_norms", target.name(),
                  [target](benchmark::State& state) { pack_keys(state, target, kKeysAndValues[0], true); });
    for (const PackCase& c : kQueries) {
      register_case(std::string("pack_queries/") + c.name, target.name(),
                    [target, &c](benchmark::State& state) { pack_queries(state, target, c); });
    }
  }
}

}  // namespace attend::bench
