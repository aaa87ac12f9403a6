// Views and parameters of any strides, also of those axes that others mostly leave dense.
#include <cmath>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "attend/attend.h"
#include "tests/support/compare.h"
#include "tests/support/for_each_target.h"
#include "tests/support/layer_cases.h"
#include "tests/support/random.h"
#include "tests/support/run.h"

namespace attend::tests {

TEST_CASE("views: zero strides of any axis that is written are refused") {
  const LayerCase c({.layer = Layer::kDotHeads, .batch = 2, .num_queries = 3, .lens = Lens::kNone});
  const Plan plan = c.attention.plan(c.shape, {.attention_weights = true});
  std::vector<float> memory(4096, kSentinel);
  const std::vector<float> before = memory;
  for (const std::size_t axis : {0u, 1u, 2u}) {
    for (const bool of_weights : {false, true}) {
      std::vector<std::int64_t> sizes[] = {output_sizes(plan, c.inputs()), weights_sizes(plan, c.inputs())};
      TensorView<float> views[2];
      for (int i = 0; i < 2; ++i) {
        TensorView<float> dense(memory.data() + 2048 * i, sizes[i]);
        std::vector<std::int64_t> strides(dense.strides().begin(), dense.strides().end());
        if (of_weights == (i == 1)) strides[axis] = 0;
        views[i] = TensorView<float>(dense.data(), std::span<const std::int64_t>(sizes[i]),
                                     std::span<const std::int64_t>(strides));
      }
      Workspace workspace(plan);
      CHECK(missing_parts(error_message([&] {
                            plan.run(c.inputs(), {.output = views[0], .attention_weights = views[1]}, workspace);
                          }),
                          {of_weights ? "attention_weights" : "output", "no zero stride"}) == "");
      CHECK(same_bits(memory, before));
    }
  }
  const Tensor in = Random(1).normal({2, 3, 4});
  CHECK(missing_parts(error_message([&] {
                        masked_softmax(in.view(), {}, {memory.data(), {2, 3, 4}, {12, 0, 1}});
                      }),
                      {"output", "zero"}) == "");
}

TEST_CASE("masked_softmax: lengths at any strides") {
  const Tensor scores = Random(105).normal({3, 150, 65}, 4);
  const LengthsTensor lens = Random(106).lengths({3, 150}, 0, 65);
  std::vector<std::int32_t> spread(3 * 150 * 2, -9);
  for (std::size_t b = 0; b < 3; ++b) {
    for (std::size_t m = 0; m < 150; ++m) spread[(149 - m) * 6 + b * 2] = lens.data[b * 150 + m];
  }
  const TensorView<const std::int32_t> view(spread.data() + 149 * 6, {3, 150}, {2, -6});
  for_each_target([&](const Target& target) {
    Tensor expected = scores, actual = scores;
    masked_softmax(scores.view(), lens.view(), expected.view(), {.target = target});
    masked_softmax(scores.view(), view, actual.view(), {.target = target});
    CHECK(same_bits(expected.data, actual.data));
  });
}

TEST_CASE("views: heads of views whose innermost stride is not 1") {
  std::vector<float> data(2 * 3 * 12 * 2 + 9);
  const TensorView<float> view(data.data(), {2, 3, 12}, {72, 24, 2});
  const TensorView<float> heads = split_heads(view, 3);
  for (int h = 0; h < 3; ++h) {
    for (int d = 0; d < 4; ++d) CHECK(heads.at(1, h, 2, d) == view.at(1, 2, h * 4 + d));
  }
  const TensorView<float> merged = merge_heads(heads);
  CHECK(std::vector(merged.strides().begin(), merged.strides().end()) == std::vector<std::int64_t>{72, 24, 2});
  // The stride of a single head may be anything.
  const TensorView<float> one(data.data(), {2, 1, 3, 4}, {12, 99, 4, 1});
  CHECK(merge_heads(one).stride(1) == 4);
  // Heads of one element: theirs is the stride from column to column, and their own innermost may be anything.
  const TensorView<float> thin(data.data(), {2, 3, 5, 1}, {15, 1, 3, 77});
  const TensorView<float> columns = merge_heads(thin);
  CHECK(std::vector(columns.strides().begin(), columns.strides().end()) == std::vector<std::int64_t>{15, 3, 1});
  CHECK(columns.at(1, 4, 2) == thin.at(1, 2, 4, 0));
}

TEST_CASE("layers: parameters at any strides") {
  for (const Layer layer : {Layer::kAdditive, Layer::kBilinear, Layer::kMultiHead, Layer::kMultiHeadAdditive}) {
    const LayerCase c({.layer = layer, .size = 70, .num_hiddens = 72});
    std::vector<std::vector<float>> memory;  // transposed and spread out
    const auto spread = [&](const TensorView<const float>& view) -> TensorView<const float> {
      if (view.empty()) return view;
      const std::int64_t rows = view.rank() == 2 ? view.size(0) : 1, columns = view.size(-1);
      auto& to = memory.emplace_back(static_cast<std::size_t>(rows * columns * 2), std::nanf(""));
      for (std::int64_t i = 0; i < rows; ++i) {
        for (std::int64_t j = 0; j < columns; ++j) {
          to[static_cast<std::size_t>(2 * (j * rows + i))] = view.rank() == 2 ? *view.at(i, j) : *view.at(j);
        }
      }
      if (view.rank() == 1) return {to.data(), {columns}, {2}};
      return {to.data(), {rows, columns}, {2, 2 * rows}};
    };
    std::optional<Attention> other;
    if (layer == Layer::kAdditive) {
      AdditiveParameters p = c.additive_parameters();
      for (auto* view : {&p.W_q, &p.W_k, &p.w_v, &p.b_q, &p.b_k}) *view = spread(*view);
      other = AdditiveAttention(p);
    } else if (layer == Layer::kBilinear) {
      other = BilinearAttention(BilinearParameters{.W = spread(c.weights.at("W.weight").view())}, {.scale = 0.5f});
    } else {
      MultiHeadParameters p = c.multi_head_parameters();
      for (auto* view : {&p.W_q, &p.W_k, &p.W_v, &p.W_o, &p.b_q, &p.b_k, &p.b_v, &p.b_o, &p.w_v}) *view = spread(*view);
      other = MultiHeadAttention(c.multi_head_options(), p);
    }
    CHECK(same_bits(run_plan(c.attention.plan(c.shape), c.inputs()), run_plan(other->plan(c.shape), c.inputs())));
  }
}

}  // namespace attend::tests
