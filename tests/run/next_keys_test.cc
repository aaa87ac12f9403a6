// Which keys and values a worker that scores additively is said to want next. Prefetching changes no result, so nothing
// else would notice wrong ones.
#include "engine/run/next_keys.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include <doctest/doctest.h>

#include "attend/target.h"
#include "attend/tensor_view.h"
#include "engine/kernels/kernel_set.h"
#include "engine/matmul/linear.h"
#include "engine/plan/layer.h"
#include "engine/run/value_spans.h"
#include "tests/run/pool_problem.h"

namespace attend::tests {
namespace {

using detail::NextKeys;
using detail::ValueSpans;

// Additive, 2 entries of 2 heads; 16 keys at a time, exponentials of 5 hidden units.
struct Problem : PoolProblem {
  explicit Problem(std::ptrdiff_t heads = 2)
      : PoolProblem(heads, heads, 40, true), kernels(kernels::kernel_set(Target::best().id())), exps(2 * 2 * 64 * 5) {
    auto layer = std::make_shared<detail::LayerImpl>();
    layer->score = detail::Score::kAdditive;
    plan.layer = layer;
    plan.kernels = &kernels;
    plan.factored = true;
    plan.inner_size = 5;
    plan.span_keys = plan.tile_keys = 16;
    plan.key_capacity = 64;
    plan.padded_values = kernels.pack.panel_width;
    job.packed = {.plan = &plan, .key_exps = exps.data(), .capacity = 64};
  }
  // Workers project keys instead, so many at a time.
  void project(std::size_t window) {
    const std::vector<float> weights(5 * 8, 1.0f);
    map.emplace(TensorView<const float>(weights.data(), {5, 8}), TensorView<const float>(), "W_k");
    job.packed = {};
    job.key_job = {};
    job.key_job.map = &*map;
    job.key_job.source = job.keys;
    plan.window_keys = window;
  }
  ValueSpans head(std::int64_t b, std::int64_t h) { return {{job, b, h, 0, 30}, worker}; }
  const float* exps_at(std::size_t head, std::size_t key) const { return exps.data() + (head * 64 + key) * 5; }

  const kernels::KernelSet& kernels;
  std::vector<float> exps;
  std::optional<matmul::Linear> map;
  alignas(64) std::byte worker[16 * 1024];
};

constexpr detail::TilesItem kFirst{.first_head = 0, .last_head = 1, .head_range = 0, .range = 0, .chunk = 0};

}  // namespace

TEST_CASE("next keys: values of the keys at work, then the exponentials after them, at last the next head's") {
  Problem problem;
  NextKeys next(problem.job);
  const ValueSpans values = problem.head(0, 0);
  next.set_current_head(kFirst, 0, 1);
  next.set_current_keys(values, 0, 16, 30, true);
  check_rows(next.rows()[0], problem.values.data(), 32, 16, 16);
  check_rows(next.rows()[1], problem.exps_at(0, 16), 0, 1, 14 * 5);
  next.set_current_keys(values, 16, 30, 30, false);
  check_rows(next.rows()[0], problem.values.data() + 16 * 32, 32, 14, 16);
  CHECK(next.rows()[1].num_rows == 0);
  next.set_current_keys(values, 16, 30, 30, true);
  check_rows(next.rows()[1], problem.exps_at(1, 0), 0, 1, 16 * 5);
  next.set_current_head({1, 2, 0, 0, 0}, 1, 2);  // entry 1, whose keys are 20
  next.set_current_keys(problem.head(0, 1), 0, 30, 30, true);
  check_rows(next.rows()[0], problem.values.data() + 16, 32, 30, 16);
  check_rows(next.rows()[1], problem.exps_at(2, 0), 0, 1, 16 * 5);
  next.set_current_head({3, 4, 0, 0, 0}, 3, 4);  // there are four
  next.set_current_keys(problem.head(1, 1), 0, 20, 20, true);
  CHECK(next.rows()[1].num_rows == 0);
}

TEST_CASE("next keys: all values with the first tile of queries, the rest shared out evenly") {
  Problem problem;
  NextKeys next(problem.job);
  CHECK(next.num_lines(3) == 0);
  next.set_current_head(kFirst, 0, 1);
  next.set_current_keys(problem.head(0, 0), 0, 16, 30, true);
  CHECK(next.num_lines(1) == 16 + 5);  // 16 rows of a line, 14 x 5 floats
  CHECK(next.num_lines(2) == 16);
  next.rows()[0] = {};
  next.rows()[1].done = 16;
  CHECK(next.num_lines(3) == 2);
}

TEST_CASE("next keys: other ranges of the same head's queries have its keys already; another chunk has not") {
  Problem problem;
  problem.plan.query_ranges = 2;
  NextKeys next(problem.job);
  const ValueSpans values = problem.head(0, 0);
  next.set_current_head(kFirst, 0, 1);
  next.set_current_keys(values, 0, 30, 30, true);
  CHECK(next.rows()[1].num_rows == 0);
  next.set_current_head(kFirst, 0, 2);
  next.set_current_keys(values, 0, 30, 30, true);
  check_rows(next.rows()[1], problem.exps_at(1, 0), 0, 1, 16 * 5);
  problem.plan.query_ranges = 1;
  problem.plan.chunk_keys = 16;
  next.set_current_head(kFirst, 0, 1);
  next.set_current_keys(values, 0, 16, 16, true);
  check_rows(next.rows()[1], problem.exps_at(0, 16), 0, 1, 14 * 5);
}

TEST_CASE("next keys: rows to be projected, where workers do that: a window's, or the next item's") {
  Problem problem(1);
  problem.project(16);
  NextKeys next(problem.job);
  const ValueSpans values = problem.head(0, 0);
  next.set_current_head(kFirst, 0, 1);
  next.set_current_keys(values, 0, 16, 30, true);
  check_rows(next.rows()[1], problem.keys.data() + 16 * 8, 8, 14, 8);
  next.set_current_keys(values, 16, 30, 30, true);
  check_rows(next.rows()[1], problem.keys.data() + 30 * 8, 8, 16, 8);
  problem.project(64);  // the whole entry: its other keys are there
  next.set_current_keys(values, 0, 16, 30, true);
  CHECK(next.rows()[1].num_rows == 0);
  next.set_current_head(kFirst, 0, 1);
  next.set_current_keys(values, 16, 30, 30, true);
  check_rows(next.rows()[1], problem.keys.data() + 30 * 8, 8, 20, 8);
  next.set_current_head({0, 2, 0, 0, 0}, 0, 1);  // and those of the item's other entries
  next.set_current_keys(values, 16, 30, 30, true);
  CHECK(next.rows()[1].num_rows == 0);
}

TEST_CASE("next keys: values that a group of queries has packed are there for the next one") {
  Problem problem;
  problem.plan.head_value_size = 15;  // never used where they lie
  problem.plan.span_keys = 16;
  ValueSpans values = problem.head(0, 0);
  NextKeys next(problem.job);
  next.set_current_keys(values, 0, 16, 30, false);
  check_rows(next.rows()[0], problem.values.data(), 32, 16, 15);
  values.values(0);
  next.set_current_keys(values, 0, 16, 30, false);
  CHECK(next.rows()[0].num_rows == 0);
  next.set_current_keys(values, 16, 30, 30, false);
  check_rows(next.rows()[0], problem.values.data() + 16 * 32, 32, 14, 15);
}

TEST_CASE("next keys: prepared values are panels; other scores than by exponentials want none") {
  Problem problem;
  const std::size_t panel = problem.kernels.pack.panel_width;
  std::vector<float> panels(4 * 64 * panel);
  problem.job.packed.value_panels = panels.data();
  NextKeys next(problem.job);
  next.set_current_keys(problem.head(0, 1), 16, 30, 30, true);
  check_rows(next.rows()[0], panels.data() + (64 + 16) * panel, static_cast<std::ptrdiff_t>(64 * panel), 1, 14 * panel);
  problem.plan.factored = false;
  NextKeys none(problem.job);
  none.set_current_head(kFirst, 0, 1);
  none.set_current_keys(problem.head(0, 0), 0, 16, 30, true);
  CHECK(none.rows()[0].num_rows + none.rows()[1].num_rows == 0);
}

}  // namespace attend::tests
