// How far from the truth a result may be.
#ifndef ATTEND_TOOLS_ATTEND_BOUND_H_
#define ATTEND_TOOLS_ATTEND_BOUND_H_

#include "attend/plan.h"
#include "attend/reference.h"
#include "tools/attend/layer.h"

namespace attend::tools {

// The contract: attention weights, and outputs relative to max|values|, are within P = 2e-7 (4 + S), S the largest
// |score|, or of dot products the largest sum_i |scale q_i k_i|. It is given for the queries and keys that meet in the
// score. Layers with parameters first project, in f32, and what that rounds away moves the scores; a score moved by e
// moves weights, and outputs relative to max|values|, by no more than e, which is added to P.
//
// e is statistical: 6 standard deviations, roundings being independent and uniform within half an ulp. (Worst cases,
// all roundings conspiring, are true but 100 to 10000 times larger than what happens, and would hide any error. So P is
// for roundings that have nothing in common, and what is made to agree may be called out of contract.) A sum
// has the standard deviation sigma = u / sqrt(3) * sqrt(sum of its squared partial sums), u = 2^-24, and then
//   additive    e = 4e-7 sum|w_v| + 6 sqrt(sum_u w_v[u]^2 (sigma_q[u]^2 + sigma_k[u]^2)), 4e-7: the contract's own
//   bilinear    e = 6 |scale| max(|q| sigma(W k), |k| sigma(W^T q)), as either side may be projected
//   multi-head  e = 6 |scale| sqrt(sigma_q^2 |k_h|^2 + |q_h|^2 sigma_k^2) for head h; additive scoring: as additive
// with the largest sigma and the largest Euclidean norm of any row that is computed or seen, and of the head of keys
// that h sees where heads share one. Multi-head's output i is sum_h weights_h (W_o,h v_h)[i], so that its bound is
//   sum_h (P + e_h) max_n |(W_o,h v_h,n)[i]|  + 6 sqrt(sum_j W_o[i, j]^2 sigma_v[j]^2)
//     + (8e-7 + 6 u sqrt(n / 3)) sqrt(sum_j W_o[i, j]^2 max|v_j|^2) + 2 u |b_o[i]|
// : weights, values, and the rounding of pooling and of the last product, whose n terms are one row of W_o.
struct Bound {
  double score_slack = 0;        // e, of the worst head
  double attention_weights = 0;  // absolute
  double output = 0;             // absolute
};

Bound bound_of(const Layer& layer, const Inputs& inputs, const reference::Mask& mask, const reference::Result& truth);

}  // namespace attend::tools

#endif  // ATTEND_TOOLS_ATTEND_BOUND_H_
