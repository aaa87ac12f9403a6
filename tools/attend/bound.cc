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
using Counts = std::vector<std::int64_t>;  // rows of each batch entry, the first so many

double square(double x) { return x * x; }
double element(const View& view, std::int64_t i, std::int64_t j) { return static_cast<double>(*view.at(i, j)); }

// The rows that take part; others must not be read.
struct Counted {
  Counts queries;  // that are computed
  Counts keys;     // that some query sees
};

// Keys that a query sees; where none, also less than 0.
std::int64_t seen_by(const Inputs& in, const reference::Mask& mask, std::int64_t b, std::int64_t m, std::int64_t n) {
  std::int64_t seen = n;
  if (!in.valid_lens.empty()) seen = in.valid_lens.rank() == 1 ? *in.valid_lens.at(b) : *in.valid_lens.at(b, m);
  if (mask.causal == Causal::kTopLeft) seen = std::min(seen, m + 1);
  if (mask.causal == Causal::kBottomRight) seen = std::min(seen, n - in.queries.size(-2) + m + 1);
  return seen;
}

Counted counted_of(const Inputs& in, const reference::Mask& mask) {
  const std::int64_t num_queries = in.queries.size(-2);
  const std::int64_t num_keys = (in.keys.empty() ? in.queries : in.keys).size(-2);
  const bool may_skip = mask.padding == Padding::kSkipQueries && !in.valid_lens.empty();
  Counted counted;
  for (std::int64_t b = 0; b < in.queries.size(0); ++b) {
    const std::int64_t computed = may_skip ? std::min<std::int64_t>(num_queries, *in.valid_lens.at(b)) : num_queries;
    std::int64_t seen = 0;
    for (std::int64_t m = 0; m < computed; ++m) seen = std::max(seen, seen_by(in, mask, b, m, num_keys));
    counted.queries.push_back(computed);
    counted.keys.push_back(seen);
  }
  return counted;
}

struct Projection {
  View weight, bias;
  View rows;                // (B, N, size)
  const Counts& counts;     // of those
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
    if (!p.bias.empty()) {
      sum += static_cast<double>(*p.bias.at(unit));
      squares += square(sum);
    }
    row.x[u] = sum;
    row.sigma[u] = kOneRounding * std::sqrt(squares);
  }
}

// Calls use(row) for every row that takes part and is finite: bounds are stated for finite numbers.
template <class Use>
void for_each_row(const Projection& p, const Use& use) {
  const auto units = static_cast<std::size_t>(p.weight.size(p.transposed ? 1 : 0));
  ProjectedRow row{std::vector<double>(units), std::vector<double>(units)};
  for (std::int64_t b = 0; b < p.rows.size(0); ++b) {
    for (std::int64_t n = 0; n < p.counts[static_cast<std::size_t>(b)]; ++n) {
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

// The largest Euclidean norm of the rows that take part.
double largest_norm(const View& rows, const Counts& counts) {
  double largest = 0;
  for (std::int64_t b = 0; b < rows.size(0); ++b) {
    for (std::int64_t n = 0; n < counts[static_cast<std::size_t>(b)]; ++n) {
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

double bilinear_slack(const Layer& layer, const View& queries, const View& keys, const Counted& counted) {
  const View W = BilinearParameters::from(*layer.parameters).W;
  const Largest key_side = largest_of({.weight = W, .bias = {}, .rows = keys, .counts = counted.keys}, 1);
  const Largest query_side =
      largest_of({.weight = W, .bias = {}, .rows = queries, .counts = counted.queries, .transposed = true}, 1);
  return kDeviations * std::abs(static_cast<double>(layer.bilinear.scale)) *
         std::max(largest_norm(queries, counted.queries) * key_side.head_sigma[0],
                  largest_norm(keys, counted.keys) * query_side.head_sigma[0]);
}

std::vector<double> head_slacks(const MultiHeadOptions& options, const MultiHeadParameters& p, const Largest& queries,
                                const Largest& keys) {
  const auto heads = static_cast<std::size_t>(options.num_heads);
  const auto size = static_cast<double>(queries.x.size() / heads);
  const double scale = options.scale ? std::abs(static_cast<double>(*options.scale)) : 1 / std::sqrt(size);
  const std::size_t group = heads / keys.head_norm.size();
  std::vector<double> slacks(heads);
  for (std::size_t h = 0; h < heads; ++h) {
    const std::size_t g = h / group;
    slacks[h] = options.scoring == Scoring::kAdditive ? additive_slack(p.w_v, h, queries, keys)
                                                      : kDeviations * scale *
                                                            std::hypot(queries.head_sigma[h] * keys.head_norm[g],
                                                                       queries.head_norm[h] * keys.head_sigma[g]);
  }
  return slacks;
}

// The unit of W_v that column j of W_o maps: heads of values serve as many heads of W_o in a row.
std::size_t value_unit(std::size_t j, std::size_t size, std::size_t group) {
  return j / size / group * size + j % size;
}

// max |(W_o,h v_h)[i]| for each head and output i, head by head.
std::vector<double> mapped_values(const Projection& values, const View& W_o, std::size_t heads) {
  const auto outputs = static_cast<std::size_t>(W_o.size(0));
  const std::size_t size = static_cast<std::size_t>(W_o.size(1)) / heads;
  const std::size_t group = static_cast<std::size_t>(W_o.size(1) / values.weight.size(0));
  std::vector<double> largest(heads * outputs);
  for_each_row(values, [&](const ProjectedRow& row) {
    for (std::size_t at = 0; at < largest.size(); ++at) {
      const std::size_t h = at / outputs, i = at % outputs;
      double sum = 0;
      for (std::size_t j = h * size; j < (h + 1) * size; ++j) {
        sum += element(W_o, static_cast<std::int64_t>(i), static_cast<std::int64_t>(j)) *
               row.x[value_unit(j, size, group)];
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
  const auto outputs = static_cast<std::size_t>(p.W_o.size(0)), terms = static_cast<std::size_t>(p.W_o.size(1));
  const std::size_t size = terms / pooled.size(), group = terms / v.x.size();
  const double product = 4 * kContract + kDeviations * kOneRounding * std::sqrt(static_cast<double>(terms));
  double largest = 0;
  for (std::size_t i = 0; i < outputs; ++i) {
    const auto row = static_cast<std::int64_t>(i);
    std::vector<double> shares(v.x.size());  // of each unit of W_v: heads that share it share its rounding
    double from_values = 0, magnitude = 0;
    for (std::size_t j = 0; j < terms; ++j) {
      const double w = element(p.W_o, row, static_cast<std::int64_t>(j));
      const std::size_t unit = value_unit(j, size, group);
      shares[unit] += std::abs(w);
      magnitude += square(w * v.x[unit]);
    }
    for (std::size_t unit = 0; unit < shares.size(); ++unit) from_values += square(shares[unit] * v.sigma[unit]);
    double bound = kDeviations * std::sqrt(from_values) + product * std::sqrt(magnitude);
    if (!p.b_o.empty()) bound += 2 * kUnit * std::abs(static_cast<double>(*p.b_o.at(row)));
    for (std::size_t h = 0; h < pooled.size(); ++h) bound += pooled[h] * mapped[h * outputs + i];
    largest = std::max(largest, bound);
  }
  return largest;
}

Bound multi_head_bound(const Layer& layer, const View& queries, const View& keys, const View& values,
                       const Counted& counted, double contract) {
  const MultiHeadParameters p = MultiHeadParameters::from(*layer.parameters);
  const MultiHeadOptions& options = layer.multi_head;
  const auto heads = static_cast<std::size_t>(options.num_heads);
  const auto kv_heads = options.num_kv_heads != 0 ? static_cast<std::size_t>(options.num_kv_heads) : heads;
  const Largest q = largest_of({.weight = p.W_q, .bias = p.b_q, .rows = queries, .counts = counted.queries}, heads);
  const Largest k = largest_of({.weight = p.W_k, .bias = p.b_k, .rows = keys, .counts = counted.keys}, kv_heads);
  std::vector<double> pooled = head_slacks(options, p, q, k);
  Bound bound;
  bound.score_slack = *std::max_element(pooled.begin(), pooled.end());
  bound.attention_weights = contract + bound.score_slack;
  for (double& slack : pooled) slack += contract;
  bound.output = multi_head_output(p, {.weight = p.W_v, .bias = p.b_v, .rows = values, .counts = counted.keys}, pooled);
  return bound;
}

}  // namespace

Bound bound_of(const Layer& layer, const Inputs& in, const reference::Mask& mask, const reference::Result& truth) {
  const View keys = in.keys.empty() ? in.queries : in.keys;
  const View values = in.values.empty() ? keys : in.values;
  const Counted counted = counted_of(in, mask);
  const double contract = kContract * (4 + truth.max_score_terms);
  if (layer.kind == LayerKind::kMultiHead) {
    return multi_head_bound(layer, in.queries, keys, values, counted, contract);
  }
  Bound bound;
  if (layer.kind == LayerKind::kAdditive) {
    const AdditiveParameters p = AdditiveParameters::from(*layer.parameters);
    const Largest q = largest_of({.weight = p.W_q, .bias = p.b_q, .rows = in.queries, .counts = counted.queries}, 1);
    const Largest k = largest_of({.weight = p.W_k, .bias = p.b_k, .rows = keys, .counts = counted.keys}, 1);
    bound.score_slack = additive_slack(p.w_v, 0, q, k);
  } else if (layer.kind == LayerKind::kBilinear) {
    bound.score_slack = bilinear_slack(layer, in.queries, keys, counted);
  }
  bound.attention_weights = contract + bound.score_slack;
  bound.output = bound.attention_weights * truth.max_abs_value;
  return bound;
}

}  // namespace attend::tools
