// Contract 10 for runs on prepared keys: every mistake names the argument, what it was and what was expected, and
// changes nothing: neither the output nor what is prepared.
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "attend/attend.h"
#include "tests/support/compare.h"
#include "tests/support/layer_cases.h"
#include "tests/support/prepared.h"
#include "tests/support/ready.h"
#include "tests/support/run.h"

namespace attend::tests {
namespace {

using Parts = std::vector<std::string>;
using Lengths = TensorView<const std::int32_t>;

}  // namespace

TEST_CASE("contract 10: prepared keys of another plan, or of none") {
  for (const Layer layer : kAllLayers) {
    INFO(layer_name(layer));
    Ready ready(layer);
    const Plan alike = ready.c.attention.plan(ready.c.shape);  // as large, but another
    const Parts parts = {"prepared", "another plan", "this one or a copy"};
    CHECK(missing_parts(run_message(alike, ready.run()), parts) == "");
    const KeyInputs keys = key_inputs(ready.c.inputs());
    CHECK(missing_parts(error_message([&] { prepare(alike, keys, ready.prepared.keys); }), parts) == "");
    CHECK(missing_parts(error_message([&] { append(alike, keys, ready.prepared.keys); }), parts) == "");
    CHECK(ready.is_unchanged());
    const PoisonedKeys empty(ready.plan);
    CHECK(missing_parts(run_message(ready.plan, on_prepared(ready.c.inputs(), empty.keys)),
                        {"prepared", "nothing", "prepared first"}) == "");
  }
}

TEST_CASE("contract 10: mistakes in a run on prepared keys") {
  const std::int32_t large[] = {9, 5}, negative[] = {-1, 2}, per_query[] = {1, 2, 9, 4, 5, 0}, ones[6] = {1, 1, 1};
  const struct {
    const char* name;
    std::function<void(Inputs& in, const LayerCase& c)> make;
    Parts parts;
  } kMistakes[] = {
      {"keys as well", [](Inputs& in, const LayerCase& c) { in.keys = c.inputs().keys; }, {"keys", "none", "prepared"}},
      {"values as well",
       [](Inputs& in, const LayerCase& c) { in.values = c.inputs().values; },
       {"values", "none", "prepared"}},
      {"another batch",
       [](Inputs& in, const LayerCase&) {
         in.queries = {zeros(), {1, 3, 8}};
       },
       {"prepared", "2", "queries", "1"}},
      {"more queries than planned",
       [](Inputs& in, const LayerCase&) {
         in.queries = {zeros(), {2, 4, 8}};
       },
       {"num_queries", "4", "3"}},
      {"a length beyond what is prepared",
       [&](Inputs& in, const LayerCase&) { in.valid_lens = Lengths(large, {2}); },
       {"valid_lens", "5", "batch entry 1", "at most 4"}},
      {"a length of a query beyond what is prepared",
       [&](Inputs& in, const LayerCase&) {
         in.valid_lens = Lengths(per_query, {2, 3});
       },
       {"valid_lens", "5", "batch entry 1", "at most 4"}},
      {"a negative length",
       [&](Inputs& in, const LayerCase&) { in.valid_lens = Lengths(negative, {2}); },
       {"valid_lens[0]", "-1"}},
      {"lengths of another batch",
       [&](Inputs& in, const LayerCase&) { in.valid_lens = Lengths(ones, {3}); },
       {"valid_lens", "(3)", "(2)"}},
      {"lengths of rank 3",
       [&](Inputs& in, const LayerCase&) {
         in.valid_lens = Lengths(ones, {2, 3, 1});
       },
       {"valid_lens", "(2, 3, 1)", "(2, 3)"}},
  };
  for (const Layer layer : kAllLayers) {
    if (layer == Layer::kDotHeads || layer == Layer::kGaussianHeads) continue;
    const Ready ready(layer);
    for (const auto& mistake : kMistakes) {
      INFO(layer_name(layer), ": ", mistake.name);
      Inputs in = ready.run();
      mistake.make(in, ready.c);
      CHECK(missing_parts(run_message(ready.plan, in), mistake.parts) == "");
    }
    CHECK(ready.is_unchanged());
  }
}

TEST_CASE("contract 10: what a plan promises of lengths and prepared keys, prepare and runs are held to") {
  const LayerCase c = the_case(Layer::kAdditive);
  const std::int32_t per_query[] = {1, 2, 9, 4, 0, 0};
  KeyInputs with_lens = key_inputs(c.inputs()), without = with_lens, with_more = with_lens;
  without.valid_lens = {};
  with_more.valid_lens = Lengths(per_query, {2, 3});
  for (const ValidLens promised : {ValidLens::kNone, ValidLens::kPerBatch, ValidLens::kPerQuery, ValidLens::kAny}) {
    const Plan plan = c.attention.plan(c.shape, {.valid_lens = promised});
    PoisonedKeys prepared(plan);
    CHECK(error_message([&] { prepare(plan, without, prepared.keys); }) == "");
    const RunResult expected = run_plan(plan, {.queries = c.queries.view(), .prepared = &prepared.keys});
    const auto refused = [&](const KeyInputs& in, const Parts& parts) {
      CHECK(missing_parts(error_message([&] { prepare(plan, in, prepared.keys); }), parts) == "");
      CHECK(missing_parts(error_message([&] { append(plan, in, prepared.keys); }), parts) == "");
      Inputs run{.queries = c.queries.view(), .valid_lens = in.valid_lens, .prepared = &prepared.keys};
      CHECK(missing_parts(run_message(plan, run), parts) == "");
      run.valid_lens = {};
      CHECK(same_bits(expected, run_plan(plan, run)));
    };
    if (promised == ValidLens::kNone) refused(with_lens, {"valid_lens", "(2)", "none", "ValidLens::kNone"});
    if (promised == ValidLens::kPerBatch)
      refused(with_more, {"valid_lens", "(2, 3)", "rank 1", "ValidLens::kPerBatch"});
    if (promised != ValidLens::kNone) CHECK(error_message([&] { prepare(plan, with_lens, prepared.keys); }) == "");
  }
  const Ready lean(Layer::kAdditive, {.prepared_keys = true});
  CHECK(missing_parts(run_message(lean.plan, lean.c.inputs()), {"prepared", "not given", "prepared_keys"}) == "");
  CHECK(missing_parts(run_message(lean.plan, {.queries = lean.c.queries.view()}), {"prepared", "not given"}) == "");
  CHECK(lean.is_unchanged());
}

}  // namespace attend::tests
