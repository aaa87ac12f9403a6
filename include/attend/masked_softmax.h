// Softmax over the valid part of each row, and the mask alone.
//
// Simplest correct call:   attend::masked_softmax(scores, lens, weights);          // may run in place
#ifndef ATTEND_MASKED_SOFTMAX_H_
#define ATTEND_MASKED_SOFTMAX_H_

#include <cstdint>

#include "attend/executor.h"
#include "attend/target.h"
#include "attend/tensor_view.h"

namespace attend {

struct MaskedSoftmaxOptions {
  Target target = Target::best();
  Executor* executor = nullptr;  // not given: the calling thread alone
};

// output[b, m, j] = exp(input[b, m, j]) / sum over valid j' of exp(input[b, m, j'])  for j < len, else 0.
//   Shapes: input and output (B, M, N), or (B, H, M, N); valid_lens (B) or (B, M), int32, 0 <= len <= N, or not given
//     (all valid).
//   Strides: in elements; the innermost is 1, but free in valid_lens, all others are free: negative everywhere, zero
//     only where reading. Rows of output do not overlap each other; of that, zero strides alone are an Error. Those of
//     axes with one element or none are not looked at.
//   Aliasing: output may be input itself (same data and strides); any other overlap is undefined.
//   Special values: a row with len 0 is 0. The maximum is subtracted, so large scores do not overflow. -inf weighs 0; a
//     row whose valid scores are all -inf is 0. A NaN or +inf among the valid scores makes the row's valid part NaN.
//     What lies at or beyond len is never read.
//   Error bound: within 2e-7 of the exact softmax of the given f32 scores, rows sum to 1 within 1e-6; the sum is
//     compensated.
//   Thread-safety: thread-safe. The same bits for any executor. Allocates nothing (the executor may), except as a
//     process's first call of the library: that asks the system for its caches, and on CPUs with AMX Linux for its
//     use, as attend::Parts says (attend/plan.h).
//   Errors: Error before any output changes, naming the argument, what it was and what was expected.
//   Source: Dive into Deep Learning, 11.3.1.
void masked_softmax(TensorView<const float> input, TensorView<const std::int32_t> valid_lens, TensorView<float> output,
                    const MaskedSoftmaxOptions& options = {});

// x[b, n, ...] = value for every n >= valid_lens[b]; the rest of x stays as it is.
//   Shapes: x (B, N), (B, N, D) or (B, N, D, E); valid_lens (B), 0 <= len <= N.
//   Strides: in elements; all are free, the innermost too: negative everywhere, zero only in valid_lens. Elements of x
//     do not overlap each other; of that, zero strides alone are an Error. Those of axes with one element or none are
//     not looked at.
//   Aliasing: in place; valid_lens overlaps nothing of x.
//   Special values: x is not read, so what it holds does not matter; value may be anything, NaN included.
//   Error bound: exact.
//   Thread-safety: thread-safe; allocates nothing.
//   Errors: as masked_softmax.
//   Source: Dive into Deep Learning, 10.7.
void sequence_mask(TensorView<float> x, TensorView<const std::int32_t> valid_lens, float value = 0.0f);

}  // namespace attend

#endif  // ATTEND_MASKED_SOFTMAX_H_
