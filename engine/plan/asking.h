// How runs ask for memory ahead of its use: written rules like the planner's others, from whose CPU it is, what its
// caches hold and how many bytes of queries, keys, values and output a run has. No result depends on them.
#ifndef ATTEND_PLAN_ASKING_H_
#define ATTEND_PLAN_ASKING_H_

#include <cstddef>
#include <string>

#include "engine/base/cpus.h"
#include "engine/kernels/few_rows.h"
#include "engine/kernels/masked_softmax.h"
#include "engine/kernels/query_lanes.h"

namespace attend::detail {

// dot/lanes: whether runs over so many bytes or more ask for the rows of the next step, and how.
struct LanesAsking {
  std::size_t least_far_bytes = 0;
  bool asks = false, two_lines = false;  // kernels::LanesArgs

  bool asks_in_run_over(std::size_t bytes) const { return asks && bytes >= least_far_bytes; }
  bool keeps_values_in_run_over(std::size_t bytes) const { return asks || bytes < least_far_bytes; }
};
LanesAsking lanes_asking(const Cpu& cpu, const kernels::QueryLanesKernels& kernels);

// dot/decode: in runs over fewer bytes than least_far_bytes, and over so many or more.
struct DecodeAsking {
  kernels::Ask near = kernels::Ask::kIntoL2, far = kernels::Ask::kIntoL2;
  std::size_t least_far_bytes = 0;

  kernels::Ask in_run_over(std::size_t bytes) const { return bytes < least_far_bytes ? near : far; }
};
DecodeAsking decode_asking(const Cpu& cpu, const kernels::FewRowsKernels& kernels);

// masked_softmax over so many bytes of scores and output.
kernels::AskAhead softmax_asking(const Cpu& cpu, const kernels::MaskedSoftmaxKernels& kernels, std::size_t bytes,
                                 bool has_lens);

// The same in words, as far as it concerns runs over up to most_bytes.
std::string text_of(const LanesAsking& asking, std::size_t most_bytes);
std::string text_of(const DecodeAsking& asking, std::size_t most_bytes);

}  // namespace attend::detail

#endif  // ATTEND_PLAN_ASKING_H_
