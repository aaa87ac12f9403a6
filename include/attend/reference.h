// The truth: every layer in double precision, plain loops, each formula as in its paper. Slow, for tests and for
// `attend check`; shares no code with the engine.
//
// Simplest use: auto truth = attend::reference::dot({}, {.queries = q, .keys = k, .values = v, .valid_lens = lens});
// Causal:       auto truth = attend::reference::dot({}, {.queries = q}, {.causal = attend::Causal::kBottomRight});
#ifndef ATTEND_REFERENCE_H_
#define ATTEND_REFERENCE_H_

#include <cstdint>
#include <vector>

#include "attend/layers.h"
#include "attend/plan.h"

namespace attend::reference {

// The results of one call, dense and row-major.
struct Result {
  std::vector<double> output;             // (B, M, output size) or (B, H, M, Dv) for views split into heads
  std::vector<double> attention_weights;  // (B, M, N) or (B, H, M, N)
  double max_abs_score = 0;               // over all valid pairs
  // The same of sum_i |scale q_i k_i|, where scores are products; else of |score|. The S of the bound 2e-7 (4 + S).
  double max_score_terms = 0;
  double max_abs_value = 0;  // over all values that some row sees (projected ones for multi-head)
};

// What PlanOptions say of the pairs that count, beside the valid lengths.
struct Mask {
  Causal causal = Causal::kNone;
  Padding padding = Padding::kCompute;
};

// All take the inputs of a run (missing keys: self-attention; missing values: the keys; no prepared ones). Rows without
// valid keys are 0; keys and values that a row does not see do not enter it, and those that no row sees are not read,
// nor are queries that are skipped.
//   Formulas and sources: those of the layers of the same name (attend/layers.h).
//   Shapes: those of Inputs (attend/plan.h); strides are free, the innermost too.
//   Thread-safety: thread-safe; allocates its result and more.
//   Errors: std::bad_alloc only. Nothing is checked: the inputs are those of a run that was accepted.
Result additive(const AdditiveParameters& parameters, const Inputs& inputs, const Mask& mask = {});
// dot and gaussian also take views with heads, queries (B, H, M, D), keys and values (B, H, N, D) or, in groups of
// query heads that share them, (B, Hkv, N, D).
Result dot(const DotOptions& options, const Inputs& inputs, const Mask& mask = {});
Result bilinear(const BilinearParameters& parameters, const BilinearOptions& options, const Inputs& inputs,
                const Mask& mask = {});
Result gaussian(const GaussianOptions& options, const Inputs& inputs, const Mask& mask = {});
Result multi_head(const MultiHeadOptions& options, const MultiHeadParameters& parameters, const Inputs& inputs,
                  const Mask& mask = {});

// softmax of each row's first len scores, 0 beyond: attend::masked_softmax (attend/masked_softmax.h).
//   Shapes: input (B, M, N) or (B, H, M, N); valid_lens (B) or (B, M), or not given. The result is dense, of the shape
//     of input. Strides, thread-safety, errors: as above.
std::vector<double> masked_softmax(TensorView<const float> input, TensorView<const std::int32_t> valid_lens);

}  // namespace attend::reference

#endif  // ATTEND_REFERENCE_H_
