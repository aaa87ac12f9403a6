// Scores of a tile of additive attention: s[m][j] = sum_u w[u] tanh(q[m][u] + k[j][u]), for given pre-activations q =
// W_q query and k = W_k key. The (M, N, U) tensor exists only in registers.
#ifndef ATTEND_KERNELS_ADDITIVE_SCORE_H_
#define ATTEND_KERNELS_ADDITIVE_SCORE_H_

#include <cstddef>
#include <cstdint>

namespace attend::kernels {

struct AdditiveScoreArgs {
  const float* queries;           // row m at queries + m * queries_stride, num_hiddens elements
  std::ptrdiff_t queries_stride;  // elements
  const float* keys;  // panels, as pack.keys leaves them: panel p at keys + p * keys_panel_stride, [u][panel_width]
  std::size_t keys_panel_stride;  // elements
  const float* w_v;               // num_hiddens elements
  float* scores;                  // row m at scores + m * scores_stride; whole panels are written
  std::ptrdiff_t scores_stride;   // elements, a multiple of panel_width; rows are aligned to a vector
  std::size_t num_queries;
  std::size_t num_keys;  // panels = ceil(num_keys / panel_width); lanes beyond hold unspecified finite-input values
  std::size_t num_hiddens;
};

struct AdditiveScoreKernels {
  // tanh by a rational function of the sum q + k: one division per element, holds for every range of inputs.
  void (*direct)(const AdditiveScoreArgs&);
};

namespace reference {
// One score in double.
double additive_score(const float* query, const float* key, const float* w_v, std::size_t num_hiddens);
}  // namespace reference

AdditiveScoreKernels additive_score_kernels(std::int64_t target);

}  // namespace attend::kernels

#endif  // ATTEND_KERNELS_ADDITIVE_SCORE_H_
