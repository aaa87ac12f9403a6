// What products by pairs of terms have in common (Winograd's inner products, 1968): of weights by rows
// (linear_pairs-inl.h), of queries by keys (tile_pairs.h), of powers by values (value_pairs.h).
//
// Two terms of a sum cost two additions and one multiplication, if what depends on x alone and on w alone is known:
//
//     x0 w0 + x1 w1 = (x0 + w1) (x1 + w0) - x0 x1 - w0 w1
//     x0 w0 + x1 w1 = (x0 - w1) (w0 - x1) + x0 x1 + w0 w1
//
// AMD's Zen 4 and Zen 5 have two units for additions beside the two that multiply and add. Three terms, two of them
// as a pair, keep both busy: two multiply-adds and two additions instead of three multiply-adds, so that products run
// at up to 1.5 times the FMA peak. Pairs are added and subtracted in turn (both lines above), which keeps the sums of
// x0 x1 and of w0 w1 small where x or w have a mean that is not zero.
//
// Zen 4's units take two cycles for 512 bits and leave time for the loads. Zen 5's take one, four instructions a cycle
// of hardly 6 that it starts: three terms of 8 rows times 2 vectors are 32 multiply-adds, 32 additions and 30 loads, 94
// instructions that 16 cycles would have to take. tile_pairs/qk_m48_n128_d128 gets to 1.25 times the peak, and loses a
// fifth while another thread, of another virtual machine perhaps, runs on the same core, which tile_product/* does not.
//
// Accuracy: with x scaled by a power of two to the size of w, a term is wrong by up to four times |x| |w| 2^-24 / n
// (norms), where plain sums are wrong in proportion to sum |x w|. That is as much for numbers of one kind, and far less
// where few elements hold the norm: such x or w go the plain way.
//
// Source: S. Winograd, A new algorithm for inner product, IEEE Trans. Computers C-17 (1968); scaling: R. Brent, Error
// analysis of algorithms for matrix multiplication and triangular decomposition using Winograd's identity, Numer. Math.
// 16 (1970).
#ifndef ATTEND_KERNELS_PAIRS_H_
#define ATTEND_KERNELS_PAIRS_H_

#include <cstddef>

namespace attend::kernels {

// Of n terms of a projection or a score: terms 3 j and 3 j + 1 are paired, term 3 j + 2 stands alone, and so do the
// last ones. An even number, since half of the pairs are subtracted: those of odd j.
inline constexpr std::size_t num_pairs(std::size_t n) { return n / 6 * 2; }

// Of x and of w: the least sum |x| ^ 2 / (n sum x ^ 2). Numbers of one size come to 1, Gaussian ones to 0.64, what a
// ReLU leaves of them to 0.32, one number among zeros to 1 / n.
inline constexpr float kMinSpread = 0.2f;

// Greatest by least norm of those w that rows of x meet together. A row of x is scaled to a norm in between, to within
// 4 of each, where the bound of pairs' errors is 1.6 times what it is at 1: (1 + r)^2 / r.
inline constexpr float kMaxNormRatio = 16;

// Mean square of an element of w: with one of x between 1e-24 and 1e24, well within what float holds the products of.
inline constexpr float kMinMeanSquare = 1e-12f, kMaxMeanSquare = 1e12f;

// What a row's copy, scaled, does not say.
struct PairedRow {
  float minus_pair_sum;  // minus the copy's products of pairs, added and subtracted in turn: what its sums begin with
  float unscale;         // copy * unscale = x; 0: the row is not to go by pairs
};

}  // namespace attend::kernels

#endif  // ATTEND_KERNELS_PAIRS_H_
