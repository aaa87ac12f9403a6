// How memory is prefetched, by whose CPU it is. Results are no witness: none depends on it.
#include "engine/plan/prefetch_rules.h"

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>

#include <doctest/doctest.h>

#include "attend/attend.h"
#include "engine/kernels/kernel_set.h"
#include "engine/plan/plan_impl.h"
#include "tests/support/compare.h"
#include "tests/support/for_each_target.h"
#include "tests/support/run.h"

namespace attend::tests {
namespace {

using detail::decode_prefetch;
using detail::DecodePrefetch;
using detail::lanes_prefetch;
using detail::LanesPrefetch;
using detail::next_rows_go_into_l1;
using detail::softmax_prefetch;
using kernels::PrefetchInto;
using kernels::SoftmaxPrefetch;

constexpr std::size_t kMiB = std::size_t{1} << 20;
constexpr Cpu kIntelWithTiles{
    .is_amd = false, .has_avx512 = true, .has_tiles = true, .l1_bytes = 48u << 10, .l3_bytes = 480 * kMiB};
constexpr Cpu kIntel{.is_amd = false, .l1_bytes = 48u << 10, .l3_bytes = 36 * kMiB};
constexpr Cpu kUnknown{};
constexpr Cpu kZen3{.is_amd = true, .l1_bytes = 32u << 10, .l3_bytes = 32 * kMiB};
constexpr Cpu kZen4{.is_amd = true, .has_avx512 = true, .l1_bytes = 32u << 10, .l3_bytes = 32 * kMiB};
constexpr Cpu kZen4WithAvx2{.is_amd = true, .l1_bytes = 32u << 10, .l2_bytes = kMiB, .l3_bytes = 32 * kMiB};
constexpr Cpu kZen5{.is_amd = true, .has_avx512 = true, .l1_bytes = 48u << 10, .l3_bytes = 32 * kMiB};

// whole_lines: AVX3's kernels, or else AVX2's.
DecodePrefetch decode_on(const Cpu& cpu, bool whole_lines) {
  kernels::FewRowsKernels kernels{};
  kernels.whole_lines = kernels.has_32_registers = whole_lines;
  kernels.prefetches_keys = true;
  return decode_prefetch(cpu, kernels);
}

TEST_CASE("prefetch: a decoder's rows from near and from far") {
  const struct {
    const char* name;
    Cpu cpu;
    bool whole_lines;
    PrefetchInto near, far;
  } kCases[] = {
      {"Intel", kIntel, true, PrefetchInto::kL2KeysThenL1, PrefetchInto::kL2KeysThenL1},
      {"Intel, AVX2", kIntel, false, PrefetchInto::kL2, PrefetchInto::kL2},
      {"not known", kUnknown, true, PrefetchInto::kL2KeysThenL1, PrefetchInto::kL2KeysThenL1},
      {"Zen 3", kZen3, false, PrefetchInto::kL2, PrefetchInto::kL2},
      {"Zen 4", kZen4, true, PrefetchInto::kL2ThenL1, PrefetchInto::kL2Thrice},
      {"Zen 4, AVX2", kZen4, false, PrefetchInto::kL2, PrefetchInto::kL2},
      {"Zen 5", kZen5, true, PrefetchInto::kL1, PrefetchInto::kL1Twice},
      {"Zen 5, AVX2", kZen5, false, PrefetchInto::kL1, PrefetchInto::kL1},
  };
  for (const auto& c : kCases) {
    CAPTURE(c.name);
    const DecodePrefetch prefetch = decode_on(c.cpu, c.whole_lines);
    CHECK(prefetch.near == c.near);
    CHECK(prefetch.far == c.far);
  }
}

TEST_CASE("prefetch: rows that tiles by pairs want next go into L1 on Zen 5 alone") {
  CHECK(next_rows_go_into_l1(kZen5));
  CHECK_FALSE(next_rows_go_into_l1(kZen4));
  CHECK_FALSE(next_rows_go_into_l1(kUnknown));
}

TEST_CASE("prefetch: far is three quarters of L3, 24 MiB at the least") {
  const DecodePrefetch prefetch = decode_on(kZen4, true);
  CHECK(prefetch.in_run_over(24 * kMiB - 1) == PrefetchInto::kL2ThenL1);
  CHECK(prefetch.in_run_over(24 * kMiB) == PrefetchInto::kL2Thrice);
  CHECK(decode_on({.is_amd = true, .l1_bytes = 32u << 10, .l3_bytes = 96 * kMiB}, true).in_run_over(72 * kMiB - 1) ==
        PrefetchInto::kL2ThenL1);
  CHECK(decode_on({.is_amd = true}, true).in_run_over(24 * kMiB) == PrefetchInto::kL2Thrice);
}

TEST_CASE("prefetch: lanes, where the kernels heed it, from a fair share of L3 on; with 16 registers, on AMD's alone") {
  kernels::QueryLanesKernels kernels{};
  CHECK(lanes_prefetch(kIntel, kernels).least_far_bytes == 9 * kMiB);
  CHECK(lanes_prefetch(kUnknown, kernels).least_far_bytes == 8 * kMiB);
  const struct {
    const char* name;
    Cpu cpu;
    bool has_32_registers, prefetches, two_lines, in_order = false;
  } kCases[] = {
      {"Intel, AVX3", kIntel, true, true, false}, {"Intel, AVX2", kIntel, false, false, false},
      {"not known", kUnknown, true, true, false}, {"not known, AVX2", kUnknown, false, false, false},
      {"Zen 4, AVX3", kZen4, true, true, true},   {"Zen 4, AVX2", kZen4, false, true, false, true},
      {"Zen 3", kZen3, false, true, false},       {"Zen 5, AVX3", kZen5, true, true, true},
      {"Zen 5, AVX2", kZen5, false, true, false},
  };
  for (const auto& c : kCases) {
    CAPTURE(c.name);
    kernels.has_32_registers = c.has_32_registers;
    for (const bool heeds : {false, true}) {
      kernels.prefetches = heeds;
      CHECK(lanes_prefetch(c.cpu, kernels).prefetches == (heeds && c.prefetches));
      CHECK(lanes_prefetch(c.cpu, kernels).two_lines == c.two_lines);
      CHECK(lanes_prefetch(c.cpu, kernels).in_order == (heeds && c.in_order));
      CHECK_FALSE(lanes_prefetch(c.cpu, kernels).beside_values);
    }
  }
}

TEST_CASE("prefetch: lanes in the order of memory on Zen 4 with 16 registers, from L2 on") {
  Cpu cpu = kZen4;
  cpu.l2_bytes = kMiB;
  kernels::QueryLanesKernels kernels{};
  kernels.prefetches = true;
  CHECK(lanes_prefetch(cpu, kernels).least_far_bytes == 2 * kMiB);
  cpu.has_avx512 = false;  // kept from a virtual machine's guests
  CHECK(lanes_prefetch(cpu, kernels).in_order);
  kernels.has_32_registers = true;
  CHECK_FALSE(lanes_prefetch(cpu, kernels).in_order);
  CHECK(lanes_prefetch(cpu, kernels).least_far_bytes == cpu.least_far_bytes());
}

TEST_CASE("prefetch: lanes in the order of memory on Intel's CPUs with tiles, from L2 on; with 32 registers") {
  Cpu cpu = kIntelWithTiles;
  cpu.l2_bytes = 3 * kMiB;
  kernels::QueryLanesKernels kernels{};
  kernels.prefetches = kernels.has_32_registers = true;
  const LanesPrefetch prefetch = lanes_prefetch(cpu, kernels);
  CHECK(prefetch.in_order);
  CHECK(prefetch.beside_values);
  CHECK_FALSE(prefetch.prefetches_in_run_over(3 * kMiB - 1));
  CHECK(prefetch.prefetches_in_run_over(3 * kMiB));
  CHECK(text_of(prefetch, 3 * kMiB) ==
        "the next step's rows are prefetched in the order of memory, a line a term, in runs over 3 MiB or more");
  CHECK(text_of(prefetch, 3 * kMiB - 1) == "the next step's rows are not prefetched: L2 holds them all");
  cpu.l2_bytes = 0;  // not known
  CHECK(lanes_prefetch(cpu, kernels).least_far_bytes == 2 * kMiB);
  kernels.has_32_registers = false;
  CHECK_FALSE(lanes_prefetch(cpu, kernels).in_order);
  CHECK_FALSE(lanes_prefetch(cpu, kernels).prefetches);
  CHECK(lanes_prefetch(cpu, kernels).least_far_bytes == cpu.least_far_bytes());
}

TEST_CASE("prefetch: lanes keep values unless they are far and nothing is prefetched") {
  const LanesPrefetch prefetches{.least_far_bytes = 9 * kMiB, .prefetches = true},
      asks_not{.least_far_bytes = 9 * kMiB};
  CHECK_FALSE(prefetches.prefetches_in_run_over(9 * kMiB - 1));
  CHECK(prefetches.prefetches_in_run_over(9 * kMiB));
  CHECK_FALSE(asks_not.prefetches_in_run_over(9 * kMiB));
  CHECK(prefetches.keeps_values_in_run_over(9 * kMiB - 1));
  CHECK(prefetches.keeps_values_in_run_over(9 * kMiB));
  CHECK(asks_not.keeps_values_in_run_over(9 * kMiB - 1));
  CHECK_FALSE(asks_not.keeps_values_in_run_over(9 * kMiB));
}

TEST_CASE("prefetch: the bytes of a run are those of its queries, keys, values and output") {
  detail::PlanImpl plan;
  plan.num_heads = 6;
  plan.num_kv_heads = 2;
  plan.score_size = 64;
  plan.head_value_size = 80;
  CHECK(plan.num_bytes(3, 5, 7) == 4 * 3 * (6 * 5 + 2 * 7) * (64 + 80));
  CHECK(plan.num_bytes(0, 5, 7) == 0);
  constexpr std::int64_t kHuge = std::int64_t{1} << 62;
  CHECK(plan.num_bytes(kHuge, kHuge, 7) > std::numeric_limits<std::size_t>::max() / 4);
}

TEST_CASE("prefetch: softmax by maker, bytes, lengths and lines") {
  const auto rule = [](const Cpu& cpu, bool whole_lines, std::size_t bytes, bool has_lens) {
    kernels::MaskedSoftmaxKernels kernels{};
    kernels.whole_lines = whole_lines;
    return softmax_prefetch(cpu, kernels, bytes, has_lens);
  };
  for (const bool lens : {false, true}) {
    for (const bool whole : {false, true}) {
      CHECK(rule(kIntel, whole, 4 * kMiB, lens) == SoftmaxPrefetch::kAll);
      CHECK(rule(kIntel, whole, 32 * kMiB, lens) == SoftmaxPrefetch::kAll);
      CHECK(rule(kIntelWithTiles, whole, 32 * kMiB, lens) == SoftmaxPrefetch::kAll);
      CHECK(rule(kUnknown, whole, 32 * kMiB, lens) == SoftmaxPrefetch::kAll);
      CHECK(rule(kZen4, whole, 8 * kMiB - 1, lens) == SoftmaxPrefetch::kBreaks);
      CHECK(rule(kZen5, whole, 8 * kMiB - 1, lens) == SoftmaxPrefetch::kBreaks);
      CHECK(rule(kZen3, whole, 8 * kMiB - 1, lens) == SoftmaxPrefetch::kBreaks);
      CHECK(rule(kZen3, whole, 8 * kMiB, lens) == SoftmaxPrefetch::kAll);
      CHECK(rule(kZen4, whole, 8 * kMiB, lens) ==
            (whole && lens ? SoftmaxPrefetch::kLinesIntoL2 : SoftmaxPrefetch::kBreaks));
      CHECK(rule(kZen4WithAvx2, whole, 8 * kMiB, lens) == rule(kZen4, whole, 8 * kMiB, lens));
      CHECK(rule(kZen5, whole, 8 * kMiB, lens) == SoftmaxPrefetch::kAll);
    }
  }
}

TEST_CASE("prefetch: softmax takes rows together where that is measured") {
  for (const bool whole : {false, true}) {
    for (const bool lens : {false, true}) {
      const auto together = [&](const Cpu& cpu) {
        kernels::MaskedSoftmaxKernels kernels{};
        kernels.whole_lines = whole;
        return detail::softmax_rows_go_together(cpu, kernels, lens);
      };
      CHECK(together(kZen5));
      CHECK(together(kZen4) == (lens && !whole));
      CHECK(together(kZen4WithAvx2) == (lens && !whole));
      for (const Cpu& cpu : {kZen3, kIntel, kIntelWithTiles, kUnknown}) CHECK_FALSE(together(cpu));
    }
  }
}

TEST_CASE("prefetch: plans of few queries say how they prefetch, others do not") {
  const auto line_of = [](std::int64_t queries, std::int64_t keys, const char* path) {
    const Plan plan = DotAttention().plan(
        {.batch = 1, .num_queries = queries, .num_keys = keys, .query_size = 64, .key_size = 64, .value_size = 64},
        {.path = path});
    const std::string text = plan.explain();
    const std::size_t at = text.find("\n  prefetch ");
    return at == std::string::npos ? std::string() : text.substr(at, text.find('\n', at + 1) - at);
  };
  const kernels::KernelSet& kernels = kernels::kernel_set(kernels::best_target());
  const auto bytes = [](std::size_t rows) { return rows * 128 * sizeof(float); };
  CHECK(line_of(1, 300, "dot/decode")
            .ends_with("  " + text_of(decode_prefetch(this_cpu(), kernels.few_rows), bytes(301))));
  CHECK(line_of(1, 1 << 20, "dot/decode")
            .ends_with("  " + text_of(decode_prefetch(this_cpu(), kernels.few_rows), bytes((1 << 20) + 1))));
  CHECK(line_of(16, 300, "dot/lanes").find("rows are not prefetched") != std::string::npos);
  CHECK(line_of(16, 1 << 20, "dot/lanes")
            .ends_with("  " + text_of(lanes_prefetch(this_cpu(), kernels.query_lanes), bytes((1 << 20) + 16))));
  CHECK(line_of(16, 300, "dot/fused") == "");
}

TEST_CASE("prefetch: a decoder's keys only where the target's kernels heed it, else its values alone") {
  kernels::FewRowsKernels kernels{};
  CHECK(text_of(decode_prefetch(kZen4, kernels), kMiB << 10) == "later values are prefetched into L2");
  CHECK(text_of(decode_prefetch(kZen5, kernels), kMiB << 10) == "later values are prefetched into L1");
  kernels.has_32_registers = true;
  CHECK(text_of(decode_prefetch(kIntel, kernels), kMiB << 10) == "later values are prefetched into L2");
  for_each_target([](const Target& target) {
    const bool heeds = kernels::kernel_set(target.id()).few_rows.prefetches_keys;
    if (target.name() == "SCALAR") CHECK_FALSE(heeds);
    const Plan plan = DotAttention().plan({.batch = 1, .num_queries = 1, .num_keys = 300, .query_size = 64},
                                          {.target = target, .path = "dot/decode"});
    CHECK(missing_parts(plan.explain(), {heeds ? "later rows are prefetched" : "later values are prefetched"}) == "");
  });
}

TEST_CASE("prefetch: words, for as many bytes as may be prefetched") {
  const std::string near = "later rows are prefetched into L2 and then L1";
  CHECK(text_of(decode_on(kZen4, true), 24 * kMiB - 1) == near);
  CHECK(text_of(decode_on(kZen4, true), 24 * kMiB) == near + "; three times into L2 in runs over 24 MiB or more");
  CHECK(text_of(decode_on(kIntel, true), kMiB << 10) == "later rows are prefetched into L2, keys then into L1");
  CHECK(text_of(decode_on(kIntel, false), kMiB << 10) == "later rows are prefetched into L2");
  CHECK(missing_parts(text_of(decode_on(kZen5, true), kMiB << 10), {"into L1; ", "twice into L1"}) == "");
  CHECK(text_of(LanesPrefetch{.least_far_bytes = 9 * kMiB, .prefetches = true}, 9 * kMiB) ==
        "the next step's rows are prefetched, a line a term, in runs over 9 MiB or more");
  CHECK(missing_parts(
            text_of(LanesPrefetch{.least_far_bytes = 9 * kMiB, .prefetches = true, .two_lines = true}, 9 * kMiB),
            {"two lines a term"}) == "");
  CHECK(text_of(LanesPrefetch{.least_far_bytes = 9 * kMiB}, 9 * kMiB) ==
        "the next step's rows are not prefetched: it would cost more than it brings");
  CHECK(text_of(LanesPrefetch{.least_far_bytes = 9 * kMiB, .prefetches = true}, 9 * kMiB - 1) ==
        "the next step's rows are not prefetched: a core's share of L3 holds them all");
  CHECK(missing_parts(text_of(LanesPrefetch{.least_far_bytes = 9 * kMiB - 256 * 1024, .prefetches = true}, 9 * kMiB),
                      {"8.75 MiB"}) == "");
}

}  // namespace
}  // namespace attend::tests
