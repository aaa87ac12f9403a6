// How runs prefetch memory ahead of its use, and whether masked_softmax takes rows together: written rules like the
// planner's others, from whose CPU it is, what its caches hold and how many bytes of queries, keys, values and output a
// run has. No result depends on them.
#ifndef ATTEND_PLAN_PREFETCH_RULES_H_
#define ATTEND_PLAN_PREFETCH_RULES_H_

#include <cstddef>
#include <string>

#include "engine/base/cpus.h"
#include "engine/kernels/few_rows.h"
#include "engine/kernels/masked_softmax.h"
#include "engine/kernels/query_lanes.h"

namespace attend::detail {

// dot/lanes: whether runs over so many bytes or more prefetch the rows of the next step, and how.
struct LanesPrefetch {
  std::size_t least_far_bytes = 0;
  bool prefetches = false, two_lines = false;  // kernels::LanesArgs
  bool in_order = false;                       // by run/next_slices.h; else by run/next_rows.h
  bool beside_values = false;                  // in order: kernels::LanesArgs::ahead_of_values

  bool prefetches_in_run_over(std::size_t bytes) const { return prefetches && bytes >= least_far_bytes; }
  bool keeps_values_in_run_over(std::size_t bytes) const { return prefetches || bytes < least_far_bytes; }
};
LanesPrefetch lanes_prefetch(const Cpu& cpu, const kernels::QueryLanesKernels& kernels);

// dot/decode: in runs over fewer bytes than least_far_bytes, and over so many or more.
struct DecodePrefetch {
  kernels::PrefetchInto near = kernels::PrefetchInto::kL2, far = kernels::PrefetchInto::kL2;
  std::size_t least_far_bytes = 0;
  bool keys = true;  // else values alone: FewRowsKernels::prefetches_keys

  kernels::PrefetchInto in_run_over(std::size_t bytes) const { return bytes < least_far_bytes ? near : far; }
};
DecodePrefetch decode_prefetch(const Cpu& cpu, const kernels::FewRowsKernels& kernels);

// Whether products of tiles by pairs of terms prefetch the rows that come next into L1, or only into L2.
bool next_rows_go_into_l1(const Cpu& cpu);

// masked_softmax over so many bytes of scores and output.
kernels::SoftmaxPrefetch softmax_prefetch(const Cpu& cpu, const kernels::MaskedSoftmaxKernels& kernels,
                                          std::size_t bytes, bool has_lens);

// Whether masked_softmax takes the passes over neighbouring rows together (kernels::MaskedSoftmaxArgs).
bool softmax_rows_go_together(const Cpu& cpu, const kernels::MaskedSoftmaxKernels& kernels, bool has_lens);

// The same in words, as far as it concerns runs over up to most_bytes.
std::string text_of(const LanesPrefetch& prefetch, std::size_t most_bytes);
std::string text_of(const DecodePrefetch& prefetch, std::size_t most_bytes);

}  // namespace attend::detail

#endif  // ATTEND_PLAN_PREFETCH_RULES_H_
