#include <cmath>
#include <cstddef>

#include "engine/kernels/additive_score.h"

namespace attend::kernels::reference {

double additive_score(const float* query, const float* key, const float* w_v, std::size_t num_hiddens) {
  double score = 0.0;
  for (std::size_t u = 0; u < num_hiddens; ++u) {
    score += static_cast<double>(w_v[u]) * std::tanh(static_cast<double>(query[u]) + static_cast<double>(key[u]));
  }
  return score;
}

}  // namespace attend::kernels::reference
