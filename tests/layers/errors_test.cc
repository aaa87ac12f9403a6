// The contract (engine/README.md), line 10: every error of a plan or run names the argument, what it was and what was
// expected, and is thrown before any output byte changes.
#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "attend/attend.h"
#include "tests/support/compare.h"
#include "tests/support/executors.h"
#include "tests/support/layer_cases.h"
#include "tests/support/run.h"

namespace attend::tests {
namespace {

using Parts = std::vector<std::string>;

// B 2, M 3, N 9, Dq 8, Dk 8 or 11, Dv 5; heads 3.
LayerCase the_case(Layer layer) { return LayerCase({.layer = layer, .lens = Lens::kPerBatch}); }

// Memory for views that are larger than they should be.
const float* zeros() {
  static const std::vector<float> memory(1 << 16, 0.0f);
  return memory.data();
}

// The mistakes one can make in a run of the_case(layer): what is wrong, how to make it so, what the message must hold.
struct Mistake {
  const char* name;
  std::function<void(Inputs& in, Outputs& out)> make;
  Parts parts;
};

TensorView<const float> rows(std::int64_t batch, std::int64_t count, std::int64_t size) {
  return TensorView<const float>(zeros(), {batch, count, size});
}

std::vector<Mistake> mistakes(float* scratch) {
  static const std::int32_t negative[] = {2, -1};
  static const std::int32_t large[] = {10, 3};
  static const std::int32_t smallest[] = {1, std::numeric_limits<std::int32_t>::min()};
  static const std::int32_t per_query[] = {1, 2, 3, 4, 5, 77};
  static const std::int32_t ones[] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
  using Lengths = TensorView<const std::int32_t>;
  return {
      {"no queries", [](Inputs& in, Outputs&) { in.queries = {}; }, {"queries"}},
      {"queries of rank 2",
       [](Inputs& in, Outputs&) {
         in.queries = {zeros(), {3, 8}};
       },
       {"queries", "(3, 8)"}},
      {"queries of another size", [](Inputs& in, Outputs&) { in.queries = rows(2, 3, 48); }, {"queries", "48", "8"}},
      {"queries at null",
       [](Inputs& in, Outputs&) {
         in.queries = {nullptr, {2, 3, 8}};
       },
       {"queries", "null"}},
      {"keys of another size", [](Inputs& in, Outputs&) { in.keys = rows(2, 9, 64); }, {"keys", "64"}},
      {"keys of another batch",
       [](Inputs& in, Outputs&) { in.keys = rows(1, 9, in.keys.size(2)); },
       {"keys", "(1, 9", "(2"}},
      {"keys of rank 1",
       [](Inputs& in, Outputs&) {
         in.keys = {zeros(), {9}};
       },
       {"keys", "(9)"}},
      {"values of another size", [](Inputs& in, Outputs&) { in.values = rows(2, 9, 6); }, {"values", "6", "5"}},
      {"fewer values than keys", [](Inputs& in, Outputs&) { in.values = rows(2, 7, 5); }, {"values", "7", "9"}},
      {"values of another batch", [](Inputs& in, Outputs&) { in.values = rows(3, 9, 5); }, {"values", "(3, 9", "(2"}},
      {"too large a batch",
       [scratch](Inputs& in, Outputs& out) {
         in = {
             .queries = rows(4, 3, 8), .keys = rows(4, 9, in.keys.size(2)), .values = rows(4, 9, 5), .valid_lens = {}};
         out.output = {scratch, {4, 3, out.output.size(2)}};
       },
       {"4", "2"}},
      {"too many queries",
       [scratch](Inputs& in, Outputs& out) {
         in.queries = rows(2, 13, 8);
         out.output = {scratch, {2, 13, out.output.size(2)}};
       },
       {"13", "3"}},
      {"too many keys",
       [](Inputs& in, Outputs&) {
         in.keys = rows(2, 17, in.keys.size(2));
         in.values = rows(2, 17, 5);
       },
       {"17", "9"}},
      {"queries' innermost stride",
       [](Inputs& in, Outputs&) {
         in.queries = {zeros(), {2, 3, 8}, {48, 16, 2}};
       },
       {"queries", "(48, 16, 2)", "1"}},
      {"keys' innermost stride",
       [](Inputs& in, Outputs&) {
         in.keys = {zeros(), {2, 9, in.keys.size(2)}, {500, 50, -1}};
       },
       {"keys", "(500, 50, -1)", "1"}},
      {"values' innermost stride",
       [](Inputs& in, Outputs&) {
         in.values = {zeros(), {2, 9, 5}, {500, 50, 0}};
       },
       {"values", "(500, 50, 0)", "1"}},
      {"output's innermost stride",
       [scratch](Inputs&, Outputs& out) {
         out.output = {scratch, {2, 3, out.output.size(2)}, {1000, 100, 3}};
       },
       {"output", "(1000, 100, 3)", "1"}},
      {"no output", [](Inputs&, Outputs& out) { out.output = {}; }, {"output"}},
      {"output of another size",
       [scratch](Inputs&, Outputs& out) {
         out.output = {scratch, {2, 3, 99}};
       },
       {"output", "99"}},
      {"output of another batch",
       [scratch](Inputs&, Outputs& out) {
         out.output = {scratch, {1, 3, out.output.size(2)}};
       },
       {"output", "(1, 3", "(2, 3"}},
      {"output at null",
       [](Inputs&, Outputs& out) {
         out.output = {nullptr, {2, 3, out.output.size(2)}};
       },
       {"output", "null"}},
      {"attention weights that were not planned",
       [scratch](Inputs&, Outputs& out) {
         out.attention_weights = {scratch, {2, 3, 9}};
       },
       {"attention_weights"}},
      {"negative length",
       [](Inputs& in, Outputs&) { in.valid_lens = Lengths(negative, {2}); },
       {"valid_lens", "-1", "0", "9"}},
      {"length beyond N", [](Inputs& in, Outputs&) { in.valid_lens = Lengths(large, {2}); }, {"valid_lens", "10", "9"}},
      {"smallest length",
       [](Inputs& in, Outputs&) { in.valid_lens = Lengths(smallest, {2}); },
       {"valid_lens", "-2147483648"}},
      {"length beyond N per query",
       [](Inputs& in, Outputs&) {
         in.valid_lens = Lengths(per_query, {2, 3});
       },
       {"valid_lens", "77", "9", "1, 2"}},
      {"lengths of another batch",
       [](Inputs& in, Outputs&) { in.valid_lens = Lengths(ones, {3}); },
       {"valid_lens", "(3)", "(2)"}},
      {"lengths of another number of queries",
       [](Inputs& in, Outputs&) {
         in.valid_lens = Lengths(ones, {2, 4});
       },
       {"valid_lens", "(2, 4)", "(2, 3)"}},
      {"lengths of rank 3",
       [](Inputs& in, Outputs&) {
         in.valid_lens = Lengths(ones, {2, 3, 1});
       },
       {"valid_lens", "(2, 3, 1)", "(2)"}},
      {"lengths at null", [](Inputs& in, Outputs&) { in.valid_lens = Lengths(nullptr, {2}); }, {"valid_lens", "null"}},
  };
}

}  // namespace

TEST_CASE("contract 10: mistakes in the views of a run are named and change no output") {
  for (const Layer layer : kAllLayers) {
    if (layer == Layer::kDotHeads || layer == Layer::kGaussianHeads) continue;
    const LayerCase c = the_case(layer);
    const Plan plan = c.attention.plan(c.shape);
    Workspace workspace(plan);
    std::vector<float> scratch(1 << 12, kSentinel);
    const std::vector<float> before = scratch;
    for (const Mistake& mistake : mistakes(scratch.data())) {
      INFO(layer_name(layer), ": ", mistake.name);
      Inputs in = c.inputs();
      Outputs out{.output = TensorView<float>(scratch.data(), {2, 3, plan.output_size()}), .attention_weights = {}};
      mistake.make(in, out);
      const std::string message = error_message([&] { plan.run(in, out, workspace); });
      CHECK(missing_parts(message, mistake.parts) == "");
      CHECK(message.find('\n') == std::string::npos);
      CHECK(same_bits(scratch, before));
    }
  }
}

TEST_CASE("contract 10: mistakes in the attention weights") {
  for (const Layer layer : kAllLayers) {
    const LayerCase c = the_case(layer);
    const Plan plan = c.attention.plan(c.shape, {.attention_weights = true});
    INFO(layer_name(layer));
    Workspace workspace(plan);
    std::vector<float> output = sentinels(output_sizes(plan, c.inputs()));
    std::vector<float> weights(1 << 12, kSentinel);
    const Outputs good{.output = TensorView<float>(output.data(), output_sizes(plan, c.inputs())),
                       .attention_weights = {}};
    const bool heads = plan.weight_heads() != 0;
    CHECK(plan.weight_heads() == (c.multi_head() || c.on_heads() ? 3 : 0));
    struct {
      TensorView<float> view;
      Parts parts;
    } const kWrong[] = {
        {heads ? TensorView<float>(weights.data(), {2, 3, 9}) : TensorView<float>(weights.data(), {2, 3, 3, 9}),
         heads ? Parts{"attention_weights", "(2, 3, 9)", "(2, 3, 3, 9)"}
               : Parts{"attention_weights", "(2, 3, 3, 9)", "(2, 3, 9)"}},
        {heads ? TensorView<float>(weights.data(), {2, 3, 3, 10}) : TensorView<float>(weights.data(), {2, 3, 10}),
         {"attention_weights", "10", "9"}},
        {heads ? TensorView<float>(weights.data(), {2, 3, 3, 9}, {500, 100, 30, 2})
               : TensorView<float>(weights.data(), {2, 3, 9}, {100, 30, 2}),
         {"attention_weights", "30, 2)", "1"}},
    };
    for (const auto& wrong : kWrong) {
      Outputs out = good;
      out.attention_weights = wrong.view;
      CHECK(missing_parts(error_message([&] { plan.run(c.inputs(), out, workspace); }), wrong.parts) == "");
    }
    CHECK(std::all_of(weights.begin(), weights.end(), [](float x) { return x == kSentinel; }));
    CHECK(std::all_of(output.begin(), output.end(), [](float x) { return x == kSentinel; }));
  }
}

TEST_CASE("contract 10: a workspace that is too small is refused, one that is larger serves") {
  for (const Layer layer : kAllLayers) {
    const LayerCase c = the_case(layer);
    const Plan plan = c.attention.plan(c.shape);
    REQUIRE(plan.workspace_bytes() > 0);
    std::vector<float> output = sentinels(output_sizes(plan, c.inputs()));
    const Outputs out{.output = TensorView<float>(output.data(), output_sizes(plan, c.inputs())),
                      .attention_weights = {}};
    const std::vector<float> before = output;
    Workspace small(plan.workspace_bytes() - 1);
    const std::string message = error_message([&] { plan.run(c.inputs(), out, small); });
    CHECK(missing_parts(message, {"workspace", std::to_string(plan.workspace_bytes() - 1),
                                  std::to_string(plan.workspace_bytes())}) == "");
    CHECK(same_bits(output, before));

    const RunResult expected = run_plan(plan, c.inputs());
    Workspace large(plan.workspace_bytes() + 1000);
    plan.run(c.inputs(), out, large);
    CHECK(same_bits(output, expected.output));

    // The caller's memory, of any alignment.
    for (const std::size_t offset : {std::size_t{0}, std::size_t{1}, std::size_t{7}, std::size_t{63}}) {
      std::vector<std::byte> memory(offset + plan.workspace_bytes() + Workspace::kAlignment);
      Workspace lent(std::span<std::byte>(memory).subspan(offset));
      CHECK(lent.size() >= plan.workspace_bytes());
      CHECK(reinterpret_cast<std::uintptr_t>(lent.data()) % Workspace::kAlignment == 0);
      output = before;
      plan.run(c.inputs(), out, lent);
      CHECK(same_bits(output, expected.output));
    }
  }
}

TEST_CASE("contract 10: an executor with more workers than the plan has room for does no harm") {
  const LayerCase c({.layer = Layer::kDot, .batch = 8, .num_queries = 40, .num_keys = 40});
  const Plan plan = c.attention.plan(c.shape, {.threads = 2});
  EagerPool pool(7);
  CHECK(same_bits(run_plan(plan, c.inputs()), run_plan(plan, c.inputs(), false, &pool)));
}

TEST_CASE("contract 10: mistakes while planning") {
  const LayerCase additive = the_case(Layer::kAdditive);
  const LayerCase dot = the_case(Layer::kDot);
  const LayerCase bilinear = the_case(Layer::kBilinear);
  const LayerCase gaussian = the_case(Layer::kGaussian);
  const LayerCase multi_head = the_case(Layer::kMultiHead);
  constexpr std::int64_t kHuge = std::int64_t{1} << 62;
  const Parts kTooLarge = {" is 4611686018427387904, expected at most ", ": queries would not fit in memory"};
  struct {
    const LayerCase& c;
    std::function<void(Shape&, PlanOptions&)> make;
    Parts parts;
  } const kMistakes[] = {
      {dot, [](Shape& s, PlanOptions&) { s.batch = -1; }, {"batch", "-1"}},
      {dot, [](Shape& s, PlanOptions&) { s.num_queries = -2; }, {"num_queries", "-2"}},
      {dot, [](Shape& s, PlanOptions&) { s.num_keys = -3; }, {"num_keys", "-3"}},
      {dot,
       [](Shape& s, PlanOptions&) {
         s.query_size = 48;
         s.key_size = 64;
       },
       {"queries", "48", "keys", "64"}},
      {dot, [](Shape& s, PlanOptions&) { s.query_size = s.key_size = 0; }, {"query_size", "0"}},
      {dot, [](Shape& s, PlanOptions&) { s.query_size = -8; }, {"query_size", "-8"}},
      {dot, [](Shape& s, PlanOptions&) { s.value_size = -8; }, {"value_size", "-8"}},
      {dot, [](Shape& s, PlanOptions&) { s.num_heads = 0; }, {"num_heads", "0"}},
      {dot, [](Shape& s, PlanOptions&) { s.num_keys = std::int64_t{1} << 40; }, {"num_keys", "1099511627776"}},
      {dot, [](Shape& s, PlanOptions&) { s.batch = s.num_queries = kHuge; }, kTooLarge},
      {dot, [](Shape& s, PlanOptions&) { s.batch = kHuge, s.num_queries = 1; }, kTooLarge},
      {dot, [](Shape& s, PlanOptions&) { s.batch = kHuge, s.num_queries = 1, s.num_heads = 8; }, kTooLarge},
      {dot, [](Shape& s, PlanOptions&) { s.num_queries = kHuge, s.num_heads = 8; }, kTooLarge},
      {multi_head,
       [](Shape& s, PlanOptions& o) {
         s.batch = std::int64_t{1} << 32, s.num_queries = 1, s.num_keys = std::int64_t{1} << 30;
         o.threads = 2;
       },
       {"shape (B 4294967296, M 1, N 1073741824, ",
        " on 2 threads needs a workspace of 2^63 bytes or more, expected less"}},
      {dot,
       [](Shape& s, PlanOptions&) {
         s.batch = std::int64_t{1} << 32, s.num_queries = 1, s.num_keys = std::int64_t{1} << 30;
       },
       {"shape (B 4294967296, M 1, N 1073741824, ", " on 1 thread needs prepared keys of 2^63 bytes or more"}},
      {dot, [](Shape&, PlanOptions& o) { o.threads = 0; }, {"threads", "0", "1"}},
      {dot, [](Shape&, PlanOptions& o) { o.threads = -4; }, {"threads", "-4"}},
      {dot, [](Shape&, PlanOptions& o) { o.valid_lens = static_cast<ValidLens>(9); }, {"valid_lens is 9", "kPerQuery"}},
      {dot, [](Shape&, PlanOptions& o) { o.causal = static_cast<Causal>(-1); }, {"causal is -1", "kTopLeft"}},
      {dot, [](Shape&, PlanOptions& o) { o.padding = static_cast<Padding>(2); }, {"padding is 2", "kSkipQueries"}},
      {dot, [](Shape&, PlanOptions& o) { o.pairs = static_cast<Pairs>(3); }, {"pairs is 3", "kAlways"}},
      {dot, [](Shape&, PlanOptions& o) { o.parts = static_cast<attend::Parts>(-9); }, {"parts is -9", "kAlways"}},
      {additive,
       [](Shape&, PlanOptions& o) { o.score_tier = static_cast<ScoreTier>(1000000), o.count_tiers = true; },
       {"score_tier is 1000000", "kRational"}},
      {additive, [](Shape&, PlanOptions& o) { o.score_tier = static_cast<ScoreTier>(-2); }, {"score_tier is -2"}},
      {dot,
       [](Shape&, PlanOptions& o) { o.path = "dot/imaginary"; },
       {"dot/imaginary", "dot/fused", "dot/materialised"}},
      {dot, [](Shape&, PlanOptions& o) { o.path = "additive/factored"; }, {"additive/factored", "dot/fused"}},
      {gaussian,
       [](Shape& s, PlanOptions&) {
         s.query_size = 3;
         s.key_size = 4;
       },
       {"queries", "3", "keys", "4"}},
      {additive, [](Shape& s, PlanOptions&) { s.query_size = 48; }, {"query_size", "48", "8"}},
      {additive, [](Shape& s, PlanOptions&) { s.key_size = 48; }, {"key_size", "48", "11"}},
      {additive, [](Shape& s, PlanOptions&) { s.num_heads = 2; }, {"num_heads", "2"}},
      {bilinear, [](Shape& s, PlanOptions&) { s.query_size = 9; }, {"query_size", "9", "8"}},
      {bilinear, [](Shape& s, PlanOptions&) { s.key_size = 12; }, {"key_size", "12", "11"}},
      {multi_head, [](Shape& s, PlanOptions&) { s.value_size = 50; }, {"value_size", "50", "5"}},
      {multi_head, [](Shape& s, PlanOptions&) { s.num_heads = 4; }, {"num_heads", "4"}},
  };
  for (const auto& mistake : kMistakes) {
    Shape shape = mistake.c.shape;
    PlanOptions options;
    mistake.make(shape, options);
    CHECK(missing_parts(error_message([&] { mistake.c.attention.plan(shape, options); }), mistake.parts) == "");
  }
}

TEST_CASE("contract 10: what the caller promised of the lengths, a run is held to") {
  const LayerCase c = the_case(Layer::kDot);
  const std::int32_t lens[] = {1, 2, 3, 4, 5, 6};
  Inputs per_query = c.inputs();
  per_query.valid_lens = TensorView<const std::int32_t>(lens, {2, 3});
  const auto run = [&](ValidLens promised, const Inputs& in) {
    return error_message([&] { run_plan(c.attention.plan(c.shape, {.valid_lens = promised}), in); });
  };
  Inputs none = c.inputs();
  none.valid_lens = {};
  for (const Inputs& in : {none, c.inputs(), per_query}) {
    CHECK(run(ValidLens::kAny, in) == "");
    CHECK(run(ValidLens::kPerQuery, in) == "");
  }
  CHECK(run(ValidLens::kNone, none) == "");
  CHECK(run(ValidLens::kPerBatch, none) == "");
  CHECK(run(ValidLens::kPerBatch, c.inputs()) == "");
  CHECK(missing_parts(run(ValidLens::kNone, c.inputs()), {"valid_lens", "(2)"}) == "");
  CHECK(missing_parts(run(ValidLens::kPerBatch, per_query), {"valid_lens", "(2, 3)"}) == "");
}

TEST_CASE("contract 10: targets are named, listed and forced; an unknown one lists those that are there") {
  const std::vector<Target> available = Target::available();
  REQUIRE(!available.empty());
  CHECK(Target() == Target::best());
  CHECK(available.front() == Target::best());
  Parts names{"AVX9"};
  for (const Target& target : available) {
    CHECK(Target::from_name(target.name()) == target);
    std::string lower = target.name();
    for (char& letter : lower) letter = static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
    CHECK(Target::from_name(lower) == target);
    names.push_back(target.name());
  }
  CHECK(missing_parts(error_message([] { Target::from_name("AVX9"); }), names) == "");
  CHECK(missing_parts(error_message([] { Target::from_name(""); }), {available.front().name()}) == "");
}

TEST_CASE("contract 10: a pool of less than no threads") {
  CHECK(missing_parts(error_message([] { ThreadPool pool(-2); }), {"threads", "-2"}) == "");
  CHECK(ThreadPool(0).concurrency() == ThreadPool::available_threads());
}

}  // namespace attend::tests
