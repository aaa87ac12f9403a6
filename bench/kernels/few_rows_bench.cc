// few_rows/*: one query of each of several heads against keys and values where they lie. dots and pool: r rows, n keys
// of size d, all of them rows of 128 numbers in L2, in calls of 16 keys. decode_*: 8 key-value heads with r query heads
// each, size 128, 4096 keys, 33.5 MB of keys and values: the dots of all keys, then the pooling of all values, without
// softmax. decode_bnhd: rows of all heads side by side, as in (B, N, H * D), walked in the order of memory: `block`
// keys of one head, the same keys of the next head. decode_bhnd: head by head. Keys and values are prefetched 16 KiB
// ahead, into L2; _thrice: three times; _then_l1: and 8 KiB ahead into L1; _l1: into L1; _l1_twice: and again 8 KiB
// ahead. GB: bytes of keys and values, per second.
#include "engine/kernels/few_rows.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <benchmark/benchmark.h>

#include "attend/target.h"
#include "bench/benchmarks.h"
#include "bench/support.h"

namespace attend::bench {
namespace {

constexpr std::ptrdiff_t kAheadFloats = 16 * 1024 / sizeof(float);  // as in run/pool_decode.cc

struct FewRowsCase {
  std::string name;
  bool dots, pool;
  std::size_t rows, heads, keys, size;
  std::size_t block;      // keys of a call
  bool heads_in_one_row;  // (B, N, H * D), or else (B, H, N, D)
  kernels::PrefetchInto into = kernels::PrefetchInto::kL2;
};

std::vector<FewRowsCase> few_rows_cases() {
  std::vector<FewRowsCase> cases;
  for (const std::size_t rows : {1u, 2u, 3u, 4u, 8u}) {
    const std::string shape = "_r" + std::to_string(rows) + "_n512_d128";
    cases.push_back({"dots" + shape, true, false, rows, 1, 512, 128, 16, false});
    cases.push_back({"pool" + shape, false, true, rows, 1, 512, 128, 16, false});
  }
  using kernels::PrefetchInto;
  for (const auto& [into, suffix] :
       std::vector<std::pair<PrefetchInto, std::string>>{{PrefetchInto::kL2, ""},
                                                         {PrefetchInto::kL2KeysThenL1, "_keys_l1"},
                                                         {PrefetchInto::kL2Thrice, "_thrice"},
                                                         {PrefetchInto::kL2ThenL1, "_then_l1"},
                                                         {PrefetchInto::kL1, "_l1"},
                                                         {PrefetchInto::kL1Twice, "_l1_twice"}}) {
    for (const std::size_t block : {4u, 8u, 16u, 32u, 64u}) {
      const std::string shape = "_r4_n4096_d128_block" + std::to_string(block) + suffix;
      cases.push_back({"decode_bnhd" + shape, true, true, 4, 8, 4096, 128, block, true, into});
      cases.push_back({"decode_bhnd" + shape, true, true, 4, 8, 4096, 128, block, false, into});
    }
    for (const bool dots : {true, false}) {
      const std::string name = dots ? "decode_dots" : "decode_pool", shape = "_r4_n4096_d128_block16" + suffix;
      cases.push_back({name + "_bnhd" + shape, dots, !dots, 4, 8, 4096, 128, 16, true, into});
      cases.push_back({name + "_bhnd" + shape, dots, !dots, 4, 8, 4096, 128, 16, false, into});
    }
    for (const std::size_t rows : {1u, 2u, 3u, 8u}) {
      for (const std::size_t block : {8u, 16u}) {
        const std::string shape = "_r" + std::to_string(rows) + "_n4096_d128_block" + std::to_string(block) + suffix;
        cases.push_back({"decode_bnhd" + shape, true, true, rows, 8, 4096, 128, block, true, into});
      }
    }
  }
  return cases;
}

void few_rows(benchmark::State& state, const Target& target, const FewRowsCase& c) {
  const kernels::FewRowsKernels kernels = kernels::few_rows_kernels(target.id());
  const AlignedFloats keys(c.heads * c.keys * c.size, 1), values(c.heads * c.keys * c.size, 2);
  const AlignedFloats queries(c.heads * c.rows * c.size, 3), scores(c.heads * c.rows * c.keys, 4);
  const AlignedFloats o(c.heads * c.rows * c.size, 5);
  const std::ptrdiff_t size = static_cast<std::ptrdiff_t>(c.size), num_keys = static_cast<std::ptrdiff_t>(c.keys);
  const std::ptrdiff_t stride = c.heads_in_one_row ? static_cast<std::ptrdiff_t>(c.heads) * size : size;
  const std::ptrdiff_t head_stride = c.heads_in_one_row ? size : num_keys * size;
  const std::vector<std::int32_t> lens(c.rows, static_cast<std::int32_t>(c.block));
  const auto dots = [&](std::ptrdiff_t head, std::ptrdiff_t key, const kernels::LaterRows& later) {
    kernels.dots({.queries = queries.data() + head * static_cast<std::ptrdiff_t>(c.rows) * size,
                  .queries_stride = size,
                  .num_rows = c.rows,
                  .keys = keys.data() + head * head_stride + key * stride,
                  .keys_stride = stride,
                  .num_keys = c.block,
                  .size = c.size,
                  .scores = scores.data() + head * static_cast<std::ptrdiff_t>(c.rows) * num_keys + key,
                  .scores_stride = num_keys,
                  .later = later});
  };
  const auto pool = [&](std::ptrdiff_t head, std::ptrdiff_t key, const kernels::LaterRows& later) {
    kernels.pool({.p = scores.data() + head * static_cast<std::ptrdiff_t>(c.rows) * num_keys + key,
                  .p_stride = num_keys,
                  .num_rows = c.rows,
                  .lens = lens.data(),
                  .values = values.data() + head * head_stride + key * stride,
                  .values_stride = stride,
                  .num_values = c.block,
                  .value_size = c.size,
                  .accumulators = o.data() + head * static_cast<std::ptrdiff_t>(c.rows) * size,
                  .accumulators_stride = size,
                  .later = later});
  };
  const auto walk = [&](const auto& call) {
    const std::ptrdiff_t heads = static_cast<std::ptrdiff_t>(c.heads), block = static_cast<std::ptrdiff_t>(c.block);
    const std::ptrdiff_t blocks = num_keys / block, last = blocks * heads - 1;
    const std::ptrdiff_t ahead = (kAheadFloats + block * size - 1) / (block * size);
    const auto head = [&](std::ptrdiff_t i) { return c.heads_in_one_row ? i % heads : i / blocks; };
    const auto key = [&](std::ptrdiff_t i) { return (c.heads_in_one_row ? i / heads : i % blocks) * block; };
    const auto place = [&](std::ptrdiff_t i) { return head(i) * head_stride + key(i) * stride; };
    for (std::ptrdiff_t i = 0; i <= last; ++i) {
      const auto to = [&](std::ptrdiff_t by) { return place(std::min(i + by, last)) - place(i); };
      call(head(i), key(i), {.into = c.into, .ahead = to(ahead), .again = to(ahead / 2)});
    }
  };
  measure(state, [&] {
    if (c.dots) walk(dots);
    if (c.pool && !c.dots) std::fill_n(scores.data(), 1, 0.0f);
    if (c.pool) walk(pool);
    std::fill_n(o.data(), o.size(), 0.0f);  // lest they grow
  });
  const double elements = static_cast<double>(c.heads * c.keys * c.size) * ((c.dots ? 1 : 0) + (c.pool ? 1 : 0));
  state.counters["GB"] = per_second(sizeof(float) * elements * 1e-9);
  const double flops = 2 * elements * static_cast<double>(c.rows);
  count_flops(state, flops, target);
  count_intensity(state, flops, sizeof(float) * elements);  // queries and results are a few rows
}

}  // namespace

void register_few_rows_benchmarks() {
  static const std::vector<FewRowsCase> cases = few_rows_cases();
  for (const FewRowsCase& c : cases) {
    for (const Target& target : Target::available()) {
      register_case("few_rows/" + c.name, target.name(),
                    [target, &c](benchmark::State& state) { few_rows(state, target, c); });
    }
  }
}

}  // namespace attend::bench
