#include "engine/reference/pooling.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace attend::reference {
Problem::Problem(const Inputs& inputs, const Mask& given)
    : queries(inputs.queries),
      keys(inputs.keys.empty() ? inputs.queries : inputs.keys),
      values(inputs.values.empty() ? keys : inputs.values),
      valid_lens(inputs.valid_lens),
      mask(given),
      batch(queries.size(0)),
      num_queries(queries.size(-2)),
      num_keys(keys.size(-2)) {}

double larger_magnitude(double largest, double x) {
  return std::isfinite(x) ? std::max(largest, std::abs(x)) : largest;
}

std::int64_t Problem::computed_queries(std::int64_t b) const {
  if (mask.padding == Padding::kCompute || valid_lens.empty()) return num_queries;
  return std::min<std::int64_t>(*valid_lens.at(b), num_queries);
}

std::int64_t Problem::valid_len(std::int64_t b, std::int64_t m) const {
  if (m >= computed_queries(b)) return 0;
  std::int64_t len = num_keys;
  if (!valid_lens.empty()) len = valid_lens.rank() == 1 ? *valid_lens.at(b) : *valid_lens.at(b, m);
  if (mask.causal == Causal::kBottomRight) len = std::min(len, num_keys - num_queries + m + 1);
  if (mask.causal == Causal::kTopLeft) len = std::min(len, m + 1);
  return std::max<std::int64_t>(len, 0);
}

std::int64_t Problem::visible_keys(std::int64_t b) const {
  std::int64_t visible = 0;
  for (std::int64_t m = 0; m < num_queries; ++m) visible = std::max(visible, valid_len(b, m));
  return visible;
}

void softmax(std::vector<double>& row) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (std::all_of(row.begin(), row.end(), [](double s) { return s == -kInfinity; })) {
    std::fill(row.begin(), row.end(), 0.0);
    return;
  }
  double max = -kInfinity;
  for (const double s : row) max = std::max(max, s);  // keeps max where s is NaN
  double sum = 0;
  for (double& s : row) {
    s = std::exp(s - max);  // NaN for NaN, and for +inf - +inf; then so are sum and the whole row
    sum += s;
  }
  for (double& p : row) p /= sum;
}

Result pool(const Problem& problem, std::int64_t num_heads, std::int64_t value_size, const Score& score,
            const Value& value) {
  const std::int64_t num_rows = problem.batch * num_heads * problem.num_queries;
  Result result;
  result.output.assign(static_cast<std::size_t>(num_rows * value_size), 0.0);
  result.attention_weights.assign(static_cast<std::size_t>(num_rows * problem.num_keys), 0.0);
  double* output = result.output.data();
  double* weights = result.attention_weights.data();
  std::vector<double> row, values;
  for (std::int64_t b = 0; b < problem.batch; ++b) {
    const std::int64_t visible = problem.visible_keys(b);
    for (std::int64_t h = 0; h < num_heads; ++h) {
      values.clear();
      for (std::int64_t n = 0; n < visible; ++n) {
        for (std::int64_t column = 0; column < value_size; ++column) {
          values.push_back(value(b, h, n, column));
          result.max_abs_value = larger_magnitude(result.max_abs_value, values.back());
        }
      }
      for (std::int64_t m = 0; m < problem.num_queries; ++m, output += value_size, weights += problem.num_keys) {
        const std::int64_t len = problem.valid_len(b, m);
        row.resize(static_cast<std::size_t>(len));
        for (std::int64_t n = 0; n < len; ++n) {
          row[static_cast<std::size_t>(n)] = score(b, h, m, n);
          result.max_abs_score = larger_magnitude(result.max_abs_score, row[static_cast<std::size_t>(n)]);
        }
        softmax(row);
        std::copy(row.begin(), row.end(), weights);
        // All -inf: the row is 0 whatever the values are, as if it had no valid key.
        if (std::all_of(row.begin(), row.end(), [](double p) { return p == 0; })) continue;
        for (std::int64_t n = 0; n < len; ++n) {
          for (std::int64_t column = 0; column < value_size; ++column) {
            output[column] +=
                row[static_cast<std::size_t>(n)] * values[static_cast<std::size_t>(n * value_size + column)];
          }
        }
      }
    }
  }
  result.max_score_terms = result.max_abs_score;
  return result;
}

template <class T>
std::vector<double> project(TensorView<const T> rows, TensorView<const float> weight, TensorView<const float> bias,
                            const std::function<std::int64_t(std::int64_t b)>& num_rows) {
  const std::int64_t size = weight.size(0);
  std::vector<double> projected(static_cast<std::size_t>(rows.size(0) * rows.size(1) * size), 0.0);
  for (std::int64_t b = 0; b < rows.size(0); ++b) {
    for (std::int64_t n = 0; n < num_rows(b); ++n) {
      for (std::int64_t i = 0; i < size; ++i) {
        double sum = bias.empty() ? 0.0 : static_cast<double>(*bias.at(i));
        for (std::int64_t j = 0; j < weight.size(1); ++j) {
          sum += static_cast<double>(*weight.at(i, j)) * static_cast<double>(*rows.at(b, n, j));
        }
        projected[static_cast<std::size_t>((b * rows.size(1) + n) * size + i)] = sum;
      }
    }
  }
  return projected;
}
template std::vector<double> project(TensorView<const float>, TensorView<const float>, TensorView<const float>,
                                     const std::function<std::int64_t(std::int64_t)>&);
template std::vector<double> project(TensorView<const double>, TensorView<const float>, TensorView<const float>,
                                     const std::function<std::int64_t(std::int64_t)>&);

}  // namespace attend::reference
