// Axes with one element or none: their strides lead nowhere and may be any number, as arrays of other libraries have
// them. Every input and output of a run, of prepare and append, masked_softmax, sequence_mask and layers' parameters.
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include <doctest/doctest.h>

#include "attend/attend.h"
#include "attend/attend_c.h"
#include "engine/run/bind.h"
#include "tests/layers/c_api_support.h"
#include "tests/support/compare.h"
#include "tests/support/for_each_target.h"
#include "tests/support/layer_cases.h"
#include "tests/support/prepared.h"
#include "tests/support/random.h"
#include "tests/support/run.h"

namespace attend::tests {
namespace {

constexpr std::int64_t kLarge = std::int64_t{1} << 62;
constexpr std::int64_t kStrides[] = {
    0, 7, kLarge, -kLarge, std::numeric_limits<std::int64_t>::max(), std::numeric_limits<std::int64_t>::min()};

// The same elements, with that stride wherever an axis has no second element.
template <class T>
TensorView<T> with_stride(const TensorView<T>& view, std::int64_t stride) {
  if (view.empty()) return view;
  std::vector<std::int64_t> strides(view.strides().begin(), view.strides().end());
  for (std::size_t axis = 0; axis < strides.size(); ++axis) {
    if (view.sizes()[axis] <= 1) strides[axis] = stride;
  }
  return TensorView<T>(view.data(), view.sizes(), std::span<const std::int64_t>(strides));
}
Inputs with_stride(const Inputs& in, std::int64_t stride) {
  return {.queries = with_stride(in.queries, stride),
          .keys = with_stride(in.keys, stride),
          .values = with_stride(in.values, stride),
          .valid_lens = with_stride(in.valid_lens, stride),
          .prepared = in.prepared};
}

// A run into outputs with such strides.
RunResult run_with_stride(const Plan& plan, const Inputs& in, bool with_weights, std::int64_t stride) {
  Workspace workspace(plan);
  poison(workspace);
  RunResult result{sentinels(output_sizes(plan, in)), {}};
  if (with_weights) result.attention_weights = sentinels(weights_sizes(plan, in));
  Outputs out{.output = with_stride(TensorView<float>(result.output.data(), output_sizes(plan, in)), stride)};
  if (with_weights) {
    const TensorView<float> dense(result.attention_weights.data(), weights_sizes(plan, in));
    out.attention_weights = with_stride(dense, stride);
  }
  plan.run(in, out, workspace);
  return result;
}

// One of each axis, and all of them.
std::vector<CaseSpec> one_element_specs(Layer layer) {
  return {{.layer = layer, .batch = 1, .lens = Lens::kPerQuery},
          {.layer = layer, .num_queries = 1, .lens = Lens::kPerQuery},
          {.layer = layer, .num_queries = 1, .num_keys = 300},
          {.layer = layer, .num_keys = 1},
          {.layer = layer, .batch = 1, .num_queries = 70, .num_keys = 150, .num_heads = 1, .lens = Lens::kNone},
          {.layer = layer, .size = 1, .value_size = 1},
          {.layer = layer, .batch = 1, .num_queries = 1, .num_keys = 1, .size = 1, .value_size = 1, .num_heads = 1}};
}

}  // namespace

TEST_CASE("one-element axes: rows are reached without their strides") {
  const float memory[6] = {};
  using View = TensorView<const float>;
  const auto one = detail::rows_of(View(memory, {1, 1, 1, 6}, {kLarge, -kLarge, kLarge, 1}));
  CHECK((one.batch_stride == 0 && one.head_stride == 0 && one.row_stride == 0));
  const auto none = detail::rows_of(View(memory, {2, 0, 3}, {3, kLarge, 1}));
  CHECK((none.batch_stride == 3 && none.head_stride == 0 && none.row_stride == 0));
  const auto many = detail::rows_of(View(memory, {2, 3, 2, 1}, {-6, 2, 1, kLarge}));
  CHECK((many.batch_stride == -6 && many.head_stride == 2 && many.row_stride == 1));
}

TEST_CASE("one-element axes: runs have the bits of dense tensors, whatever the strides") {
  for (const Layer layer : kAllLayers) {
    for (const CaseSpec& spec : one_element_specs(layer)) {
      const LayerCase c(spec);
      for_each_plan(c, [&](const Plan& plan, bool with_weights) {
        const RunResult expected = run_plan(plan, c.inputs(), with_weights);
        for (const std::int64_t stride : kStrides) {
          CAPTURE(stride);
          CHECK(same_bits(expected, run_with_stride(plan, with_stride(c.inputs(), stride), with_weights, stride)));
        }
      });
    }
  }
}

TEST_CASE("one-element axes: no keys at all") {
  for (const Layer layer : kAllLayers) {
    const LayerCase c({.layer = layer, .num_queries = 1, .num_keys = 0});
    for_each_plan(c, [&](const Plan& plan, bool with_weights) {
      const RunResult expected = run_plan(plan, c.inputs(), with_weights);
      CHECK(same_bits(expected, run_with_stride(plan, with_stride(c.inputs(), kLarge), with_weights, kLarge)));
    });
  }
}

TEST_CASE("one-element axes: keys that are prepared and appended") {
  for (const Layer layer : kAllLayers) {
    for (const std::int64_t batch : {1, 2}) {
      const LayerCase c({.layer = layer, .batch = batch, .num_keys = 3, .num_heads = 1, .lens = Lens::kNone});
      for_each_plan(c, [&](const Plan& plan, bool with_weights) {
        const RunResult expected = run_plan(plan, c.inputs(), with_weights);
        for (const std::int64_t stride : {kLarge, -kLarge}) {
          PoisonedKeys prepared(plan);
          for (const std::int64_t first : {0, 1, 2}) {  // key by key
            KeyInputs piece = piece_of(c.inputs(), first, 1);
            piece.keys = with_stride(piece.keys, stride);
            piece.values = with_stride(piece.values, stride);
            first == 0 ? prepare(plan, piece, prepared.keys) : append(plan, piece, prepared.keys);
          }
          const Inputs in = with_stride({.queries = c.queries.view(), .prepared = &prepared.keys}, stride);
          CHECK(same_bits(expected, run_with_stride(plan, in, with_weights, stride)));
        }
      });
    }
  }
}

TEST_CASE("one-element axes: masked_softmax") {
  const std::vector<std::vector<std::int64_t>> kSizes = {{1, 5, 70},    {3, 1, 70},    {1, 1, 70},    {3, 5, 1},
                                                         {1, 3, 5, 70}, {2, 1, 5, 70}, {2, 3, 1, 70}, {1, 1, 1, 1}};
  for_each_target([&](const Target& target) {
    for (const auto& sizes : kSizes) {
      CAPTURE(to_string(sizes));
      const Tensor scores = Random(107).normal(sizes, 4);
      for (const bool per_query : {false, true}) {
        std::vector<std::int64_t> lens_sizes = {sizes[0]};
        if (per_query) lens_sizes.push_back(sizes[sizes.size() - 2]);
        const LengthsTensor lens = Random(108).lengths(lens_sizes, 0, sizes.back());
        Tensor expected = scores;
        masked_softmax(scores.view(), lens.view(), expected.view(), {.target = target});
        for (const std::int64_t stride : kStrides) {
          CAPTURE(stride);
          Tensor actual = scores;
          masked_softmax(with_stride(scores.view(), stride), with_stride(lens.view(), stride),
                         with_stride(actual.view(), stride), {.target = target});
          CHECK(same_bits(expected.data, actual.data));
        }
      }
    }
  });
}

TEST_CASE("one-element axes: sequence_mask") {
  const std::vector<std::vector<std::int64_t>> kSizes = {{1, 4}, {3, 1}, {1, 4, 1}, {3, 4, 1, 2}, {3, 1, 1, 1}};
  for (const auto& sizes : kSizes) {
    const Tensor x = Random(109).normal(sizes);
    const LengthsTensor lens = Random(110).lengths({sizes[0]}, 0, sizes[1]);
    Tensor expected = x;
    sequence_mask(expected.view(), lens.view(), 9);
    for (const std::int64_t stride : kStrides) {
      Tensor actual = x;
      sequence_mask(with_stride(actual.view(), stride), with_stride(lens.view(), stride), 9);
      CHECK(same_bits(expected.data, actual.data));
    }
  }
}

TEST_CASE("one-element axes: parameters") {
  for (const Layer layer : {Layer::kAdditive, Layer::kBilinear, Layer::kMultiHead, Layer::kMultiHeadAdditive}) {
    for (const std::int64_t hiddens : {1, 12}) {
      const LayerCase c({.layer = layer, .size = 1, .value_size = 1, .num_hiddens = hiddens, .num_heads = 1});
      const RunResult expected = run_plan(c.attention.plan(c.shape), c.inputs());
      for (const std::int64_t stride : kStrides) {
        const auto other = [&]() -> Attention {
          if (layer == Layer::kAdditive) {
            AdditiveParameters p = c.additive_parameters();
            for (auto* view : {&p.W_q, &p.W_k, &p.w_v, &p.b_q, &p.b_k}) *view = with_stride(*view, stride);
            return AdditiveAttention(p);
          }
          if (layer == Layer::kBilinear) {
            return BilinearAttention(BilinearParameters{.W = with_stride(c.weights.at("W.weight").view(), stride)},
                                     {.scale = 0.5f});
          }
          MultiHeadParameters p = c.multi_head_parameters();
          for (auto* view : {&p.W_q, &p.W_k, &p.W_v, &p.W_o, &p.b_q, &p.b_k, &p.b_v, &p.b_o, &p.w_v}) {
            *view = with_stride(*view, stride);
          }
          return MultiHeadAttention(c.multi_head_options(), p);
        };
        CHECK(same_bits(expected, run_plan(other().plan(c.shape), c.inputs())));
      }
    }
  }
}

TEST_CASE("one-element axes: the C API") {
  const LayerCase c({.layer = Layer::kDotHeads, .batch = 1, .num_queries = 1, .num_heads = 1});
  const Both both(c);
  const RunResult expected = run_plan(both.cpp, c.inputs());
  const WorkspaceHandle workspace = make<WorkspaceHandle>(attend_workspace_create, both.plan.get());
  for (const std::int64_t stride : kStrides) {
    std::vector<float> output = sentinels(output_sizes(both.cpp, c.inputs()));
    const TensorView<float> dense(output.data(), output_sizes(both.cpp, c.inputs()));
    const attend_inputs in = c_inputs(with_stride(c.inputs(), stride));
    const attend_outputs out = c_outputs({.output = with_stride(dense, stride), .attention_weights = {}});
    CHECK(attend_run(both.plan.get(), &in, &out, workspace.get(), nullptr, nullptr) == ATTEND_OK);
    CHECK(same_bits(output, expected.output));
  }
}

}  // namespace attend::tests
