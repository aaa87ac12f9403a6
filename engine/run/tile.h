// A tile of queries, and which keys they see.
#ifndef ATTEND_RUN_TILE_H_
#define ATTEND_RUN_TILE_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace attend::detail {

// Neighbouring queries of a group that meet keys together.
struct Tile {
  std::int64_t m;                 // the place of the first query (run/query_order.h)
  std::size_t row, rows;          // its place in the group, how many
  std::size_t shortest, longest;  // keys of the rows
};

// How many of a head's keys each query of a group sees.
struct RowLens {
  std::int32_t* lens;

  // Rows `row` to row + rows - 1 of a group that begins at place m.
  Tile tile_at(std::int64_t m, std::size_t row, std::size_t rows) const {
    const auto [shortest, longest] = std::minmax_element(lens + row, lens + row + rows);
    return {m + static_cast<std::int64_t>(row), row, rows, static_cast<std::size_t>(*shortest),
            static_cast<std::size_t>(*longest)};
  }
  // Of keys first ... first + columns - 1, to[r] that row `row` + r sees.
  void within(std::size_t row, std::size_t rows, std::size_t first, std::size_t columns, std::int32_t* to) const {
    for (std::size_t r = 0; r < rows; ++r) {
      to[r] = std::clamp(lens[row + r] - static_cast<std::int32_t>(first), 0, static_cast<std::int32_t>(columns));
    }
  }
};

}  // namespace attend::detail

#endif  // ATTEND_RUN_TILE_H_
