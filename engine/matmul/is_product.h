// Whether a result is the product that it is said to be: for what others multiply.
#ifndef ATTEND_MATMUL_IS_PRODUCT_H_
#define ATTEND_MATMUL_IS_PRODUCT_H_

#include <cmath>
#include <cstdint>

#include "attend/tensor_view.h"

namespace attend::matmul {

// Whether y = W x + b but for what plain sums of floats in any order may be wrong by, n 2^-24 of their terms' sizes.
// Where these are not finite, or near what floats hold, y may be anything. W (out, in), b (out) or not given.
inline bool is_product(TensorView<const float> W, TensorView<const float> b, const float* x, const float* y) {
  const double rounding = static_cast<double>(W.size(1) + 2) * 0x1p-24;
  for (std::int64_t o = 0; o < W.size(0); ++o) {
    double sum = b.empty() ? 0.0 : static_cast<double>(*b.at(o)), sizes = std::abs(sum);
    for (std::int64_t i = 0; i < W.size(1); ++i) {
      const double term = static_cast<double>(*W.at(o, i)) * static_cast<double>(x[i]);
      sum += term;
      sizes += std::abs(term);
    }
    // Terms below 2^-126 may be taken as zeros.
    const double bound = rounding * (sizes + 0x1p-101);
    if (sizes < 1e37 && !(std::abs(static_cast<double>(y[o]) - sum) <= bound)) return false;
  }
  return true;
}

}  // namespace attend::matmul

#endif  // ATTEND_MATMUL_IS_PRODUCT_H_
