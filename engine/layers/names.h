// Looks parameters up by the names they have in the wild, and checks their shapes.
#ifndef ATTEND_LAYERS_NAMES_H_
#define ATTEND_LAYERS_NAMES_H_

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>

#include "attend/tensor.h"
#include "engine/base/message.h"
#include "engine/view/check.h"

namespace attend::detail {

// "layer.safetensors:encoder.0." for messages; "parameters" when the source is not known.
inline std::string source_of(const Parameters& parameters) {
  return parameters.source().empty() ? "parameters" : parameters.source();
}

// The names that are there, for a message about one that is not: at most eight of them.
inline std::string names_there(const Parameters& parameters) {
  constexpr std::size_t kShown = 8;
  std::string text;
  std::size_t shown = 0;
  for (const std::string& name : parameters.names()) {
    if (shown++ == kShown) return text + ", ...";
    text += (text.empty() ? "" : ", ") + name;
  }
  return text.empty() ? "no tensors" : text;
}

// The tensor of that name. Throws Error naming it, what was found and what was expected.
inline TensorView<const float> require(const Parameters& parameters, std::string_view name, std::string_view meaning) {
  const TensorView<const float> tensor = parameters.find(name);
  if (tensor.empty()) {
    fail(source_of(parameters), ": ", name, " is missing, expected ", meaning, "; found ", names_there(parameters));
  }
  return tensor;
}

// Rank and sizes of a parameter. Throws Error naming it, what was found and what was expected.
inline void check_parameter(const TensorView<const float>& tensor, const std::string& name,
                            std::initializer_list<Axis> axes) {
  check_sizes(tensor, name.c_str(), axes);
  for (int axis = 0; axis < tensor.rank(); ++axis) {
    if (tensor.size(axis) == 0) fail(name, " is ", to_string(tensor.sizes()), ", expected no zero size");
  }
}

// A bias: not given, or one element per row of its matrix.
inline void check_bias(const TensorView<const float>& bias, const std::string& name, std::int64_t rows) {
  if (!bias.empty()) check_parameter(bias, name, {{"rows", rows}});
}

}  // namespace attend::detail

#endif  // ATTEND_LAYERS_NAMES_H_
