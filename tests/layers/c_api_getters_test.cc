// The C API, what can be asked for: of plans, executors and the library, the same as in C++.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include <doctest/doctest.h>

#include "attend/attend.h"
#include "attend/attend_c.h"
#include "tests/layers/c_api_support.h"
#include "tests/support/layer_cases.h"

namespace attend::tests {

TEST_CASE("C API: shape, heads of the weights, path, candidates and threads of plans") {
  for (const Layer layer : kAllLayers) {
    for (const bool shared : {false, true}) {
      INFO(layer_name(layer), ", shared heads ", shared);
      const bool shares =
          shared && (layer == Layer::kDotHeads || layer == Layer::kGaussianHeads || layer == Layer::kMultiHead);
      const LayerCase c({.layer = layer, .num_kv_heads = shares ? 1 : 0});
      attend_plan_options options{};
      options.threads = shared ? 0 : 5;
      const Both both(c, {.threads = shared ? 1 : 5}, &options);
      const attend_plan* const plan = both.plan.get();

      // Sizes that the shape leaves to the layer are filled in.
      attend_shape sparse = c_shape(c.shape);
      if (!c.without_parameters()) sparse.query_size = sparse.key_size = 0;
      if (c.multi_head()) sparse.value_size = 0;
      const PlanHandle filled = make<PlanHandle>(attend_plan_create, both.layer.get(), &sparse, nullptr);
      for (const attend_plan* each : {plan, static_cast<const attend_plan*>(filled.get())}) {
        attend_shape shape{};
        CHECK(attend_plan_shape(each, &shape, nullptr) == ATTEND_OK);
        const Shape& truth = both.cpp.shape();
        CHECK(shape.batch == truth.batch);
        CHECK(shape.num_queries == truth.num_queries);
        CHECK(shape.num_keys == truth.num_keys);
        CHECK(shape.query_size == truth.query_size);
        CHECK(shape.key_size == truth.key_size);
        CHECK(shape.value_size == truth.value_size);
        CHECK(shape.num_heads == truth.num_heads);
        CHECK(shape.num_kv_heads == truth.num_kv_heads);
        CHECK(shape.query_size == c.spec.size);
        CHECK(shape.value_size == c.value_size());
        CHECK(shape.num_heads == c.view_heads());
        CHECK(shape.num_kv_heads == (shares && c.on_heads() ? 1 : c.view_heads()));
      }
      std::int64_t heads = -1;
      CHECK(attend_plan_weight_heads(plan, &heads, nullptr) == ATTEND_OK);
      CHECK(heads == both.cpp.weight_heads());
      CHECK(heads == (c.on_heads() || c.multi_head() ? 3 : 0));
      std::int32_t threads = -1;
      CHECK(attend_plan_threads(plan, &threads, nullptr) == ATTEND_OK);
      CHECK(threads == (shared ? 1 : 5));
      CHECK(attend_plan_threads(filled.get(), &threads, nullptr) == ATTEND_OK);
      CHECK(threads == 1);

      CHECK(text_of([&](char* buffer, std::size_t capacity, std::size_t* length) {
              return attend_plan_path(plan, buffer, capacity, length, nullptr);
            }) == both.cpp.path());
      const std::span<const std::string> candidates = both.cpp.candidates();
      std::size_t count = 0;
      REQUIRE(attend_plan_candidate_count(plan, &count, nullptr) == ATTEND_OK);
      REQUIRE(count == candidates.size());
      for (std::size_t i = 0; i < count; ++i) {
        CHECK(text_of([&](char* buffer, std::size_t capacity, std::size_t* length) {
                return attend_plan_candidate_name(plan, i, buffer, capacity, length, nullptr);
              }) == candidates[i]);
        // What is listed is what the option takes.
        const attend_shape shape = c_shape(c.shape);
        attend_plan_options asked{};
        asked.path = candidates[i].c_str();
        const PlanHandle other = make<PlanHandle>(attend_plan_create, both.layer.get(), &shape, &asked);
      }
      Said said;
      char buffer[8] = "same";
      CHECK(attend_plan_candidate_name(plan, count, buffer, sizeof buffer, nullptr, &said.error) ==
            ATTEND_ERROR_INVALID);
      CHECK(said.message() == "index is " + std::to_string(count) + ", expected 0 to " + std::to_string(count - 1));
      CHECK(std::string(buffer) == "same");
    }
  }
}

TEST_CASE("C API: executors say how many tasks run at once") {
  std::int32_t concurrency = -1;
  for (const std::int32_t threads : {1, 3}) {
    const ExecutorHandle pool = make<ExecutorHandle>(attend_executor_create, threads);
    CHECK(attend_executor_concurrency(pool.get(), &concurrency, nullptr) == ATTEND_OK);
    CHECK(concurrency == threads);
  }
  const ExecutorHandle all = make<ExecutorHandle>(attend_executor_create, 0);
  CHECK(attend_executor_concurrency(all.get(), &concurrency, nullptr) == ATTEND_OK);
  CHECK(concurrency == ThreadPool::available_threads());
  OwnPool own;
  const attend_executor_callbacks callbacks = own.callbacks();
  const ExecutorHandle lent = make<ExecutorHandle>(attend_executor_create_from_callbacks, &callbacks);
  for (const int of_caller : {4, -7}) {
    own.concurrency = of_caller;
    CHECK(attend_executor_concurrency(lent.get(), &concurrency, nullptr) == ATTEND_OK);
    CHECK(concurrency == std::max(of_caller, 1));
  }
}

TEST_CASE("C API: the version is the library's") {
  REQUIRE(attend_version() != nullptr);
  CHECK(std::string(attend_version()) == version());
  CHECK(attend_version() == attend_version());
}

}  // namespace attend::tests
