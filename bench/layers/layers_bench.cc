// Whole layers on one thread, planned once, run many times: dot/*, gaussian/*, bilinear/*, multi_head/*, overhead/*;
// and masked_softmax/*.
// Shapes and lengths are those of contest/peer.py, so that numbers can be set side by side.
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <benchmark/benchmark.h>

#include "attend/plan.h"
#include "bench/benchmarks.h"
#include "bench/layers/layer_cases.h"
#include "bench/layers/run_layer.h"
#include "bench/problem.h"
#include "bench/support.h"

namespace attend::bench {
namespace {

// The lengths that other libraries are measured with on the same cases, as those of dot_cases().
const std::vector<std::int32_t> kLensB8S128 = {128, 90, 17, 64, 121, 33, 105, 71};
const std::vector<std::int32_t> kLensB1S512 = {387};
const std::vector<std::int32_t> kLensB32S32 = {32, 7,  19, 25, 3,  30, 14, 22, 9,  28, 17, 11, 31, 5,  24, 13,
                                               20, 27, 2,  16, 29, 8,  23, 12, 18, 26, 6,  21, 10, 15, 4,  1};

void register_dot() {
  for (const NamedDotCase& c : dot_cases()) {
    const std::string name = "dot/" + c.name;
    const SharedProblem problem = shared_problem([c] { return dot_problem(c.problem); });
    const Count count = c.problem.m == 1 ? count_decode : count_dot;
    for (const int threads : {1, 2}) {
      const PlanOptions options{.threads = threads, .causal = c.problem.causal};
      register_layer(name + (threads > 1 ? "_threads2" : ""), options, problem, count);
    }
    register_layer(name + "_weights", {.attention_weights = true, .causal = c.problem.causal}, problem, count);
  }
  // As large blocks come from malloc: rows that begin within lines.
  const SharedProblem off_lines = shared_problem([] {
    Problem problem = dot_problem({8, 12, 12, 512, 512, 64, Causal::kNone, kLensB8N512});
    for (AlignedTensor* tensor : {&problem.queries, &problem.keys, &problem.values}) tensor->move_off_line(4);
    return problem;
  });
  register_layer("dot/b8_h12_m512_n512_d64_lens_off4", {}, off_lines, count_dot);
  // What a run costs beyond its arithmetic: 8 queries and keys of size 8.
  register_layer("overhead/1x1x8x8", {}, shared_problem([] { return dot_problem({1, 1, 1, 8, 8, 8}); }), count_dot);
}

// Lengths (B, M), and scores by other formulas.
void register_other_scores() {
  const SharedProblem lens_per_query = shared_problem([] {
    return dot_problem({8, 12, 12, 512, 512, 64, Causal::kNone, random_lens(8 * 512, 512, kLensSeed)});
  });
  register_layer("dot/b8_h12_m512_n512_d64_query_lens", {}, lens_per_query, count_dot);
  register_layer("dot/b8_h12_m512_n512_d64_query_lens_weights", {.attention_weights = true}, lens_per_query, count_dot);
  register_layer("gaussian/b1_h12_m512_n512_d64", {}, shared_problem([] {
                   return gaussian_problem({1, 12, 12, 512, 512, 64});
                 }),
                 count_dot);
  // Many keys that one group of queries meets (choose_span, engine/plan/tile_rules.cc).
  register_layer("gaussian/b1_h1_m64_n32768_d128", {}, shared_problem([] {
                   return gaussian_problem({1, 1, 1, 64, 32768, 128});
                 }),
                 count_dot);
  register_layer("bilinear/b1_m512_n512", {}, shared_problem([] { return bilinear_problem(1, 512, 512); }),
                 count_bilinear);
}

void register_multi_head() {
  struct Case {
    const char* name;
    std::int64_t batch, length, size, heads;
    std::vector<std::int32_t> lens;
  };
  const Case cases[] = {{"b8_s128_e768_h12", 8, 128, 768, 12, kLensB8S128},
                        {"b1_s512_e768_h12", 1, 512, 768, 12, kLensB1S512},
                        {"b32_s32_e512_h8", 32, 32, 512, 8, kLensB32S32}};
  for (const Case& c : cases) {
    const std::string name = std::string("multi_head/") + c.name;
    const auto problem = [c](bool lens) {
      return shared_problem([c, lens] {
        return multi_head_problem(c.batch, c.length, c.size, c.heads, lens ? c.lens : std::vector<std::int32_t>{});
      });
    };
    const SharedProblem full = problem(false), padded = problem(true);
    register_layer(name, {}, full, count_multi_head);
    register_layer(name + "_threads2", {.threads = 2}, full, count_multi_head);
    register_layer(name + "_lens", {}, padded, count_multi_head);
    register_layer(name + "_ragged", {.padding = Padding::kSkipQueries}, padded, count_multi_head);
  }
}

void register_masked_softmax() {
  for (const std::int64_t columns : {1024, 128}) {
    for (const bool lens : {false, true}) {
      for (const Target& target : Target::available()) {
        register_case("masked_softmax/r4096_n" + std::to_string(columns) + (lens ? "_lens" : ""), target.name(),
                      [=](benchmark::State& state) { run_masked_softmax(state, target, 4096, columns, lens); })
            ->Unit(benchmark::kMicrosecond);
      }
    }
  }
}

}  // namespace

void register_layer_benchmarks() {
  register_dot();
  register_other_scores();
  register_multi_head();
  register_masked_softmax();
}

}  // namespace attend::bench
