// The C API, prepared keys: the refusals of the C++ ones, after which nothing has changed.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "attend/attend.h"
#include "attend/attend_c.h"
#include "tests/layers/c_api_prepared_support.h"
#include "tests/layers/c_api_support.h"
#include "tests/support/compare.h"
#include "tests/support/layer_cases.h"
#include "tests/support/run.h"

namespace attend::tests {

TEST_CASE("C API: what prepare and append refuse carries the C++ message and changes nothing") {
  static const std::int32_t negative[] = {2, -1}, beyond[] = {2, 5};
  static const float zeros[4096] = {};
  const struct {
    const char* name;
    std::function<void(KeyInputs& in)> make;
  } kMistakes[] = {
      {"no keys", [](KeyInputs& in) { in.keys = {}; }},
      {"keys of rank 2",
       [](KeyInputs& in) {
         in.keys = TensorView<const float>(zeros, {4, 8});
       }},
      {"keys of another size",
       [](KeyInputs& in) {
         in.keys = TensorView<const float>(zeros, {2, 4, 64});
       }},
      {"fewer values", [](KeyInputs& in) { in.values = some_keys(in.values, 0, 3); }},
      {"values at null",
       [](KeyInputs& in) {
         in.values = TensorView<const float>(nullptr, {2, 4, 5});
       }},
      {"values' stride",
       [](KeyInputs& in) {
         in.values = TensorView<const float>(zeros, {2, 4, 5}, {500, 50, 2});
       }},
      {"negative length", [](KeyInputs& in) { in.valid_lens = TensorView<const std::int32_t>(negative, {2}); }},
      {"length beyond the keys", [](KeyInputs& in) { in.valid_lens = TensorView<const std::int32_t>(beyond, {2}); }},
  };
  for (const Layer layer : {Layer::kAdditive, Layer::kDot, Layer::kGaussian, Layer::kMultiHead}) {
    const LayerCase c({.layer = layer});
    const Both both(c), other(c);
    BothPrepared prepared(both);
    const Inputs in{.queries = c.queries.view(), .prepared = &prepared.cpp};
    INFO(layer_name(layer));
    CHECK(prepared.add(kAppend, some_keys(c, 0, 4)) != "");  // to nothing
    CHECK(prepared.add(kPrepare, some_keys(c, 0, 5)) == "");
    std::vector<float> before, after;
    CHECK(prepared.run(in, false, &before) == "");
    for (const auto& mistake : kMistakes) {
      INFO(mistake.name);
      KeyInputs wrong = some_keys(c, 5, 4);
      mistake.make(wrong);
      CHECK(prepared.add(kPrepare, wrong) != "");
      CHECK(prepared.add(kAppend, wrong) != "");
    }
    CHECK(prepared.add(kAppend, some_keys(c, 0, 5)) != "");  // room for 4
    KeyInputs one = some_keys(c, 5, 4);
    one.keys = TensorView<const float>(one.keys.data(), {1, 4, one.keys.size(2)});
    one.values = TensorView<const float>(one.values.data(), {1, 4, one.values.size(2)});
    CHECK(prepared.add(kAppend, one) != "");

    // A workspace that is too small, keys of another plan.
    std::vector<std::byte> memory(64);
    BothPrepared small(both), foreign(both, other);
    small.cpp_workspace = Workspace(std::span(memory));
    small.workspace = make<WorkspaceHandle>(attend_workspace_create_in, memory.data(), memory.size());
    for (BothPrepared* wrong : {&small, &foreign}) {
      CHECK(wrong->add(kPrepare, some_keys(c, 0, 5)) != "");
      CHECK(wrong->add(kAppend, some_keys(c, 0, 5)) != "");
    }

    // What no C++ view can be, named.
    const struct {
      std::function<void(attend_key_inputs& in)> make;
      std::vector<std::string> parts;
    } kNotViews[] = {{[](attend_key_inputs& k) { k.keys.rank = 5; }, {"keys", "rank 5", "4"}},
                     {[](attend_key_inputs& k) { k.values.sizes[1] = -9; }, {"values", "(2, -9, ", "negative"}},
                     {[](attend_key_inputs& k) { k.valid_lens.rank = -1; }, {"valid_lens", "rank -1"}}};
    for (const auto& wrong : kNotViews) {
      attend_key_inputs keys = c_key_inputs(some_keys(c, 5, 4));
      wrong.make(keys);
      for (const Step& step : {kPrepare, kAppend}) {
        Said said;
        CHECK(step.c(both.plan.get(), &keys, prepared.c.get(), prepared.workspace.get(), nullptr, &said.error) ==
              ATTEND_ERROR_INVALID);
        CHECK(missing_parts(said.message(), wrong.parts) == "");
      }
    }
    prepared.check_sizes();
    CHECK(prepared.run(in, false, &after) == "");
    CHECK(same_bits(after, before));
  }
}

TEST_CASE("C API: what runs refuse of prepared keys carries the C++ message and changes no output") {
  static const std::int32_t more[] = {6, 5}, negative[] = {2, -1};
  const LayerCase c({.layer = Layer::kAdditive});
  attend_plan_options options{};
  options.prepared_keys = 1;
  const Both both(c, {.prepared_keys = true}, &options), other(c);
  BothPrepared prepared(both), empty(both), foreign(both, other);
  CHECK(prepared.add(kPrepare, some_keys(c, 0, 5)) == "");
  const Inputs good{.queries = c.queries.view(), .prepared = &prepared.cpp};
  CHECK(prepared.run(good, false) == "");
  CHECK(empty.run(good, false) != "");
  CHECK(foreign.run(good, false) != "");
  const std::function<void(Inputs & in)> kMistakes[] = {
      [&](Inputs& in) { in.keys = c.keys.view(); },
      [&](Inputs& in) { in.values = c.values.view(); },
      [&](Inputs& in) {
        in.queries = TensorView<const float>(c.queries.data.data(), {1, 3, 8});
      },
      [&](Inputs& in) { in.valid_lens = TensorView<const std::int32_t>(more, {2}); },
      [&](Inputs& in) { in.valid_lens = TensorView<const std::int32_t>(negative, {2}); },
      [&](Inputs& in) { in.prepared = nullptr; },  // promised
  };
  for (const auto& mistake : kMistakes) {
    Inputs in = good;
    mistake(in);
    std::vector<float> output;
    CHECK(prepared.run(in, false, &output) != "");
    CHECK(std::all_of(output.begin(), output.end(), [](float x) { return x == kSentinel; }));
  }
}

TEST_CASE("C API: prepared keys, null where a pointer is required is invalid, null to destroy is fine") {
  attend_prepared_keys_destroy(nullptr);
  const LayerCase c({.layer = Layer::kDot});
  const Both both(c);
  BothPrepared made(both);
  const attend_plan* const plan = both.plan.get();
  attend_prepared_keys* const prepared = made.c.get();
  attend_workspace* const workspace = made.workspace.get();
  const attend_key_inputs in = c_key_inputs(some_keys(c, 0, 9));
  std::byte memory[64];
  attend_prepared_keys* handle = nullptr;
  std::int64_t size = -1;
  check_nulls_refused({
      {"plan", [&](attend_error* e) { return attend_prepared_keys_create(nullptr, &handle, e); }},
      {"prepared", [&](attend_error* e) { return attend_prepared_keys_create(plan, nullptr, e); }},
      {"plan", [&](attend_error* e) { return attend_prepared_keys_create_in(nullptr, memory, 64, &handle, e); }},
      {"memory", [&](attend_error* e) { return attend_prepared_keys_create_in(plan, nullptr, 64, &handle, e); }},
      {"prepared", [&](attend_error* e) { return attend_prepared_keys_create_in(plan, memory, 64, nullptr, e); }},
      {"plan", [&](attend_error* e) { return attend_prepare(nullptr, &in, prepared, workspace, nullptr, e); }},
      {"inputs", [&](attend_error* e) { return attend_prepare(plan, nullptr, prepared, workspace, nullptr, e); }},
      {"prepared", [&](attend_error* e) { return attend_prepare(plan, &in, nullptr, workspace, nullptr, e); }},
      {"workspace", [&](attend_error* e) { return attend_prepare(plan, &in, prepared, nullptr, nullptr, e); }},
      {"plan", [&](attend_error* e) { return attend_append(nullptr, &in, prepared, workspace, nullptr, e); }},
      {"inputs", [&](attend_error* e) { return attend_append(plan, nullptr, prepared, workspace, nullptr, e); }},
      {"prepared", [&](attend_error* e) { return attend_append(plan, &in, nullptr, workspace, nullptr, e); }},
      {"workspace", [&](attend_error* e) { return attend_append(plan, &in, prepared, nullptr, nullptr, e); }},
      {"prepared", [&](attend_error* e) { return attend_prepared_keys_batch(nullptr, &size, e); }},
      {"batch", [&](attend_error* e) { return attend_prepared_keys_batch(prepared, nullptr, e); }},
      {"prepared", [&](attend_error* e) { return attend_prepared_keys_num_keys(nullptr, &size, e); }},
      {"num_keys", [&](attend_error* e) { return attend_prepared_keys_num_keys(prepared, nullptr, e); }},
      {"prepared", [&](attend_error* e) { return attend_prepared_keys_len(nullptr, 0, &size, e); }},
      {"len", [&](attend_error* e) { return attend_prepared_keys_len(prepared, 0, nullptr, e); }},
  });
  CHECK(handle == nullptr);
  CHECK(size == -1);
  made.check_sizes();
}

}  // namespace attend::tests
