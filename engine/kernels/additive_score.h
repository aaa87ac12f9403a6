// Scores of a tile of additive attention: s[m][j] = sum_u w[u] tanh(q[m][u] + k[j][u]), for given pre-activations q =
// W_q query and k = W_k key. The (M, N, U) tensor exists only in registers.
//
// Two kernels with the same results to 4e-7 sum|w| (5.5e-7 where pre-activations are chosen to that end): direct takes
// tanh of each sum; factored takes the exponentials of its rows beforehand and is some five times as fast.
#ifndef ATTEND_KERNELS_ADDITIVE_SCORE_H_
#define ATTEND_KERNELS_ADDITIVE_SCORE_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "engine/kernels/prefetch.h"

namespace attend::kernels {

struct AdditiveScoreArgs {
  const float* queries;                         // row m at queries + m * queries_stride, num_hiddens elements
  std::ptrdiff_t queries_stride;                // elements
  const std::int32_t* query_numbers = nullptr;  // num_queries: at queries + query_numbers[m] * queries_stride instead
  const float* keys;  // panels, as pack.keys leaves them: panel p at keys + p * keys_panel_stride, [u][panel_width]
  std::size_t keys_panel_stride;  // elements
  const float* w_v;               // num_hiddens elements
  float* scores;                  // row m at scores + m * scores_stride; whole panels are written
  std::ptrdiff_t scores_stride;   // elements, a multiple of panel_width; rows are aligned to a vector
  std::size_t num_queries;
  std::size_t num_keys;  // panels = ceil(num_keys / panel_width); lanes beyond hold unspecified values
  std::size_t num_hiddens;
};

// How factored computes tanh(a + b), in the order of attend::ScoreTier. Chosen per (query, panel of keys) from the sum
// of max|a| of the query and max|b| of the keys of the panel that it sees: terms over a common denominator, as many as
// floats have the range for, where a CPU divides fast no more than three. fold_w_v finds the ranges; those given here
// hold for weights of similar size.
enum class ScoreTier {
  kEight = 0,     // eight terms per division: up to 10
  kFour = 1,      // up to 15
  kThree = 2,     // three, three and two of eight: up to 18
  kTwo = 3,       // up to 24
  kOne = 4,       // up to 43
  kRational = 5,  // direct's tanh of a + b: one of the exponentials alone may overflow
};
inline constexpr int kNumScoreTiers = 6;

// The largest |a| and |b| whose exponentials are taken: no tier but kRational goes beyond it. It saves the clamps of
// Exp, three operations of eighteen.
inline constexpr float kExpMax = 43.4f;

// Exponentials of n keys are kept as vectors of keys, one after another: with N the lanes of a vector, U hidden units
// and v = j / N, that of key j and unit u is at v N U + u w + j % N, where w is N, or of the last vector what this says
// of the keys that it has. Less is read so where that is not full: of 100 keys with AVX-512 6.25 vectors and not 7.
// Intel Xeon with AMX, additive/b64_m1_n100_u256_prepared: 591 -> 573 us.
constexpr std::size_t exps_width(std::size_t num_keys, std::size_t lanes) {
  std::size_t width = lanes;
  while (width > 4 && num_keys <= width / 2) width /= 2;
  return width;
}

struct FactoredScoreArgs {
  const float* queries;           // pre-activations a: row m at queries + m * queries_stride, num_hiddens elements
  std::ptrdiff_t queries_stride;  // elements
  const std::int32_t* query_numbers = nullptr;  // as AdditiveScoreArgs::query_numbers
  const float* query_exps;  // alpha e^2a: row m at query_exps + m * query_exps_stride; from exp_rows with factors =
                            // folded_w_v
  std::ptrdiff_t query_exps_stride;
  const float* query_max;         // num_queries: max_u |a|; from exp_rows
  const float* keys;              // pre-activations b in panels, as AdditiveScoreArgs::keys
  std::size_t keys_panel_stride;  // elements
  const float* key_exps;          // e^2b as exp_keys leaves them: the keys from a panel's first on,
  std::size_t num_exps;           // so many of them, num_keys or more
  const float* key_max;           // max_u |b| per key, whole panels, aligned; from exp_keys
  const float* w_v;               // num_hiddens elements
  const float* folded_w_v;        // folded_w_v_size(num_hiddens) elements, from fold_w_v
  float w_v_scale;                // what fold_w_v returned
  float* scores;                  // row m at scores + m * scores_stride; every vector of keys of which the query sees
                                  // one is written, lanes beyond are unspecified; other vectors may be left alone
  std::ptrdiff_t scores_stride;   // elements, a multiple of panel_width; rows are aligned to a vector
  std::size_t num_queries, num_keys, num_hiddens;
  const std::int32_t* lens;  // num_queries: how many of these keys each query sees (more than num_keys means all, less
                             // than 0 none); nullptr: all. Keys beyond take no part in the choice of the tier
  ScoreTier first_tier = ScoreTier::kEight;  // none before it is chosen
  int forced_tier;                           // a ScoreTier for tests and experiments; -1: by range
  std::uint32_t* tier_counts;                // kNumScoreTiers counters of (query, panel) pairs, added to; or nullptr
  std::span<PrefetchRows> ahead = {};        // rows to prefetch meanwhile, in this order,
  std::size_t ahead_lines = 0;               // and about how many lines of them
};

struct ExpKeysArgs {
  const float* rows;      // b: key j at rows + j * stride, num_hiddens elements, any alignment
  std::ptrdiff_t stride;  // elements
  std::size_t num_keys;
  std::size_t num_hiddens;
  float* exps;          // e^2b of num_all keys, as exps_width has them. Unspecified where |b| is above kExpMax, NaN
                        // where b is
  std::size_t first;    // key 0 of these among all
  std::size_t num_all;  // first + num_keys or more; if no more, what is left of the last vector is written too
  float* key_max;       // max_u |b| of key j at key_max + first + j; NaN is passed over
};

struct ExpRowsArgs {
  const float* rows;      // a: row m at rows + m * stride, num_hiddens elements, any alignment
  std::ptrdiff_t stride;  // elements
  std::size_t num_rows;
  std::size_t num_hiddens;
  const float* factors;  // of the exponentials, num_hiddens elements: folded_w_v
  float* exps;           // factor e^2a: row m at exps + m * exps_stride, num_hiddens elements are written, as exps of
                         // keys
  std::ptrdiff_t exps_stride;  // elements
  float* row_max;              // num_rows: max_u |a|; NaN is passed over
};

struct AdditiveScoreKernels {
  std::size_t lanes;  // of a vector
  // tanh by a rational function of the sum q + k: one division per element, holds for every range of inputs.
  void (*direct)(const AdditiveScoreArgs&);
  // The tiers above. A score's bits depend on its query's row, the keys of its panel that this query sees and
  // num_hiddens. NaN in a or b makes that score NaN; infinities saturate, in kRational. An infinite w_v may give NaN.
  void (*factored)(const FactoredScoreArgs&);
  void (*exp_keys)(const ExpKeysArgs&);
  void (*exp_rows)(const ExpRowsArgs&);
  // max_j key_max[j] over n keys, 0 of none; key_max is aligned. std::max_element took 3 % of the time of one query and
  // 100 prepared keys.
  float (*largest)(const float* key_max, std::size_t n);
};

// Weights as factored reads them. With x = w_v / scale and U = num_hiddens rounded up to a multiple of eight, folded is
//
//     alphas: U numbers, K / (2 x); zeros beyond num_hiddens
//     constants, 2 U numbers: for every group of eight units x / K (eight), sums of two of them (four), of four (two),
//         of eight, and K
//     ranges, one of each tier but kRational: the largest max|a| + max|b| that all its intermediate results are floats
//         for; -1: never to be used
//
// K makes the geometric mean of a group's alphas 1.8 * 2^-16, or a little more or less, so that the products of eight
// fill the range of a float, and roundings of equal terms differ between groups. If one group has more than a fifth
// of sum|w_v|, which by itself would be wrong by up to 5.6e-7 of its sum, eight terms per division are not used; nor
// are four (4.9e-7), nor three, if it has more than half.
//
// Returns scale, the power of two that leaves max|x| in [0.5, 1); [1, 2) if max|w_v| >= 2^127, since 2^128 is no float.
// Weights below 2^-28 of the mean |w_v| are replaced by that, lest an alpha is infinite: scores change by less than
// 8e-9 sum|w_v|. Weights that are all zero have scale 0; infinite and NaN weights scale 1 and the ranges -1.
constexpr std::size_t folded_constants_at(std::size_t num_hiddens) { return (num_hiddens + 7) / 8 * 8; }
constexpr std::size_t folded_ranges_at(std::size_t num_hiddens) { return 3 * folded_constants_at(num_hiddens); }
constexpr std::size_t folded_w_v_size(std::size_t num_hiddens) {
  return folded_ranges_at(num_hiddens) + static_cast<std::size_t>(kNumScoreTiers) - 1;
}
// Places among a group's 16 constants, after the sums of one.
inline constexpr std::size_t kGroupConstants = 16, kSumsOfTwo = 8, kSumsOfFour = 12, kSumOfEight = 14, kFactor = 15;

float fold_w_v(const float* w_v, std::size_t num_hiddens, float* folded);

// Where num_more keys will follow num_keys, whose exponentials are there: the vector of the last of these becomes as
// wide as it will be. What stands in lanes of keys to come is unspecified.
void widen_key_exps(float* exps, std::size_t num_hiddens, std::size_t lanes, std::size_t num_keys,
                    std::size_t num_more);

// The largest max|a| + max|b| that some tier other than kRational serves: above it, the sums a + b are needed.
float widest_range(const float* folded_w_v, std::size_t num_hiddens);

namespace reference {
// One score in double.
double additive_score(const float* query, const float* key, const float* w_v, std::size_t num_hiddens);
}  // namespace reference

AdditiveScoreKernels additive_score_kernels(std::int64_t target);

}  // namespace attend::kernels

#endif  // ATTEND_KERNELS_ADDITIVE_SCORE_H_
