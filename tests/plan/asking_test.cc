// How memory is asked for, by whose CPU it is. Results are no witness: none depends on it.
#include "engine/plan/asking.h"

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>

#include <doctest/doctest.h>

#include "attend/attend.h"
#include "engine/kernels/kernel_set.h"
#include "engine/plan/plan_impl.h"
#include "tests/support/compare.h"
#include "tests/support/run.h"

namespace attend::tests {
namespace {

using detail::decode_asking;
using detail::DecodeAsking;
using detail::lanes_asking;
using detail::LanesAsking;
using detail::softmax_asking;
using kernels::Ask;
using kernels::AskAhead;

constexpr std::size_t kMiB = std::size_t{1} << 20;
constexpr Cpu kIntel{.is_amd = false, .l1_bytes = 48u << 10, .l3_bytes = 36 * kMiB};
constexpr Cpu kUnknown{};
constexpr Cpu kZen4{.is_amd = true, .l1_bytes = 32u << 10, .l3_bytes = 32 * kMiB};
constexpr Cpu kZen5{.is_amd = true, .l1_bytes = 48u << 10, .l3_bytes = 32 * kMiB};

// whole_lines: AVX3's kernels, or else AVX2's.
DecodeAsking decode_on(const Cpu& cpu, bool whole_lines) {
  kernels::FewRowsKernels kernels{};
  kernels.whole_lines = kernels.has_32_registers = whole_lines;
  return decode_asking(cpu, kernels);
}

TEST_CASE("asking: a decoder's rows from near and from far") {
  const struct {
    const char* name;
    Cpu cpu;
    bool whole_lines;
    Ask near, far;
  } kCases[] = {
      {"Intel", kIntel, true, Ask::kIntoL2KeysThenL1, Ask::kIntoL2KeysThenL1},
      {"Intel, AVX2", kIntel, false, Ask::kIntoL2, Ask::kIntoL2},
      {"not known", kUnknown, true, Ask::kIntoL2KeysThenL1, Ask::kIntoL2KeysThenL1},
      {"Zen 4", kZen4, true, Ask::kIntoL2ThenL1, Ask::kIntoL2Thrice},
      {"Zen 4, AVX2", kZen4, false, Ask::kIntoL2, Ask::kIntoL2},
      {"Zen 5", kZen5, true, Ask::kIntoL1, Ask::kIntoL1Twice},
      {"Zen 5, AVX2", kZen5, false, Ask::kIntoL1, Ask::kIntoL1},
  };
  for (const auto& c : kCases) {
    CAPTURE(c.name);
    const DecodeAsking asking = decode_on(c.cpu, c.whole_lines);
    CHECK(asking.near == c.near);
    CHECK(asking.far == c.far);
  }
}

TEST_CASE("asking: far is three quarters of L3, 24 MiB at the least") {
  const DecodeAsking asking = decode_on(kZen4, true);
  CHECK(asking.in_run_over(24 * kMiB - 1) == Ask::kIntoL2ThenL1);
  CHECK(asking.in_run_over(24 * kMiB) == Ask::kIntoL2Thrice);
  CHECK(decode_on({.is_amd = true, .l1_bytes = 32u << 10, .l3_bytes = 96 * kMiB}, true).in_run_over(72 * kMiB - 1) ==
        Ask::kIntoL2ThenL1);
  CHECK(decode_on({.is_amd = true}, true).in_run_over(24 * kMiB) == Ask::kIntoL2Thrice);
}

TEST_CASE("asking: lanes, where the kernels heed it, from a fair share of L3 on; with 16 registers, on AMD's alone") {
  kernels::QueryLanesKernels kernels{};
  CHECK(lanes_asking(kIntel, kernels).least_far_bytes == 9 * kMiB);
  CHECK(lanes_asking(kUnknown, kernels).least_far_bytes == 8 * kMiB);
  const struct {
    const char* name;
    Cpu cpu;
    bool has_32_registers, asks, two_lines;
  } kCases[] = {
      {"Intel, AVX3", kIntel, true, true, false}, {"Intel, AVX2", kIntel, false, false, false},
      {"not known", kUnknown, true, true, false}, {"not known, AVX2", kUnknown, false, false, false},
      {"Zen 4, AVX3", kZen4, true, true, true},   {"Zen 4, AVX2", kZen4, false, true, false},
      {"Zen 5, AVX3", kZen5, true, true, true},   {"Zen 5, AVX2", kZen5, false, true, false},
  };
  for (const auto& c : kCases) {
    CAPTURE(c.name);
    kernels.has_32_registers = c.has_32_registers;
    for (const bool heeds : {false, true}) {
      kernels.asks_ahead = heeds;
      CHECK(lanes_asking(c.cpu, kernels).asks == (heeds && c.asks));
      CHECK(lanes_asking(c.cpu, kernels).two_lines == c.two_lines);
    }
  }
}

TEST_CASE("asking: lanes keep values unless they are far and nothing is asked for") {
  const LanesAsking asks{.least_far_bytes = 9 * kMiB, .asks = true}, asks_not{.least_far_bytes = 9 * kMiB};
  CHECK_FALSE(asks.asks_in_run_over(9 * kMiB - 1));
  CHECK(asks.asks_in_run_over(9 * kMiB));
  CHECK_FALSE(asks_not.asks_in_run_over(9 * kMiB));
  CHECK(asks.keeps_values_in_run_over(9 * kMiB - 1));
  CHECK(asks.keeps_values_in_run_over(9 * kMiB));
  CHECK(asks_not.keeps_values_in_run_over(9 * kMiB - 1));
  CHECK_FALSE(asks_not.keeps_values_in_run_over(9 * kMiB));
}

TEST_CASE("asking: the bytes of a run are those of its queries, keys, values and output") {
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

TEST_CASE("asking: softmax by maker, bytes, lengths and lines") {
  const auto ask = [](const Cpu& cpu, bool whole_lines, std::size_t bytes, bool has_lens) {
    kernels::MaskedSoftmaxKernels kernels{};
    kernels.whole_lines = whole_lines;
    return softmax_asking(cpu, kernels, bytes, has_lens);
  };
  for (const bool lens : {false, true}) {
    for (const bool whole : {false, true}) {
      CHECK(ask(kIntel, whole, 4 * kMiB, lens) == AskAhead::kAll);
      CHECK(ask(kUnknown, whole, 32 * kMiB, lens) == AskAhead::kAll);
      CHECK(ask(kZen4, whole, 8 * kMiB - 1, lens) == AskAhead::kBreaks);
      CHECK(ask(kZen5, whole, 8 * kMiB - 1, lens) == AskAhead::kBreaks);
      CHECK(ask(kZen4, whole, 8 * kMiB, lens) == (whole && lens ? AskAhead::kLinesIntoL2 : AskAhead::kBreaks));
      CHECK(ask(kZen5, whole, 8 * kMiB, lens) == AskAhead::kLines);
    }
  }
}

TEST_CASE("asking: plans of few queries say how they ask, others do not") {
  const auto line_of = [](std::int64_t queries, std::int64_t keys, const char* path) {
    const Plan plan = DotAttention().plan(
        {.batch = 1, .num_queries = queries, .num_keys = keys, .query_size = 64, .key_size = 64, .value_size = 64},
        {.path = path});
    const std::string text = plan.explain();
    const std::size_t at = text.find("\n  ahead ");
    return at == std::string::npos ? std::string() : text.substr(at, text.find('\n', at + 1) - at);
  };
  const kernels::KernelSet& kernels = kernels::kernel_set(kernels::best_target());
  const auto bytes = [](std::size_t rows) { return rows * 128 * sizeof(float); };
  CHECK(
      line_of(1, 300, "dot/decode").ends_with("  " + text_of(decode_asking(this_cpu(), kernels.few_rows), bytes(301))));
  CHECK(line_of(1, 1 << 20, "dot/decode")
            .ends_with("  " + text_of(decode_asking(this_cpu(), kernels.few_rows), bytes((1 << 20) + 1))));
  CHECK(line_of(16, 300, "dot/lanes").find("nothing is asked for") != std::string::npos);
  CHECK(line_of(16, 1 << 20, "dot/lanes")
            .ends_with("  " + text_of(lanes_asking(this_cpu(), kernels.query_lanes), bytes((1 << 20) + 16))));
  CHECK(line_of(16, 300, "dot/fused") == "");
}

TEST_CASE("asking: words, for as many bytes as may be asked for") {
  const std::string near = "later rows are asked for into L2 and then L1";
  CHECK(text_of(decode_on(kZen4, true), 24 * kMiB - 1) == near);
  CHECK(text_of(decode_on(kZen4, true), 24 * kMiB) == near + "; three times into L2 in runs over 24 MiB or more");
  CHECK(text_of(decode_on(kIntel, true), kMiB << 10) == "later rows are asked for into L2, keys then into L1");
  CHECK(text_of(decode_on(kIntel, false), kMiB << 10) == "later rows are asked for into L2");
  CHECK(missing_parts(text_of(decode_on(kZen5, true), kMiB << 10), {"into L1; ", "twice into L1"}) == "");
  CHECK(text_of(LanesAsking{.least_far_bytes = 9 * kMiB, .asks = true}, 9 * kMiB) ==
        "the next step's rows are asked for, a line a term, in runs over 9 MiB or more");
  CHECK(missing_parts(text_of(LanesAsking{.least_far_bytes = 9 * kMiB, .asks = true, .two_lines = true}, 9 * kMiB),
                      {"two lines a term"}) == "");
  CHECK(text_of(LanesAsking{.least_far_bytes = 9 * kMiB}, 9 * kMiB) ==
        "nothing is asked for: it would cost more than it brings");
  CHECK(text_of(LanesAsking{.least_far_bytes = 9 * kMiB, .asks = true}, 9 * kMiB - 1) ==
        "nothing is asked for: a core's share of L3 holds it");
  CHECK(missing_parts(text_of(LanesAsking{.least_far_bytes = 9 * kMiB - 256 * 1024, .asks = true}, 9 * kMiB),
                      {"8.75 MiB"}) == "");
}

}  // namespace
}  // namespace attend::tests
