// Scores and pooling of tiles by bfloat16 parts (parts.h): queries by keys, and powers that a softmax leaves by values.
//
// Queries are A, keys and values B. Each query, key and value says for itself whether it is fit, and is zero in its
// parts if it is not; what it has to do with is then computed plainly, so that nothing hidden from a row touches its
// bits: scores of a query that is not fit by the tile product, those of a key that is not by a chain of multiply-adds,
// and p times a value that is not is added by itself.
//
// Tiles leave no subnormal numbers, so that results below 2^-126 are zeros. Where all values that a row sees are below
// 2^-105, that may be more than the contract allows: 15 times as much where they are about 2^-120, nothing at 2^-110.
// The bits are the row's own all the same.
//
// The caller configures the tiles of its thread before the first of these functions that needs them, and releases them
// after the last (TilePartsKernels::configure).
#ifndef ATTEND_KERNELS_TILE_PARTS_H_
#define ATTEND_KERNELS_TILE_PARTS_H_

#include <cstddef>
#include <cstdint>

#include "engine/kernels/parts.h"
#include "engine/kernels/softmax_tile.h"

namespace attend::kernels {

struct QueryPartsArgs {
  const float* rows;      // of queries, scaled: row r at rows + r * stride
  std::ptrdiff_t stride;  // elements, any
  std::size_t num_rows;
  std::size_t size;
  std::uint16_t* parts;  // parts_size(num_rows, size), aligned to a line
  std::uint8_t* fit;     // per row: 1, or 0
};

struct KeyPartsArgs {
  const float* panels;       // pack.h
  std::size_t panel_stride;  // elements
  std::size_t num_keys;
  std::size_t size;
  std::uint16_t* parts;  // parts_size(num_keys, size): those of key n from key_parts_at(n, size) on, n % 16 == 0
  std::uint8_t* fit;     // per key
};

inline constexpr std::size_t key_parts_at(std::size_t key, std::size_t size) { return parts_size(key, size); }

struct ValuePartsArgs {
  const float* values;        // as the tile product reads B, but for columns behind the last, which are not read
  std::size_t panel_stride;   // elements
  std::ptrdiff_t row_stride;  // elements
  std::size_t num_values;     // these are the terms
  std::size_t size;           // columns
  std::uint16_t* parts;       // parts_size(size, num_values); from value j on at value_parts_at(j), j % 32 == 0
  std::uint8_t* fit;          // per value; may be left alone where all are
};

inline constexpr std::size_t value_parts_at(std::size_t value) { return value / kPartsTerms * kNumParts * kPartsTile; }

// Some queries of a group and some keys of a head. Whole tiles of scores are written, 16 x 16.
struct ScorePartsArgs {
  std::size_t num_rows, num_columns;
  std::size_t size;
  const std::uint16_t* queries;  // parts of the first row on, which is the first of a tile
  const std::uint8_t* fit_queries;
  const float* plain_queries;  // as they were given to `queries`
  std::ptrdiff_t plain_stride;
  const std::uint16_t* keys;     // parts of the first key on, as above
  const std::uint8_t* fit_keys;  // nullptr: all are
  const float* panels;  // of the first key on, which is the first of a panel; nullptr: all queries and keys are fit
  std::size_t panel_stride;
  const std::int32_t* lens;  // per row: columns that it sees; scores beyond are unspecified. nullptr: all
  float* scores;             // row r at scores + r * scores_stride. Aligned to a line
  std::ptrdiff_t scores_stride;
};

// C = P V or C += P V, whole tiles of C as above.
struct PoolPartsArgs {
  std::size_t num_rows, num_values;
  std::size_t size;     // columns
  const float* powers;  // row r at powers + r * powers_stride, 0 from its length on
  std::ptrdiff_t powers_stride;
  const std::int32_t* lens;        // per row: values that it sees; nullptr: all
  const std::uint16_t* values;     // parts of the first value on, as above
  std::size_t column_stride;       // numbers from one tile of columns to the next: parts_size(16, all values)
  const std::uint8_t* fit_values;  // nullptr: all are
  const float* plain_values;       // of the first value on, as the tile product reads B
  std::size_t plain_panel_stride;
  std::ptrdiff_t plain_row_stride;
  bool accumulate;
  float* c;  // row r at c + r * c_stride. Aligned to a line
  std::ptrdiff_t c_stride;
  std::uint16_t* scratch;  // pool_parts_scratch(), aligned to a line; twice as much for `attend`
};

// Powers are taken apart so many keys at a time, so that they stay in L1.
inline constexpr std::size_t kPoolPartsKeys = 128;
inline constexpr std::size_t pool_parts_scratch() { return parts_size(kPartsRowsPerStep, kPoolPartsKeys); }

// The queries of a group past many keys, with the online softmax in between (softmax_tile.h): the scores of the next
// keys are multiplied by tiles while vectors turn those of these keys into powers. Rows have the bits that score, the
// softmax's step and pool give them tile by tile, but for values that are not fit: these are added before the others of
// their tile, by pool after them. Of kPartsRowsPerStep rows of which none sees a key nothing is written.
struct AttendPartsArgs {
  ScorePartsArgs score;     // num_columns: all of the keys; lens too, which are wanted here. scores: of two tiles, that
                            // is 2 kPartsRowsPerStep rows
  SoftmaxTileArgs softmax;  // scores, lens and num_columns are not looked at
  PoolPartsArgs pool;       // powers and lens are not looked at; accumulate: of the first keys
  std::size_t tile_keys;    // keys at a time, at most kPoolPartsKeys; a multiple of kPartsTerms, and where panels are
                            // given, of their width
};

struct TilePartsKernels {
  // Of the calling thread.
  void (*configure)();
  void (*release)();
  // These three want no tiles. They return whether all are fit.
  bool (*queries)(const QueryPartsArgs&);
  bool (*keys)(const KeyPartsArgs&);
  bool (*values)(const ValuePartsArgs&);
  // An element of C depends on its row of A, its column of B, the terms that its row sees and those of them that are
  // not fit: never on other rows.
  void (*score)(const ScorePartsArgs&);
  void (*pool)(const PoolPartsArgs&);
  void (*attend)(const AttendPartsArgs&);
  // Whether this CPU has the tiles. Without, they are in memory: the same numbers to rounding, for tests.
  bool has_tiles;
};

TilePartsKernels tile_parts_kernels(std::int64_t target);

}  // namespace attend::kernels

#endif  // ATTEND_KERNELS_TILE_PARTS_H_
