// The structs of the C face as C++ takes them. What they cannot say there is an Error that names it: a rank or a size
// out of range, an enumerator that does not exist, a null pointer.
#ifndef ATTEND_LAYERS_C_API_CONVERT_H_
#define ATTEND_LAYERS_C_API_CONVERT_H_

#include <cstddef>
#include <cstdint>
#include <optional>

#include "attend/attend.h"
#include "attend/attend_c.h"
#include "engine/base/message.h"

namespace attend {

inline void require_pointer(const void* pointer, const char* name) {
  if (pointer == nullptr) fail(name, " is a null pointer, expected a valid one");
}

// Views; name: as messages call it.
TensorView<const float> view_of(const attend_tensor& tensor, const char* name);
TensorView<float> view_of(const attend_output_tensor& tensor, const char* name);
TensorView<const std::int32_t> view_of(const attend_lengths& lengths, const char* name);

KeyInputs key_inputs_of(const attend_key_inputs& inputs);
Outputs outputs_of(const attend_outputs& outputs);

// Dense copies of `count` tensors by name.
Parameters parameters_of(const attend_parameter* parameters, std::size_t count);

inline std::optional<float> optional_of(const float* value) {
  return value != nullptr ? std::optional(*value) : std::nullopt;
}

// Null or "": the best.
Target target_of(const char* name);

Shape shape_of(const attend_shape& shape);
attend_shape shape_of(const Shape& shape);
PlanOptions options_of(const attend_plan_options& options);
MultiHeadOptions options_of(const attend_multi_head_options& options);

}  // namespace attend

#endif  // ATTEND_LAYERS_C_API_CONVERT_H_
