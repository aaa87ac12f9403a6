// Threads of a loop by its work: as many as find enough of it.
#include <cstddef>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "attend/attend.h"
#include "engine/run/loop_work.h"
#include "tests/support/random.h"

namespace attend::tests {
namespace {

// Remembers how many tasks each loop had, and calls them one after another.
class Recorder final : public Executor {
 public:
  explicit Recorder(double least_seconds) : least_seconds_(least_seconds) {}
  int concurrency() const noexcept override { return 8; }
  void parallel_for(std::size_t num_tasks, TaskRef task) override {
    loops.push_back(num_tasks);
    for (std::size_t i = 0; i < num_tasks; ++i) task(i);
  }
  double least_seconds() const noexcept override { return least_seconds_; }
  std::vector<std::size_t> loops;

 private:
  double least_seconds_;
};

// Tasks of the loops of a run of a layer of two heads, planned for 4 threads.
std::vector<std::size_t> loops_of_layer(std::int64_t rows, std::int64_t size, double least_seconds) {
  Random random(3);
  const Tensor W = random.normal({size, size}), x = random.normal({1, rows, size});
  const MultiHeadAttention layer({.num_heads = 2},
                                 {.W_q = W.view(), .W_k = W.view(), .W_v = W.view(), .W_o = W.view()});
  const Plan plan = layer.plan({.num_queries = rows, .num_keys = rows}, {.threads = 4});
  Workspace workspace(plan);
  Tensor output{{1, rows, size}, std::vector<float>(static_cast<std::size_t>(rows * size))};
  Recorder recorder(least_seconds);
  plan.run({.queries = x.view()}, {.output = {output.data.data(), {1, rows, size}}}, workspace, recorder);
  return recorder.loops;
}

}  // namespace

TEST_CASE("loop work: a thread for every least_seconds of it, one at least and no more than there are") {
  const Recorder executor(2e-6);
  CHECK(detail::loop_threads(8, executor, 0) == 1);
  CHECK(detail::loop_threads(8, executor, 3.9e-6) == 1);
  CHECK(detail::loop_threads(8, executor, 4.1e-6) == 2);
  CHECK(detail::loop_threads(8, executor, 15e-6) == 7);
  CHECK(detail::loop_threads(8, executor, 1) == 8);
  CHECK(detail::loop_threads(100, executor, 1) == 8);
  CHECK(detail::loop_threads(0, executor, 1) == 1);
  CHECK(detail::loop_threads(3, executor, 1e30) == 3);
  CHECK(detail::loop_threads(8, Recorder(0), 0) == 8);
  CHECK(detail::loop_threads(8, SerialExecutor(), 1) == 1);
}

TEST_CASE("loop work: the more of operations and bytes; vectors have more of the former a second") {
  const detail::LoopWork operations{.flops = 1.2e9}, bytes{.bytes = 5e9};
  CHECK(operations.seconds(1) == doctest::Approx(0.1));
  CHECK(operations.seconds(16) == doctest::Approx(0.1 / 16));
  CHECK(bytes.seconds(16) == doctest::Approx(0.1));
  CHECK(detail::LoopWork{.flops = 1.2e9, .bytes = 1e10}.seconds(1) == doctest::Approx(0.2));
}

TEST_CASE(
    "loop work: small runs stay on the calling thread, large ones have all threads, and custom executors say so") {
  using Loops = std::vector<std::size_t>;
  const double built_in = SerialExecutor().least_seconds();
  CHECK(loops_of_layer(2, 16, built_in) == Loops{});
  CHECK(loops_of_layer(512, 64, built_in) == Loops{4, 4, 4});  // maps, heads, a map
  CHECK(loops_of_layer(2, 16, 0).size() >= 2);
}

TEST_CASE("loop work: keys that are projected by those who pool them count") {
  Random random(5);
  constexpr std::int64_t kBatch = 64, kKeys = 8, kHidden = 16;
  for (const std::int64_t key_size : {1, 512}) {
    const Tensor W_q = random.normal({kHidden, 1}), W_k = random.normal({kHidden, key_size}),
                 w_v = random.normal({kHidden});
    const AdditiveAttention layer({.W_q = W_q.view(), .W_k = W_k.view(), .w_v = w_v.view()});
    const Plan plan = layer.plan({.batch = kBatch, .num_keys = kKeys, .value_size = 1}, {.threads = 4});
    REQUIRE(plan.explain().find("at a time by the worker that pools them") != std::string::npos);
    const Tensor queries = random.normal({kBatch, 1, 1}), keys = random.normal({kBatch, kKeys, key_size}),
                 values = random.normal({kBatch, kKeys, 1});
    std::vector<float> output(kBatch);
    Workspace workspace(plan);
    // By rates, 8192 tanhs are 6 us on the slowest target, and products of 512 terms 44 on the fastest.
    Recorder recorder(1e-5);
    plan.run({.queries = queries.view(), .keys = keys.view(), .values = values.view()},
             {.output = {output.data(), {kBatch, 1, 1}}}, workspace, recorder);
    CHECK(recorder.loops.empty() == (key_size == 1));
  }
}

TEST_CASE("loop work: a softmax of few scores stays on the calling thread") {
  Random random(4);
  for (const std::int64_t rows : {64, 4096}) {
    const Tensor x = random.normal({1, rows, 64});
    std::vector<float> y(x.data.size());
    Recorder recorder(2.5e-6);
    masked_softmax(x.view(), {}, {y.data(), {1, rows, 64}}, {.executor = &recorder});
    CHECK(recorder.loops.empty() == (rows == 64));
  }
}

}  // namespace attend::tests
