#include "tools/attend/finding.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <limits>
#include <utility>
#include <vector>

namespace attend::tools {
namespace {

// Two NaN agree; a NaN and a number are infinitely far apart.
double distance(float found, double expected) {
  const auto value = static_cast<double>(found);
  if (value == expected || (std::isnan(value) && std::isnan(expected))) return 0;
  const double difference = std::abs(value - expected);
  return std::isnan(difference) ? std::numeric_limits<double>::infinity() : difference;
}

double max_error(const std::vector<float>& found, const std::vector<double>& expected) {
  double largest = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) largest = std::max(largest, distance(found[i], expected[i]));
  return largest;
}

// The truth has context columns; with concat_queries, the columns beyond are the queries, bit for bit, or 0 where they
// are skipped.
double max_output_error(const Tensor& output, const std::vector<double>& truth, const Data& data,
                        const PlanOptions& options) {
  if (!options.concat_queries) return max_error(output.data, truth);
  const Tensor& queries = data.queries;
  const auto columns = static_cast<std::size_t>(output.sizes.back());
  const auto query_size = static_cast<std::size_t>(queries.sizes.back());
  const std::size_t context = columns - query_size;
  const std::size_t rows = columns == 0 ? 0 : output.data.size() / columns;
  const auto num_queries = static_cast<std::size_t>(queries.sizes[queries.sizes.size() - 2]);
  const std::size_t rows_of_entry = rows == 0 ? 0 : rows / static_cast<std::size_t>(queries.sizes[0]);
  const bool may_skip = options.padding == Padding::kSkipQueries && !data.valid_lens.sizes.empty();
  double largest = 0;
  for (std::size_t row = 0; row < rows; ++row) {
    const bool skipped =
        may_skip && row % num_queries >= static_cast<std::size_t>(data.valid_lens.data[row / rows_of_entry]);
    for (std::size_t i = 0; i < columns; ++i) {
      const double query =
          i < context || skipped ? 0 : static_cast<double>(queries.data[row * query_size + i - context]);
      const double expected = i < context ? truth[row * context + i] : query;
      largest = std::max(largest, distance(output.data[row * columns + i], expected));
    }
  }
  return largest;
}

bool same_bits(const Tensor& a, const Tensor& b) {
  return a.sizes == b.sizes &&
         (a.data.empty() || std::memcmp(a.data.data(), b.data.data(), a.data.size() * sizeof(float)) == 0);
}

}  // namespace

bool Finding::holds(const Bound& bound) const {
  return same_bits && output_error <= bound.output && weights_error <= bound.attention_weights;
}

Finding find_errors(const RunOnce& run, PlanOptions options, const Data& data, const reference::Result& truth) {
  const int threads = options.threads;
  Finding finding;
  for (const bool with_weights : {false, true}) {
    options.attention_weights = with_weights;
    options.threads = 1;
    CheckedRun alone = run(options);
    const double error = max_output_error(alone.results.output, truth.output, data, options);
    finding.output_error = std::max(finding.output_error, error);
    if (with_weights) {
      finding.weights_error = max_error(alone.results.attention_weights.data, truth.attention_weights);
    }
    if (finding.paths != alone.path) finding.paths += (finding.paths.empty() ? "" : ", with weights ") + alone.path;
    if (threads > 1) {
      options.threads = threads;
      const CheckedRun together = run(options);
      finding.same_bits = finding.same_bits && same_bits(alone.results.output, together.results.output) &&
                          same_bits(alone.results.attention_weights, together.results.attention_weights);
    }
    finding.results = std::move(alone.results);
  }
  return finding;
}

}  // namespace attend::tools
