#include "engine/plan/prefetch_rules.h"

#include <algorithm>

#include "engine/base/message.h"

namespace attend::detail {
namespace {

// Of Intel's servers with AMX, where the system does not say.
constexpr std::size_t kMinL2 = std::size_t{2} << 20;

std::string mib_text(std::size_t bytes) {
  return number_text(static_cast<double>(bytes) / (1 << 20), std::chars_format::general, 4) + " MiB";
}

const char* text_of(kernels::PrefetchInto into) {
  switch (into) {
    case kernels::PrefetchInto::kL2:
      return "into L2";
    case kernels::PrefetchInto::kL2KeysThenL1:
      return "into L2, keys then into L1";
    case kernels::PrefetchInto::kL2Thrice:
      return "three times into L2";
    case kernels::PrefetchInto::kL2ThenL1:
      return "into L2 and then L1";
    case kernels::PrefetchInto::kL1:
      return "into L1";
    case kernels::PrefetchInto::kL1Twice:
      return "twice into L1";
  }
  return "";
}

}  // namespace

// What the next step wants, and in the last step of a head what the next head begins with, where all heads together are
// too large for a fair share of L3. Per head, AVX3 on a Cascade Lake server with 36 MB of it, query_lanes/*_ahead
// beside the same without: 17 MB of 32 x 32, 4.5 us instead of 6.7; 17 MB of 16 x 1024, 66 instead of 79; but 3.9
// instead of 3.7 for heads that are in the core's own cache. With 16 registers a term is half as many sums and
// prefetching twice its part: dot/b4_h8_m16_n1024_d64 took 1.3 times as long by it on AVX2, 1.1 on SSE4 of Cascade
// Lake. On Zen 4, where values are then kept as well, 1.58 instead of 2.82 and 4.69 instead of 5.72 ms;
// dot/b64_h8_m32_n32_d64 1.87 instead of 2.72 and 5.11 instead of 6.22. On Zen 3, AVX2, query_lanes/q16_n1024_d64_l3
// 3.97, _ahead 3.42 ms; q32_n32_d64_l3 3.72, _ahead 3.42. On Zen 5 0.99 instead of 1.15 ms, and 1.04 instead of 1.15;
// by one line a term as long, in the order of memory 2 to 8 % longer. Two lines: KeyTerms in kernels/lane_terms-inl.h.
//
// In the order of memory (run/next_slices.h), all heads of an entry step by step, and a line a term of both products,
// where L2 does not hold everything: Intel Xeon with AMX, AVX3, dot/b4_h8_m16_n1024_d64 1.60 -> 1.29 ms, of which the
// steps alone are half, dot/b64_h8_m32_n32_d64 1.65 -> 1.49. The other way, with these bounds, 2 % of the second, and
// the first took longer. With 16 registers nothing is prefetched there, as above; others of Intel's are not measured.
//
// So does Zen 4 with 16 registers, whose product with keys alone has terms enough (beside both, batches of 64 take 0.5
// % longer); AVX3 there, Zen 3 and Zen 5 are not measured. EPYC (Zen 4) without AVX-512, AVX2, 8 heads of size 64, ms,
// head after head and so: batches of 64 and 32 x 32 2.13 and 2.05, heads apart 2.06 and 2.02, of 16 0.514 and 0.504; of
// 4 and 16 x 1024 equal, of 1 0.492 and 0.470, 8 x 1024 0.316 and 0.292; of 12 and 16 x 4096 of size 128 59 and 52;
// heads apart of several steps up to 1 % longer. SSE4, of 64, 4 and 12, 6.2 and 6.0, 5.7 and 5.6, 138 and 132. attend
// plan --layer dot --shape 64,32,32,64 --num-heads 8 --measure.
LanesPrefetch lanes_prefetch(const Cpu& cpu, const kernels::QueryLanesKernels& kernels) {
  const bool is_zen4_with_16 = cpu.adds_beside_products() && !cpu.is_zen5() && !kernels.has_32_registers;
  const bool in_order = (cpu.has_tiles && kernels.has_32_registers) || (is_zen4_with_16 && kernels.prefetches);
  return {.least_far_bytes = in_order ? std::max(cpu.l2_bytes, kMinL2) : cpu.least_far_bytes(),
          .prefetches = kernels.prefetches && (kernels.has_32_registers || cpu.is_amd),
          .two_lines = kernels.has_32_registers && cpu.is_amd,
          .in_order = in_order,
          .beside_values = in_order && kernels.has_32_registers};
}

// Zen 5 wants rows in L1 wherever they come from (few_rows/decode_bhnd_r4_n4096_d128_block16_l1 690 us; by way of L2,
// without _l1, 920), those from memory prefetched again. Zen 4 wants them straight in L1 from caches only, and whether
// they are there a run cannot know: a model's other layers may have passed since. AVX3, us of length/decode_n128 and
// _n128_turns, _n1024 and _n1024_turns: into L2 22 and 47, 175 and 368; three times 23 and 44, 192 and 307; once and
// then into L1 21 and 39, 169 and 309; straight into L1 20 and 65, 151 and 504. Runs over more than 3/4 of L3, most of
// which comes from memory: three times into L2 (PrefetchLater in kernels/few_rows-inl.h). Vectors of less than a line
// prefetch each line several times anyway. On Zen 3 all ways are within the noise of its memory (few_rows/decode_*).
//
// Cascade Lake wants keys once more, 4 rows ahead, where 32 registers leave time for it: worth an eighth on AVX3, while
// AVX2 lost 10 to 20 % (dot/b1_h32_kv8_m1_n4096_d128). On Zen 4 it brought nothing.
DecodePrefetch decode_prefetch(const Cpu& cpu, const kernels::FewRowsKernels& kernels) {
  using kernels::PrefetchInto;
  DecodePrefetch prefetch{.least_far_bytes = 3 * cpu.least_far_bytes(), .keys = kernels.prefetches_keys};
  if (!cpu.is_amd) {
    if (kernels.has_32_registers && kernels.prefetches_keys) prefetch.near = prefetch.far = PrefetchInto::kL2KeysThenL1;
    return prefetch;
  }
  if (cpu.is_zen5()) {
    prefetch.near = PrefetchInto::kL1;
    prefetch.far = kernels.whole_lines ? PrefetchInto::kL1Twice : PrefetchInto::kL1;
  } else if (kernels.whole_lines) {
    prefetch.near = PrefetchInto::kL2ThenL1;
    prefetch.far = PrefetchInto::kL2Thrice;
  }
  return prefetch;
}

// attend plan --layer dot --shape 8,512,256,64 --num-heads 12 --measure, whose made-up rows begin within lines, AVX3 on
// an EPYC (Zen 5): into L2 17.6 ms, into L1 16.4, because more of them arrive. Rows that begin with lines come either
// way, dot/b8_h12_m512_n512_d64_lens 18.3 and 18.2. Zen 4, which wants a decoder's far rows in L2, is not measured.
bool next_rows_go_into_l1(const Cpu& cpu) { return cpu.is_zen5(); }

// Cascade Lake wants all (kernels/masked_softmax-inl.h). Intel's servers with AMX too: what breaks cost depends on
// where in their 4 KiB pages rows begin, which a caller hardly knows. masked_softmax_rows/r4096_n1024 on AVX3, three
// runs within 1 %: 1.18 ms, _breaks 1.24; with the output half a page behind, _half 1.19, _half_breaks 1.36; r4096_n128
// 0.183, _breaks 0.22 to 0.27.
//
// Zen 4 wants the breaks alone: masked_softmax/r4096_n1024 on AVX3 1.40 -> 1.22 ms, _lens 1.68 -> 1.10. Where scores
// and output are more than a fair share of L3 it wants lines, into L2, if rows have lengths, where its prefetchers lose
// their way, and vectors are whole lines: _lens 1.14 -> 1.02 (into L1 1.6), but AVX2 wins nothing, SSE4 loses 4 to
// 10 %; rows without lengths would take 1.40 and not 1.25, and so will those whose lengths are all full. With AVX2
// alone, all, breaks and lines into L2 took 1.75, 1.61 and 1.82, _lens 1.58, 1.36 and 1.49.
//
// Zen 5 wants all there, for the sake of machines that others keep busy. AVX3, ms, all, breaks, lines into L1 and into
// L2, in a quiet minute (machine/copy 0.55) r4096_n1024 0.92, 1.06, 0.89, _lens 0.83, 0.84, 0.79; in a busy one (1.05)
// 1.20, 1.88, 1.40, 1.52 and 1.20, 1.26, 1.39, 2.00; r4096_n128, of 2 MiB, 0.15, 0.15, 0.17. Zen 3 wants all there too,
// and what came before it, not measured, gets the same: AVX2 2.13 ms, by breaks 3.19, by lines 2.14, into L2 2.04;
// _lens 2.05, 2.47, 2.10 and 2.21; SSE4 7.3, by breaks 8.8, and 5.0 and 5.4; of 2 MiB AVX2 takes as long with either,
// to within 3 %. Another machine: masked_softmax_rows/r4096_n1024* and r4096_n128*, all, with _breaks and _lines_l2, at
// several places in a page.
kernels::SoftmaxPrefetch softmax_prefetch(const Cpu& cpu, const kernels::MaskedSoftmaxKernels& kernels,
                                          std::size_t bytes, bool has_lens) {
  using kernels::SoftmaxPrefetch;
  if (!cpu.is_amd) return SoftmaxPrefetch::kAll;
  if (bytes < cpu.least_far_bytes()) return SoftmaxPrefetch::kBreaks;
  if (!cpu.adds_beside_products() || cpu.is_zen5()) return SoftmaxPrefetch::kAll;
  return has_lens && kernels.whole_lines ? SoftmaxPrefetch::kLinesIntoL2 : SoftmaxPrefetch::kBreaks;
}

// Row by row nothing is there to do while a row's maximum and sum are added up across lanes. EPYC (Zen 5),
// masked_softmax_rows/* and the same with _together, us: AVX3 r64_n1024 9.4 -> 7.2, r4096_n128 136 -> 110, r4096_n1024
// 879 -> 678, _lens 805 -> 707; AVX2 r4096_n128 192 -> 175, r4096_n1024 1217 -> 978; SSE4 587 -> 530, 4045 -> 4005;
// SCALAR within 2 %. EPYC (Zen 4) with AVX2 alone wants it of rows of several lengths, which end at other times:
// masked_softmax/r4096_n1024_lens AVX2 1398 -> 1201, SSE4 3594 -> 3392, but r4096_n1024 1791 -> 2221, 5625 -> 6308; of
// AVX3 there, and of others, nothing is measured.
bool softmax_rows_go_together(const Cpu& cpu, const kernels::MaskedSoftmaxKernels& kernels, bool has_lens) {
  return cpu.is_zen5() || (cpu.adds_beside_products() && has_lens && !kernels.whole_lines);
}

std::string text_of(const LanesPrefetch& prefetch, std::size_t most_bytes) {
  // Some of the rows at work are prefetched anyway, close before their turn (kernels/lane_terms-inl.h).
  const std::string none = "the next step's rows are not prefetched: ";
  if (!prefetch.prefetches) return none + "it would cost more than it brings";
  if (!prefetch.prefetches_in_run_over(most_bytes)) {
    return none + (prefetch.in_order ? "L2 holds them all" : "a core's share of L3 holds them all");
  }
  return std::string("the next step's rows are prefetched") + (prefetch.in_order ? " in the order of memory, " : ", ") +
         (prefetch.two_lines ? "two lines" : "a line") + " a term, in runs over " + mib_text(prefetch.least_far_bytes) +
         " or more";
}

std::string text_of(const DecodePrefetch& prefetch, std::size_t most_bytes) {
  std::string text =
      std::string("later ") + (prefetch.keys ? "rows" : "values") + " are prefetched " + text_of(prefetch.near);
  if (prefetch.far == prefetch.near || most_bytes < prefetch.least_far_bytes) return text;
  return text + "; " + text_of(prefetch.far) + " in runs over " + mib_text(prefetch.least_far_bytes) + " or more";
}

}  // namespace attend::detail
