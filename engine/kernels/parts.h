// What products by bfloat16 parts have in common: of weights by rows (linear_parts-inl.h), of queries by keys and of
// powers by values (tile_parts.h).
//
// Intel's servers since Sapphire Rapids multiply tiles of bfloat16 numbers, of 8 significant bits, and sum in float, at
// 16 times the rate of multiply-adds of floats (AMX). A float is the sum of three such numbers, without a remainder:
//
//     x = x1 + x2 + x3     x1 = x rounded to 8 bits     x2 = x - x1 rounded likewise     x3 = what is left, 7 bits
//     x w = x1 w1 + (x1 w2 + x2 w1) + (x1 w3 + x2 w2 + x3 w1) + what is left out, below 2^-24 |x w|
//
// Six products of parts, each exact in float, are a float's product at 16 / 6 of the FMA peak.
//
// Accuracy: what is left out, x2 w3 + x3 w2 + x3 w3, is no more than what one rounding of the product would be, and has
// either sign. Sums run over 16 terms at a time, which are then added to the others, so that they are rounded less
// often than in a chain. Typical errors are 0 to 0.9 of the tile product's with FMA, and 1.07 of them where numbers
// spread over 2^80 (tests/kernels/tile_parts_test.cc). Sums below 2^-126 become zeros on the way.
//
// But numbers that are infinite, NaN or nearly so have no such parts, and parts below 2^-126 are taken as zeros. A
// query, key, value, row or column with numbers beyond the limits below is multiplied plainly, each by itself, so that
// what is hidden from a row does not change its bits.
//
// Source: G. Henry, P. Tang, A. Heinecke, Leveraging the bfloat16 artificial intelligence datatype for higher-precision
// computations, ARITH 2019, arXiv:1904.06376, section III.
#ifndef ATTEND_KERNELS_PARTS_H_
#define ATTEND_KERNELS_PARTS_H_

#include <cstddef>
#include <cstdint>

namespace attend::kernels {

inline constexpr std::size_t kNumParts = 3;

// Of a row, key or value: the largest magnitude, above which it has no parts.
inline constexpr float kMaxWithParts = 0x1p64f;
// Where results are to be exact relative to it: the least largest magnitude, but for nothing but zeros. What parts
// below 2^-126 lose is then less than 2^-64 of that.
inline constexpr float kMinWithParts = 0x1p-60f;

// Tiles hold 16 rows of 32 terms, or 32 terms of 16 columns; parts of A are laid out as tile (r / 16, k / 32, part),
// those of B as tile (n / 16, k / 32, part), 512 numbers each, zeros where there is no term or column. Lines of A where
// there is no row are left as they are: they touch only rows of C that nobody reads. Terms k and k + 16 of 32 are
// neighbours in a tile: whole vectors of floats become whole vectors of parts then.
inline constexpr std::size_t kPartsRows = 16, kPartsColumns = 16, kPartsTerms = 32, kPartsTile = 512;

// Rows and columns of C that are summed at a time, a step: two tiles by two, which of eight tiles leaves two for A and
// two for B.
inline constexpr std::size_t kPartsRowsPerStep = 2 * kPartsRows, kPartsColumnsPerStep = 2 * kPartsColumns;

// Numbers (std::uint16_t) of the parts of `count` rows or columns of `terms` terms.
inline constexpr std::size_t parts_size(std::size_t count, std::size_t terms) {
  return (count + kPartsRows - 1) / kPartsRows * ((terms + kPartsTerms - 1) / kPartsTerms) * kNumParts * kPartsTile;
}

// C = A B or C += A B, all tiles of a step (MultiplyTiles in parts-inl.h). Whole tiles of C are read and written.
struct PartsProductArgs {
  std::size_t num_rows, num_columns;  // more than kPartsRowsPerStep or kPartsColumnsPerStep count as that
  const std::uint16_t* a;             // parts of the first tile of rows ...
  std::size_t a_block;                // ... and how many numbers further those of the second are
  const std::uint16_t* b;             // of columns likewise
  std::size_t b_block;
  std::size_t num_steps;  // tiles of terms, one after the other
  bool accumulate;        // C += A B
  float* c;               // row r at c + r * c_stride
  std::ptrdiff_t c_stride;
};

}  // namespace attend::kernels

#endif  // ATTEND_KERNELS_PARTS_H_
