#include "engine/layers/c_api_convert.h"

#include <algorithm>
#include <array>
#include <span>
#include <string>
#include <type_traits>

#include "engine/view/check.h"

namespace attend {
namespace {

static_assert(ATTEND_MAX_RANK == kMaxRank && sizeof(attend_tensor::sizes) == kMaxRank * sizeof(std::int64_t));

// What TensorView cannot check for us: it could not name the tensor.
void check_rank_and_sizes(std::int32_t rank, const std::int64_t* sizes, const char* name) {
  if (rank < 0 || rank > kMaxRank) fail(name, " has rank ", rank, ", expected 0 to ", kMaxRank);
  count_elements({sizes, static_cast<std::size_t>(rank)}, name);
}

// View: attend_tensor, attend_output_tensor or attend_lengths.
template <class View>
auto any_view_of(const View& view, const char* name) {
  using T = std::remove_pointer_t<decltype(view.data)>;
  check_rank_and_sizes(view.rank, view.sizes, name);
  const auto rank = static_cast<std::size_t>(view.rank);
  const std::span<const std::int64_t> sizes(view.sizes, rank), strides(view.strides, rank);
  const bool dense = std::all_of(strides.begin(), strides.end(), [](std::int64_t stride) { return stride == 0; });
  return dense ? TensorView<T>(view.data, sizes) : TensorView<T>(view.data, sizes, strides);
}

// A dense copy of any view that is given. One without axes is one element: who wants more of it says what it was.
Tensor dense_copy(const TensorView<const float>& view, const char* name) {
  Tensor tensor{{view.sizes().begin(), view.sizes().end()}, {}};
  const std::int64_t count = view.rank() == 0 ? 1 : view.num_elements();
  if (count == 0) return tensor;
  if (view.data() == nullptr) fail(name, " is ", to_string(view.sizes()), " at a null pointer, expected memory");
  std::array<std::int64_t, kMaxRank> sizes{1, 1, 1, 1}, strides{};
  const auto missing = static_cast<std::size_t>(kMaxRank - view.rank());
  std::copy(view.sizes().begin(), view.sizes().end(), sizes.begin() + missing);
  std::copy(view.strides().begin(), view.strides().end(), strides.begin() + missing);
  tensor.data.reserve(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < sizes[0]; ++i) {
    for (std::int64_t j = 0; j < sizes[1]; ++j) {
      for (std::int64_t k = 0; k < sizes[2]; ++k) {
        const float* row = view.data() + i * strides[0] + j * strides[1] + k * strides[2];
        for (std::int64_t l = 0; l < sizes[3]; ++l) tensor.data.push_back(row[l * strides[3]]);
      }
    }
  }
  return tensor;
}

// 0 in a zeroed struct stands for C++'s default of 1.
template <class Integer>
Integer or_one(Integer value) {
  return value != 0 ? value : 1;
}

Scoring scoring_of(std::int32_t scoring) {
  switch (scoring) {
    case ATTEND_SCORING_DOT:
      return Scoring::kDot;
    case ATTEND_SCORING_ADDITIVE:
      return Scoring::kAdditive;
    default:
      fail("scoring is ", scoring, ", expected one of ATTEND_SCORING_DOT, ATTEND_SCORING_ADDITIVE");
  }
}

ValidLens valid_lens_of(std::int32_t valid_lens) {
  switch (valid_lens) {
    case ATTEND_VALID_LENS_ANY:
      return ValidLens::kAny;
    case ATTEND_VALID_LENS_NONE:
      return ValidLens::kNone;
    case ATTEND_VALID_LENS_PER_BATCH:
      return ValidLens::kPerBatch;
    case ATTEND_VALID_LENS_PER_QUERY:
      return ValidLens::kPerQuery;
    default:
      fail("valid_lens is ", valid_lens, ", expected one of ATTEND_VALID_LENS_ANY, _NONE, _PER_BATCH, _PER_QUERY");
  }
}

Causal causal_of(std::int32_t causal) {
  switch (causal) {
    case ATTEND_CAUSAL_NONE:
      return Causal::kNone;
    case ATTEND_CAUSAL_BOTTOM_RIGHT:
      return Causal::kBottomRight;
    case ATTEND_CAUSAL_TOP_LEFT:
      return Causal::kTopLeft;
    default:
      fail("causal is ", causal, ", expected one of ATTEND_CAUSAL_NONE, _BOTTOM_RIGHT, _TOP_LEFT");
  }
}

Padding padding_of(std::int32_t padding) {
  switch (padding) {
    case ATTEND_PADDING_COMPUTE:
      return Padding::kCompute;
    case ATTEND_PADDING_SKIP_QUERIES:
      return Padding::kSkipQueries;
    default:
      fail("padding is ", padding, ", expected one of ATTEND_PADDING_COMPUTE, _SKIP_QUERIES");
  }
}

Pairs pairs_of(std::int32_t pairs) {
  switch (pairs) {
    case ATTEND_PAIRS_WHERE_FASTER:
      return Pairs::kWhereFaster;
    case ATTEND_PAIRS_NEVER:
      return Pairs::kNever;
    case ATTEND_PAIRS_ALWAYS:
      return Pairs::kAlways;
    default:
      fail("pairs is ", pairs, ", expected one of ATTEND_PAIRS_WHERE_FASTER, _NEVER, _ALWAYS");
  }
}

Parts parts_of(std::int32_t parts) {
  switch (parts) {
    case ATTEND_PARTS_WHERE_FASTER:
      return Parts::kWhereFaster;
    case ATTEND_PARTS_NEVER:
      return Parts::kNever;
    case ATTEND_PARTS_ALWAYS:
      return Parts::kAlways;
    default:
      fail("parts is ", parts, ", expected one of ATTEND_PARTS_WHERE_FASTER, _NEVER, _ALWAYS");
  }
}

// C's zero means what is -1 in C++.
ScoreTier score_tier_of(std::int32_t score_tier) {
  switch (score_tier) {
    case ATTEND_SCORE_TIER_BY_RANGE:
      return ScoreTier::kByRange;
    case ATTEND_SCORE_TIER_EIGHT:
      return ScoreTier::kEight;
    case ATTEND_SCORE_TIER_FOUR:
      return ScoreTier::kFour;
    case ATTEND_SCORE_TIER_THREE:
      return ScoreTier::kThree;
    case ATTEND_SCORE_TIER_TWO:
      return ScoreTier::kTwo;
    case ATTEND_SCORE_TIER_ONE:
      return ScoreTier::kOne;
    case ATTEND_SCORE_TIER_RATIONAL:
      return ScoreTier::kRational;
    default:
      fail("score_tier is ", score_tier,
           ", expected one of ATTEND_SCORE_TIER_BY_RANGE, _EIGHT, _FOUR, _THREE, _TWO, _ONE, _RATIONAL");
  }
}

}  // namespace

TensorView<const float> view_of(const attend_tensor& tensor, const char* name) { return any_view_of(tensor, name); }
TensorView<float> view_of(const attend_output_tensor& tensor, const char* name) { return any_view_of(tensor, name); }
TensorView<const std::int32_t> view_of(const attend_lengths& lengths, const char* name) {
  return any_view_of(lengths, name);
}

KeyInputs key_inputs_of(const attend_key_inputs& inputs) {
  return {.keys = view_of(inputs.keys, "keys"),
          .values = view_of(inputs.values, "values"),
          .valid_lens = view_of(inputs.valid_lens, "valid_lens")};
}

Outputs outputs_of(const attend_outputs& outputs) {
  return {.output = view_of(outputs.output, "output"),
          .attention_weights = view_of(outputs.attention_weights, "attention_weights")};
}

Parameters parameters_of(const attend_parameter* parameters, std::size_t count) {
  if (count > 0) require_pointer(parameters, "parameters");
  Parameters result;
  for (std::size_t i = 0; i < count; ++i) {
    const attend_parameter& p = parameters[i];
    if (p.name == nullptr) fail("parameters[", i, "].name is a null pointer, expected a name");
    const TensorView<const float> view = view_of(p.tensor, p.name);
    if (!view.empty()) result.insert(p.name, dense_copy(view, p.name));
  }
  return result;
}

Target target_of(const char* name) {
  return name == nullptr || *name == '\0' ? Target::best() : Target::from_name(name);
}

Shape shape_of(const attend_shape& shape) {
  return {.batch = or_one(shape.batch),
          .num_queries = or_one(shape.num_queries),
          .num_keys = or_one(shape.num_keys),
          .query_size = shape.query_size,
          .key_size = shape.key_size,
          .value_size = shape.value_size,
          .num_heads = or_one(shape.num_heads),
          .num_kv_heads = shape.num_kv_heads};
}

attend_shape shape_of(const Shape& shape) {
  return {.batch = shape.batch,
          .num_queries = shape.num_queries,
          .num_keys = shape.num_keys,
          .query_size = shape.query_size,
          .key_size = shape.key_size,
          .value_size = shape.value_size,
          .num_heads = shape.num_heads,
          .num_kv_heads = shape.num_kv_heads};
}

PlanOptions options_of(const attend_plan_options& options) {
  return {.threads = or_one(options.threads),
          .target = target_of(options.target),
          .attention_weights = options.attention_weights != 0,
          .concat_queries = options.concat_queries != 0,
          .valid_lens = valid_lens_of(options.valid_lens),
          .causal = causal_of(options.causal),
          .padding = padding_of(options.padding),
          .path = options.path != nullptr ? options.path : "",
          .prepared_keys = options.prepared_keys != 0,
          .pairs = pairs_of(options.pairs),
          .parts = parts_of(options.parts),
          .score_tier = score_tier_of(options.score_tier),
          .count_tiers = options.count_tiers != 0};
}

MultiHeadOptions options_of(const attend_multi_head_options& options) {
  return {.num_heads = or_one(options.num_heads),
          .scoring = scoring_of(options.scoring),
          .scale = optional_of(options.scale),
          .num_kv_heads = options.num_kv_heads};
}

}  // namespace attend
