// C += P V for one tile by pairs of terms (pairs.h), where P are rows of powers that a softmax leaves and V rows of
// values: the pooling of one block of keys.
//
// Keys are paired by where they stand, a vector's lanes apart, so that rows of powers are looked at by whole vectors
// and both sides stay where they lie. With N lanes, three vectors of keys at a time: key i of the first is paired with
// key i of the second, key i of the third stands alone. What is left is cut in three likewise, each of an even number,
// and up to five keys stand alone.
//
// A row goes by pairs in blocks of which it sees every key, if its powers are fit, with each panel of values that is
// fit, so that keys hidden from it do not change its bits. All else goes by the tile product, with its bits. Values are
// fit if each column's norm is held by many keys and near those of the head's first block. No row is copied: powers
// have to be of the size of values from the start, which power_exponent says how to bring about.
//
// A row's weights may be held by few keys, other than a query's norm by few elements (tile_pairs.h): where the largest
// power is some eight times the values' size, what rounding adds to that of plain sums is small for any spread. Root
// mean square errors in those of plain sums, 128 keys, AVX3, normal scores of deviations 0 to 5 in exponents of two:
// normal values 1.1 to 1.4, left by a ReLU 0.8 to 1.4, positive 0.9 to 1.1, nearly constant 0.9 to 1.1. With powers no
// larger than the values 1.7 to 9.
#ifndef ATTEND_KERNELS_VALUE_PAIRS_H_
#define ATTEND_KERNELS_VALUE_PAIRS_H_

#include <cstddef>
#include <cstdint>

#include "engine/kernels/pairs.h"
#include "engine/kernels/tile_product.h"

namespace attend::kernels {

// Of a row of powers: the least spread (pairs.h), which in 128 one key with all the weight has not, but two alike have,
// and its mean square over that of the values.
inline constexpr float kMinPowerSpread = 0.01f, kMinPowerRatio = 1.0f / 256, kMaxPowerRatio = 256;

struct PairValuesArgs {
  const float* values;        // as the tile product reads B, from the head's first block on or a later one's first key
  std::size_t panel_stride;   // elements
  std::ptrdiff_t row_stride;  // elements
  std::size_t num_values;     // in blocks of kInnerBlock, of which the last may be shorter
  std::size_t size;           // columns that count, of as many panels as hold them
  float mean_square;          // what the head's first block returned; 0: this is the first block
  float* pair_sums;           // of block i and column n at i * panels * panel_width + n, aligned
  std::int32_t* fit;          // of block i and panel p at i * panels + p: 1, or 0
};

struct PairPowersArgs {
  const float* powers;    // row r at powers + r * stride, aligned to a vector
  std::ptrdiff_t stride;  // elements, a multiple of the lanes
  std::size_t num_rows;
  std::size_t num_keys;      // of the block
  const std::int32_t* lens;  // of each row: keys of the block that it sees
  float mean_square;         // of the values, not 0
  PairedRow* paired;         // per row; unscale is 1 or 0
};

struct ValuePairsArgs {
  // Of the plain product: one block, no maxima, all columns. inner_lens are those of PairPowersArgs, or nullptr.
  TileProductArgs product;
  // Of these rows and this block, as above.
  const PairedRow* paired;
  const float* pair_sums;
  const std::int32_t* fit;
};

struct ValuePairsKernels {
  // Returns the mean square of an element of the first block; 0: nothing is fit.
  float (*values)(const PairValuesArgs&);
  void (*powers)(const PairPowersArgs&);
  // An element of C depends on its row, its column and inner alone: never on the other rows.
  void (*multiply)(const ValuePairsArgs&);
  // Whether that is the faster way on CPUs whose vector units add beside multiplying.
  bool has_registers_for_pairs;
};

ValuePairsKernels value_pairs_kernels(std::int64_t target);

// The largest power of a row is to be about two to this (softmax_tile.h), for values of such a mean square: eight times
// their size, so that most powers are of their size. NaN: of any size, for 0.
float power_exponent(float mean_square);

}  // namespace attend::kernels

#endif  // ATTEND_KERNELS_VALUE_PAIRS_H_
