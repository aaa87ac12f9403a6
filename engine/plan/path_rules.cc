// Which path is taken, and why. Additive scores are factored or rational, pooled online or by whole rows. Which of
// three ways of a dot product pays is dot_path.cc's; whole rows are taken here, where their weights are asked for.
#include "engine/plan/path_rules.h"

#include <algorithm>
#include <string>
#include <vector>

#include "engine/base/checked.h"
#include "engine/base/message.h"
#include "engine/plan/dot_path.h"
#include "engine/plan/profile.h"
#include "engine/plan/tile_rules.h"

namespace attend::detail {
namespace {

struct Candidate {
  std::string path;
  Pooling pooling;
  bool factored;
};

// The option that only factored scores can follow, where it is set; else null.
const char* tier_option(const PlanOptions& options) {
  if (options.count_tiers) return "count_tiers";
  return options.score_tier == ScoreTier::kByRange ? nullptr : "score_tier";
}

// The paths that fit, the one the rules would take first.
std::vector<Candidate> candidates(const PlanImpl& plan) {
  std::vector<Candidate> all;
  if (plan.layer->score == Score::kAdditive) {
    // Also for one query, where a key's exponentials cost as much as its score by the rational tanh: 0.35 against 0.30
    // ns per key and hidden unit (AVX3), beside 3 ns for its projection. Prepared keys have them, and runs with
    // prepared keys and without agree to the bit. bench: additive/b64_m1_n100_u256 beside additive_rational.
    for (const bool factored : {true, false}) {
      if (!factored && tier_option(plan.options) != nullptr) continue;
      const std::string path = factored ? "additive/factored" : "additive/rational";
      if (!plan.options.attention_weights) all.push_back({path, Pooling::kFused, factored});
      all.push_back({path + "-materialised", Pooling::kMaterialised, factored});
    }
    return all;
  }
  const Candidate fused{"dot/fused", Pooling::kFused, false};
  const Candidate materialised{"dot/materialised", Pooling::kMaterialised, false};
  for (const Candidate& each : {Candidate{"dot/decode", Pooling::kDecode, false},
                                Candidate{"dot/lanes", Pooling::kLanes, false}, fused, materialised}) {
    if (dot_path_fits(plan, each.pooling)) all.push_back(each);
  }
  Pooling preferred = preferred_dot_path(plan);
  const bool rows_fit = kMinMaterialisedRows * to_size(plan.shape.num_keys) * sizeof(float) <= kMaterialisedBytes;
  if (preferred == Pooling::kFused && plan.options.attention_weights && rows_fit) preferred = Pooling::kMaterialised;
  std::stable_partition(all.begin(), all.end(), [&](const Candidate& each) { return each.pooling == preferred; });
  return all;
}

std::string why_first(const PlanImpl& plan, const Candidate& first) {
  const bool additive = plan.layer->score == Score::kAdditive;
  const bool in_tiles = first.pooling == Pooling::kFused || first.pooling == Pooling::kMaterialised;
  if (!in_tiles || (!additive && !plan.options.attention_weights)) return why_preferred(plan, first.pooling);
  std::string why;
  if (first.pooling == Pooling::kMaterialised) {
    why = "attention_weights are asked for, so each row's weights exist anyway and pool the values from where they lie";
  } else if (plan.options.attention_weights) {
    why = "rows of scores exceed " + std::to_string(kMaterialisedBytes / 1024) +
          " KiB, so attention_weights are scored again once their sums are known";
  } else {
    why = "attention_weights are not asked for, so scores live one tile at a time (online softmax)";
  }
  if (!additive) return why;
  return why + "; tanh from exponentials taken once per query and key, several terms per division";
}

const Candidate* find_path(const std::vector<Candidate>& all, const std::string& path) {
  const auto place = std::find_if(all.begin(), all.end(), [&](const Candidate& c) { return c.path == path; });
  return place == all.end() ? nullptr : &*place;
}

// What the path's name must be one of, before the names.
std::string expected_paths(const PlanImpl& plan) {
  std::string text = plan.options.attention_weights ? "that returns attention_weights" : "";
  const char* option = plan.layer->score == Score::kAdditive ? tier_option(plan.options) : nullptr;
  if (option != nullptr) {
    text += std::string(text.empty() ? "that" : " and") + " has tiers, since " + option + " is set";
  }
  return text.empty() ? "of" : text;
}

// Whether the path has the tiles that the caller asks for.
bool has_asked_tiles(const PlanImpl& plan, const Candidate& candidate) {
  return (plan.options.tile_queries == 0 || plan.has_tile_queries(candidate.pooling)) &&
         (plan.options.tile_keys == 0 || plan.has_tile_keys(candidate.pooling));
}

// What the caller asks for must fit; a profile's tiles that the path does not have are passed over.
void check_tiles(PlanImpl& plan) {
  const PlanOptions& options = plan.options;
  const auto check = [&](const char* name, std::int64_t tile, const std::string& fault, bool has) {
    if (!fault.empty()) fail(name, " is ", tile, fault);
    if (tile != 0 && !has) fail(name, " is ", tile, ", expected 0: path ", plan.path, " has no such tiles");
  };
  check("tile_queries", options.tile_queries, tile_queries_fault(options.tile_queries), plan.has_tile_queries());
  check("tile_keys", options.tile_keys, tile_keys_fault(options.tile_keys), plan.has_tile_keys());
  if (!plan.has_tile_queries()) plan.wanted_tile_queries = 0;
  if (!plan.has_tile_keys()) plan.wanted_tile_keys = 0;
}

void check_tier_options(const PlanImpl& plan) {
  if (plan.factored) return;
  const char* option = tier_option(plan.options);
  if (option != nullptr) fail(option, " is set, expected path additive/factored, which has tiers; path is ", plan.path);
}

}  // namespace

// What is asked for, else what a profile has for exactly this problem, else what the rules say.
void choose_path(PlanImpl& plan) {
  const PlanOptions& options = plan.options;
  const std::vector<Candidate> all = candidates(plan);
  std::string names;
  for (const Candidate& candidate : all) {
    names += (names.empty() ? "" : ", ") + candidate.path;
    plan.candidates.push_back(candidate.path);
  }
  plan.wanted_tile_queries = to_size(options.tile_queries);
  plan.wanted_tile_keys = to_size(options.tile_keys);
  const Candidate* chosen = &all.front();
  std::string why = why_first(plan, *chosen);
  const ProfileEntry* measured = options.profile == nullptr ? nullptr : options.profile->find(problem_text(plan));
  const Candidate* of_profile = measured == nullptr ? nullptr : find_path(all, measured->path);
  if (!options.path.empty()) {
    chosen = find_path(all, options.path);
    if (chosen == nullptr) {
      fail("path is \"", options.path, "\", expected one ", expected_paths(plan), ": ", names);
    }
    why = "asked for";
  } else if (of_profile != nullptr && has_asked_tiles(plan, *of_profile)) {
    chosen = of_profile;
    why = "by the profile, " + microseconds_text(measured->microseconds) + " us when tuned";
  } else if (measured != nullptr) {
    why += "; the profile's " + measured->path +
           (of_profile == nullptr ? " is not among the candidates" : " does not have the tiles asked for");
  }
  if (chosen == of_profile && has_asked_tiles(plan, *chosen)) {
    if (options.tile_queries == 0) plan.wanted_tile_queries = to_size(measured->tile_queries);
    if (options.tile_keys == 0) plan.wanted_tile_keys = to_size(measured->tile_keys);
    if (options.pairs == Pairs::kWhereFaster && measured->pairs != Pairs::kWhereFaster) {
      plan.options.pairs = measured->pairs;
      why += std::string("; pairs of terms ") + pairs_word(measured->pairs) + ", by the profile";
    }
  }
  plan.path = chosen->path;
  plan.pooling = chosen->pooling;
  plan.factored = chosen->factored;
  plan.reasons.push_back({"path", plan.path + ": " + why + " (candidates: " + names + ")"});
  check_tiles(plan);
  check_tier_options(plan);
}

}  // namespace attend::detail
