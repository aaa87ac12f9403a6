// C = A B for one tile by pairs of terms (pairs.h), where A are rows of queries and B panels of keys: their scores.
//
// Whether a row goes by pairs depends only on keys that it sees, so that hidden ones do not change its bits. Valid
// lengths and causal masks hide the last keys. So keys are compared with those of the head's first panel, and a row
// that does not see all of these goes the plain way; others go by pairs with each panel of which all keys that they see
// are fit, if they are fit themselves. All else goes by the tile product, with its bits.
#ifndef ATTEND_KERNELS_TILE_PAIRS_H_
#define ATTEND_KERNELS_TILE_PAIRS_H_

#include <cstddef>
#include <cstdint>

#include "engine/kernels/pairs.h"
#include "engine/kernels/tile_product.h"

namespace attend::kernels {

// One block of the tile product; fewer than 12 terms are mostly what stands alone.
inline constexpr std::size_t kMinTilePairsSize = 12, kMaxTilePairsSize = kInnerBlock;

// Rows that copies of so many take the memory of.
inline constexpr std::size_t copied_rows(std::size_t num_rows) { return (num_rows + 3) / 4 * 4; }

struct PairPanelsArgs {
  const float* panels;       // of keys of a head (pack.h), padded by zeros; aligned to a vector
  std::size_t panel_stride;  // elements
  std::size_t num_panels;
  std::size_t size;        // of a key
  float mean_square = 0;   // what the head's first panel returned; 0: these begin with it
  float* pair_sums;        // of each key: sum over j of (-1)^j k[3 j] k[3 j + 1]; num_panels * panel_width, aligned
  std::int32_t* fit_keys;  // per panel, how many of its first keys are fit for pairs, up to one that is not
};

struct PairRowsArgs {
  const float* rows;      // of queries, scaled: row r at rows + r * stride
  std::ptrdiff_t stride;  // elements, any
  std::size_t num_rows;
  std::size_t size;
  const std::int32_t* lens;  // of each row: keys of the head that it sees; nullptr: more than a panel
  float keys_mean_square;    // what panels() returned, not 0
  // Rows scaled to the size of the keys, with 16 registers four of them together (kRowsOfTerm in pairs-inl.h):
  // copied_rows(num_rows) * copies_stride elements.
  float* copies;
  std::ptrdiff_t copies_stride;  // elements, at least `size`
  PairedRow* paired;             // per row
};

struct TilePairsArgs {
  // Of the plain product, inner at most kMaxTilePairsSize; accumulate and inner_lens are not for pairs.
  TileProductArgs product;
  // Of these rows and panels, as above.
  const float* copies;
  std::ptrdiff_t copies_stride;
  std::size_t first_copy = 0;  // which of the copies the product's first row is
  const PairedRow* paired;
  const float* pair_sums;
  const std::int32_t* fit_keys;
};

struct TilePairsKernels {
  // Returns the mean square of an element of the first panel; 0: no panel is fit.
  float (*panels)(const PairPanelsArgs&);
  void (*rows)(const PairRowsArgs&);
  // An element of C depends on its row and length, its column, inner and which keys of its panel are fit of those that
  // the row sees: never on the other rows.
  void (*multiply)(const TilePairsArgs&);
  // Whether that is the faster way on CPUs whose vector units add beside multiplying.
  bool has_registers_for_pairs;
};

TilePairsKernels tile_pairs_kernels(std::int64_t target);

}  // namespace attend::kernels

#endif  // ATTEND_KERNELS_TILE_PAIRS_H_
