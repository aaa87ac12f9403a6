// The data that tune and measure run on: of the sizes, heads and lengths that the plan is for.
#include "engine/tune/made_up_problem.h"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include <doctest/doctest.h>

#include "engine/plan/planner.h"

namespace attend::tests {
namespace {

using detail::MadeUpProblem;
using Sizes = std::vector<std::int64_t>;
constexpr HeadLayout kSideBySide = HeadLayout::kSideBySide;

std::shared_ptr<const detail::PlanImpl> dot_plan(const Shape& shape, const PlanOptions& options) {
  auto layer = std::make_shared<detail::LayerImpl>();
  layer->name = "dot";
  return detail::make_plan(layer, shape, options);
}

template <class View>
Sizes sizes_of(const View& view) {
  return {view.sizes().begin(), view.sizes().end()};
}

template <class View>
Sizes strides_of(const View& view) {
  return {view.strides().begin(), view.strides().end()};
}

}  // namespace

TEST_CASE("made-up problem: lengths are uniform in 1 to N, of entries or of queries as the plan promises") {
  const Shape shape{.batch = 300, .num_queries = 4, .num_keys = 5, .query_size = 2};
  const struct {
    ValidLens lens;
    Padding padding;
    Sizes sizes;
  } kCases[] = {{ValidLens::kPerBatch, Padding::kCompute, {300}},
                {ValidLens::kPerBatch, Padding::kSkipQueries, {300}},
                {ValidLens::kPerQuery, Padding::kCompute, {300, 4}},
                {ValidLens::kPerQuery, Padding::kSkipQueries, {300}}};
  for (const auto& c : kCases) {
    const MadeUpProblem problem(*dot_plan(shape, {.valid_lens = c.lens, .padding = c.padding}), kSideBySide);
    const TensorView<const std::int32_t> lens = problem.inputs().valid_lens;
    REQUIRE(sizes_of(lens) == c.sizes);
    const auto count = static_cast<std::size_t>(c.sizes.size() == 2 ? 1200 : 300);
    std::vector<std::size_t> times(7, 0);
    for (std::size_t i = 0; i < count; ++i) ++times.at(static_cast<std::size_t>(lens.data()[i]));
    CHECK(times.front() == 0);
    CHECK(times.back() == 0);
    // A fifth each, within 5 standard deviations.
    const double expected = static_cast<double>(count) / 5, deviation = std::sqrt(expected * 0.8);
    for (std::size_t len = 1; len <= 5; ++len) {
      CHECK(std::abs(static_cast<double>(times[len]) - expected) < 5 * deviation);
    }
  }
  for (const ValidLens none : {ValidLens::kAny, ValidLens::kNone}) {
    CHECK(MadeUpProblem(*dot_plan(shape, {.valid_lens = none}), kSideBySide).inputs().valid_lens.empty());
  }
  const Shape no_keys{.batch = 2, .num_queries = 4, .num_keys = 0, .query_size = 2};
  const MadeUpProblem empty(*dot_plan(no_keys, {.valid_lens = ValidLens::kPerBatch}), kSideBySide);
  CHECK(empty.inputs().valid_lens.data()[0] == 0);
}

TEST_CASE("made-up problem: rows are normally distributed, heads lie as asked for") {
  const Shape shape{.batch = 3,
                    .num_queries = 50,
                    .num_keys = 60,
                    .query_size = 8,
                    .value_size = 5,
                    .num_heads = 4,
                    .num_kv_heads = 2};
  const struct {
    HeadLayout layout;
    Sizes queries, keys, values, output;  // strides
  } kCases[] = {{HeadLayout::kSideBySide, {1600, 8, 32, 1}, {960, 8, 16, 1}, {600, 5, 10, 1}, {1000, 5, 20, 1}},
                {HeadLayout::kApart, {1600, 400, 8, 1}, {960, 480, 8, 1}, {600, 300, 5, 1}, {1000, 250, 5, 1}}};
  for (const auto& c : kCases) {
    MadeUpProblem problem(*dot_plan(shape, {.attention_weights = true}), c.layout);
    const Inputs in = problem.inputs();
    const Outputs out = problem.outputs();
    CHECK(sizes_of(in.queries) == Sizes{3, 4, 50, 8});
    CHECK(strides_of(in.queries) == c.queries);
    CHECK(sizes_of(in.keys) == Sizes{3, 2, 60, 8});
    CHECK(strides_of(in.keys) == c.keys);
    CHECK(sizes_of(in.values) == Sizes{3, 2, 60, 5});
    CHECK(strides_of(in.values) == c.values);
    CHECK(sizes_of(out.output) == Sizes{3, 4, 50, 5});
    CHECK(strides_of(out.output) == c.output);
    CHECK(sizes_of(out.attention_weights) == Sizes{3, 4, 50, 60});
    double sum = 0, squares = 0;
    const std::size_t count = 3 * 50 * 32;
    for (std::size_t i = 0; i < count; ++i) {
      const auto x = static_cast<double>(in.queries.data()[i]);
      sum += x;
      squares += x * x;
    }
    CHECK(std::abs(sum / count) < 0.1);
    CHECK(squares / count == doctest::Approx(1).epsilon(0.1));
  }
}

}  // namespace attend::tests
