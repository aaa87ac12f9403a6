// Whether the planner's written rules choose well: every path that fits, measured in turns, over a grid of shapes. The
// time is that of the rules' choice; planner/summary, which must run last, says how many shapes are within 10 % of the
// best path, and its label which are not. planner_map/* is the same over a regular grid of queries by keys, for every
// target, to be drawn as a map of who wins where.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <benchmark/benchmark.h>

#include "attend/layers.h"
#include "attend/planner.h"
#include "bench/benchmarks.h"
#include "bench/problem.h"
#include "bench/support.h"

namespace attend::bench {
namespace {

// Per shape: about a quarter of a second, and as long again where the rules seem to have missed the best.
constexpr double kSeconds = 0.25, kDoubtful = 1.07;
constexpr double kWithin = 1.10;

struct Case {
  std::int64_t batch, heads, kv_heads, m, n, d;
  Causal causal = Causal::kNone;
  bool lens = false, weights = false;
  std::int64_t num_hiddens = 0;  // of additive attention; else a dot product's
  bool prepared = false;

  std::string name() const {
    std::string text = "b" + std::to_string(batch) + "_h" + std::to_string(heads);
    if (kv_heads != heads) text += "_kv" + std::to_string(kv_heads);
    text += "_m" + std::to_string(m) + "_n" + std::to_string(n);
    text += num_hiddens > 0 ? "_u" + std::to_string(num_hiddens) : "_d" + std::to_string(d);
    if (causal != Causal::kNone) text += "_causal";
    if (lens) text += "_lens";
    return text + (weights ? "_weights" : "") + (prepared ? "_prepared" : "");
  }
};

constexpr Causal kCausal = Causal::kBottomRight;

std::vector<Case> grid() {
  std::vector<Case> cases;
  // Queries by keys, at the sizes of heads that models have.
  for (const std::int64_t d : {32, 64, 128}) {
    for (const std::int64_t m : {1, 4, 8, 16, 32, 64, 128}) {
      for (const std::int64_t n : {64, 1024}) cases.push_back({1, 8, 8, m, n, d});
    }
  }
  const Case more[] = {// between the sizes above
                       {1, 1, 1, 2, 512, 64},
                       {1, 4, 4, 6, 256, 64},
                       {1, 4, 4, 12, 256, 64},
                       {1, 4, 4, 24, 256, 64},
                       {1, 4, 4, 40, 256, 64},
                       {1, 4, 4, 48, 256, 64},
                       {1, 4, 4, 56, 512, 96},
                       {1, 4, 4, 96, 512, 80},
                       // short keys, many heads
                       {1, 12, 12, 1, 16, 64},
                       {16, 8, 8, 16, 16, 64},
                       {16, 8, 8, 32, 32, 64},
                       {16, 8, 8, 48, 48, 64},
                       {4, 12, 12, 128, 128, 64},
                       {4, 8, 8, 16, 1024, 64},
                       // many queries, few keys; many of both
                       {1, 8, 8, 1024, 16, 64},
                       {1, 8, 8, 4096, 77, 40},
                       {4, 16, 16, 512, 8, 48},
                       {1, 16, 4, 512, 32, 64},
                       {1, 8, 8, 1024, 128, 64},
                       {1, 4, 4, 256, 256, 32},
                       {1, 12, 12, 512, 512, 64},
                       {1, 2, 2, 1024, 1024, 128},
                       {1, 1, 1, 1024, 4096, 64},
                       // long keys
                       {1, 8, 8, 1, 4096, 64},
                       {1, 8, 8, 8, 4096, 128},
                       {1, 4, 4, 16, 4096, 128},
                       {1, 2, 2, 64, 4096, 64},
                       {8, 8, 8, 1, 512, 64},
                       // heads that share keys and values
                       {1, 32, 8, 1, 1024, 128},
                       {1, 32, 8, 1, 4096, 128},
                       {1, 32, 8, 4, 1024, 128},
                       {1, 32, 4, 8, 512, 128},
                       {1, 16, 2, 16, 512, 64},
                       {4, 8, 1, 1, 1024, 64},
                       {1, 8, 2, 256, 256, 64},
                       // masks and lengths
                       {1, 8, 8, 128, 128, 64, kCausal},
                       {1, 8, 8, 512, 512, 64, kCausal},
                       {1, 8, 2, 512, 512, 128, kCausal},
                       {1, 8, 8, 16, 512, 64, kCausal},
                       {16, 8, 8, 1, 256, 64, Causal::kNone, true},
                       {8, 8, 8, 16, 256, 64, Causal::kNone, true},
                       {8, 8, 8, 64, 256, 64, Causal::kNone, true},
                       // attention weights
                       {1, 8, 8, 1, 1024, 64, Causal::kNone, false, true},
                       {1, 8, 8, 16, 1024, 64, Causal::kNone, false, true},
                       {1, 8, 8, 32, 1024, 64, Causal::kNone, false, true},
                       {1, 8, 8, 32, 256, 128, Causal::kNone, false, true},
                       {1, 8, 8, 64, 64, 64, Causal::kNone, false, true},
                       {1, 8, 8, 128, 512, 64, Causal::kNone, false, true},
                       {1, 4, 4, 512, 512, 64, Causal::kNone, false, true},
                       {1, 2, 2, 256, 2048, 64, Causal::kNone, false, true},
                       {4, 8, 8, 32, 256, 32, Causal::kNone, false, true},
                       // additive scores
                       {16, 1, 1, 1, 100, 0, Causal::kNone, false, false, 256},
                       {1, 1, 1, 64, 256, 0, Causal::kNone, false, false, 128},
                       {4, 1, 1, 32, 64, 0, Causal::kNone, true, true, 64}};
  cases.insert(cases.end(), std::begin(more), std::end(more));
  const Case prepared[] = {{1, 8, 8, 1, 256, 64},    {1, 8, 8, 1, 4096, 64}, {1, 8, 8, 8, 1024, 128},
                           {1, 8, 8, 32, 512, 64},   {1, 8, 8, 32, 512, 32}, {1, 4, 4, 128, 512, 64},
                           {1, 32, 8, 1, 1024, 128}, {1, 16, 4, 4, 1024, 64}};
  for (Case c : prepared) {
    c.prepared = true;
    cases.push_back(c);
  }
  return cases;
}

// Queries by keys, four heads of 64.
std::vector<Case> map_grid() {
  std::vector<Case> cases;
  for (std::int64_t m = 1; m <= 512; m *= 2) {
    for (std::int64_t n = 16; n <= 4096; n *= 4) cases.push_back({1, 4, 4, m, n, 64});
  }
  return cases;
}

Attention layer_of(const Case& c) {
  if (c.num_hiddens == 0) return DotAttention();
  return AdditiveAttention(AdditiveWeights(c.num_hiddens).parameters());
}

Shape shape_of(const Case& c) {
  Shape shape{.batch = c.batch, .num_queries = c.m, .num_keys = c.n};
  if (c.num_hiddens > 0) return shape;
  shape.query_size = c.d;
  shape.num_heads = c.heads;
  shape.num_kv_heads = c.kv_heads;
  return shape;
}

// Seconds of each path, the one of the rules, and what the estimate says of that.
struct Outcome {
  std::string name;
  std::map<std::string, double> seconds;
  std::string by_rules;
  double predicted = 0;
  bool has_lens = false;

  std::string best() const {
    return std::min_element(seconds.begin(), seconds.end(),
                            [](const auto& a, const auto& b) { return a.second < b.second; })
        ->first;
  }
  double ratio() const { return seconds.at(by_rules) / seconds.at(best()); }
};

std::vector<Outcome>& outcomes(const Target& target) {
  static std::map<std::int64_t, std::vector<Outcome>> all;
  return all[target.id()];
}

const Machine& machine(const Target& target) {
  static std::map<std::int64_t, Machine> measured;
  const auto place = measured.find(target.id());
  return place != measured.end() ? place->second : measured[target.id()] = Machine::measure(target);
}

// summarised: counts in planner/summary.
void bench_case(benchmark::State& state, const Case& c, const Target& target, bool summarised) {
  const Attention layer = layer_of(c);
  const Shape shape = shape_of(c);
  PlanOptions options{.target = target, .attention_weights = c.weights};
  options.causal = c.causal;
  options.prepared_keys = c.prepared;
  options.valid_lens = c.lens ? ValidLens::kPerBatch : ValidLens::kNone;
  Outcome outcome{.name = c.name(), .seconds = {}, .by_rules = {}};
  for (auto _ : state) {
    for (int attempt = 0; attempt < 2 && (attempt == 0 || outcome.ratio() > kDoubtful); ++attempt) {
      for (const TunedCandidate& tuned :
           Planner::tune(layer, shape, options, {.seconds = kSeconds, .tiles = false}).candidates) {
        double& least = outcome.seconds.emplace(tuned.path, tuned.seconds).first->second;
        least = std::min(least, tuned.seconds);
        if (tuned.by_rules) outcome.by_rules = tuned.path;
      }
    }
    state.SetIterationTime(outcome.seconds.at(outcome.by_rules));
  }
  const double seconds = outcome.seconds.at(outcome.by_rules);
  outcome.has_lens = c.lens;
  outcome.predicted = layer.plan(shape, options).cost(machine(target)).seconds / seconds;
  for (const auto& [path, least] : outcome.seconds) state.counters[path + "_us"] = least * 1e6;
  state.counters["rule_to_best"] = outcome.ratio();
  state.counters["predicted_percent"] = 100 * outcome.predicted;
  state.SetLabel(outcome.by_rules + (outcome.ratio() > kWithin ? ", best " + outcome.best() : ""));
  if (!summarised) return;
  std::vector<Outcome>& all = outcomes(target);
  std::erase_if(all, [&](const Outcome& before) { return before.name == outcome.name; });
  all.push_back(outcome);
}

void register_planner_case(const std::string& family, const Case& c, const Target& target, bool summarised) {
  register_case(family + c.name(), target.name(),
                [=](benchmark::State& state) { bench_case(state, c, target, summarised); })
      ->Iterations(1)
      ->UseManualTime()
      ->Unit(benchmark::kMicrosecond);
}

void bench_summary(benchmark::State& state, const Target& target) {
  const std::vector<Outcome>& all = outcomes(target);
  for (auto _ : state) state.SetIterationTime(1e-9);
  if (all.empty()) return state.SkipWithError("no planner/ case has run before it");
  double within = 0, predicted_within = 0, worst = 0;
  std::vector<double> errors;
  std::string missed;
  for (const Outcome& outcome : all) {
    if (!outcome.has_lens) {  // the prediction is for all keys valid
      errors.push_back(std::abs(std::log(outcome.predicted)));
      predicted_within += errors.back() <= std::log(1.5) ? 1 : 0;
    }
    worst = std::max(worst, outcome.ratio());
    if (outcome.ratio() <= kWithin) {
      within += 1;
    } else {
      missed += " " + outcome.name;
    }
  }
  const auto count = static_cast<double>(all.size());
  state.counters["shapes"] = count;
  state.counters["within_10_percent"] = 100 * within / count;
  state.counters["worst"] = worst;
  if (!errors.empty()) {
    const auto middle = errors.begin() + static_cast<std::ptrdiff_t>(errors.size() / 2);
    std::nth_element(errors.begin(), middle, errors.end());
    state.counters["predicted_error"] = 100 * (std::exp(*middle) - 1);
    state.counters["predicted_within_1.5x"] = 100 * predicted_within / static_cast<double>(errors.size());
  }
  state.SetLabel(missed.empty() ? "none missed" : "missed:" + missed);
}

}  // namespace

// planner/* of the best target alone: with all of them the family would run for ten minutes.
void register_planner_benchmarks() {
  const Target target = Target::best();
  for (const Case& c : grid()) register_planner_case("planner/", c, target, true);
  for (const Target& each : Target::available()) {
    for (const Case& c : map_grid()) register_planner_case("planner_map/", c, each, false);
  }
  register_case("planner/summary", target.name(), [=](benchmark::State& state) { bench_summary(state, target); })
      ->Iterations(1)
      ->UseManualTime();
}

}  // namespace attend::bench
