// Which rows are prefetched, and what is left of them: that lines arrive is for benchmarks to show
// (query_lanes/*_ahead).
#include "engine/kernels/prefetch.h"

#include <algorithm>
#include <cstddef>

#include <doctest/doctest.h>

namespace attend::tests {

using kernels::PrefetchElements;
using kernels::PrefetchLines;
using kernels::PrefetchRows;

TEST_CASE("rows ahead: whole rows, until none is left") {
  float memory[64];
  PrefetchRows rows{.next = memory, .stride = 20, .num_rows = 3, .size = 17};
  rows.fetch(2);
  CHECK(rows.num_rows == 1);
  CHECK(rows.next == memory + 40);
  rows.fetch(5);
  CHECK(rows.num_rows == 0);
  rows.fetch(1);
  CHECK(rows.num_rows == 0);
}

TEST_CASE("rows ahead: twice four lines of a row or what it has left, until none is left") {
  float memory[64];
  for (const std::size_t size : {1u, 16u, 63u, 64u, 65u, 128u, 129u}) {
    const std::size_t fours = (size + 63) / 64;  // of a row
    PrefetchRows rows{.next = memory, .stride = 20, .num_rows = 5, .size = size, .into_l1 = size % 2 == 0};
    for (std::size_t calls = 1; calls <= 3 * fours; ++calls) {
      rows.fetch_fours();
      const std::size_t fetched = std::min(5 * fours, 2 * calls);
      CAPTURE(size);
      CAPTURE(calls);
      CHECK(rows.num_rows == 5 - fetched / fours);
      if (rows.num_rows == 0) continue;
      CHECK(rows.next == memory + 20 * (fetched / fours));
      CHECK(rows.done == fetched % fours * 64);
      CHECK(rows.num_lines() == rows.num_rows * ((size + 15) / 16) - fetched % fours * 4);
    }
  }
  // A row of which other loops have fetched a line.
  PrefetchRows rows{.next = memory, .stride = 20, .num_rows = 2, .size = 80, .done = 16};
  rows.fetch_fours();
  CHECK(rows.num_rows == 1);
  CHECK(rows.done == 64);
  rows.fetch_fours();
  CHECK(rows.num_rows == 0);
}

TEST_CASE("rows ahead, to be written: line by line, until none is left") {
  float memory[256];
  for (const std::size_t size : {1u, 16u, 17u, 48u}) {
    const std::size_t lines = (size + 15) / 16;
    PrefetchRows rows{.next = memory, .stride = 50, .num_rows = 4, .size = size};
    for (std::size_t fetched = 0; fetched < 4 * lines;) {
      const std::size_t count = fetched % 2 + 1;
      rows.fetch_to_write(count);
      fetched = std::min(fetched + count, 4 * lines);
      CAPTURE(size);
      CAPTURE(fetched);
      CHECK(rows.next == memory + fetched / lines * 50);
      CHECK(rows.done == fetched % lines * 16);
      CHECK(rows.num_lines() == 4 * lines - fetched);
    }
    rows.fetch_to_write(1);
    CHECK(rows.num_rows == 0);
    CHECK(rows.done == 0);
  }
}

TEST_CASE("elements ahead: step by step through both pieces, and then the last ones again") {
  float first[50], then[40];
  PrefetchElements elements(first, then);
  // A step that takes 16 reads from at() to 16 behind it; the next one stays within the piece.
  for (const float* at : {first, first + 16, first + 32, then, then + 16, then + 16, then + 16}) {
    CHECK(elements.at() == at);
    elements.take(16);
  }
  PrefetchElements short_ones({first, 10}, {then, 5});
  for (const float* at : {first, then, then}) {
    CHECK(short_ones.at() == at);
    short_ones.take(16);
  }
  PrefetchElements none({}, then);
  none.take(16);
  CHECK(none.at() == then);
}

TEST_CASE("lines ahead: line by line from the first that has rows; a row that is begun goes on") {
  float memory[256];
  // 1, 2 and 3 lines a row.
  for (const std::size_t size : {1u, 16u, 17u, 32u, 48u}) {
    const std::size_t lines = (size + 15) / 16;
    PrefetchRows all[] = {{}, {.next = memory, .stride = 50, .num_rows = 4, .size = size}, {.num_rows = 1, .size = 1}};
    PrefetchLines first(all, memory);
    for (std::size_t i = 0; i < 2 * lines; ++i) first.fetch();
    if (lines > 1) first.fetch();
    first.stop();
    CHECK(all[1].num_rows == 2);
    CHECK(all[1].next == memory + 100);
    CHECK(all[1].done == (lines > 1 ? 16 : 0));
    CHECK(all[1].num_lines() == 2 * lines - (lines > 1 ? 1 : 0));
    PrefetchLines rest(all, memory);
    for (std::size_t i = 0; i < 2 * lines - (lines > 1 ? 1 : 0) - 1; ++i) rest.fetch();  // but one
    rest.stop();
    CHECK(all[1].num_rows == 1);
    for (std::size_t i = 0; i < 5; ++i) rest.fetch();  // past the last
    rest.stop();
    CHECK(all[1].num_rows == 0);
    CHECK(all[1].num_lines() == 0);
    CHECK(all[1].done == 0);
    CHECK(all[2].num_rows == 1);
    PrefetchLines other(all, memory);
    other.fetch();
    other.stop();
    CHECK(all[2].num_rows == 0);
  }
}

TEST_CASE("lines ahead: nothing to prefetch") {
  const float line = 0.0f;
  PrefetchLines lines({}, &line);
  for (int i = 0; i < 3; ++i) lines.fetch();
  lines.stop();
  PrefetchRows none[2];
  PrefetchLines(none, &line).stop();
  CHECK(none[0].num_rows + none[1].num_rows == 0);
}

}  // namespace attend::tests
