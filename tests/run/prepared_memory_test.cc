// Where prepared keys live, what preparing reads, how long it lasts, and how many threads may share it.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <limits>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "attend/attend.h"
#include "tests/support/compare.h"
#include "tests/support/executors.h"
#include "tests/support/guard_page.h"
#include "tests/support/layer_cases.h"
#include "tests/support/layouts.h"
#include "tests/support/masks.h"
#include "tests/support/prepared.h"
#include "tests/support/run.h"

namespace attend::tests {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

// The rows of a (1, N, D) or (1, H, N, D) tensor that `len` keys take, between unmapped pages: heads lie side by side
// within a row.
struct GuardedView {
  GuardedArray<float> memory;
  TensorView<const float> view;

  GuardedView(const Tensor& tensor, std::int64_t len, Guard guard)
      : memory(static_cast<std::size_t>(len * tensor.sizes.back() * heads(tensor)), guard) {
    const std::int64_t size = tensor.sizes.back(), rows = tensor.sizes[tensor.sizes.size() - 2];
    for (std::int64_t i = 0; i < len * heads(tensor) * size; ++i) {
      const std::int64_t n = i / (heads(tensor) * size), h = i / size % heads(tensor);
      memory[static_cast<std::size_t>(i)] = tensor.data[static_cast<std::size_t>((h * rows + n) * size + i % size)];
    }
    const std::int64_t row = heads(tensor) * size;
    view = tensor.sizes.size() == 4
               ? TensorView<const float>(memory.data(), {1, heads(tensor), rows, size}, {rows * row, size, row, 1})
               : TensorView<const float>(memory.data(), {1, rows, size});
  }
  static std::int64_t heads(const Tensor& tensor) { return tensor.sizes.size() == 4 ? tensor.sizes[1] : 1; }
};

}  // namespace

TEST_CASE("prepared: keys and values beyond the valid lengths may be unmapped, in prepare and in append") {
  for (const Layer layer : kAllLayers) {
    for (const std::int64_t len : {1, 5, 16, 65}) {
      const Guard guard = len % 2 == 0 ? Guard::kBegin : Guard::kEnd;
      LayerCase c({.layer = layer, .batch = 1, .num_queries = 3, .num_keys = 70, .size = 5, .seed = 211});
      c.lens.data = {static_cast<std::int32_t>(len)};
      const GuardedView keys(c.keys, len, guard), values(c.values, len, guard);
      PlanOptions options;
      options.valid_lens = ValidLens::kPerBatch;
      Shape shape = c.shape;
      shape.num_keys = 140;
      for_each_plan(c.attention, shape, options, [&](const Plan& plan, bool with_weights) {
        const KeyInputs in{.keys = keys.view, .values = values.view, .valid_lens = c.inputs().valid_lens};
        PoisonedKeys prepared(plan), mapped(plan);
        prepare(plan, in, prepared.keys);
        const RunResult expected = run_plan(plan, c.inputs(), with_weights);
        CHECK(same_bits(expected, run_plan(plan, on_prepared(c.inputs(), prepared.keys), with_weights)));
        append(plan, in, prepared.keys);
        prepare(plan, key_inputs(c.inputs()), mapped.keys);
        append(plan, key_inputs(c.inputs()), mapped.keys);
        CHECK(prepared.keys.len(0) == 2 * len);
        CHECK(same_bits(run_plan(plan, on_prepared(c.inputs(), mapped.keys), with_weights),
                        run_plan(plan, on_prepared(c.inputs(), prepared.keys), with_weights)));
      });
    }
  }
}

TEST_CASE("prepared: what is beyond an entry's length may be unmapped, though another entry has more keys") {
  for (const Layer layer : kAllLayers) {
    for (const std::int32_t len : {0, 5, 33}) {
      LayerCase c({.layer = layer, .num_queries = 3, .num_keys = 70, .size = 5, .seed = 220});
      c.lens.data = {70, len};
      const GuardedRows keys(c.keys, len), values(c.values, len);
      const KeyInputs in{.keys = keys.view(), .values = values.view(), .valid_lens = c.inputs().valid_lens};
      Shape shape = c.shape;
      shape.num_keys = 140;
      PlanOptions options;
      options.valid_lens = ValidLens::kPerBatch;
      for_each_plan(c.attention, shape, options, [&](const Plan& plan, bool with_weights) {
        PoisonedKeys prepared(plan), mapped(plan);
        prepare(plan, in, prepared.keys);
        prepare(plan, key_inputs(c.inputs()), mapped.keys);
        CHECK(same_bits(run_plan(plan, c.inputs(), with_weights),
                        run_plan(plan, on_prepared(c.inputs(), prepared.keys), with_weights)));
        append(plan, in, prepared.keys);
        append(plan, key_inputs(c.inputs()), mapped.keys);
        CHECK(prepared.keys.len(1) == 2 * len);
        CHECK(same_bits(run_plan(plan, on_prepared(c.inputs(), mapped.keys), with_weights),
                        run_plan(plan, on_prepared(c.inputs(), prepared.keys), with_weights)));
      });
    }
  }
}

TEST_CASE("prepared: the inputs are not needed afterwards, nor is the plan's own copy") {
  for (const Layer layer : kAllLayers) {
    const LayerCase c({.layer = layer, .batch = 2, .num_queries = 4, .num_keys = 90, .seed = 212});
    for_each_plan(c, [&](const Plan& plan, bool with_weights) {
      const RunResult expected = run_plan(plan, c.inputs(), with_weights);
      LayerCase gone = c;
      PoisonedKeys prepared(plan);
      prepare(plan, key_inputs(gone.inputs()), prepared.keys);
      std::fill(gone.keys.data.begin(), gone.keys.data.end(), kNaN);
      std::fill(gone.values.data.begin(), gone.values.data.end(), kNaN);
      std::fill(gone.lens.data.begin(), gone.lens.data.end(), -1);
      const Plan copy = plan;  // serves as well
      CHECK(same_bits(expected, run_plan(copy, on_prepared(c.inputs(), prepared.keys), with_weights)));
    });
  }
}

TEST_CASE("prepared: any outer strides give the bits that dense keys and values give") {
  for (const Layer layer : kAllLayers) {
    const LayerCase c({.layer = layer, .batch = 2, .num_queries = 4, .num_keys = 90, .seed = 213});
    for (const Layout layout : kAllLayouts) {
      const Laid keys = lay_out(c.inputs().keys, layout), values = lay_out(c.inputs().values, layout);
      Inputs in = c.inputs();
      in.keys = keys.view();
      in.values = values.view();
      for_each_plan(c, [&](const Plan& plan, bool with_weights) {
        PoisonedKeys prepared(plan), pieces(plan);
        prepare(plan, key_inputs(in), prepared.keys);
        CHECK(same_bits(run_plan(plan, c.inputs(), with_weights),
                        run_plan(plan, on_prepared(in, prepared.keys), with_weights)));
        prepare_in_pieces(plan, in, {17, 73}, pieces.keys);
        Inputs all = c.inputs();
        all.valid_lens = {};
        CHECK(
            same_bits(run_plan(plan, all, with_weights), run_plan(plan, on_prepared(all, pieces.keys), with_weights)));
      });
    }
  }
}

TEST_CASE("prepared: values that are not given are the keys") {
  for (const Layer layer : kAllLayers) {
    const LayerCase c({.layer = layer, .batch = 2, .num_queries = 9, .num_keys = 30, .same_sizes = true, .seed = 214});
    Inputs in = c.inputs();
    in.values = {};
    for_each_plan(c, [&](const Plan& plan, bool with_weights) {
      PoisonedKeys prepared(plan);
      prepare(plan, key_inputs(in), prepared.keys);
      CHECK(same_bits(run_plan(plan, in, with_weights), run_plan(plan, on_prepared(in, prepared.keys), with_weights)));
    });
  }
}

TEST_CASE("prepared: the caller's memory, of any alignment, any contents, to its last byte") {
  for (const Layer layer : kAllLayers) {
    const LayerCase c({.layer = layer, .batch = 2, .num_queries = 4, .num_keys = 90, .seed = 215});
    for_each_plan(c, [&](const Plan& plan, bool with_weights) {
      const std::size_t bytes = plan.prepared_bytes();
      const RunResult expected = run_plan(plan, c.inputs(), with_weights);
      const auto serves = [&](std::span<std::byte> memory, int contents) {
        std::memset(memory.data(), contents, memory.size());
        PreparedKeys prepared(plan, memory);
        CHECK(prepared.batch() == 0);
        CHECK(prepared.num_keys() == 0);
        CHECK(prepared.len(0) == 0);
        prepare(plan, key_inputs(c.inputs()), prepared);
        return same_bits(expected, run_plan(plan, on_prepared(c.inputs(), prepared), with_weights));
      };
      for (const Guard guard : {Guard::kBegin, Guard::kEnd}) {
        GuardedArray<std::byte> memory(bytes, guard);
        for (const int contents : {0xFF, 0x7F, 0x00}) CHECK(serves({memory.data(), bytes}, contents));
        if (guard == Guard::kBegin) {
          CHECK(missing_parts(error_message([&] {
                                PreparedKeys(plan, {memory.data(), bytes - 1});
                              }),
                              {"memory", std::to_string(bytes - 1), std::to_string(bytes)}) == "");
        }
      }
      GuardedArray<std::byte> unaligned(bytes + Workspace::kAlignment - 1);  // ends at a page: begins one too late
      CHECK(reinterpret_cast<std::uintptr_t>(unaligned.data()) % Workspace::kAlignment == 1);
      CHECK(serves({unaligned.data(), unaligned.size()}, 0xFF));
      PreparedKeys owned(plan);
      prepare(plan, key_inputs(c.inputs()), owned);
      PreparedKeys moved = std::move(owned);
      CHECK(same_bits(expected, run_plan(plan, on_prepared(c.inputs(), moved), with_weights)));
    });
  }
}

TEST_CASE("prepared: preparing again replaces, with another batch, number of keys and lengths") {
  for (const Layer layer : kAllLayers) {
    const LayerCase large({.layer = layer, .batch = 3, .num_queries = 4, .num_keys = 140, .lens = Lens::kNone});
    LayerCase ruined = large;  // what must not be left behind: infinite values
    std::fill(ruined.values.data.begin(), ruined.values.data.end(), std::numeric_limits<float>::infinity());
    LayerCase small({.layer = layer, .batch = 2, .num_queries = 3, .num_keys = 67, .lens = Lens::kPerBatch});
    small.lens.data = {3, 66};
    const LayerCase smallest({.layer = layer, .batch = 1, .num_queries = 1, .num_keys = 1, .lens = Lens::kNone});
    for_each_plan(large, [&](const Plan& plan, bool with_weights) {
      PoisonedKeys prepared(plan);
      for (const LayerCase* c :
           std::initializer_list<const LayerCase*>{&large, &ruined, &small, &large, &ruined, &smallest, &small}) {
        prepare(plan, key_inputs(c->inputs()), prepared.keys);
        if (c == &ruined) continue;
        CHECK(prepared.keys.batch() == c->spec.batch);
        CHECK(prepared.keys.num_keys() == c->spec.num_keys);
        CHECK(prepared.keys.len(c->spec.batch) == 0);
        CHECK(prepared.keys.len(-1) == 0);
        const Inputs run = on_prepared(c->inputs(), prepared.keys);
        CHECK(same_bits(run_plan(plan, c->inputs(), with_weights), run_plan(plan, run, with_weights)));
      }
    });
  }
}

TEST_CASE("prepared: runs may see fewer keys than there are, fewer queries, or none of either") {
  for (const Layer layer : kAllLayers) {
    LayerCase c({.layer = layer, .batch = 2, .num_queries = 20, .num_keys = 140, .seed = 216});
    c.lens.data = {140, 66};
    for_each_plan(c, [&](const Plan& plan, bool with_weights) {
      PoisonedKeys prepared(plan);
      prepare(plan, key_inputs(c.inputs()), prepared.keys);
      for (const auto& lens : std::vector<std::vector<std::int32_t>>{{140, 66}, {64, 1}, {65, 0}, {0, 0}, {1, 66}}) {
        Inputs all = c.inputs(), run = on_prepared(c.inputs(), prepared.keys);
        all.valid_lens = run.valid_lens = TensorView<const std::int32_t>(lens.data(), {2});
        CHECK(same_bits(run_plan(plan, all, with_weights), run_plan(plan, run, with_weights)));
        for (const std::int64_t queries : {0, 1, 7}) {
          all.queries = run.queries = rows_of(c.inputs().queries, 0, queries);
          CHECK(same_bits(run_plan(plan, all, with_weights), run_plan(plan, run, with_weights)));
        }
      }
    });
  }
}

TEST_CASE("prepared: no keys at all, then some") {
  for (const Layer layer : kAllLayers) {
    const LayerCase c({.layer = layer, .batch = 2, .num_queries = 4, .num_keys = 30, .lens = Lens::kNone, .seed = 217});
    for_each_plan(c, [&](const Plan& plan, bool with_weights) {
      PoisonedKeys prepared(plan);
      prepare(plan, piece_of(c.inputs(), 0, 0), prepared.keys);
      Inputs none = c.inputs();
      none.keys = rows_of(none.keys, 0, 0);
      none.values = rows_of(none.values, 0, 0);
      CHECK(same_bits(run_plan(plan, none, with_weights),
                      run_plan(plan, on_prepared(none, prepared.keys), with_weights)));
      append(plan, key_inputs(c.inputs()), prepared.keys);
      CHECK(same_bits(run_plan(plan, c.inputs(), with_weights),
                      run_plan(plan, on_prepared(c.inputs(), prepared.keys), with_weights)));
    });
  }
}

TEST_CASE("prepared: several threads and any executor prepare and append the same bits") {
  EagerPool pool(3);
  ReverseExecutor reverse(4);
  ShuffledExecutor shuffled(4);
  for (const Layer layer : kAllLayers) {
    // More than 512 keys to an entry: pieces of it are packed at the same time.
    const LayerCase c({.layer = layer,
                       .batch = 2,
                       .num_queries = 2,
                       .num_keys = 1300,
                       .size = 4,
                       .num_hiddens = 6,
                       .num_heads = 2,
                       .lens = Lens::kNone,
                       .seed = 218});
    for_each_target([&](const Target& target) {
      const Plan plan = c.attention.plan(c.shape, {.threads = 4, .target = target});
      const RunResult expected = run_plan(plan, c.inputs());
      for (Executor* executor : std::initializer_list<Executor*>{&pool, &reverse, &shuffled}) {
        for (const std::vector<std::int64_t>& pieces :
             std::vector<std::vector<std::int64_t>>{{1300}, {3, 1297}, {700, 600}}) {
          PoisonedKeys prepared(plan);
          prepare_in_pieces(plan, c.inputs(), pieces, prepared.keys, executor);
          CHECK(same_bits(expected, run_plan(plan, on_prepared(c.inputs(), prepared.keys))));
          CHECK(same_bits(expected, run_plan(plan, on_prepared(c.inputs(), prepared.keys), false, executor)));
        }
      }
    });
  }
}

TEST_CASE("prepared: many threads share one, each with its own queries and workspace") {
  for (const Layer layer : kAllLayers) {
    const LayerCase c({.layer = layer, .batch = 2, .num_queries = 8, .num_keys = 130, .seed = 219});
    for_each_target([&](const Target& target) {
      const Plan plan = c.attention.plan(c.shape, {.target = target});
      PoisonedKeys prepared(plan);
      prepare(plan, key_inputs(c.inputs()), prepared.keys);
      RunResult expected[4], results[4];
      const auto run_of = [&](std::size_t i) {
        Inputs run = on_prepared(c.inputs(), prepared.keys);
        run.queries = rows_of(run.queries, static_cast<std::int64_t>(i), 4);
        return run_plan(plan, run);
      };
      for (std::size_t i = 0; i < 4; ++i) expected[i] = run_of(i);
      {
        std::vector<std::jthread> threads;
        for (std::size_t i = 0; i < 4; ++i) {
          threads.emplace_back([&, i] {
            for (int repeat = 0; repeat < 3; ++repeat) results[i] = run_of(i);
          });
        }
      }
      for (std::size_t i = 0; i < 4; ++i) CHECK(same_bits(expected[i], results[i]));
    });
  }
}

}  // namespace attend::tests
