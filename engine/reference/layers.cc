#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "attend/reference.h"
#include "engine/reference/pooling.h"

namespace attend::reference {
namespace {

double element(const TensorView<const float>& view, std::int64_t b, std::int64_t h, std::int64_t row,
               std::int64_t column) {
  return view.rank() == 4 ? *view.at(b, h, row, column) : *view.at(b, row, column);
}

std::int64_t num_heads(const Problem& problem) { return problem.queries.rank() == 4 ? problem.queries.size(1) : 1; }

// The head of keys and values that query head h sees: H / Hkv query heads in a row share one.
std::int64_t kv_head(std::int64_t h, std::int64_t num_heads, std::int64_t num_kv_heads) {
  return h / (num_heads / num_kv_heads);
}
std::int64_t kv_head(const Problem& problem, std::int64_t h) {
  return problem.keys.rank() == 4 ? kv_head(h, problem.queries.size(1), problem.keys.size(1)) : 0;
}

Value values_of(const Problem& problem) {
  return [&problem](std::int64_t b, std::int64_t h, std::int64_t n, std::int64_t column) {
    return element(problem.values, b, kv_head(problem, h), n, column);
  };
}

// Dense (B, rows, columns) in double.
struct Matrix {
  double at(std::int64_t b, std::int64_t row, std::int64_t column) const {
    return data[static_cast<std::size_t>((b * rows + row) * columns + column)];
  }
  std::vector<double> data;
  std::int64_t rows, columns;
};

// Queries: those that are skipped are not read.
Matrix project_queries(const Problem& problem, TensorView<const float> weight, TensorView<const float> bias) {
  return {project(problem.queries, weight, bias, [&](std::int64_t b) { return problem.computed_queries(b); }),
          problem.num_queries, weight.size(0)};
}

// Keys or values: those that no row sees are not read.
Matrix project_visible(const Problem& problem, TensorView<const float> rows, TensorView<const float> weight,
                       TensorView<const float> bias) {
  return {project(rows, weight, bias, [&](std::int64_t b) { return problem.visible_keys(b); }), problem.num_keys,
          weight.size(0)};
}

// [head_1; ...; head_H] of every query: what was pooled, (B, H, M, Dh), as (B, M, H Dh).
Matrix concatenate_heads(const Problem& problem, const std::vector<double>& pooled, std::int64_t num_heads,
                         std::int64_t head_dim) {
  Matrix rows{{}, problem.num_queries, num_heads * head_dim};
  rows.data.reserve(pooled.size());
  for (std::int64_t b = 0; b < problem.batch; ++b) {
    for (std::int64_t m = 0; m < problem.num_queries; ++m) {
      for (std::int64_t h = 0; h < num_heads; ++h) {
        const auto head = pooled.begin() + ((b * num_heads + h) * problem.num_queries + m) * head_dim;
        rows.data.insert(rows.data.end(), head, head + head_dim);
      }
    }
  }
  return rows;
}

// W_o times the heads of every query, + b_o; rows that are skipped get no bias either.
std::vector<double> project_output(const Problem& problem, const Matrix& heads, const MultiHeadParameters& parameters) {
  const TensorView<const double> rows(heads.data.data(), {problem.batch, heads.rows, heads.columns});
  return project(rows, parameters.W_o, parameters.b_o, [&](std::int64_t b) { return problem.computed_queries(b); });
}

// scale * a dot product of so many terms, and the largest sum of |scale * term| of all that were taken.
class DotProducts {
 public:
  DotProducts(double scale, std::int64_t size) : scale_(scale), size_(size) {}

  template <class Term>
  double of(const Term& term) {
    double sum = 0, sizes = 0;
    for (std::int64_t d = 0; d < size_; ++d) {
      sum += term(d);
      sizes += std::abs(term(d));
    }
    largest_ = larger_magnitude(largest_, scale_ * sizes);
    return scale_ * sum;
  }
  double largest() const { return largest_; }

 private:
  double scale_;
  std::int64_t size_;
  double largest_ = 0;
};

}  // namespace

// Bahdanau, Cho, Bengio 2015, A.1.2: a(q, k) = w_v . tanh(W_q q + W_k k)
Result additive(const AdditiveParameters& parameters, const Inputs& inputs, const Mask& mask) {
  const Problem problem(inputs, mask);
  const Matrix queries = project_queries(problem, parameters.W_q, parameters.b_q);
  const Matrix keys = project_visible(problem, problem.keys, parameters.W_k, parameters.b_k);
  const TensorView<const float>& w_v = parameters.w_v;
  const auto score = [&](std::int64_t b, std::int64_t, std::int64_t m, std::int64_t n) {
    double sum = 0;
    for (std::int64_t u = 0; u < queries.columns; ++u) {
      const double w = w_v.rank() == 2 ? *w_v.at(0, u) : *w_v.at(u);
      sum += w * std::tanh(queries.at(b, m, u) + keys.at(b, n, u));
    }
    return sum;
  };
  return pool(problem, 1, problem.values.size(-1), score, values_of(problem));
}

// Vaswani et al. 2017, equation 1: a(q, k) = scale * q . k
Result dot(const DotOptions& options, const Inputs& inputs, const Mask& mask) {
  const Problem problem(inputs, mask);
  const std::int64_t size = problem.queries.size(-1);
  const double scale = options.scale ? static_cast<double>(*options.scale) : 1.0 / std::sqrt(static_cast<double>(size));
  DotProducts products(scale, size);
  const auto score = [&](std::int64_t b, std::int64_t h, std::int64_t m, std::int64_t n) {
    const std::int64_t g = kv_head(problem, h);
    return products.of(
        [&](std::int64_t d) { return element(problem.queries, b, h, m, d) * element(problem.keys, b, g, n, d); });
  };
  Result result = pool(problem, num_heads(problem), problem.values.size(-1), score, values_of(problem));
  result.max_score_terms = products.largest();
  return result;
}

// Luong, Pham, Manning 2015, equation 8, "general": a(q, k) = scale * q^T W k
Result bilinear(const BilinearParameters& parameters, const BilinearOptions& options, const Inputs& inputs,
                const Mask& mask) {
  const Problem problem(inputs, mask);
  const TensorView<const float>& W = parameters.W;
  const TensorView<const float> transposed(W.data(), {W.size(1), W.size(0)}, {W.stride(1), W.stride(0)});
  const Matrix keys = project_visible(problem, problem.keys, W, {});  // W k
  const Matrix queries = project_queries(problem, transposed, {});    // W^T q, the same score by other terms
  DotProducts with_keys(options.scale, keys.columns), with_queries(options.scale, queries.columns);
  const auto score = [&](std::int64_t b, std::int64_t, std::int64_t m, std::int64_t n) {
    with_queries.of([&](std::int64_t d) { return queries.at(b, m, d) * element(problem.keys, b, 0, n, d); });
    return with_keys.of([&](std::int64_t d) { return element(problem.queries, b, 0, m, d) * keys.at(b, n, d); });
  };
  Result result = pool(problem, 1, problem.values.size(-1), score, values_of(problem));
  result.max_score_terms = std::max(with_keys.largest(), with_queries.largest());
  return result;
}

// Nadaraya 1964, Watson 1964: a(q, k) = -|q - k|^2 / (2 sigma^2)
Result gaussian(const GaussianOptions& options, const Inputs& inputs, const Mask& mask) {
  const Problem problem(inputs, mask);
  const double sigma = options.sigma;
  const auto score = [&](std::int64_t b, std::int64_t h, std::int64_t m, std::int64_t n) {
    const std::int64_t g = kv_head(problem, h);
    double sum = 0;
    for (std::int64_t d = 0; d < problem.queries.size(-1); ++d) {
      const double difference = element(problem.queries, b, h, m, d) - element(problem.keys, b, g, n, d);
      sum += difference * difference;
    }
    return -sum / (2 * sigma * sigma);
  };
  return pool(problem, num_heads(problem), problem.values.size(-1), score, values_of(problem));
}

// Vaswani et al. 2017, section 3.2.2: output = W_o [head_1; ...; head_H] + b_o,
// head_h = softmax(score((W_q q + b_q)_h, (W_k k + b_k)_g)) . (W_v v + b_v)_g with g = h; g = h / (H / Hkv) where
// query heads share heads of keys and values (Ainslie et al. 2023)
Result multi_head(const MultiHeadOptions& options, const MultiHeadParameters& parameters, const Inputs& inputs,
                  const Mask& mask) {
  const Problem problem(inputs, mask);
  const Matrix queries = project_queries(problem, parameters.W_q, parameters.b_q);
  const Matrix keys = project_visible(problem, problem.keys, parameters.W_k, parameters.b_k);
  const Matrix values = project_visible(problem, problem.values, parameters.W_v, parameters.b_v);
  const std::int64_t heads = options.num_heads;
  const std::int64_t kv_heads = options.num_kv_heads != 0 ? options.num_kv_heads : heads;
  const std::int64_t head_dim = queries.columns / heads;
  const std::int64_t value_dim = values.columns / kv_heads;
  const double scale =
      options.scale ? static_cast<double>(*options.scale) : 1.0 / std::sqrt(static_cast<double>(head_dim));

  DotProducts products(scale, head_dim);
  const auto dot_score = [&](std::int64_t b, std::int64_t h, std::int64_t m, std::int64_t n) {
    const std::int64_t g = kv_head(h, heads, kv_heads);
    return products.of(
        [&](std::int64_t d) { return queries.at(b, m, h * head_dim + d) * keys.at(b, n, g * head_dim + d); });
  };
  const auto additive_score = [&](std::int64_t b, std::int64_t h, std::int64_t m, std::int64_t n) {
    double sum = 0;
    for (std::int64_t d = 0; d < head_dim; ++d) {
      const std::int64_t column = h * head_dim + d;
      const double w = *parameters.w_v.at(h, d);
      sum += w * std::tanh(queries.at(b, m, column) + keys.at(b, n, column));
    }
    return sum;
  };
  const auto head_value = [&](std::int64_t b, std::int64_t h, std::int64_t n, std::int64_t column) {
    return values.at(b, n, kv_head(h, heads, kv_heads) * value_dim + column);
  };
  const Score score = options.scoring == Scoring::kAdditive ? Score(additive_score) : Score(dot_score);
  Result result = pool(problem, heads, value_dim, score, head_value);
  if (options.scoring == Scoring::kDot) result.max_score_terms = products.largest();
  result.output = project_output(problem, concatenate_heads(problem, result.output, heads, value_dim), parameters);
  return result;
}

std::vector<double> masked_softmax(TensorView<const float> input, TensorView<const std::int32_t> valid_lens) {
  const std::int64_t heads = input.rank() == 4 ? input.size(1) : 1;
  const std::int64_t num_keys = input.size(-1);
  std::vector<double> output;
  output.reserve(static_cast<std::size_t>(input.num_elements()));
  std::vector<double> row;
  for (std::int64_t b = 0; b < input.size(0); ++b) {
    for (std::int64_t h = 0; h < heads; ++h) {
      for (std::int64_t m = 0; m < input.size(-2); ++m) {
        std::int64_t len = num_keys;
        if (!valid_lens.empty()) len = valid_lens.rank() == 1 ? *valid_lens.at(b) : *valid_lens.at(b, m);
        row.clear();
        for (std::int64_t n = 0; n < len; ++n) row.push_back(element(input, b, h, m, n));
        softmax(row);
        row.resize(static_cast<std::size_t>(num_keys), 0.0);
        output.insert(output.end(), row.begin(), row.end());
      }
    }
  }
  return output;
}

}  // namespace attend::reference
