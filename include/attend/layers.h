// The five layers: parameters + plan + run. Inference only: dropout, where a paper or framework has it, is the
// identity.
//
// Simplest correct call:
//     attend::DotAttention layer;
//     auto plan = layer.plan({.batch = 2, .num_queries = 1, .num_keys = 10, .query_size = 2, .value_size = 4});
// Recommended for trained weights:
//     attend::MultiHeadAttention layer(
//         {.num_heads = 8}, attend::io::load("layer.safetensors", "encoder.0.self_attn."));
//
// Layers are immutable values: copying one shares its packed weights, and any number of threads may plan and run it.
// Parameter matrices have PyTorch's shapes, (output size, input size), and any strides. They are packed while the layer
// is built, which allocates; what was passed in is not needed afterwards. Strides of a run's views, aliasing and what a
// run makes of special values are the same for all of them: Plan::run says so.
//
// Products of rows and parameter matrices W, the projections, have f32 products and f32 accumulation. An element of n
// terms is wrong by at most n 2^-24 sum |w x|. AMD's CPUs from Zen 4 on take 64 to 2048 terms by pairs (Winograd 1968),
// which are wrong by at most 8 n 2^-24 |w| |x| (norms) and typically as plain sums, where many elements hold the norms
// of W's rows and of x and those of W's rows are within 16 times each other; elsewhere, and where x is not finite, they
// multiply plainly.
// Intel's CPUs with AMX take 64 terms or more for 64 results or more, where W has 8192 numbers or more and the plan is
// for 24 rows or more, as bfloat16 parts, which keep the bound n 2^-24 sum |w x| but for n 2^-43 max |w| max |x|, where
// magnitudes are: the largest of each row of W 2^-40 to 2^40, that of x 2^-40 to 2^64, or all are 0. Elsewhere they
// multiply plainly. Both hold for targets AVX3 and better, pairs on Zen 4 for AVX2 as well, but for plans of up to 16
// rows and weights of a quarter of L3 (8 MiB at least) or more.
#ifndef ATTEND_LAYERS_H_
#define ATTEND_LAYERS_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

#include "attend/plan.h"
#include "attend/tensor.h"
#include "attend/tensor_view.h"

namespace attend {

// Parameters of additive attention.
struct AdditiveParameters {
  TensorView<const float> W_q{};  // (U, Dq)
  TensorView<const float> W_k{};  // (U, Dk)
  TensorView<const float> w_v{};  // (1, U) or (U)
  TensorView<const float> b_q{};  // (U), optional
  TensorView<const float> b_k{};  // (U), optional
  // From a checkpoint: W_q.weight, W_k.weight, w_v.weight and optional W_q.bias, W_k.bias. A w_v.bias is accepted and
  // has no effect: it moves all scores of a row alike, which softmax cancels. The views refer to parameters, which must
  // outlive them.
  //   Thread-safety: thread-safe; allocates nothing unless it fails.
  //   Errors: a missing tensor is an Error that names it, what was expected and what there is. Shapes are checked where
  //     a layer is built of them.
  static AdditiveParameters from(const Parameters& parameters);
};

// Parameter of bilinear attention.
struct BilinearParameters {
  TensorView<const float> W{};  // (Dq, Dk)
  // From a checkpoint: W.weight or W.
  //   Thread-safety, errors: as AdditiveParameters::from.
  static BilinearParameters from(const Parameters& parameters);
};

// How a multi-head layer scores within each head.
enum class Scoring {
  kDot,       // scale * q_h . k_h
  kAdditive,  // w_v[h] . tanh(q_h + k_h)
};

// Parameters of multi-head attention. Query, key and value sizes may all differ.
struct MultiHeadParameters {
  TensorView<const float> W_q{};                       // (H*D, Dq)
  TensorView<const float> W_k{};                       // (Hkv*D, Dk)
  TensorView<const float> W_v{};                       // (Hkv*Dh, Dv)
  TensorView<const float> W_o{};                       // (output size, H*Dh)
  TensorView<const float> b_q{}, b_k{}, b_v{}, b_o{};  // optional, one element per row of the matrix
  TensorView<const float> w_v{};                       // (H, D), Scoring::kAdditive only
  // From a checkpoint, by the names of the textbook (W_q.weight, W_k.weight, W_v.weight, W_o.weight, biases), of
  // torch.nn.MultiheadAttention (in_proj_weight or q_proj_weight ..., in_proj_bias, out_proj.weight, out_proj.bias), of
  // Hugging Face BERT (query.weight ..., output.dense.weight, biases; also below self.) or of Hugging Face BART, OPT,
  // CLIP and Whisper (q_proj.weight, k_proj.weight, v_proj.weight, out_proj.weight, biases, of which Whisper has none
  // for k_proj). Per-head additive scoring adds w_v.weight (H, D). Other names are ignored. The views refer to
  // parameters, which must outlive them.
  //   Thread-safety: thread-safe; allocates a little.
  //   Errors: a missing or mis-shaped tensor is an Error that names it, what was found and what was expected. So is one
  //     that tells of a feature this library does not have: bias_k, bias_v; relative positions, rotary embeddings and
  //     norms under the names that models give them within the layer. With q_proj.weight, o_proj.weight (Llama) and the
  //     lack of any bias but k_proj's (GPT-J) are Errors too: such layers rotate queries and keys by their positions,
  //     or scale otherwise (GPT-Neo). One that does not is taken by the textbook's names. Nothing within a RoFormer's
  //     layer tells that it rotates. w_v is checked where a layer is built of it.
  static MultiHeadParameters from(const Parameters& parameters);
};

struct DotOptions {
  std::optional<float> scale{};  // default 1 / sqrt(D)
};
struct BilinearOptions {
  float scale = 1.0f;
};
struct GaussianOptions {
  float sigma = 1.0f;
};
struct MultiHeadOptions {
  std::int64_t num_heads = 1;
  Scoring scoring = Scoring::kDot;
  std::optional<float> scale{};  // Scoring::kDot: default 1 / sqrt(D) with D the size of a head
  // Heads of keys and values, a divisor of num_heads: query head h sees those of head h / (num_heads / num_kv_heads).
  // 0: num_heads. W_k and W_v then have num_kv_heads heads of rows. Scoring::kDot only.
  std::int64_t num_kv_heads = 0;
};

namespace detail {
struct LayerImpl;
}

// What all layers can do. Build one of the layers below, or let choose() pick from the parameters.
class Attention {
 public:
  // A move is a copy too: what was moved from is still a layer.
  Attention(const Attention&) noexcept = default;
  Attention& operator=(const Attention&) noexcept = default;

  // Checks the shape against the parameters, chooses path, tiles and workspace, and says why in Plan::explain().
  //   Thread-safety: thread-safe; allocates.
  //   Errors: Error naming the size or option, what it was and what was expected.
  Plan plan(const Shape& shape, const PlanOptions& options = {}) const;

  // "additive", "dot", "bilinear", "gaussian" or "multi-head".
  std::string_view name() const noexcept;

  // Picks the layer by the names that are present: W_q.weight, W_k.weight and w_v.weight mean additive; W.weight or W
  // means bilinear; no parameters and equal query and key sizes mean dot.
  //   Thread-safety: thread-safe; allocates, as the layer that is picked.
  //   Errors: no parameters and unequal sizes is an Error that names both and says what to use instead; also parameters
  //     of multi-head attention, which do not say num_heads (any of W_v.weight and W_o.weight, or torch's or Hugging
  //     Face's names), parameters of both additive and bilinear attention, and others; and as the layer that is picked.
  static Attention choose(const Parameters& parameters, std::int64_t query_size, std::int64_t key_size);

 protected:
  explicit Attention(std::shared_ptr<const detail::LayerImpl> impl) : impl_(std::move(impl)) {}

 private:
  std::shared_ptr<const detail::LayerImpl> impl_;
};

// score(q, k) = w_v . tanh(W_q q + W_k k)
//   Shapes: queries (B, M, Dq), keys (B, N, Dk), values (B, N, Dv) of any Dv; output (B, M, Dv), weights (B, M, N).
//   Error bound: scores within 4e-7 sum|w_v| of the exact ones for given pre-activations W_q q and W_k k (5.5e-7 where
//     these are chosen to that end); these are f32 products with f32 accumulation and add their own rounding. Weights,
//     and outputs relative to max|values|: as Plan::run, and by as much more as the scores are off.
//   Special values: a NaN in a row of queries makes that row's result NaN.
//   Errors: Error naming the parameter, what it was and what was expected, for one that is missing, mis-shaped or has a
//     zero size.
//   Source: Bahdanau, Cho, Bengio 2015 (arXiv:1409.0473), section A.1.2; Dive into Deep Learning, 11.3.
class AdditiveAttention : public Attention {
 public:
  explicit AdditiveAttention(const AdditiveParameters& parameters);
  explicit AdditiveAttention(const Parameters& parameters) : AdditiveAttention(AdditiveParameters::from(parameters)) {}
};

// score(q, k) = scale * q . k, scale = 1 / sqrt(D) by default.
//   Shapes: queries (B, M, D), keys (B, N, D), values (B, N, Dv); output (B, M, Dv), weights (B, M, N). With heads:
//     (B, H, M, D), (B, Hkv, N, D), (B, Hkv, N, Dv); (B, H, M, Dv), (B, H, M, N).
//   Error bound: as Plan::run, for the queries and keys of the run: there are no projections.
//   Errors: Error for a scale that is not finite, or not when multiplied by log2(e). Planning: also for query and key
//     sizes that are unequal or both 0.
//   Source: Vaswani et al. 2017 (arXiv:1706.03762), equation 1.
class DotAttention : public Attention {
 public:
  explicit DotAttention(const DotOptions& options = {});
};

// score(q, k) = scale * q^T W k, scale = 1 by default. One projection, of the queries or of the keys, whichever costs
// less.
//   Shapes: queries (B, M, Dq), keys (B, N, Dk), values (B, N, Dv) of any Dv; output (B, M, Dv), weights (B, M, N).
//   Special values: as Plan::run, of what is projected, queries or keys: infinite elements there may make a row NaN in
//     one plan and not in another.
//   Error bound: as Plan::run for the queries W^T q, or the keys W k, as projected; these are f32 products with f32
//     accumulation and add their own rounding.
//   Errors: Error naming W, what it was and what was expected, if it is missing, is no matrix or has a zero size; for a
//     scale as in DotAttention.
//   Source: Luong, Pham, Manning 2015 (arXiv:1508.04025), equation 8, "general".
class BilinearAttention : public Attention {
 public:
  explicit BilinearAttention(const BilinearParameters& parameters, const BilinearOptions& options = {});
  explicit BilinearAttention(const Parameters& parameters, const BilinearOptions& options = {})
      : BilinearAttention(BilinearParameters::from(parameters), options) {}
};

// score(q, k) = -|q - k|^2 / (2 sigma^2)
//   Computed as a dot product with a per-key bias, |q|^2 being the same for all keys of a row; queries and keys are
//   first moved so that one key lies at the origin: of the first three finite ones the one nearest to the others. That
//   bounds the rounding by max|score| however far from 0 the data lies. Keys near a query keep their accuracy beside
//   keys whose |score| is many times theirs unless the key at the origin is one of those. A key farther than 2^64 from
//   it counts as infinitely far.
//   Shapes: as DotAttention.
//   Special values: as Plan::run. A row with scores beyond 2^127 in size may become NaN.
//   Error bound: as Plan::run, for the queries and keys of the run: there are no projections.
//   Errors: Error for a sigma that is not positive, so small that 1 / sigma^2 is not finite, or not when multiplied by
//     log2(e), or so large that it is 0 as a float. Planning: as DotAttention.
//   Source: Nadaraya 1964, Watson 1964; Dive into Deep Learning, 11.2.
class GaussianAttention : public Attention {
 public:
  explicit GaussianAttention(const GaussianOptions& options = {});
};

// Per head h: score = scale * (W_q q)_h . (W_k k)_h, or w_v[h] . tanh((W_q q)_h + (W_k k)_h); heads pool (W_v v)_h, and
// W_o maps them, side by side, to the output. Heads are strided views of the projections; none is ever copied. The
// heads of a row without valid keys are 0, so its output is W_o's bias, or 0 where there is none.
//   Shapes: queries (B, M, Dq), keys (B, N, Dk), values (B, N, Dv); output (B, M, rows of W_o), weights (B, H, M, N).
//   Special values: as Plan::run, of queries, keys and values as projected.
//   Error bound: weights, and what each head pools relative to max|W_v v|, as Plan::run for queries, keys and values as
//     projected; additive scores as AdditiveAttention's, with w_v[h]. All four projections, W_o's too, are f32 products
//     with f32 accumulation and add their own rounding.
//   Errors: Error naming the parameter or option, what it was and what was expected: for a parameter that is missing,
//     mis-shaped or has a zero size; for num_heads that is less than 1 or no divisor of the rows of W_q and the columns
//     of W_o; for num_kv_heads that is negative, no divisor of num_heads or not what W_k and W_v have; for a scale as
//     in DotAttention. Scoring::kAdditive: also for a missing w_v, any scale, and num_kv_heads other than num_heads.
//   Source: Vaswani et al. 2017, section 3.2.2.
class MultiHeadAttention : public Attention {
 public:
  MultiHeadAttention(const MultiHeadOptions& options, const MultiHeadParameters& parameters);
  MultiHeadAttention(const MultiHeadOptions& options, const Parameters& parameters)
      : MultiHeadAttention(options, MultiHeadParameters::from(parameters)) {}
};

}  // namespace attend

#endif  // ATTEND_LAYERS_H_
