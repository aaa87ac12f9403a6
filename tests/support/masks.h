// What tests of masks, shared heads and skipped queries have in common: garbage and unmapped memory where nothing may
// be read, and runs that must give the same bits.
#ifndef ATTEND_TESTS_SUPPORT_MASKS_H_
#define ATTEND_TESTS_SUPPORT_MASKS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <type_traits>
#include <vector>

#include <doctest/doctest.h>

#include "attend/attend.h"
#include "tests/support/compare.h"
#include "tests/support/executors.h"
#include "tests/support/guard_page.h"
#include "tests/support/layer_cases.h"
#include "tests/support/prepared.h"
#include "tests/support/run.h"

namespace attend::tests {

// The options of `plan`, which was made for the case.
inline PlanOptions options_of(const LayerCase& c, const Plan& plan, bool with_weights) {
  PlanOptions options = options_of(plan, with_weights);
  options.causal = c.spec.causal;
  options.padding = c.spec.padding;
  return options;
}

// Puts NaN, infinities and huge numbers into every row n >= first_row(b) of a (B, N, D) or (B, H, N, D) tensor.
template <class FirstRow>
void spoil_from(Tensor& tensor, FirstRow&& first_row) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  constexpr float kNone = std::numeric_limits<float>::quiet_NaN();
  constexpr float kGarbage[] = {kNone, kInfinity, -kInfinity, 3e38f, -kNone};
  const std::int64_t size = tensor.sizes.back();
  const std::int64_t rows = tensor.sizes[tensor.sizes.size() - 2];
  const std::int64_t heads = tensor.sizes.size() == 4 ? tensor.sizes[1] : 1;
  for (std::int64_t b = 0; b < tensor.sizes[0]; ++b) {
    for (std::int64_t h = 0; h < heads; ++h) {
      for (std::int64_t i = first_row(b) * size; i < rows * size; ++i) {
        tensor.data[static_cast<std::size_t>((b * heads + h) * rows * size + i)] = kGarbage[i % 5];
      }
    }
  }
}

// A tensor without what follows the first `rows` rows of its last batch entry, at the end of mapped memory. Heads are
// gathered row by row, (B, N, H, D) in memory, so that those of the last row are the last.
class GuardedRows {
 public:
  GuardedRows(const Tensor& tensor, std::int64_t rows)
      : sizes_(tensor.sizes),
        heads_(tensor.sizes.size() == 4 ? tensor.sizes[1] : 1),
        all_(tensor.sizes[tensor.sizes.size() - 2]),
        size_(tensor.sizes.back()),
        memory_(static_cast<std::size_t>(((tensor.sizes[0] - 1) * all_ + rows) * heads_ * size_)) {
    const std::int64_t entries = tensor.sizes[0];
    for (std::int64_t b = 0; b < entries; ++b) {
      for (std::int64_t n = 0; n < (b + 1 < entries ? all_ : rows); ++n) {
        for (std::int64_t h = 0; h < heads_; ++h) {
          std::copy_n(tensor.data.data() + ((b * heads_ + h) * all_ + n) * size_, size_,
                      memory_.data() + ((b * all_ + n) * heads_ + h) * size_);
        }
      }
    }
  }
  TensorView<const float> view() const {
    std::vector<std::int64_t> strides = {all_ * heads_ * size_, heads_ * size_, 1};
    if (sizes_.size() == 4) strides.insert(strides.begin() + 1, size_);
    return TensorView<const float>(memory_.data(), std::span<const std::int64_t>(sizes_),
                                   std::span<const std::int64_t>(strides));
  }

 private:
  std::vector<std::int64_t> sizes_;
  std::int64_t heads_, all_, size_;
  GuardedArray<float> memory_;
};

// Batch entry b alone.
inline Inputs entry_of(const Inputs& in, std::int64_t b) {
  const auto alone = [&](const auto& view) {
    auto sizes = std::vector<std::int64_t>(view.sizes().begin(), view.sizes().end());
    if (sizes.empty()) return view;
    sizes[0] = 1;
    return std::remove_cvref_t<decltype(view)>(view.at(b), std::span<const std::int64_t>(sizes), view.strides());
  };
  return {.queries = alone(in.queries),
          .keys = alone(in.keys),
          .values = alone(in.values),
          .valid_lens = alone(in.valid_lens)};
}

// 1, 2, 3 and 7 threads, in any order and at once.
inline void check_same_for_threads(const LayerCase& c, const Plan& plan, bool with_weights) {
  const RunResult expected = run_plan(plan, c.inputs(), with_weights);
  for (const int threads : {1, 2, 3, 7}) {
    CAPTURE(threads);
    PlanOptions options = options_of(c, plan, with_weights);
    options.threads = threads;
    const Plan threaded = c.attention.plan(c.shape, options);
    EagerPool pool(threads);
    ReverseExecutor reverse(threads);
    ShuffledExecutor shuffled(threads);
    for (Executor* executor :
         {static_cast<Executor*>(&pool), static_cast<Executor*>(&reverse), static_cast<Executor*>(&shuffled)}) {
      CHECK(same_bits(expected, run_plan(threaded, c.inputs(), with_weights, executor)));
    }
  }
}

// Every batch entry gives alone what it gives among the others.
inline void check_same_alone(const LayerCase& c, const Plan& plan, bool with_weights) {
  const RunResult together = run_plan(plan, c.inputs(), with_weights);
  const auto batch = static_cast<std::size_t>(c.spec.batch);
  for (std::size_t b = 0; b < batch; ++b) {
    const RunResult alone = run_plan(plan, entry_of(c.inputs(), static_cast<std::int64_t>(b)), with_weights);
    const std::size_t output = together.output.size() / batch, weights = together.attention_weights.size() / batch;
    REQUIRE(alone.output.size() == output);
    REQUIRE(alone.attention_weights.size() == weights);
    CHECK(same_bits(alone.output.data(), together.output.data() + b * output, output));
    CHECK(same_bits(alone.attention_weights.data(), together.attention_weights.data() + b * weights, weights));
  }
}

// Prepared at once and in pieces, then run as often: the bits of a run on the keys and values themselves.
inline void check_same_prepared(const LayerCase& c, const Plan& plan, bool with_weights) {
  const RunResult expected = run_plan(plan, c.inputs(), with_weights);
  PoisonedKeys prepared(plan);
  prepare(plan, key_inputs(c.inputs()), prepared.keys);
  Inputs in = on_prepared(c.inputs(), prepared.keys);
  CHECK(same_bits(expected, run_plan(plan, in, with_weights)));
  CHECK(same_bits(expected, run_plan(plan, in, with_weights)));
  if (c.spec.num_keys < 3) return;
  PoisonedKeys pieces(plan);
  prepare_in_pieces(plan, c.inputs(), {1, c.spec.num_keys - 2, 1}, pieces.keys);
  in = on_prepared(c.inputs(), pieces.keys);
  in.valid_lens = c.inputs().valid_lens;
  CHECK(same_bits(expected, run_plan(plan, in, with_weights)));
}

// Keys and values that no row sees change no bit, whatever they hold.
inline void check_hidden_do_not_matter(const LayerCase& clean) {
  LayerCase spoiled = clean;
  const auto visible = [&](std::int64_t b) { return clean.visible_keys(b); };
  spoil_from(spoiled.keys, visible);
  spoil_from(spoiled.values, visible);
  const reference::Result truth = spoiled.truth();
  for_each_plan(clean, [&](const Plan& plan, bool with_weights) {
    const RunResult expected = run_plan(plan, clean.inputs(), with_weights);
    CHECK(same_bits(expected, run_plan(plan, spoiled.inputs(), with_weights)));
    check_within(expected.output, expected.attention_weights, truth, clean.bound(truth));
  });
}

// That neither keys nor values of the last batch entry from `first` on are read, in problems that see none of them.
inline void check_keys_unread_from(const LayerCase& c, std::int64_t first) {
  const GuardedRows keys(c.keys, first), values(c.values, first);
  Inputs in = c.inputs();
  in.keys = keys.view();
  in.values = values.view();
  for_each_plan(c, [&](const Plan& plan, bool with_weights) {
    CHECK(same_bits(run_plan(plan, c.inputs(), with_weights), run_plan(plan, in, with_weights)));
  });
}

}  // namespace attend::tests

#endif  // ATTEND_TESTS_SUPPORT_MASKS_H_
