// Planner::tune and measure: plans run on made-up data, taking turns.
#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "attend/planner.h"
#include "engine/base/message.h"
#include "engine/plan/pair_rules.h"
#include "engine/plan/plan_impl.h"
#include "engine/plan/profile.h"
#include "engine/tune/choose.h"
#include "engine/tune/made_up_problem.h"

namespace attend {
namespace {

using Clock = std::chrono::steady_clock;
using detail::MadeUpProblem;

// A sample is long beside what the clock resolves and short beside what disturbs it.
constexpr double kSampleSeconds = 300e-6;
constexpr int kMinRounds = 3, kMaxRounds = 100;
// After the first rounds, only those within this factor of the best are measured on.
constexpr double kHopeless = 1.3;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

// That are asked for; 0: by the rules.
struct Tile {
  std::int64_t queries = 0, keys = 0;
};

// A plan with all that a run of it needs, and how long its runs took. impl: the plan's, which lives as long.
class Subject {
 public:
  Subject(Plan plan, const detail::PlanImpl& impl, const Tile& tile, MadeUpProblem& problem)
      : plan_(std::move(plan)),
        impl_(&impl),
        tile_(tile),
        workspace_(plan_),
        in_(problem.inputs()),
        out_(problem.outputs()) {
    if (!impl.options.prepared_keys) return;
    prepared_ = std::make_unique<PreparedKeys>(plan_);
    plan_.prepare({.keys = in_.keys, .values = in_.values, .valid_lens = in_.valid_lens}, *prepared_, workspace_);
    in_ = {.queries = in_.queries, .keys = {}, .values = {}, .valid_lens = {}, .prepared = prepared_.get()};
  }

  void sample(Executor& executor) {
    if (runs_ == 0) {  // the first run warms up, the second says how many make a sample
      plan_.run(in_, out_, workspace_, executor);
      runs_ = 1;
      const double one = timed(executor);
      runs_ = std::max(1, static_cast<int>(std::ceil(kSampleSeconds / std::max(one, 1e-9))));
    }
    samples_.push_back(timed(executor));
  }

  bool has_choices_of(const detail::PlanImpl& other) const {
    return impl_->path == other.path && impl_->tile_queries == other.tile_queries &&
           impl_->tile_keys == other.tile_keys && detail::goes_by_pairs(*impl_) == detail::goes_by_pairs(other);
  }
  TunedCandidate outcome() const {
    return {.path = impl_->path,
            .tile_queries = tile_.queries,
            .tile_keys = tile_.keys,
            .pairs = impl_->options.pairs,
            .seconds = least(),
            .median_seconds = median()};
  }
  double least() const { return *std::min_element(samples_.begin(), samples_.end()); }
  double median() const {
    std::vector<double> sorted = samples_;
    const auto middle = sorted.begin() + static_cast<std::ptrdiff_t>(sorted.size() / 2);
    std::nth_element(sorted.begin(), middle, sorted.end());
    return *middle;
  }

 private:
  double timed(Executor& executor) {
    const Clock::time_point start = Clock::now();
    for (int i = 0; i < runs_; ++i) plan_.run(in_, out_, workspace_, executor);
    return seconds_since(start) / runs_;
  }

  Plan plan_;
  const detail::PlanImpl* impl_;
  Tile tile_;
  Workspace workspace_;
  Inputs in_;
  Outputs out_;
  std::unique_ptr<PreparedKeys> prepared_;
  int runs_ = 0;
  std::vector<double> samples_;
};

// The caller's executor, or a pool of as many threads as the plan is for.
class Workers {
 public:
  Workers(Executor* given, int threads) : given_(given) {
    if (given_ == nullptr && threads > 1) pool_.emplace(threads);
  }
  Executor& executor() {
    if (given_ != nullptr) return *given_;
    if (pool_) return *pool_;
    return serial_;
  }

 private:
  Executor* given_;
  SerialExecutor serial_;
  std::optional<ThreadPool> pool_;
};

// All take turns until the time is over; those without hope drop out, but never the first.
void measure_in_turns(std::vector<Subject>& subjects, double seconds, Executor& executor) {
  const Clock::time_point start = Clock::now();
  std::vector<Subject*> hopeful;
  for (Subject& subject : subjects) hopeful.push_back(&subject);
  for (int round = 0; round < kMaxRounds; ++round) {
    if (round >= kMinRounds && seconds_since(start) > seconds) return;
    for (Subject* subject : hopeful) subject->sample(executor);
    double best = hopeful.front()->least();
    for (const Subject* subject : hopeful) best = std::min(best, subject->least());
    if (round + 1 < kMinRounds) continue;
    hopeful.erase(std::remove_if(hopeful.begin() + 1, hopeful.end(),
                                 [&](const Subject* subject) { return subject->least() > kHopeless * best; }),
                  hopeful.end());
  }
}

// Around those of the rules. Which of them a path has, and which come to the same, its plans say.
constexpr std::array<Tile, 9> kTiles = {
    {{0, 0}, {0, 128}, {0, 256}, {0, 512}, {24, 0}, {96, 0}, {24, 256}, {96, 256}, {96, 512}}};

// What to measure of a path. by_rules: a plan of it; others: also other tiles than its.
std::vector<Tile> tiles_of(const detail::PlanImpl& by_rules, bool others) {
  if (!others) return {Tile{}};
  std::vector<Tile> tiles;
  for (const Tile& tile : kTiles) {
    // A path has no tiles of queries where its queries are lanes, none of keys where it keeps whole rows.
    if (tile.queries != 0 && !by_rules.has_tile_queries()) continue;
    if (tile.keys != 0 && !by_rules.has_tile_keys()) continue;
    tiles.push_back(tile);
  }
  return tiles;
}

bool is_known(const std::vector<Subject>& subjects, const detail::PlanImpl& plan) {
  return std::any_of(subjects.begin(), subjects.end(),
                     [&](const Subject& subject) { return subject.has_choices_of(plan); });
}

// In the order of the subjects, the first of which is by the rules.
std::vector<TunedCandidate> outcomes_of(const std::vector<Subject>& subjects) {
  std::vector<TunedCandidate> candidates;
  for (const Subject& subject : subjects) candidates.push_back(subject.outcome());
  candidates.front().by_rules = true;
  return candidates;
}

Profile profile_of(const detail::PlanImpl& plan, const TunedCandidate& chosen) {
  Profile profile;
  profile.add({.problem = detail::problem_text(plan),
               .path = chosen.path,
               .tile_queries = chosen.tile_queries,
               .tile_keys = chosen.tile_keys,
               .pairs = chosen.pairs,
               .microseconds = chosen.seconds * 1e6});
  return profile;
}

}  // namespace

Tuned Planner::tune(const Attention& layer, const Shape& shape, const PlanOptions& options,
                    const TuneOptions& tune_options) {
  if (options.tile_queries != 0) fail("tile_queries is ", options.tile_queries, ", expected 0: tune finds the tiles");
  if (options.tile_keys != 0) fail("tile_keys is ", options.tile_keys, ", expected 0: tune finds the tiles");
  PlanOptions base = options;
  base.profile = nullptr;
  const Plan first = layer.plan(shape, base);
  std::vector<std::string> paths(first.candidates().begin(), first.candidates().end());
  if (!options.path.empty()) paths = {options.path};

  MadeUpProblem problem(*first.impl_, tune_options.head_layout);
  std::vector<Subject> subjects;
  subjects.emplace_back(first, *first.impl_, Tile{}, problem);
  const auto add = [&](const PlanOptions& asked) {
    const Plan plan = layer.plan(shape, asked);
    if (is_known(subjects, *plan.impl_)) return;
    subjects.emplace_back(plan, *plan.impl_, Tile{asked.tile_queries, asked.tile_keys}, problem);
  };
  for (const std::string& path : paths) {
    PlanOptions forced = base;
    forced.path = path;
    const Plan by_rules = layer.plan(shape, forced);
    for (const Tile& tile : tiles_of(*by_rules.impl_, tune_options.tiles)) {
      forced.tile_queries = tile.queries;
      forced.tile_keys = tile.keys;
      add(forced);
    }
    // In the tiles of the rules alone: every candidate takes time.
    if (!tune_options.tiles || base.pairs != Pairs::kWhereFaster || !detail::goes_by_pairs(*by_rules.impl_)) continue;
    forced.tile_queries = forced.tile_keys = 0;
    forced.pairs = Pairs::kNever;
    add(forced);
  }

  Workers workers(tune_options.executor, options.threads);
  measure_in_turns(subjects, tune_options.seconds, workers.executor());
  std::vector<TunedCandidate> candidates = outcomes_of(subjects);
  Profile profile = profile_of(*first.impl_, detail::choose(candidates));
  base.profile = &profile;
  Plan plan = layer.plan(shape, base);
  std::stable_sort(candidates.begin(), candidates.end(), detail::is_faster);
  return {std::move(plan), std::move(profile), std::move(candidates)};
}

double Planner::measure(const Plan& plan, const TuneOptions& tune_options) {
  MadeUpProblem problem(*plan.impl_, tune_options.head_layout);
  std::vector<Subject> subjects;
  subjects.emplace_back(plan, *plan.impl_, Tile{}, problem);
  Workers workers(tune_options.executor, plan.impl_->options.threads);
  measure_in_turns(subjects, tune_options.seconds, workers.executor());
  return subjects.front().least();
}

}  // namespace attend
