// Problems that nobody thought of: layer, sizes, masks, contents, path, tiles and threads at random, each held to the
// contract (engine/README.md). ATTEND_RANDOM_PROBLEMS=FIRST:COUNT draws others than the first few; a failure names its
// number.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <initializer_list>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "attend/attend.h"
#include "tests/support/compare.h"
#include "tests/support/executors.h"
#include "tests/support/for_each_target.h"
#include "tests/support/layer_cases.h"
#include "tests/support/layouts.h"
#include "tests/support/masks.h"
#include "tests/support/prepared.h"
#include "tests/support/random.h"
#include "tests/support/run.h"

namespace attend::tests {
namespace {

// The reference in double takes most of the time.
constexpr double kMostTerms = 4e6;

bool one_in(Random& random, std::int64_t n) { return random.integer(1, n) == 1; }

// low <= result <= high, small ones as likely as large ones.
std::int64_t any_size(Random& random, std::int64_t low, std::int64_t high) {
  const double ratio = static_cast<double>(high + 1) / static_cast<double>(low);
  return std::min(high, static_cast<std::int64_t>(static_cast<double>(low) * std::pow(ratio, random.unit())));
}

std::int64_t one_of(Random& random, std::initializer_list<std::int64_t> sizes) {
  return sizes.begin()[random.integer(0, static_cast<std::int64_t>(sizes.size()) - 1)];
}

std::int64_t usual_or_any(Random& random, std::int64_t high) {
  return one_in(random, 3) ? one_of(random, {1, 8, 16, 32, 64, 96, 128}) : any_size(random, 1, high);
}

bool has_shared_heads(Layer layer) {
  return layer == Layer::kDotHeads || layer == Layer::kGaussianHeads || layer == Layer::kMultiHead;
}

CaseSpec random_spec(Random& random, std::uint64_t seed) {
  CaseSpec s{.layer = kAllLayers[random.integer(0, std::ssize(kAllLayers) - 1)], .seed = seed};
  const bool is_large = one_in(random, 4);
  s.batch = random.integer(1, 4);
  s.num_queries = any_size(random, 1, is_large ? 300 : 70);
  s.num_keys = any_size(random, 1, is_large ? 2600 : 300);
  s.size = usual_or_any(random, 140);
  s.value_size = usual_or_any(random, 140);
  s.num_heads = one_of(random, {2, 3, 4, 6, 8});
  s.num_hiddens = usual_or_any(random, 200);
  if (s.layer == Layer::kMultiHead || s.layer == Layer::kMultiHeadAdditive) {
    s.num_hiddens = s.num_heads * usual_or_any(random, 70);
  }
  if (has_shared_heads(s.layer)) s.num_kv_heads = s.num_heads / one_of(random, {1, 1, 2, 3, s.num_heads});
  if (s.num_kv_heads != 0 && s.num_heads % s.num_kv_heads != 0) s.num_kv_heads = 0;
  s.causal = one_in(random, 2) ? Causal::kNone : one_in(random, 2) ? Causal::kTopLeft : Causal::kBottomRight;
  s.lens = kAllLens[random.integer(0, std::ssize(kAllLens) - 1)];
  if (s.lens != Lens::kPerQuery && one_in(random, 4)) s.padding = Padding::kSkipQueries;
  s.pairs = static_cast<Pairs>(random.integer(0, 2));
  s.parts = static_cast<Parts>(random.integer(0, 2));
  s.min_len = one_in(random, 4) ? s.num_keys / 2 : 0;
  s.spread = one_in(random, 4) ? 3.0f : 1.0f;
  s.same_sizes = one_in(random, 5);
  s.biases = one_in(random, 2);
  return s;
}

double terms_of(const LayerCase& c) {
  const CaseSpec& s = c.spec;
  const bool has_tanh = s.layer == Layer::kAdditive || s.layer == Layer::kMultiHeadAdditive;
  const std::int64_t per_pair = c.key_size() + c.value_size() + (has_tanh ? 20 : 1) * s.num_hiddens;
  return static_cast<double>(s.batch * s.num_queries * s.num_keys * c.weight_heads()) * static_cast<double>(per_pair);
}

// Rows that are alike, far from 0, mostly 0 or of one sign: what products by pairs and scores by range look at.
void change_contents(Random& random, Tensor& tensor, float offset) {
  const auto size = static_cast<std::size_t>(tensor.sizes.back());
  switch (random.integer(0, 7)) {
    case 0:
      for (std::size_t i = size; i + size <= tensor.data.size(); i += size) {
        if (one_in(random, 2)) std::copy_n(tensor.data.data() + i - size, size, tensor.data.data() + i);
      }
      break;
    case 1:
      for (float& x : tensor.data) x = offset + 0.001f * x;
      break;
    case 2:
      for (float& x : tensor.data) x = one_in(random, 10) ? x : 0.0f;
      break;
    case 3:
      for (float& x : tensor.data) x = std::abs(x);
      break;
    default:
      break;
  }
}

// Lengths of 0, and where blocks and tiles of keys end.
void change_lengths(Random& random, LayerCase& c) {
  for (std::int32_t& len : c.lens.data) {
    if (one_in(random, 6)) len = 0;
    if (one_in(random, 6)) {
      len = static_cast<std::int32_t>(std::min(c.spec.num_keys, one_of(random, {1, 16, 127, 128, 129, 512, 1025})));
    }
  }
  const bool all_alike = one_in(random, 3);
  if (all_alike && !c.lens.data.empty()) std::fill(c.lens.data.begin(), c.lens.data.end(), c.lens.data[0]);
}

ValidLens told_lens(Lens lens) {
  return lens == Lens::kNone ? ValidLens::kNone : lens == Lens::kPerBatch ? ValidLens::kPerBatch : ValidLens::kPerQuery;
}

// A plan for the case, or for more queries, keys and batch entries.
Plan random_plan(Random& random, const LayerCase& c, PlanOptions& options) {
  options.attention_weights = one_in(random, 3);
  options.threads = static_cast<int>(random.integer(1, 3));
  if (one_in(random, 2)) options.valid_lens = told_lens(c.spec.lens);
  if (one_in(random, 4)) {
    Shape larger = c.shape;
    larger.batch += random.integer(0, 2);
    larger.num_queries += random.integer(0, 40);
    larger.num_keys += random.integer(0, 300);
    return c.attention.plan(larger, options);
  }
  if (one_in(random, 2)) {
    const std::vector<std::string> paths = fit_paths(c.attention, c.shape, options);
    options.path = paths[static_cast<std::size_t>(random.integer(0, std::ssize(paths) - 1))];
  }
  if (one_in(random, 4)) {
    PlanOptions tiled = options;
    tiled.tile_queries = any_size(random, 1, 200);
    tiled.tile_keys = one_of(random, {0, 128, 256, 512, 1024});
    if (error_message([&] { c.attention.plan(c.shape, tiled); }).empty()) options = tiled;  // not every path has them
  }
  return c.attention.plan(c.shape, options);
}

std::string words_of(const LayerCase& c, const PlanOptions& options, const Plan& plan) {
  const CaseSpec& s = c.spec;
  std::ostringstream words;
  words << layer_name(s.layer) << ", B " << s.batch << ", M " << s.num_queries << ", N " << s.num_keys << ", D "
        << s.size << ", Dv " << c.value_size() << ", U " << s.num_hiddens << ", H " << s.num_heads << " on "
        << s.num_kv_heads << ", causal " << static_cast<int>(s.causal) << ", lens " << static_cast<int>(s.lens)
        << ", path " << plan.path() << ", tiles " << options.tile_queries << " x " << options.tile_keys << ", threads "
        << options.threads;
  return words.str();
}

// Everything that must not change a bit.
class SameBits {
 public:
  SameBits(Random& random, const LayerCase& c, const PlanOptions& options, const Plan& plan, RunResult expected)
      : random_(random),
        c_(c),
        options_(options),
        plan_(plan),
        with_weights_(options.attention_weights),
        expected_(std::move(expected)),
        spoiled_(c) {
    const auto visible = [&](std::int64_t b) { return c.visible_keys(b); };
    spoil_from(spoiled_.keys, visible);
    spoil_from(spoiled_.values, visible);
  }

  void threads() {
    PlanOptions options = options_;
    options.threads = options_.threads == 1 ? 3 : 1;
    const Plan other = c_.attention.plan(plan_.shape(), options);
    ReverseExecutor reverse(4);
    ShuffledExecutor shuffled(2);
    EagerPool pool(2);
    Executor* const executors[] = {&reverse, &shuffled, &pool};
    CHECK(same_bits(expected_, run_plan(other, c_.inputs(), with_weights_, executors[random_.integer(0, 2)])));
    CHECK(same_bits(expected_, run_plan(plan_, c_.inputs(), with_weights_, executors[random_.integer(0, 2)])));
  }

  void layout_and_hidden_keys() {
    const Layout layout = kAllLayouts[random_.integer(0, std::ssize(kAllLayouts) - 1)];
    const Laid queries = lay_out(c_.queries.view(), layout), keys = lay_out(spoiled_.keys.view(), layout);
    const Laid values = lay_out(spoiled_.values.view(), layout);
    Inputs in = c_.inputs();
    in.queries = queries.view();
    in.keys = keys.view();
    in.values = values.view();
    CHECK(same_bits(expected_, run_plan(plan_, in, with_weights_)));
  }

  void alone() { check_same_alone(c_, plan_, with_weights_); }

  void prepared() {
    const auto run_on = [&](const PreparedKeys& keys, bool all_lens) {
      Inputs in = on_prepared(c_.inputs(), keys);
      if (all_lens || c_.spec.padding == Padding::kSkipQueries) in.valid_lens = c_.inputs().valid_lens;
      return run_plan(plan_, in, with_weights_);
    };
    PoisonedKeys whole(plan_);
    prepare(plan_, key_inputs(spoiled_.inputs()), whole.keys);
    CHECK(same_bits(expected_, run_on(whole.keys, false)));
    std::vector<std::int64_t> pieces;
    for (std::int64_t left = c_.spec.num_keys; left > 0; left -= pieces.back()) {
      pieces.push_back(pieces.size() < 5 ? any_size(random_, 1, left) : left);
    }
    PoisonedKeys in_pieces(plan_, 0x7F);
    prepare_in_pieces(plan_, c_.inputs(), pieces, in_pieces.keys);
    CHECK(same_bits(expected_, run_on(in_pieces.keys, true)));
  }

  // A row of every batch entry and head, whatever the other queries are.
  void other_queries() {
    const std::int64_t row = random_.integer(0, c_.spec.num_queries - 1), size = c_.spec.size;
    LayerCase other = c_;
    for (std::size_t i = 0; i < other.queries.data.size(); ++i) {
      const std::int64_t of_row = static_cast<std::int64_t>(i) / size % c_.spec.num_queries;
      if (of_row != row) other.queries.data[i] = 30 * random_.normal();
    }
    const RunResult actual = run_plan(plan_, other.inputs(), with_weights_);
    CHECK(same_rows(expected_.output, actual.output, row, plan_.output_size()));
    CHECK(same_rows(expected_.attention_weights, actual.attention_weights, row, c_.spec.num_keys));
  }

 private:
  // Row `row` of each (M, size) matrix of two results.
  bool same_rows(const std::vector<float>& a, const std::vector<float>& b, std::int64_t row, std::int64_t size) const {
    const std::int64_t end = std::ssize(a);
    for (std::int64_t at = row * size; at < end; at += c_.spec.num_queries * size) {
      if (!same_bits(a.data() + at, b.data() + at, static_cast<std::size_t>(size))) return false;
    }
    return true;
  }

  Random& random_;
  const LayerCase& c_;
  const PlanOptions& options_;
  const Plan& plan_;
  const bool with_weights_;
  const RunResult expected_;
  LayerCase spoiled_;
};

void check_random_problem(const Target& target, std::uint64_t number) {
  Random random(number * 7919 + static_cast<std::uint64_t>(target.id()));
  CaseSpec spec = random_spec(random, number);
  LayerCase c(spec);
  while (terms_of(c) > kMostTerms) {
    spec.num_queries = (spec.num_queries + 1) / 2;
    spec.batch = 1;
    if (spec.num_queries == 1) spec.num_keys = (spec.num_keys + 1) / 2;
    c = LayerCase(spec);
  }
  change_contents(random, c.queries, 1);
  change_contents(random, c.keys, 1);
  change_contents(random, c.values, 100);
  change_lengths(random, c);
  PlanOptions options = c.plan_options();
  options.target = target;
  const Plan plan = random_plan(random, c, options);
  INFO("problem ", number, ": ", words_of(c, options, plan));

  const RunResult result = run_plan(plan, c.inputs(), options.attention_weights);
  reference::Result truth = c.truth();
  truth.max_abs_score = std::max(truth.max_abs_score, truth.max_score_terms);
  check_within(result.output, result.attention_weights, truth, c.bound(truth));

  SameBits same(random, c, options, plan, result);
  same.threads();
  same.layout_and_hidden_keys();
  same.alone();
  same.prepared();
  same.other_queries();
}

}  // namespace

TEST_CASE("random problems: errors within the contract's bound, and the same bits whatever must not change them") {
  unsigned long long first = 1, count = 150;
  if (const char* given = std::getenv("ATTEND_RANDOM_PROBLEMS"); given != nullptr) {
    REQUIRE(std::sscanf(given, "%llu:%llu", &first, &count) == 2);
  }
  for_each_target([&](const Target& target) {
    for (unsigned long long number = first; number < first + count; ++number) check_random_problem(target, number);
  });
}

}  // namespace attend::tests
