// engine/matmul/row_counts.h: how rows are cut into the counts that are there.
#include "engine/matmul/row_counts.h"

#include <cstddef>
#include <vector>

#include <doctest/doctest.h>

namespace attend::tests {
namespace {

using Counts = std::vector<std::size_t>;
constexpr std::size_t kBlock = 64;

// Which counts a call of num_rows takes, one after another.
Counts cut(const Counts& counts, std::size_t num_rows) {
  Counts taken;
  for (std::size_t done = 0; done < num_rows; done += taken.back()) {
    taken.push_back(counts[matmul::next_count(counts, kBlock, num_rows - done)]);
  }
  return taken;
}

TEST_CASE("row counts: the largest that fits, a little padding rather than several calls") {
  const Counts all = {256, 128, 64, 48, 16, 4, 1};
  CHECK(cut(all, 1) == Counts{1});
  CHECK(cut(all, 3) == Counts{4});
  CHECK(cut(all, 48) == Counts{48});
  CHECK(cut(all, 49) == Counts{64});
  CHECK(cut(all, 64) == Counts{64});
  CHECK(cut(all, 200) == Counts{128, 64, 4, 4});  // above a block nothing is padded
  CHECK(cut(all, 256 + 17) == Counts{256, 16, 1});
}

TEST_CASE("row counts: what is staged holds the padding, whichever counts are left") {
  const struct {
    Counts counts;
    std::size_t most;
  } kCases[] = {{{64, 48, 16, 4, 1}, 64},
                {{64, 48, 16, 4}, 64},
                {{64, 48}, 64},
                {{64}, 64},
                {{48, 16}, 64},
                {{48}, 96},
                {{256, 128}, 128},
                {{16}, 64},
                {{1}, 64}};
  for (const auto& c : kCases) {
    CHECK(matmul::most_padded_rows(c.counts, kBlock) == c.most);
    for (std::size_t rows = 1; rows <= kBlock; ++rows) {
      const std::size_t padded = matmul::padded_rows(c.counts, kBlock, rows);
      CHECK(padded >= rows);
      CHECK(padded <= c.most);
    }
  }
}

}  // namespace
}  // namespace attend::tests
