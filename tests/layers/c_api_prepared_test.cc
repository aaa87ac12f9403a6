// The C API, prepared keys: the bits and the sizes of the C++ ones, of prepare and append and of runs.
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "attend/attend.h"
#include "attend/attend_c.h"
#include "tests/layers/c_api_prepared_support.h"
#include "tests/layers/c_api_support.h"
#include "tests/support/compare.h"
#include "tests/support/for_each_target.h"
#include "tests/support/layer_cases.h"
#include "tests/support/random.h"
#include "tests/support/run.h"

// c_api_compiles_as_c.c
extern "C" attend_status attend_test_prepared_from_c(const float* queries, const float* keys, const float* values,
                                                     const int32_t* valid_lens, float* output, int64_t* sizes,
                                                     attend_error* error);

namespace attend::tests {

TEST_CASE("C API: prepared keys, appended ones too, give the bits of the C++ ones, every layer and target") {
  const std::int32_t prepared_lens[] = {5, 2}, per_batch[] = {3, 6}, per_query[] = {0, 9, 4, 6, 1, 2};
  for_each_target([&](const Target& target) {
    const std::string name = target.name();
    for (const Layer layer : kAllLayers) {
      for (const bool with_weights : {false, true}) {
        INFO(layer_name(layer), ", attention weights ", with_weights);
        const LayerCase c({.layer = layer, .lens = Lens::kPerQuery});
        attend_plan_options options{};
        options.attention_weights = with_weights ? 1 : 0;
        options.target = name.c_str();
        options.prepared_keys = 1;
        const Both both(c, {.target = target, .attention_weights = with_weights, .prepared_keys = true}, &options);
        CHECK(explanation(both.plan.get()) == both.cpp.explain());
        std::size_t bytes = 0;
        CHECK(attend_plan_workspace_bytes(both.plan.get(), &bytes, nullptr) == ATTEND_OK);
        CHECK(bytes == both.cpp.workspace_bytes());

        BothPrepared prepared(both);
        prepared.check_sizes();
        Inputs in{.queries = c.queries.view(), .prepared = &prepared.cpp};
        KeyInputs first = some_keys(c, 0, 5);
        first.valid_lens = TensorView<const std::int32_t>(prepared_lens, {2});
        CHECK(prepared.add(kPrepare, first) == "");
        CHECK(prepared.run(in, with_weights) == "");
        CHECK(prepared.add(kAppend, some_keys(c, 5, 4)) == "");
        CHECK(prepared.cpp.len(1) == 6);
        CHECK(prepared.run(in, with_weights) == "");
        in.valid_lens = TensorView<const std::int32_t>(per_batch, {2});
        CHECK(prepared.run(in, with_weights) == "");
        in.valid_lens = TensorView<const std::int32_t>(per_query, {2, 3});
        CHECK(prepared.run(in, with_weights) == "");

        // Replaced by fewer.
        KeyInputs again = some_keys(c, 0, 9);
        again.valid_lens = c.lens.view();
        CHECK(prepared.add(kPrepare, again) == "");
        in.valid_lens = c.lens.view();
        CHECK(prepared.run(in, with_weights) == "");
      }
    }
  });
}

TEST_CASE("C API: keys are prepared on an executor of callbacks, the same bits") {
  for (const Layer layer : {Layer::kDot, Layer::kMultiHead, Layer::kAdditive}) {
    INFO(layer_name(layer));
    const LayerCase c({.layer = layer, .batch = 5, .num_queries = 7, .num_keys = 600, .lens = Lens::kNone});
    attend_plan_options options{};
    options.threads = 3;
    const Both both(c, {.threads = 3}, &options);
    OwnPool own;
    const attend_executor_callbacks callbacks = own.callbacks();
    const ExecutorHandle pool = make<ExecutorHandle>(attend_executor_create_from_callbacks, &callbacks);
    BothPrepared prepared(both);
    CHECK(prepared.add(kPrepare, some_keys(c, 0, 400), pool.get()) == "");
    CHECK(own.loops > 0);
    const int loops = own.loops;
    CHECK(prepared.add(kAppend, some_keys(c, 400, 200), pool.get()) == "");
    CHECK(own.loops > loops);
    std::vector<float> result;
    CHECK(prepared.run({.queries = c.queries.view(), .prepared = &prepared.cpp}, false, &result) == "");
    CHECK(same_bits(result, run_plan(both.cpp, c.inputs()).output));  // as if never prepared
  }
}

TEST_CASE("C API: prepared keys in the caller's memory serve and outlive their plan, too little is refused") {
  const LayerCase c({.layer = Layer::kGaussian, .lens = Lens::kNone});
  Both both(c);
  std::size_t bytes = 0;
  REQUIRE(attend_plan_prepared_bytes(both.plan.get(), &bytes, nullptr) == ATTEND_OK);
  CHECK(bytes == both.cpp.prepared_bytes());
  std::vector<std::byte> memory(bytes + 64 + 7);
  BothPrepared prepared(both);
  prepared.c = make<PreparedHandle>(attend_prepared_keys_create_in, both.plan.get(), memory.data() + 7, bytes + 64);
  CHECK(prepared.add(kPrepare, some_keys(c, 0, 9)) == "");
  CHECK(prepared.run({.queries = c.queries.view(), .prepared = &prepared.cpp}, false) == "");

  Said said;
  auto* const untouched = reinterpret_cast<attend_prepared_keys*>(&said);
  attend_prepared_keys* small = untouched;
  std::vector<std::byte> less(bytes);
  for (const std::size_t given : {std::size_t{0}, bytes - 1}) {
    CHECK(attend_prepared_keys_create_in(both.plan.get(), less.data(), given, &small, &said.error) ==
          ATTEND_ERROR_INVALID);
    CHECK(said.message() == error_message([&] { PreparedKeys(both.cpp, std::span(less.data(), given)); }));
    CHECK(small == untouched);
  }
  both.layer.reset();
  both.plan.reset();
  prepared.check_sizes();
}

TEST_CASE("C API: prepared keys from C") {
  Random random(4);
  const Tensor queries = random.normal({2, 1, 4}), keys = random.normal({2, 5, 4}), values = random.normal({2, 5, 3});
  const std::int32_t lens[] = {3, 1};
  std::vector<float> output(6, kSentinel), expected(6, kSentinel);
  std::int64_t sizes[3] = {};
  Said said;
  CHECK(attend_test_prepared_from_c(queries.data.data(), keys.data.data(), values.data.data(), lens, output.data(),
                                    sizes, &said.error) == ATTEND_OK);
  CHECK(said.untouched());
  const Plan plan = DotAttention().plan({.batch = 2, .num_queries = 1, .num_keys = 5, .query_size = 4, .value_size = 3},
                                        {.prepared_keys = true});
  Workspace workspace(plan);
  PreparedKeys prepared(plan);
  plan.prepare({.keys = some_keys(keys.view(), 0, 3),
                .values = some_keys(values.view(), 0, 3),
                .valid_lens = TensorView<const std::int32_t>(lens, {2})},
               prepared, workspace);
  plan.append({.keys = some_keys(keys.view(), 3, 2), .values = some_keys(values.view(), 3, 2), .valid_lens = {}},
              prepared, workspace);
  plan.run({.queries = queries.view(), .prepared = &prepared},
           {.output = {expected.data(), {2, 1, 3}}, .attention_weights = {}}, workspace);
  CHECK(same_bits(output, expected));
  CHECK(sizes[0] == 2);
  CHECK(sizes[1] == 5);
  CHECK(sizes[2] == 3);
}

}  // namespace attend::tests
