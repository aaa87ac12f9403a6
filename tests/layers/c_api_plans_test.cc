// The C API, plans and options: what plans say of themselves, before and after a run, and what they refuse.
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "attend/attend.h"
#include "attend/attend_c.h"
#include "tests/layers/c_api_support.h"
#include "tests/support/compare.h"
#include "tests/support/for_each_target.h"
#include "tests/support/layer_cases.h"
#include "tests/support/run.h"

namespace attend::tests {

TEST_CASE("C API: what plans say of themselves") {
  const LayerCase c({.layer = Layer::kMultiHead});
  attend_plan_options options{};
  options.threads = 3;
  options.concat_queries = 1;
  options.valid_lens = ATTEND_VALID_LENS_PER_BATCH;
  const Both both(c, {.threads = 3, .concat_queries = true, .valid_lens = ValidLens::kPerBatch}, &options);
  std::size_t bytes = 0;
  std::int64_t output_size = 0;
  CHECK(attend_plan_workspace_bytes(both.plan.get(), &bytes, nullptr) == ATTEND_OK);
  CHECK(attend_plan_output_size(both.plan.get(), &output_size, nullptr) == ATTEND_OK);
  CHECK(bytes == both.cpp.workspace_bytes());
  CHECK(attend_plan_prepared_bytes(both.plan.get(), &bytes, nullptr) == ATTEND_OK);
  CHECK(bytes == both.cpp.prepared_bytes());
  CHECK(output_size == both.cpp.output_size());
  CHECK(output_size == c.output_size() + c.spec.size);
  CHECK(explanation(both.plan.get()) == both.cpp.explain());
  CHECK(same_bits(run_c(both.plan.get(), both.cpp, c.inputs(), false), run_plan(both.cpp, c.inputs())));

  // Lengths promised, and the path.
  const LayerCase dot({.layer = Layer::kDot});
  const LayerHandle layer = c_layer(dot);
  const attend_shape shape = c_shape(dot.shape);
  for (const std::string& path : fit_paths(dot.attention, dot.shape, {})) {
    attend_plan_options forced{};
    forced.path = path.c_str();
    const PlanHandle plan = make<PlanHandle>(attend_plan_create, layer.get(), &shape, &forced);
    CHECK(explanation(plan.get()) == dot.attention.plan(dot.shape, {.path = path}).explain());
  }
}

TEST_CASE("C API: what is promised of the lengths, a run is held to") {
  const LayerCase c({.layer = Layer::kDot, .lens = Lens::kPerQuery});
  const LayerHandle layer = c_layer(c);
  const attend_shape shape = c_shape(c.shape);
  const Inputs per_query = c.inputs();
  const std::int32_t lens[] = {1, 2};
  Inputs per_batch = per_query, none = per_query;
  per_batch.valid_lens = TensorView<const std::int32_t>(lens, {2});
  none.valid_lens = {};
  const struct {
    std::int32_t in_c;
    ValidLens in_cpp;
    bool takes_per_query, takes_per_batch;
  } kPromises[] = {{ATTEND_VALID_LENS_ANY, ValidLens::kAny, true, true},
                   {ATTEND_VALID_LENS_NONE, ValidLens::kNone, false, false},
                   {ATTEND_VALID_LENS_PER_BATCH, ValidLens::kPerBatch, false, true},
                   {ATTEND_VALID_LENS_PER_QUERY, ValidLens::kPerQuery, true, true}};
  for (const auto& promise : kPromises) {
    CAPTURE(promise.in_c);
    attend_plan_options options{};
    options.valid_lens = promise.in_c;
    const PlanHandle plan = make<PlanHandle>(attend_plan_create, layer.get(), &shape, &options);
    const Plan in_cpp = c.attention.plan(c.shape, {.valid_lens = promise.in_cpp});
    CHECK(explanation(plan.get()) == in_cpp.explain());
    const WorkspaceHandle workspace = make<WorkspaceHandle>(attend_workspace_create, plan.get());
    const auto is_taken = [&](const Inputs& in) {
      std::vector<float> memory(static_cast<std::size_t>(c.shape.batch * c.shape.num_queries * c.output_size()));
      const attend_inputs inputs = c_inputs(in);
      const attend_outputs outputs = c_outputs(
          {.output = {memory.data(), {c.shape.batch, c.shape.num_queries, c.output_size()}}, .attention_weights = {}});
      return attend_run(plan.get(), &inputs, &outputs, workspace.get(), nullptr, nullptr) == ATTEND_OK;
    };
    CHECK(is_taken(none));
    CHECK(is_taken(per_batch) == promise.takes_per_batch);
    CHECK(is_taken(per_query) == promise.takes_per_query);
  }
}

TEST_CASE("C API: products by pairs of terms, where they are faster, never or always") {
  const LayerCase dot({.layer = Layer::kDot, .num_queries = 70, .num_keys = 150, .size = 32});
  const LayerHandle layer = c_layer(dot);
  const attend_shape shape = c_shape(dot.shape);
  const std::pair<std::int32_t, Pairs> kBoth[] = {{ATTEND_PAIRS_WHERE_FASTER, Pairs::kWhereFaster},
                                                  {ATTEND_PAIRS_NEVER, Pairs::kNever},
                                                  {ATTEND_PAIRS_ALWAYS, Pairs::kAlways}};
  for (const auto& [in_c, in_cpp] : kBoth) {
    attend_plan_options options{};
    options.path = "dot/fused";
    options.pairs = in_c;
    const PlanHandle plan = make<PlanHandle>(attend_plan_create, layer.get(), &shape, &options);
    const std::string said = explanation(plan.get());
    CHECK(said == dot.attention.plan(dot.shape, {.path = "dot/fused", .pairs = in_cpp}).explain());
    if (in_cpp != Pairs::kWhereFaster) {
      CHECK((said.find("by pairs of terms") != std::string::npos) == (in_cpp == Pairs::kAlways));
    }
  }
}

TEST_CASE("C API: products by bfloat16 parts, where they are faster, never or always") {
  const LayerCase dot({.layer = Layer::kDot, .num_queries = 70, .num_keys = 150, .size = 32});
  const LayerHandle layer = c_layer(dot);
  const attend_shape shape = c_shape(dot.shape);
  const std::pair<std::int32_t, Parts> kAll[] = {{ATTEND_PARTS_WHERE_FASTER, Parts::kWhereFaster},
                                                 {ATTEND_PARTS_NEVER, Parts::kNever},
                                                 {ATTEND_PARTS_ALWAYS, Parts::kAlways}};
  for (const auto& [in_c, in_cpp] : kAll) {
    attend_plan_options options{};
    options.path = "dot/fused";
    options.parts = in_c;
    const PlanHandle plan = make<PlanHandle>(attend_plan_create, layer.get(), &shape, &options);
    const std::string said = explanation(plan.get());
    CHECK(said == dot.attention.plan(dot.shape, {.path = "dot/fused", .parts = in_cpp}).explain());
    if (in_cpp != Parts::kWhereFaster) {
      CHECK((said.find("by bfloat16 parts") != std::string::npos) == (in_cpp == Parts::kAlways));
    }
  }
}

TEST_CASE("C API: a zeroed struct means the defaults") {
  const LayerCase c({.layer = Layer::kDot, .batch = 1, .num_queries = 1, .num_keys = 1, .lens = Lens::kNone});
  const LayerHandle layer = c_layer(c);
  attend_shape shape{};
  shape.query_size = 8;
  const attend_plan_options zeroed{};
  CHECK(zeroed.score_tier == ATTEND_SCORE_TIER_BY_RANGE);
  CHECK(zeroed.causal == ATTEND_CAUSAL_NONE);
  CHECK(zeroed.padding == ATTEND_PADDING_COMPUTE);
  CHECK(zeroed.pairs == ATTEND_PAIRS_WHERE_FASTER);
  CHECK(zeroed.parts == ATTEND_PARTS_WHERE_FASTER);
  CHECK(shape.num_kv_heads == 0);
  const std::string expected = c.attention.plan({.query_size = 8}).explain();
  CHECK(explanation(make<PlanHandle>(attend_plan_create, layer.get(), &shape, &zeroed).get()) == expected);
  CHECK(explanation(make<PlanHandle>(attend_plan_create, layer.get(), &shape, nullptr).get()) == expected);
  attend_plan_options empty{};
  empty.target = empty.path = "";
  CHECK(explanation(make<PlanHandle>(attend_plan_create, layer.get(), &shape, &empty).get()) == expected);

  // One head by default.
  const LayerCase one({.layer = Layer::kMultiHead, .num_heads = 1});
  const std::vector<attend_parameter> parameters = c_parameters(one);
  const attend_multi_head_options options{};
  const attend_shape full = c_shape(one.shape);
  for (const attend_multi_head_options* given : {&options, static_cast<const attend_multi_head_options*>(nullptr)}) {
    const LayerHandle heads =
        make<LayerHandle>(attend_layer_create_multi_head, given, parameters.data(), parameters.size());
    const PlanHandle plan = make<PlanHandle>(attend_plan_create, heads.get(), &full, nullptr);
    CHECK(explanation(plan.get()) == one.attention.plan(one.shape).explain());
  }
}

TEST_CASE("C API: causal masks and padding are those of C++") {
  struct {
    std::int32_t c;
    Causal cpp;
  } const kCausal[] = {{ATTEND_CAUSAL_NONE, Causal::kNone},
                       {ATTEND_CAUSAL_BOTTOM_RIGHT, Causal::kBottomRight},
                       {ATTEND_CAUSAL_TOP_LEFT, Causal::kTopLeft}};
  struct {
    std::int32_t c;
    Padding cpp;
  } const kPadding[] = {{ATTEND_PADDING_COMPUTE, Padding::kCompute},
                        {ATTEND_PADDING_SKIP_QUERIES, Padding::kSkipQueries}};
  for (const Layer layer : kAllLayers) {
    for (const auto& causal : kCausal) {
      for (const auto& padding : kPadding) {
        INFO(layer_name(layer), ", causal ", causal.c, ", padding ", padding.c);
        LayerCase c({.layer = layer, .num_queries = 7, .causal = causal.cpp, .padding = padding.cpp});
        c.lens.data = {9, 3};
        attend_plan_options options{};
        options.attention_weights = 1;
        options.causal = causal.c;
        options.padding = padding.c;
        const Both both(c, {.attention_weights = true, .causal = causal.cpp, .padding = padding.cpp}, &options);
        CHECK(explanation(both.plan.get()) == both.cpp.explain());
        const RunResult result = run_c(both.plan.get(), both.cpp, c.inputs(), true);
        CHECK(same_bits(result, run_plan(both.cpp, c.inputs(), true)));
        const reference::Result truth = c.truth();
        check_within(result.output, result.attention_weights, truth, c.bound(truth));
      }
    }
  }
}

TEST_CASE("C API: score tiers and their counts are those of C++, and said after a run") {
  struct {
    std::int32_t c;
    ScoreTier cpp;
  } const kTiers[] = {{ATTEND_SCORE_TIER_BY_RANGE, ScoreTier::kByRange}, {ATTEND_SCORE_TIER_EIGHT, ScoreTier::kEight},
                      {ATTEND_SCORE_TIER_FOUR, ScoreTier::kFour},        {ATTEND_SCORE_TIER_THREE, ScoreTier::kThree},
                      {ATTEND_SCORE_TIER_TWO, ScoreTier::kTwo},          {ATTEND_SCORE_TIER_ONE, ScoreTier::kOne},
                      {ATTEND_SCORE_TIER_RATIONAL, ScoreTier::kRational}};
  for_each_target([&](const Target& target) {
    const std::string name = target.name();
    for (const float spread : {1.0f, 6.0f}) {
      const LayerCase c({.layer = Layer::kAdditive, .num_keys = 40, .spread = spread});
      for (const auto& tier : kTiers) {
        if (spread > 1 && (tier.c == ATTEND_SCORE_TIER_EIGHT || tier.c == ATTEND_SCORE_TIER_FOUR)) continue;  // range
        INFO("spread ", spread, ", score tier ", tier.c);
        attend_plan_options options{};
        options.target = name.c_str();
        options.score_tier = tier.c;
        options.count_tiers = 1;
        const Both both(c, {.target = target, .score_tier = tier.cpp, .count_tiers = true}, &options);
        const WorkspaceHandle workspace = make<WorkspaceHandle>(attend_workspace_create, both.plan.get());
        Workspace cpp_workspace(both.cpp);
        std::vector<float> output(30, kSentinel), expected(30, kSentinel);
        const Outputs out{.output = {expected.data(), {2, 3, 5}}, .attention_weights = {}};
        both.cpp.run(c.inputs(), out, cpp_workspace);
        const attend_inputs in = c_inputs(c.inputs());
        const attend_outputs c_out = c_outputs({.output = {output.data(), {2, 3, 5}}, .attention_weights = {}});
        CHECK(attend_run(both.plan.get(), &in, &c_out, workspace.get(), nullptr, nullptr) == ATTEND_OK);
        CHECK(same_bits(output, expected));

        const TierCounts truth = both.cpp.tier_counts(cpp_workspace);
        attend_tier_counts counts{};
        CHECK(attend_plan_tier_counts(both.plan.get(), workspace.get(), &counts, nullptr) == ATTEND_OK);
        CHECK(counts.eight == truth.eight);
        CHECK(counts.four == truth.four);
        CHECK(counts.three == truth.three);
        CHECK(counts.two == truth.two);
        CHECK(counts.one == truth.one);
        CHECK(counts.rational == truth.rational);
        const std::uint64_t all = counts.eight + counts.four + counts.three + counts.two + counts.one + counts.rational;
        CHECK(all > 0);
        if (tier.c == ATTEND_SCORE_TIER_EIGHT) CHECK(counts.eight == all);
        if (tier.c == ATTEND_SCORE_TIER_THREE) CHECK(counts.three == all);
        if (tier.c == ATTEND_SCORE_TIER_ONE) CHECK(counts.one == all);
        if (tier.c == ATTEND_SCORE_TIER_RATIONAL) CHECK(counts.rational == all);
        CHECK(run_explanation(both.plan.get(), workspace.get()) == both.cpp.explain(cpp_workspace));
        CHECK(explanation(both.plan.get()) == both.cpp.explain());
      }
    }
  });
}

TEST_CASE("C API: counts that were not asked for, or of too small a workspace, are refused with the C++ message") {
  const LayerCase c({.layer = Layer::kAdditive});
  attend_plan_options options{};
  options.count_tiers = 1;
  const Both silent(c), counting(c, {.count_tiers = true}, &options);
  std::vector<std::byte> memory(64);
  Workspace full(counting.cpp), small(memory);
  const WorkspaceHandle c_full = make<WorkspaceHandle>(attend_workspace_create, counting.plan.get());
  const WorkspaceHandle c_small = make<WorkspaceHandle>(attend_workspace_create_in, memory.data(), memory.size());
  const struct {
    const Both* both;
    const attend_workspace* workspace;
    const Workspace* cpp_workspace;
  } kMistakes[] = {{&silent, c_full.get(), &full}, {&counting, c_small.get(), &small}};
  for (const auto& mistake : kMistakes) {
    const attend_plan* const plan = mistake.both->plan.get();
    const std::string expected = error_message([&] { mistake.both->cpp.tier_counts(*mistake.cpp_workspace); });
    CHECK(expected != "");
    Said counts_said, text_said;
    attend_tier_counts counts{.eight = 7, .four = 7, .three = 7, .two = 7, .one = 7, .rational = 7};
    CHECK(attend_plan_tier_counts(plan, mistake.workspace, &counts, &counts_said.error) == ATTEND_ERROR_INVALID);
    CHECK(counts_said.message() == expected);
    CHECK((counts.eight == 7 && counts.four == 7 && counts.three == 7 && counts.two == 7 && counts.one == 7));
    CHECK(counts.rational == 7);
    char buffer[8] = "same";
    std::size_t length = 77;
    CHECK(attend_plan_explain_run(plan, mistake.workspace, buffer, sizeof buffer, &length, &text_said.error) ==
          ATTEND_ERROR_INVALID);
    CHECK(text_said.message() == expected);
    CHECK(std::string(buffer) == "same");
    CHECK(length == 77);
  }
}

TEST_CASE("C API: targets are listed as in C++") {
  std::size_t count = 0;
  REQUIRE(attend_target_count(&count, nullptr) == ATTEND_OK);
  const std::vector<Target> targets = Target::available();
  REQUIRE(count == targets.size());
  for (std::size_t i = 0; i < count; ++i) {
    CHECK(text_of([&](char* buffer, std::size_t capacity, std::size_t* length) {
            return attend_target_name(i, buffer, capacity, length, nullptr);
          }) == targets[i].name());
  }
  Said said;
  char buffer[8] = "same";
  CHECK(attend_target_name(count, buffer, sizeof buffer, nullptr, &said.error) == ATTEND_ERROR_INVALID);
  CHECK(missing_parts(said.message(), {"index", std::to_string(count), std::to_string(count - 1)}) == "");
  CHECK(std::string(buffer) == "same");
}

TEST_CASE("C API: text is cut to the caller's buffer") {
  const Both both(LayerCase({.layer = Layer::kDot}));
  const std::string whole = both.cpp.explain();
  for (const std::size_t capacity : {std::size_t{1}, std::size_t{2}, std::size_t{20}, whole.size(), whole.size() + 1}) {
    std::string buffer(whole.size() + 9, '#');
    std::size_t length = 0;
    CHECK(attend_plan_explain(both.plan.get(), buffer.data(), capacity, &length, nullptr) == ATTEND_OK);
    CHECK(length == whole.size());
    CHECK(buffer == whole.substr(0, capacity - 1) + '\0' + std::string(buffer.size() - capacity, '#'));
  }
  CHECK(attend_plan_explain(both.plan.get(), nullptr, 0, nullptr, nullptr) == ATTEND_OK);
  Said said;
  std::size_t length = 77;
  CHECK(attend_plan_explain(both.plan.get(), nullptr, 5, &length, &said.error) == ATTEND_ERROR_INVALID);
  CHECK(missing_parts(said.message(), {"buffer", "null"}) == "");
  CHECK(length == 77);
}

TEST_CASE("C API: refusals of plans and executors carry the C++ message and leave the handle") {
  Said said;
  const LayerCase dot({.layer = Layer::kDot});
  const LayerHandle good = c_layer(dot);
  struct {
    std::function<void(Shape&, PlanOptions&)> make;
  } const kMistakes[] = {
      {[](Shape& s, PlanOptions&) { s.batch = -1; }},
      {[](Shape& s, PlanOptions&) { s.key_size = 64; }},
      {[](Shape& s, PlanOptions&) { s.num_keys = std::int64_t{1} << 40; }},
      {[](Shape& s, PlanOptions&) { s.num_heads = -3; }},
      {[](Shape& s, PlanOptions&) { s.num_kv_heads = -3; }},
      {[](Shape& s, PlanOptions&) { s.num_kv_heads = 2; }},
      {[](Shape&, PlanOptions& o) { o.threads = -4; }},
      {[](Shape&, PlanOptions& o) { o.path = "dot/imaginary"; }},
      {[](Shape&, PlanOptions& o) { o.count_tiers = true; }},
      {[](Shape&, PlanOptions& o) { o.score_tier = ScoreTier::kEight; }},
      {[](Shape&, PlanOptions& o) { o.score_tier = ScoreTier::kRational; }},
  };
  for (const auto& mistake : kMistakes) {
    Shape shape = dot.shape;
    PlanOptions options;
    mistake.make(shape, options);
    const attend_shape c = c_shape(shape);
    attend_plan_options c_options{};
    c_options.threads = options.threads;
    c_options.path = options.path.c_str();
    c_options.score_tier = static_cast<std::int32_t>(options.score_tier) + 1;  // C's zero means what is -1 in C++
    c_options.count_tiers = options.count_tiers ? 1 : 0;
    attend_plan* plan = nullptr;
    CHECK(attend_plan_create(good.get(), &c, &c_options, &plan, &said.error) == ATTEND_ERROR_INVALID);
    CHECK(said.message() == error_message([&] { dot.attention.plan(shape, options); }));
    CHECK(plan == nullptr);
  }
  const attend_shape shape = c_shape(dot.shape);
  attend_plan* plan = nullptr;
  attend_plan_options options{};
  options.valid_lens = 4;
  CHECK(attend_plan_create(good.get(), &shape, &options, &plan, &said.error) == ATTEND_ERROR_INVALID);
  CHECK(missing_parts(said.message(), {"valid_lens", "4", "ATTEND_VALID_LENS_ANY"}) == "");
  for (const std::int32_t score_tier : {-1, 7}) {
    options = {};
    options.score_tier = score_tier;
    CHECK(attend_plan_create(good.get(), &shape, &options, &plan, &said.error) == ATTEND_ERROR_INVALID);
    CHECK(missing_parts(said.message(), {"score_tier", std::to_string(score_tier), "ATTEND_SCORE_TIER_BY_RANGE"}) ==
          "");
  }
  for (const std::int32_t pairs : {-1, 3}) {
    options = {};
    options.pairs = pairs;
    CHECK(attend_plan_create(good.get(), &shape, &options, &plan, &said.error) == ATTEND_ERROR_INVALID);
    CHECK(missing_parts(said.message(), {"pairs is " + std::to_string(pairs), "ATTEND_PAIRS_WHERE_FASTER"}) == "");
  }
  for (const std::int32_t parts : {-1, 3}) {
    options = {};
    options.parts = parts;
    CHECK(attend_plan_create(good.get(), &shape, &options, &plan, &said.error) == ATTEND_ERROR_INVALID);
    CHECK(missing_parts(said.message(), {"parts is " + std::to_string(parts), "ATTEND_PARTS_WHERE_FASTER"}) == "");
  }
  for (const std::int32_t causal : {-1, 3}) {
    options = {};
    options.causal = causal;
    CHECK(attend_plan_create(good.get(), &shape, &options, &plan, &said.error) == ATTEND_ERROR_INVALID);
    CHECK(missing_parts(said.message(), {"causal is " + std::to_string(causal), "ATTEND_CAUSAL_NONE"}) == "");
  }
  for (const std::int32_t padding : {-1, 2}) {
    options = {};
    options.padding = padding;
    CHECK(attend_plan_create(good.get(), &shape, &options, &plan, &said.error) == ATTEND_ERROR_INVALID);
    CHECK(missing_parts(said.message(), {"padding is " + std::to_string(padding), "ATTEND_PADDING_COMPUTE"}) == "");
  }
  options = {};
  options.target = "Z80";
  CHECK(attend_plan_create(good.get(), &shape, &options, &plan, &said.error) == ATTEND_ERROR_INVALID);
  CHECK(said.message() == error_message([] { Target::from_name("Z80"); }));
  CHECK(plan == nullptr);

  attend_executor* executor = nullptr;
  CHECK(attend_executor_create(-2, &executor, &said.error) == ATTEND_ERROR_INVALID);
  CHECK(said.message() == error_message([] { ThreadPool pool(-2); }));
  CHECK(executor == nullptr);
}

}  // namespace attend::tests
