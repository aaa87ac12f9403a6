#include <cmath>
#include <cstddef>
#include <limits>

#include "engine/kernels/masked_softmax.h"

namespace attend::kernels::reference {

void masked_softmax_row(const float* input, std::size_t valid_len, std::size_t num_columns, double* output) {
  double max = -std::numeric_limits<double>::infinity();
  for (std::size_t j = 0; j < valid_len; ++j) {
    if (std::isnan(input[j]) || input[j] > max) max = input[j];
    if (std::isnan(max)) break;
  }
  for (std::size_t j = 0; j < num_columns; ++j) output[j] = 0.0;
  if (max == -std::numeric_limits<double>::infinity()) return;

  double sum = 0.0;
  for (std::size_t j = 0; j < valid_len; ++j) {
    output[j] = std::exp(input[j] - max);
    sum += output[j];
  }
  for (std::size_t j = 0; j < valid_len; ++j) output[j] /= sum;
}

}  // namespace attend::kernels::reference
