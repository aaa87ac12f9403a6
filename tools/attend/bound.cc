#include "tools/attend/bound.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace attend::tools {
namespace {

constexpr double kContract = 2e-7;
constexpr double kAdditiveScores = 4e-7;
constexpr double kUnit = 0x1p-24;                            // of f32
constexpr double kDeviations = 6;                            // of a normal distribution: 2 in 10^9 lie beyond
constexpr double kOneRounding = kUnit / 1.7320508075688772;  // standard deviation, relative to what is rounded

using View = TensorView<const float>;
using Lens = TensorView<const std::int32_t>;

double square(double x) { return x * x; }
double element(const View& view, std::int64_t i, std::int64_t j) { return static_cast<double>(*view.at(i, j)); }

// Rows of batch entry b that some query sees; others must not be read.
std::int64_t visible_rows(const Lens& lens, std::int64_t b, std::int64_t num_rows) {
  if (lens.empty()) return num_rows;
  if (lens.rank() == 1) return *lens.at(b);
  std::int64_t visible = 0;
  for (std::int64_t m = 0; m < lens.size(1); ++m) visible = std::max<std::int64_t>(visible, *lens.at(b, m));
  return visible;
}

struct Projection {
  View weight, bias;
  View rows;                // (B, N, size)
  Lens lens;                // given for keys and values
  bool transposed = false;  // W^T x
};

// One projected row: W x + b, and the standard deviation of what f32 makes of it.
struct ProjectedRow {
  std::vector<double> x;
  std::vector<double> sigma;
};

void project(const Projection& p, std::int64_t b, std::int64_t n, ProjectedRow& row) {
  const std::int64_t terms = p.weight.size(p.transposed ? 0 : 1);
  for (std::size_t u = 0; u < row.x.size(); ++u) {
    const auto unit = static_cast<std::int64_t>(u);
    double sum = 0, squares = 0;
    for (std::int64_t i = 0; i < terms; ++i) {
      sum += (p.transposed ? element(p.weight, i, unit) : element(p.weight, unit, i)) *
             static_cast<double>(*p.rows.at(b, n, i));
      squares += square(sum);
    }
    if (!p.bias.empty()) sum += static_cast<double>(*p.bias.at(unit));
    row.x[u] = sum;
    row.sigma[u] = kOneRounding * std::sqrt(squares + square(sum));
  }
}

// Calls use(row) for every row that is seen and finite: bounds are stated for finite numbers.
template <class Use>
void for_each_row(const Projection& p, const Use& use) {
  const auto units = static_cast<std::size_t>(p.weight.size(p.transposed ? 1 : 0));
  ProjectedRow row{std::vector<double>(units), std::vector<double>(units)};
  for (std::int64_t b = 0; b < p.rows.size(0); ++b) {
    for (std::int64_t n = 0; n < visible_rows(p.lens, b, p.rows.size(1)); ++n) {
      project(p, b, n, row);
      if (std::all_of(row.sigma.begin(), row.sigma.end(), [](double s) { return std::isfinite(s); })) use(row);
    }
  }
}

// The largest of all rows, for each unit and for each head.
struct Largest {
  std::vector<double> x, sigma;
  std::vector<double> head_norm, head_sigma;
};

Largest largest_of(const Projection& p, std::size_t heads) {
  const auto units = static_cast<std::size_t>(p.weight.size(p.transposed ? 1 : 0));
  const std::size_t size = units / heads;
  Largest largest{std::vector<double>(units), std::vector<double>(units), std::vector<double>(heads),
                  std::vector<double>(heads)};
  for_each_row(p, [&](const ProjectedRow& row) {
    for (std::size_t h = 0; h < heads; ++h) {
      double squares = 0;
      for (std::size_t u = h * size; u < (h + 1) * size; ++u) {
        largest.x[u] = std::max(largest.x[u], std::abs(row.x[u]));
        largest.sigma[u] = std::max(largest.sigma[u], row.sigma[u]);
        largest.head_sigma[h] = std::max(largest.head_sigma[h], row.sigma[u]);
        squares += square(row.x[u]);
      }
      largest.head_norm[h] = std::max(largest.head_norm[h], std::sqrt(squares));
    }
  });
  return largest;
}

// The largest Euclidean norm of the rows that are seen.
double largest_norm(const View& rows, const Lens& lens) {
  double largest = 0;
  for (std::int64_t b = 0; b < rows.size(0); ++b) {
    for (std::int64_t n = 0; n < visible_rows(lens, b, rows.size(1)); ++n) {
      double squares = 0;
      for (std::int64_t i = 0; i < rows.size(2); ++i) squares += square(static_cast<double>(*rows.at(b, n, i)));
      if (std::isfinite(squares)) largest = std::max(largest, std::sqrt(squares));
    }
  }
  return largest;
}

double additive_slack(const View& w_v, std::size_t head, const Largest& queries, const Largest& keys) {
  const auto size = static_cast<std::size_t>(w_v.size(-1));
  double sum = 0, squares = 0;
  for (std::size_t d = 0; d < size; ++d) {
    const auto row = static_cast<std::int64_t>(head), column = static_cast<std::int64_t>(d);
    const double w = w_v.rank() == 1 ? static_cast<double>(*w_v.at(column)) : element(w_v, row, column);
    const std::size_t unit = head * size + d;
    sum += std::abs(w);
    squares += square(w) * (square(queries.sigma[unit]) + square(keys.sigma[unit]));
  }
  return kAdditiveScores * sum + kDeviations * std::sqrt(squares);
}

double bilinear_slack(const Layer& layer, const Inputs& in, const View& keys) {
  const View W = BilinearParameters::from(*layer.parameters).W;
  const Largest key_side = largest_of({.weight = W, .bias = {}, .rows = keys, .lens = in.valid_lens}, 1);
  const Largest query_side =
      largest_of({.weight = W, .bias = {}, .rows = in.queries, .lens = {}, .transposed = true}, 1);
  return kDeviations * std::abs(static_cast<double>(layer.bilinear.scale)) *
         std::max(largest_norm(in.queries, {}) * key_side.head_sigma[0],
                  largest_norm(keys, in.valid_lens) * query_side.head_sigma[0]);
}

std::vector<double> head_slacks(const MultiHeadOptions& options, const MultiHeadParameters& p, const Largest& queries,
                                const Largest& keys) {
  const auto heads = static_cast<std::size_t>(options.num_heads);
  const auto size = static_cast<double>(queries.x.size() / heads);
  const double scale = options.scale ? std::abs(static_cast<double>(*options.scale)) : 1 / std::sqrt(size);
  std::vector<double> slacks(heads);
  for (std::size_t h = 0; h < heads; ++h) {
    slacks[h] = options.scoring == Scoring::kAdditive ? additive_slack(p.w_v, h, queries, keys)
                                                      : kDeviations * scale *
                                                            std::hypot(queries.head_sigma[h] * keys.head_norm[h],
                                                                       queries.head_norm[h] * keys.head_sigma[h]);
  }
  return slacks;
}

// max |(W_o,h v_h)[i]| for each head and output i, head by head.
std::vector<double> mapped_values(const Projection& values, const View& W_o, std::size_t heads) {
  const auto outputs = static_cast<std::size_t>(W_o.size(0));
  const std::size_t size = static_cast<std::size_t>(W_o.size(1)) / heads;
  std::vector<double> largest(heads * outputs);
  for_each_row(values, [&](const ProjectedRow& row) {
    for (std::size_t at = 0; at < largest.size(); ++at) {
      const std::size_t h = at / outputs, i = at % outputs;
      double sum = 0;
      for (std::size_t j = h * size; j < (h + 1) * size; ++j) {
        sum += element(W_o, static_cast<std::int64_t>(i), static_cast<std::int64_t>(j)) * row.x[j];
      }
      largest[at] = std::max(largest[at], std::abs(sum));
    }
  });
  return largest;
}

// pooled: P + e of each head.
double multi_head_output(const MultiHeadParameters& p, const Projection& values, const std::vector<double>& pooled) {
  const Largest v = largest_of(values, 1);
  const std::vector<double> mapped = mapped_values(values, p.W_o, pooled.size());
  const auto outputs = static_cast<std::size_t>(p.W_o.size(0));
  const double product = 4 * kContract + kDeviations * kOneRounding * std::sqrt(static_cast<double>(v.x.size()));
  double largest = 0;
  for (std::size_t i = 0; i < outputs; ++i) {
    const auto row = static_cast<std::int64_t>(i);
    double from_values = 0, magnitude = 0;
    for (std::size_t j = 0; j < v.x.size(); ++j) {
      const double w = element(p.W_o, row, static_cast<std::int64_t>(j));
      from_values += square(w * v.sigma[j]);
      magnitude += square(w * v.x[j]);
    }
    double bound = kDeviations * std::sqrt(from_values) + product * std::sqrt(magnitude);
    if (!p.b_o.empty()) bound += 2 * kUnit * std::abs(static_cast<double>(*p.b_o.at(row)));
    for (std::size_t h = 0; h < pooled.size(); ++h) bound += pooled[h] * mapped[h * outputs + i];
    largest = std::max(largest, bound);
  }
  return largest;
}

Bound multi_head_bound(const Layer& layer, const Inputs& in, const View& keys, const View& values, double contract) {
  const MultiHeadParameters p = MultiHeadParameters::from(*layer.parameters);
  const auto heads = static_cast<std::size_t>(layer.multi_head.num_heads);
  const Largest q = largest_of({.weight = p.W_q, .bias = p.b_q, .rows = in.queries, .lens = {}}, heads);
  const Largest k = largest_of({.weight = p.W_k, .bias = p.b_k, .rows = keys, .lens = in.valid_lens}, heads);
  std::vector<double> pooled = head_slacks(layer.multi_head, p, q, k);
  Bound bound;
  bound.score_slack = *std::max_element(pooled.begin(), pooled.end());
  bound.attention_weights = contract + bound.score_slack;
  for (double& slack : pooled) slack += contract;
  bound.output = multi_head_output(p, {.weight = p.W_v, .bias = p.b_v, .rows = values, .lens = in.valid_lens}, pooled);
  return bound;
}

}  // namespace

Bound bound_of(const Layer& layer, const Inputs& in, const reference::Result& truth) {
  const View keys = in.keys.empty() ? in.queries : in.keys;
  const View values = in.values.empty() ? keys : in.values;
  const double contract = kContract * (4 + truth.max_abs_score);
  if (layer.kind == LayerKind::kMultiHead) return multi_head_bound(layer, in, keys, values, contract);
  Bound bound;
  if (layer.kind == LayerKind::kAdditive) {
    const AdditiveParameters p = AdditiveParameters::from(*layer.parameters);
    const Largest q = largest_of({.weight = p.W_q, .bias = p.b_q, .rows = in.queries, .lens = {}}, 1);
    const Largest k = largest_of({.weight = p.W_k, .bias = p.b_k, .rows = keys, .lens = in.valid_lens}, 1);
    bound.score_slack = additive_slack(p.w_v, 0, q, k);
  } else if (layer.kind == LayerKind::kBilinear) {
    bound.score_slack = bilinear_slack(layer, in, keys);
  }
  bound.attention_weights = contract + bound.score_slack;
  bound.output = bound.attention_weights * truth.max_abs_value;
  return bound;
}

}  // namespace attend::tools
