#include "attend/masked_softmax.h"
#include "engine/base/message.h"
#include "engine/view/check.h"
#include "engine/view/valid_lens.h"

namespace attend {

void sequence_mask(TensorView<float> x, TensorView<const std::int32_t> valid_lens, float value) {
  if (x.rank() < 2) fail("x is ", to_string(x.sizes()), ", expected 2 to 4 axes (B, N, ...)");
  if (valid_lens.rank() != 1) fail("valid_lens is ", to_string(valid_lens.sizes()), ", expected (", x.size(0), ")");
  if (x.data() == nullptr && x.num_elements() > 0) fail("x is at a null pointer, expected memory");
  check_written_strides(x, "x");
  check_valid_lens(valid_lens, x.size(0), 0, x.size(1), "the length of x");
  if (x.data() == nullptr) return;  // no elements
  const std::int64_t inner = x.rank() > 2 ? x.size(2) : 1, innermost = x.rank() > 3 ? x.size(3) : 1;
  for (std::int64_t b = 0; b < x.size(0); ++b) {
    for (std::int64_t n = *valid_lens.at(b); n < x.size(1); ++n) {
      for (std::int64_t i = 0; i < inner; ++i) {
        for (std::int64_t j = 0; j < innermost; ++j) {
          float* element = x.at(b, n);
          if (x.rank() > 2) element += i * x.stride(2);
          if (x.rank() > 3) element += j * x.stride(3);
          *element = value;
        }
      }
    }
  }
}

}  // namespace attend
