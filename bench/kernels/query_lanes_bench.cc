// query_lanes/*: attention of few queries in the lanes, whole: packing, every step over the keys, leaving. q queries by
// n keys of size d; heads side by side in rows of 512 numbers, as in (B, N, H * D), so that no head's rows are
// adjacent. One head's time and FLOPs, 4 q n d, but of all heads where there are several. `_l3`: 8 MiB of keys and as
// much of values, one head after another: 32 of 1024 keys of size 64, 16 of size 128, 512 of 32 keys; in rows of 1024
// numbers twice as many. `_causal`: query i sees keys 0 to i. `_ahead`: prefetches what the next step or head reads, as
// the engine does where heads come from memory; what that costs where they do not is the difference to the same case
// without, on targets that prefetch; `_in_order`: the rows of all heads of the next entry instead, some for each head,
// with 32 registers a line per term of values, too; `_by2`: two lines a term. `_row1024`: rows of 1024 numbers, 4 KiB,
// which all begin in the same set of L1. `_off4`: keys and values begin 4 numbers off a line, as malloc has them.
// `_kept`, `_unkept`: values are kept side by side for later queries, or not, with 16 registers; else they are where
// they are near or prefetched.
// pack_lanes/*: queries into lanes, which query_lanes begins with, alone. GB: bytes read and written, per second.
#include "engine/kernels/query_lanes.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <benchmark/benchmark.h>

#include "attend/target.h"
#include "bench/benchmarks.h"
#include "bench/support.h"

namespace attend::bench {
namespace {

struct LanesCase {
  const char* name;
  std::size_t queries, keys, size;
  std::size_t step;     // keys of a step
  std::size_t batches;  // of row / size heads each
  bool causal;
  bool ahead = false;
  std::size_t row = 512;
  bool two_lines = false;
  std::optional<bool> keep_values = {};  // none: where near, or prefetched
  std::size_t off = 0;                   // of keys and values from the beginning of a line
  bool in_order = false;                 // with ahead: one step a head
};
constexpr LanesCase kLanesCases[] = {
    {"q8_n8_d8", 8, 8, 8, 8, 1, false},
    {"q32_n32_d64", 32, 32, 64, 32, 1, false},
    {"q32_n32_d64_ahead", 32, 32, 64, 32, 1, false, true},
    {"q32_n32_d64_l3", 32, 32, 64, 32, 64, false},
    {"q32_n32_d64_l3_ahead", 32, 32, 64, 32, 64, false, true},
    {"q32_n32_d64_l3_in_order", 32, 32, 64, 32, 64, false, true, 512, false, {}, 0, true},
    {"q32_n32_d64_causal", 32, 32, 64, 32, 1, true},
    {"q16_n1024_d64", 16, 1024, 64, 128, 0, false},
    {"q16_n1024_d64_l3", 16, 1024, 64, 128, 4, false},
    {"q16_n1024_d64_l3_ahead", 16, 1024, 64, 128, 4, false, true},
    {"q16_n1024_d64_l3_ahead_by2", 16, 1024, 64, 128, 4, false, true, 512, true},
    {"q16_n1024_d64_l3_kept", 16, 1024, 64, 128, 4, false, false, 512, false, true},
    {"q5_n512_d64", 5, 512, 64, 128, 0, false},
    {"q7_n512_d64", 7, 512, 64, 128, 0, false},
    {"q8_n512_d64", 8, 512, 64, 128, 0, false},
    {"q32_n256_d128_off4", 32, 256, 128, 128, 0, false, false, 512, false, true, 4},
    {"q32_n256_d128_off4_unkept", 32, 256, 128, 128, 0, false, false, 512, false, false, 4},
    {"q32_n512_d64", 32, 512, 64, 128, 0, false},
    {"q48_n512_d64", 48, 512, 64, 128, 0, false},
    {"q64_n512_d64", 64, 512, 64, 128, 0, false},
    {"q64_n8_d128", 64, 8, 128, 128, 0, false},
    {"q64_n32_d128", 64, 32, 128, 128, 0, false},
    {"q16_n512_d128", 16, 512, 128, 128, 0, false},
    {"q16_n512_d128_row1024", 16, 512, 128, 128, 0, false, false, 1024},
    {"q128_n512_d128_row1024", 128, 512, 128, 128, 0, false, false, 1024},
    {"q32_n1024_d128_l3_ahead", 32, 1024, 128, 128, 4, false, true},
    {"q32_n1024_d128_l3_ahead_row1024", 32, 1024, 128, 128, 4, false, true, 1024},
};

void query_lanes(benchmark::State& state, const Target& target, const LanesCase& c) {
  const kernels::QueryLanesKernels kernels = kernels::query_lanes_kernels(target.id());
  // batches 0: one head again and again.
  const std::size_t batches = std::max<std::size_t>(c.batches, 1), heads = c.batches == 0 ? 1 : c.row / c.size;
  const std::size_t L = (c.queries + kernels.lanes - 1) / kernels.lanes * kernels.lanes;
  const AlignedFloats queries(batches * c.queries * c.row, 1), keys(batches * c.keys * c.row + c.off, 2);
  const AlignedFloats values(batches * c.keys * c.row + c.off, 3), output(batches * c.queries * c.row, 4);
  const std::size_t o_row = (c.size + kernels.lanes - 1) / kernels.lanes * kernels.lanes;
  const AlignedFloats packed(c.size * L), scores(c.step * L), o(c.queries * o_row), sums(3 * L), factors(L);
  const AlignedFloats lens_memory(L);
  std::int32_t* lens = reinterpret_cast<std::int32_t*>(lens_memory.data());
  const std::ptrdiff_t stride = static_cast<std::ptrdiff_t>(c.row);
  measure(state, [&] {
    for (std::size_t item = 0; item < batches * heads; ++item) {
      const std::size_t batch = item / heads, column = item % heads * c.size;
      kernels.pack({.queries = queries.data() + batch * c.queries * c.row + column,
                    .head_stride = 0,
                    .row_stride = stride,
                    .num_heads = 1,
                    .num_queries = c.queries,
                    .size = c.size,
                    .scale = 0.18f,
                    .packed = packed.data()});
      for (std::size_t first = 0; first < c.keys; first += c.step) {
        const std::size_t count = std::min(c.step, c.keys - first);
        std::size_t shortest = count;
        for (std::size_t i = 0; i < L; ++i) {
          std::size_t len = count;
          if (c.causal) len = i < first ? 0 : std::min(count, i + 1 - first);
          if (i < c.queries) shortest = std::min(shortest, len);
          lens[i] = i < c.queries ? static_cast<std::int32_t>(len) : 0;
        }
        const std::size_t row = (batch * c.keys + first) * c.row + column + c.off;
        const bool is_last = first + c.step >= c.keys;
        const std::size_t next = is_last ? (item + 1) % (batches * heads) : item;
        const std::size_t next_row = is_last ? 0 : first + c.step;
        const auto rows_to_prefetch = [&](const float* from, std::size_t per_batch, std::size_t begin, std::size_t n) {
          if (c.in_order) {
            const std::size_t head = item % heads, entry = (batch + 1) % batches, row0 = head * n / heads;
            return kernels::PrefetchRows{from + (entry * per_batch + row0) * c.row, stride,
                                         (head + 1) * n / heads - row0, c.row};
          }
          return kernels::PrefetchRows{from + (next / heads * per_batch + begin) * c.row + next % heads * c.size,
                                       stride, n, c.size};
        };
        kernels::PrefetchRows ahead[] = {
            rows_to_prefetch(output.data(), c.queries, 0, is_last ? c.queries : 0),
            rows_to_prefetch(queries.data(), c.queries, 0, is_last ? c.queries : 0),
            rows_to_prefetch(keys.data() + c.off, c.keys, next_row, std::min(c.step, c.keys - next_row)),
            rows_to_prefetch(values.data() + c.off, c.keys, next_row, std::min(c.step, c.keys - next_row))};
        const kernels::StoreLanesArgs store{.from = o.data(),
                                            .lane_sum = sums.data() + L,
                                            .lane_lost = sums.data() + 2 * L,
                                            .num_heads = 1,
                                            .num_queries = c.queries,
                                            .size = c.size,
                                            .output = output.data() + batch * c.queries * c.row + column,
                                            .head_stride = 0,
                                            .row_stride = stride,
                                            .divide = true};
        kernels.step({.queries = packed.data(),
                      .num_lanes = L,
                      .num_used = c.queries,
                      .size = c.size,
                      .value_size = c.size,
                      .keys = keys.data() + row,
                      .keys_stride = stride,
                      .values = values.data() + row,
                      .values_stride = stride,
                      .num_keys = count,
                      .shortest = shortest,
                      .lens = lens,
                      .scores = scores.data(),
                      .first = first == 0,
                      .lane_max = sums.data(),
                      .lane_sum = sums.data() + L,
                      .lane_lost = sums.data() + 2 * L,
                      .accumulators = o.data(),
                      .ahead = c.ahead ? std::span<kernels::PrefetchRows>(ahead) : std::span<kernels::PrefetchRows>(),
                      .two_lines = c.two_lines,
                      .ahead_of_values = c.in_order && kernels.has_32_registers,
                      .keep_values = c.keep_values.value_or(c.batches <= 1 || c.ahead),
                      .store = is_last ? &store : nullptr,
                      .factors = factors.data()});
      }
    }
  });
  const double items = static_cast<double>(batches * heads);
  const double pairs =
      static_cast<double>(c.queries) * (c.causal ? 0.5 * static_cast<double>(c.keys + 1) : static_cast<double>(c.keys));
  state.counters["head"] = seconds_each(items);
  const double flops = items * 4 * pairs * static_cast<double>(c.size);
  const double floats = items * 2 * static_cast<double>((c.queries + c.keys) * c.size);
  count_flops(state, flops, target);
  count_intensity(state, flops, floats * sizeof(float));
}

struct PackLanesCase {
  const char* name;
  std::size_t heads, queries, size;
};
// One head's, evenly spaced; of heads that fill vectors together; sizes that fill nothing.
constexpr PackLanesCase kPackLanesCases[] = {
    {"q32_d64", 1, 32, 64}, {"q16_d64", 1, 16, 64}, {"h4_q4_d64", 4, 4, 64}, {"q37_d61", 1, 37, 61}};

void pack_lanes(benchmark::State& state, const Target& target, const PackLanesCase& c) {
  constexpr std::size_t kRow = 512;
  const kernels::QueryLanesKernels kernels = kernels::query_lanes_kernels(target.id());
  const std::size_t L = (c.heads * c.queries + kernels.lanes - 1) / kernels.lanes * kernels.lanes;
  const AlignedFloats queries(c.queries * kRow, 1), packed(c.size * L);
  measure(state, [&] {
    kernels.pack({.queries = queries.data(),
                  .head_stride = static_cast<std::ptrdiff_t>(c.size),
                  .row_stride = static_cast<std::ptrdiff_t>(kRow),
                  .num_heads = c.heads,
                  .num_queries = c.queries,
                  .size = c.size,
                  .scale = 0.18f,
                  .packed = packed.data()});
  });
  state.counters["GB"] = per_second(2.0 * sizeof(float) * static_cast<double>(c.heads * c.queries * c.size) * 1e-9);
}

}  // namespace

void register_query_lanes_benchmarks() {
  for (const PackLanesCase& c : kPackLanesCases) {
    for (const Target& target : Target::available()) {
      register_case(std::string("pack_lanes/") + c.name, target.name(),
                    [target, &c](benchmark::State& state) { pack_lanes(state, target, c); });
    }
  }
  for (const LanesCase& c : kLanesCases) {
    for (const Target& target : Target::available()) {
      register_case(std::string("query_lanes/") + c.name, target.name(),
                    [target, &c](benchmark::State& state) { query_lanes(state, target, c); });
    }
  }
}

}  // namespace attend::bench
