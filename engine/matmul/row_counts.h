// How the rows of a call are cut into the row counts that oneDNN has primitives for.
#ifndef ATTEND_MATMUL_ROW_COUNTS_H_
#define ATTEND_MATMUL_ROW_COUNTS_H_

#include <algorithm>
#include <cstddef>
#include <span>

namespace attend::matmul {

// counts: at least one, largest first. block: rows that are staged at a time.

// The place in counts of the one for the next rows of a call: the largest that fits, or, up to a block, the one above
// where that leaves at most a quarter of it empty (one call with a few idle rows beats several small ones) and no
// smaller one fits exactly. Above a block the next smaller counts fit well, and padding would have to be staged.
inline std::size_t next_count(std::span<const std::size_t> counts, std::size_t block, std::size_t remaining) {
  for (std::size_t i = 0; i + 1 < counts.size(); ++i) {
    const bool nearly_full = counts[i] <= block && remaining * 4 >= counts[i] * 3 && remaining != counts[i + 1];
    if (remaining >= counts[i] || nearly_full) return i;
  }
  return counts.size() - 1;
}

// Rows that are read and written when asked for num_rows: num_rows or more.
inline std::size_t padded_rows(std::span<const std::size_t> counts, std::size_t block, std::size_t num_rows) {
  std::size_t done = 0;
  while (done < num_rows) done += counts[next_count(counts, block, num_rows - done)];
  return done;
}

// The most of these for up to a block of rows: more than a block where 48 is the only count.
inline std::size_t most_padded_rows(std::span<const std::size_t> counts, std::size_t block) {
  std::size_t most = block;
  for (std::size_t rows = 1; rows <= block; ++rows) most = std::max(most, padded_rows(counts, block, rows));
  return most;
}

}  // namespace attend::matmul

#endif  // ATTEND_MATMUL_ROW_COUNTS_H_
