// The one pooling under all five scores, in double precision and plain loops. Private to reference/, which shares no
// code with the engine.
#ifndef ATTEND_ENGINE_REFERENCE_POOLING_H_
#define ATTEND_ENGINE_REFERENCE_POOLING_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "attend/plan.h"
#include "attend/reference.h"
#include "attend/tensor_view.h"

namespace attend::reference {

// Inputs with the defaults filled in: missing keys are the queries, missing values the keys.
struct Problem {
  Problem(const Inputs& inputs, const Mask& mask);

  // Queries of batch entry b that are computed, the first so many; rows beyond are 0.
  std::int64_t computed_queries(std::int64_t b) const;
  // Keys that query m of batch entry b sees: the first so many.
  std::int64_t valid_len(std::int64_t b, std::int64_t m) const;
  // Keys of batch entry b that at least one row sees.
  std::int64_t visible_keys(std::int64_t b) const;

  TensorView<const float> queries, keys, values;
  TensorView<const std::int32_t> valid_lens;
  Mask mask;
  std::int64_t batch, num_queries, num_keys;
};

// The larger magnitude, infinities and NaN left out: error bounds are stated for finite numbers.
double larger_magnitude(double largest, double x);

// One score per (batch entry, head, query, key); one value per (batch entry, head, key, column).
using Score = std::function<double(std::int64_t b, std::int64_t h, std::int64_t m, std::int64_t n)>;
using Value = std::function<double(std::int64_t b, std::int64_t h, std::int64_t n, std::int64_t column)>;

// softmax over a row's valid scores, in place: p_j = exp(s_j - max s) / sum_i exp(s_i - max s).
// No scores or only -inf: all 0. NaN or +inf: all NaN.
void softmax(std::vector<double>& row);

// weights = softmax(score) over the keys that a query sees, output = weights . values, for every batch entry, head and
// query. max_score_terms: of |score|.
Result pool(const Problem& problem, std::int64_t num_heads, std::int64_t value_size, const Score& score,
            const Value& value);

// Rows of a (B, N, size) tensor mapped by y = W x + b: (B, N, W.size(0)), dense. Row n of entry b is computed for
// n < num_rows(b) only and 0 beyond. bias may be empty. T: float, or double for rows that were computed here.
template <class T>
std::vector<double> project(TensorView<const T> rows, TensorView<const float> weight, TensorView<const float> bias,
                            const std::function<std::int64_t(std::int64_t b)>& num_rows);

}  // namespace attend::reference

#endif  // ATTEND_ENGINE_REFERENCE_POOLING_H_
