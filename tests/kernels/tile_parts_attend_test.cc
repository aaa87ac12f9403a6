// Attention in one go by bfloat16 parts, products with the softmax in between: against double for counts of rows and
// keys around the tiles, lengths and scores of every kind, the bits of scores, softmax and pooling one after the other,
// and the same bits whichever rows come together and whatever is hidden from a row.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <iterator>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "tests/kernels/tile_parts_attend_cases.h"

namespace attend::tests {
namespace {

struct Lens {
  const char* name;
  std::function<std::size_t(std::size_t row, std::size_t keys)> of;
};
const Lens kLens[] = {
    {"all", [](std::size_t, std::size_t keys) { return keys; }},
    {"causal", [](std::size_t row, std::size_t) { return row + 1; }},
    {"ragged", [](std::size_t row, std::size_t keys) { return row * 53 % (keys + 1); }},
    // The second step of rows sees nothing, of the first and the third a few.
    {"few", [](std::size_t row, std::size_t keys) { return row / 32 == 1  ? 0
                                                           : row % 3 == 1 ? keys
                                                                          : row % 5; }},
    {"none", [](std::size_t, std::size_t) { return 0; }},
};

// Sizes of keys to take at a time: whole tiles of terms and whole panels.
std::vector<std::size_t> tile_keys_of(const Target& target) {
  std::vector<std::size_t> all;
  for (const std::size_t keys : {32u, 64u, 96u, 128u}) {
    if (keys % kernels::pack_kernels(target.id()).panel_width == 0) all.push_back(keys);
  }
  return all;
}

// By `attend`, against double, tile by tile with the same bits, and rows alone with the same bits.
void check_attend(AttendingHead& head, std::size_t tile_keys, bool has_tile_bits = true, double most = 1.0) {
  const AttendingHead::Results results = head.attend(0, head.num_rows, tile_keys);
  double worst = 0;
  for (std::size_t row = 0; row < head.num_rows; ++row) worst = worse(worst, head.error_in_bounds(results, row));
  CHECK(worst <= most);
  const auto same = [&](const AttendingHead::Results& others, std::size_t first, std::size_t count) {
    for (std::size_t row = first; row < first + count; ++row) {
      if (!results.same_row(row, others, head.columns)) return false;
    }
    return true;
  };
  if (has_tile_bits) CHECK(same(head.attend_by_steps(0, head.num_rows, tile_keys), 0, head.num_rows));
  for (const std::size_t first : {std::size_t{0}, head.num_rows / 2, head.num_rows - 1}) {
    const std::size_t count = std::min<std::size_t>(head.num_rows - first, first % 2 == 0 ? 1 : 18);
    INFO(count, " rows from ", first);
    CHECK(same(head.attend(first, count, tile_keys), first, count));
  }
}

}  // namespace

TEST_CASE("tile parts: attention equals double and the same tile by tile, for counts of rows, keys and lengths") {
  constexpr std::size_t kRows[] = {1, 16, 31, 32, 33, 48, 64, 65, 70};
  for_each_target([&](const Target& target) {
    std::size_t turn = 0;
    for (const std::size_t tile_keys : tile_keys_of(target)) {
      for (const std::size_t keys : {std::size_t{1}, std::size_t{15}, tile_keys - 1, tile_keys, tile_keys + 1,
                                     2 * tile_keys, 3 * tile_keys + 17}) {
        for (const Lens& lens : kLens) {
          const std::size_t rows = kRows[turn % std::size(kRows)], size = turn % 4 == 0 ? 33 : 20;
          ++turn;
          AttendingHead head(target, rows, keys, size, turn % 3 == 0 ? 21 : 16, {.query = times(0.4f)}, turn % 2 == 0);
          head.set_lens([&](std::size_t row) { return lens.of(row, keys); });
          INFO("target ", target.name(), ", ", rows, " rows, ", keys, " keys, ", tile_keys, " at a time, lengths ",
               std::string(lens.name));
          check_attend(head, tile_keys);
        }
      }
    }
    for (std::size_t rows = 1; rows <= 70; ++rows) {
      AttendingHead head(target, rows, 130, 5, 3, {});
      head.set_lens([&](std::size_t row) { return 130 - row; });
      INFO("target ", target.name(), ", ", rows, " rows");
      check_attend(head, 64);
    }
  });
}

TEST_CASE("tile parts: attention of scores that rise from tile to tile, creeping or jumping, down to -inf") {
  constexpr std::size_t kRows = 40, kKeys = 300, kSize = 8;
  for_each_target([&](const Target& target) {
    for (const std::size_t tile_keys : tile_keys_of(target)) {
      for (const float slope : {0.01f, 0.05f, 0.5f, 5.0f, -0.5f, 100.0f, 1e6f, 1e30f}) {
        AttendingHead head(target, kRows, kKeys, kSize, 17, {.query = times(0.5f)});
        for (std::size_t j = 0; j < kKeys; ++j) head.key(j, 3) = slope * static_cast<float>(j);
        for (std::size_t row = 0; row < kRows; ++row) {
          head.query(row, 3) = row % 4 == 0 ? -0.01f : row % 4 == 1 ? 0.0f : 1.0f;
        }
        head.set_lens([&](std::size_t row) { return kKeys - row % 7 * 40; });
        INFO("target ", target.name(), ", ", tile_keys, " keys at a time, slope ", slope);
        check_attend(head, tile_keys);
      }
      // -inf scores: of keys that are not fit, of a first tile of nothing else, and of all keys of a row.
      AttendingHead head(target, kRows, kKeys, kSize, 17, {});
      for (std::size_t j = 0; j < kKeys; ++j) {
        head.key(j, 3) = j < tile_keys || j % 7 == 0 ? -kInfinity : 0.0f;
      }
      for (std::size_t row = 0; row < kRows; ++row) head.query(row, 3) = 2.0f;
      head.set_lens([&](std::size_t row) { return row < 5 ? tile_keys : kKeys - row; });
      INFO("target ", target.name(), ", ", tile_keys, " keys at a time, -inf");
      check_attend(head, tile_keys);
    }
  });
}

TEST_CASE("tile parts: attention of NaN queries and of queries without parts, which touch no other row's bits") {
  constexpr std::size_t kRows = 70, kKeys = 200, kSize = 16, kColumns = 20;
  for_each_target([&](const Target& target) {
    for (const std::size_t tile_keys : tile_keys_of(target)) {
      AttendingHead head(target, kRows, kKeys, kSize, kColumns, {.query = times(0.3f)});
      head.set_lens([&](std::size_t row) { return kKeys - row % 9 * 10; });
      const AttendingHead::Results fit = head.attend(0, kRows, tile_keys);
      head.always_gives_flags = true;
      const AttendingHead::Results flagged = head.attend(0, kRows, tile_keys);
      head.always_gives_flags = false;
      for (const std::size_t row : {2u, 40u}) head.query(row, 5) = kNaN;
      for (const std::size_t row : {17u, 69u}) head.query(row, 5) = 0x1p65f;
      for (std::size_t j = 0; j < kKeys; ++j) head.key(j, 5) = j % 3 == 0 ? 0.0f : head.key(j, 5) * 0x1p-60f;
      head.key(1, 5) = 0;
      const AttendingHead::Results mixed = head.attend(0, kRows, tile_keys);
      const AttendingHead::Results by_steps = head.attend_by_steps(0, kRows, tile_keys);
      for (std::size_t row = 0; row < kRows; ++row) {
        INFO("target ", target.name(), ", ", tile_keys, " keys at a time, row ", row);
        CHECK(flagged.same_row(row, fit, kColumns));
        CHECK(by_steps.same_row(row, mixed, kColumns));
        if (row == 2 || row == 40) {
          for (std::size_t n = 0; n < kColumns; ++n) CHECK(std::isnan(mixed.output[row * kColumns + n]));
        } else {
          CHECK(head.error_in_bounds(mixed, row) <= 1);
        }
      }
    }
  });
}

TEST_CASE("tile parts: attention keeps a row's bits whatever keys and values are hidden from it") {
  constexpr std::size_t kRows = 45, kKeys = 260, kSize = 12, kColumns = 18, kBad = 150;
  for_each_target([&](const Target& target) {
    for (const std::size_t tile_keys : tile_keys_of(target)) {
      for (const float bad : {0x1p65f, 0x1p-70f, kInfinity, kNaN}) {
        for (const bool of_key : {true, false}) {
          AttendingHead head(target, kRows, kKeys, kSize, kColumns, {.query = times(0.3f)});
          head.set_lens([&](std::size_t row) { return row % 3 == 0 ? kKeys - row : kBad - row % 5 * 30; });
          const AttendingHead::Results fit = head.attend(0, kRows, tile_keys);
          for (std::size_t k = 0; of_key && k < kSize; ++k) head.key(kBad, k) = bad;
          for (std::size_t n = 0; !of_key && n < kColumns; ++n) head.value(kBad, n) = bad;
          const AttendingHead::Results mixed = head.attend(0, kRows, tile_keys);
          for (std::size_t row = 0; row < kRows; ++row) {
            INFO("target ", target.name(), ", ", tile_keys, " keys at a time, ", bad, ", of a key ", of_key, ", row ",
                 row);
            if (head.seen(row) <= kBad) {
              CHECK(mixed.same_row(row, fit, kColumns));
            } else if (of_key && std::isnan(bad)) {
              for (std::size_t n = 0; n < kColumns; ++n) CHECK(std::isnan(mixed.output[row * kColumns + n]));
            } else if (!of_key && std::isfinite(bad)) {
              CHECK(head.error_in_bounds(mixed, row) <= 1);
            }
          }
          // Values that are not fit are added before the others of their tile and not after them, as `pool` does: only
          // rows that see none of them have the bits of that.
          const AttendingHead::Results by_steps = head.attend_by_steps(0, kRows, tile_keys);
          for (std::size_t row = 0; row < kRows; ++row) {
            INFO("target ", target.name(), ", ", tile_keys, " keys at a time, ", bad, ", of a key ", of_key, ", row ",
                 row);
            if (of_key || head.seen(row) <= kBad) CHECK(by_steps.same_row(row, mixed, kColumns));
            if (row % 8 == 3 || row % 8 == 6) CHECK(head.attend(row, 1, tile_keys).same_row(row, mixed, kColumns));
          }
        }
      }
    }
  });
}

TEST_CASE("tile parts: attention goes on where a call before it ended, and takes any stride of scores") {
  constexpr std::size_t kRows = 66, kKeys = 400;
  for_each_target([&](const Target& target) {
    AttendingHead head(target, kRows, kKeys, 30, 40, {});
    for (std::size_t j = 0; j < kKeys; ++j) head.key(j, 3) = 0.1f * static_cast<float>(j);
    head.set_lens([&](std::size_t row) { return row % 11 == 0 ? 0 : kKeys - row * 5; });
    const AttendingHead::Results once = head.attend(0, kRows, 128);
    for (const std::size_t per_call : {128u, 256u, 384u}) {
      const AttendingHead::Results calls = head.attend(0, kRows, 128, per_call);
      const AttendingHead::Results wide = head.attend(0, kRows, 128, per_call, 192);
      for (std::size_t row = 0; row < kRows; ++row) {
        INFO(per_call, " keys per call, row ", row);
        CHECK(calls.same_row(row, once, head.columns));
        CHECK(wide.same_row(row, once, head.columns));
      }
    }
  });
}

TEST_CASE("tile parts: attention to values so small that tiles lose results keeps each row's bits") {
  constexpr std::size_t kRows = 40, kKeys = 300, kColumns = 18;
  for_each_target([&](const Target& target) {
    for (const float size : {0x1p-100f, 0x1p-110f, 0x1p-120f, 0x1p-127f, 0x1p-135f}) {
      AttendingHead head(target, kRows, kKeys, 8, kColumns, {.query = times(0.3f), .value = times(size)});
      head.set_lens([&](std::size_t row) { return row * 37 % (kKeys + 1); });
      const AttendingHead::Results all = head.attend(0, kRows, 64);
      for (std::size_t row = 0; row < kRows; ++row) {
        INFO("target ", target.name(), ", values of ", size, ", row ", row);
        CHECK(head.attend(row, 1, 64).same_row(row, all, kColumns));
        if (size >= 0x1p-110f) CHECK(head.error_in_bounds(all, row) <= 1);
      }
    }
  });
}

}  // namespace attend::tests
