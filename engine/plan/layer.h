// What a layer is to the planner: its score, its sizes and its packed maps. Built by layers/, read by plan/ and run/.
#ifndef ATTEND_PLAN_LAYER_H_
#define ATTEND_PLAN_LAYER_H_

#include <cmath>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "engine/base/message.h"
#include "engine/kernels/softmax_tile.h"
#include "engine/matmul/linear.h"

namespace attend::detail {

enum class Score { kDot, kGaussian, kAdditive };

// Queries are multiplied by scale log2(e) where their scores are to be exponents of two.
inline bool is_scale(float scale) { return std::isfinite(scale * kernels::kLog2E); }
inline void check_scale(float scale) {
  if (!is_scale(scale)) fail("scale is ", scale, ", expected a number that is finite, also when multiplied by log2(e)");
}

// Immutable once built; plans share it.
struct LayerImpl {
  const char* name = "";        // "additive", "dot", ...
  const char* parameters = "";  // what made it this layer, for explain()
  Score score = Score::kDot;
  bool is_multi_head = false;

  // Sizes fixed by the parameters; 0 where the shape of a plan decides.
  std::int64_t num_heads = 0;
  std::int64_t num_kv_heads = 0;  // of keys and values, a divisor of num_heads; 0: num_heads
  std::int64_t query_size = 0, key_size = 0, value_size = 0;
  std::int64_t score_size = 0;       // per head: D of a dot product, U of an additive score; bilinear: the planner's
  std::int64_t head_value_size = 0;  // per head; 0: the value size
  std::int64_t output_size = 0;      // rows of W_o; 0: head_value_size

  // Maps of rows; null: the rows as they are. Bilinear has both query and key, of which a plan uses one.
  std::shared_ptr<const matmul::Linear> query, key, value, output;
  bool either_side = false;  // bilinear: project the queries or the keys, whichever costs less

  // Additive: (num_heads, score_size), and per head what the factored score reads (additive_score.h, fold_w_v).
  std::vector<float> w_v;
  std::vector<float> folded_w_v;
  std::vector<float> w_v_scales;
  std::optional<float> scale;  // dot: not given means 1 / sqrt(score size)
  float sigma = 1.0f;          // gaussian
};

}  // namespace attend::detail

#endif  // ATTEND_PLAN_LAYER_H_
