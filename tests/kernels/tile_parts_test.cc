// Scores and pooling by bfloat16 parts: against double for every count of rows, keys and terms around the tiles, as
// exact as the tile product on numbers of every kind, plainly where numbers have no parts, the same bits whichever rows
// come together and whatever is hidden from a row, and nothing touched beyond rows, panels and whole tiles of results.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <iterator>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "tests/kernels/tile_parts_cases.h"

namespace attend::tests {
namespace {

// Of all sizes that have parts in either factor.
float draw_wild(Random& random) { return std::ldexp(random.normal(), static_cast<int>(random.integer(-40, 40))); }
float draw_positive(Random& random) { return random.uniform(0, 1); }
float draw_relu(Random& random) { return std::max(random.normal(), 0.0f); }
float draw_outliers(Random& random) { return (random.integer(0, 31) == 0 ? 100.0f : 1.0f) * random.normal(); }

// Of one result, relative to the sum of its products' magnitudes: of normal numbers up to 1.8e-7, where a few products
// make all of the sum up to 3.9e-7.
constexpr double kLargestOfNormal = 2e-7, kLargest = 4.5e-7;

struct Kind {
  const char* name;
  Draw draw;
  double most;  // typical error, by that of the tile product with FMA; others' are larger
};

}  // namespace

TEST_CASE(
    "tile parts: scores equal double for counts of rows, keys and terms around the tiles, nothing is touched beyond") {
  for_each_target([&](const Target& target) {
    const std::size_t width = kernels::pack_kernels(target.id()).panel_width;
    constexpr std::size_t kRows[] = {1, 15, 16, 17, 31, 32, 33, 40};
    std::size_t turn = 0;
    const auto check = [&](std::size_t rows, std::size_t keys, std::size_t size) {
      PartsHead head(target, rows, keys, size, 1, {});
      INFO(rows, " rows, ", keys, " keys of ", size);
      head.score(0, rows);
      CHECK(head.are_fit());
      const PartsErrors error = head.score_error();
      CHECK(error.largest <= kLargestOfNormal);
      const std::vector<float> all = head.all_scores();
      head.set_lens([&](std::size_t row) { return row * 29 % (keys + 1); });
      head.score(0, rows, true);
      bool same = true;
      for (std::size_t row = 0; row < rows; ++row) same = same && head.same_scores(row, all);
      CHECK(same);
    };
    for (const std::size_t keys :
         {std::size_t{1}, std::size_t{15}, std::size_t{16}, std::size_t{17}, std::size_t{31}, std::size_t{32},
          std::size_t{33}, std::size_t{63}, std::size_t{64}, std::size_t{65}, std::size_t{127}, std::size_t{128},
          std::size_t{129}, width - 1, width, width + 1, 2 * width + 1}) {
      for (const std::size_t size : {1u, 15u, 31u, 32u, 33u, 64u, 100u}) {
        check(kRows[turn++ % std::size(kRows)], keys, size);
      }
    }
    for (std::size_t rows = 1; rows <= 40; ++rows) check(rows, 33, 33);
  });
}

TEST_CASE("tile parts: scores are as exact as the tile product's whatever the size, mean and sign of the numbers") {
  constexpr std::size_t kRows = 32, kKeys = 64;
  const Kind kinds[] = {{"normal", draw_normal, 0.6},
                        {"positive", draw_positive, 0.6},
                        {"constant", [](Random&) { return 1.7f; }, 0.4},
                        {"nearly constant", [](Random& random) { return 3 + 0.01f * random.normal(); }, 0.6},
                        {"left by a ReLU", draw_relu, 0.9},
                        {"outliers", draw_outliers, 0.7},
                        {"of all sizes", draw_wild, 1.2}};
  for_each_target([&](const Target& target) {
    for (const Kind& kind : kinds) {
      for (const std::size_t size : {64u, 128u}) {
        PartsHead head(target, kRows, kKeys, size, 1, {.query = kind.draw, .key = kind.draw});
        head.score_plainly();
        const PartsErrors plain = head.score_error();
        head.score(0, kRows);
        const PartsErrors parts = head.score_error();
        INFO(std::string(kind.name), ", ", size, " terms: ", parts.typical(), " by parts, ", plain.typical(), " plain");
        CHECK(parts.typical() <= kind.most * plain.typical());
        CHECK(parts.largest <= kLargest);
        CHECK(parts.typical() != plain.typical());
      }
    }
  });
}

TEST_CASE("tile parts: queries and keys without parts are scored plainly, and touch no other row's bits") {
  constexpr std::size_t kRows = 35, kSize = 40;
  for_each_target([&](const Target& target) {
    const std::size_t width = kernels::pack_kernels(target.id()).panel_width,
                      keys = 3 * std::max<std::size_t>(width, 16);
    const std::size_t bad_key = keys / 2 + 1;
    for (const float bad : {0x1.000002p64f, 0x1p65f, kInfinity, -kInfinity, kNaN}) {
      INFO("target ", target.name(), ", ", bad);
      PartsHead head(target, kRows, keys, kSize, 1, {});
      head.score(0, kRows);
      CHECK(head.are_fit());
      const std::vector<float> fit = head.all_scores();
      head.always_gives_flags = true;
      head.score(0, kRows);
      CHECK(same_bits(head.all_scores(), fit));
      head.always_gives_flags = false;

      head.query(3, kSize - 1) = bad;
      head.query(33, 0) = bad;
      head.score_plainly();
      const std::vector<float> plain = head.all_scores();
      head.score(0, kRows);
      CHECK(!head.are_fit());
      for (std::size_t row = 0; row < kRows; ++row) {
        INFO("row ", row);
        const bool is_bad = row == 3 || row == 33;
        CHECK(head.is_fit_query(row) == !is_bad);
        CHECK(head.same_scores(row, is_bad ? plain : fit));
      }
      const std::vector<float> mixed = head.all_scores();

      head.key(bad_key, 7) = bad;
      head.score_plainly();
      const std::vector<float> both = head.all_scores();
      head.score(0, kRows);
      for (std::size_t row = 0; row < kRows; ++row) {
        INFO("row ", row);
        float* scores = head.scores(row);
        const std::size_t at = static_cast<std::size_t>(scores - head.scores(0));
        if (row == 3 || row == 33) {
          CHECK(head.same_scores(row, both));
          continue;
        }
        CHECK(same_bits(scores, &mixed[at], bad_key));
        CHECK(same_bits(scores + bad_key + 1, &mixed[at + bad_key + 1], keys - bad_key - 1));
        const double score = static_cast<double>(scores[bad_key]), expected = static_cast<double>(both[at + bad_key]);
        CHECK((score == expected || (std::isnan(score) && std::isnan(expected)) ||
               std::abs(score - expected) <= 1e-6 * std::abs(expected)));
      }
      for (std::size_t j = 0; j < keys; ++j) CHECK(head.is_fit_key(j) == (j != bad_key));
    }
  });
}

TEST_CASE("tile parts: scores have the same bits whichever rows come together") {
  for_each_target([&](const Target& target) {
    PartsHead head(target, 50, 70, 50, 1, {});
    head.query(20, 1) = kNaN;
    head.key(69, 2) = 0x1p70f;
    head.score(0, 50);
    const std::vector<float> all = head.all_scores();
    for (const std::size_t first : {0u, 7u, 17u, 20u, 33u}) {
      for (const std::size_t count : {1u, 16u, 17u}) {
        head.score(first, count);
        INFO(count, " rows from ", first);
        for (std::size_t row = first; row < first + count; ++row) CHECK(head.same_scores(row, all));
        for (std::size_t row = 0; row < first; ++row) CHECK(std::isnan(head.scores(row)[0]));
      }
    }
  });
}

TEST_CASE("tile parts: pooling equals double for counts of rows, values and columns, nothing is touched beyond") {
  for_each_target([&](const Target& target) {
    const std::size_t width = kernels::pack_kernels(target.id()).panel_width;
    constexpr std::size_t kRows[] = {1, 15, 16, 17, 31, 32, 33, 40};
    std::size_t turn = 0;
    const auto check = [&](std::size_t rows, std::size_t keys, std::size_t columns, bool in_place) {
      PartsHead head(target, rows, keys, 1, columns, {}, in_place);
      INFO(rows, " rows, ", keys, " values of ", columns, ", in place ", in_place);
      head.draw_powers();
      for (const bool accumulate : {false, true}) {
        head.fill_sums(accumulate ? draw_normal : [](Random&) { return kNaN; });
        const std::vector<float> before = head.all_sums();
        head.pool(0, rows, accumulate, false);
        CHECK(head.are_fit());
        PartsErrors error;
        for (std::size_t row = 0; row < rows; ++row) head.add_pool_errors(row, accumulate ? &before : nullptr, error);
        CHECK(error.largest <= kLargestOfNormal);
      }
      const std::vector<float> all = head.all_sums();
      head.fill_sums(draw_normal);
      head.pool(0, rows, true, true);
      CHECK(same_bits(head.all_sums(), all));
      // Lengths, and each row alone.
      head.set_lens([&](std::size_t row) { return row * 29 % (keys + 1); });
      head.draw_powers();
      head.fill_sums([](Random&) { return kNaN; });
      head.pool(0, rows, false);
      const std::vector<float> ragged = head.all_sums();
      PartsErrors error;
      for (std::size_t row = 0; row < rows; ++row) head.add_pool_errors(row, nullptr, error);
      CHECK(error.largest <= kLargestOfNormal);
      for (const std::size_t row : {std::size_t{0}, rows / 2, rows - 1}) {
        head.fill_sums([](Random&) { return kNaN; });
        head.pool(row, 1, false);
        CHECK(head.same_sums(row, ragged));
      }
    };
    for (const std::size_t keys : {1u, 15u, 16u, 31u, 32u, 33u, 64u, 127u, 128u, 129u, 300u}) {
      for (const std::size_t columns : {std::size_t{1}, std::size_t{15}, std::size_t{16}, std::size_t{17},
                                        std::size_t{33}, width - 1, width + 1, std::size_t{100}}) {
        ++turn;
        check(kRows[turn % std::size(kRows)], keys, columns, turn % 3 != 0);
      }
    }
    for (std::size_t rows = 1; rows <= 40; ++rows) check(rows, 33, 33, true);
  });
}

TEST_CASE("tile parts: pooling is as exact as the tile product's, however peaked, whatever size and sign values have") {
  constexpr std::size_t kRows = 32, kKeys = 128, kColumns = 64;
  const Kind kinds[] = {{"normal", draw_normal, 0.7},
                        {"positive", draw_positive, 0.6},
                        {"constant", [](Random&) { return 1.7f; }, 0.6},
                        {"left by a ReLU", draw_relu, 0.8},
                        {"outliers", draw_outliers, 0.7},
                        {"of all sizes", draw_wild, 1.1}};
  for_each_target([&](const Target& target) {
    for (const Kind& kind : kinds) {
      for (const float deviation : {0.0f, 1.0f, 5.0f}) {  // of exponents of two
        PartsHead head(target, kRows, kKeys, 1, kColumns, {.value = kind.draw}, false);
        head.draw_powers(deviation);
        const auto error = [&] {
          PartsErrors all;
          for (std::size_t row = 0; row < kRows; ++row) head.add_pool_errors(row, nullptr, all);
          return all;
        };
        head.pool_plainly(false);
        const PartsErrors plain = error();
        head.pool(0, kRows, false);
        const PartsErrors parts = error();
        INFO(std::string(kind.name), ", deviation ", deviation, ": ", parts.typical(), " by parts, ", plain.typical(),
             " plain");
        CHECK(parts.typical() <= kind.most * plain.typical());
        CHECK(parts.largest <= kLargest);
        CHECK(parts.typical() != plain.typical());
      }
    }
  });
}

TEST_CASE(
    "tile parts: values without parts are added one by one to rows that see them, and touch no other row's bits") {
  constexpr std::size_t kRows = 40, kKeys = 200, kColumns = 21, kBad = 70;
  for_each_target([&](const Target& target) {
    for (const bool in_place : {true, false}) {
      for (const bool accumulate : {false, true}) {
        for (const float bad : {0x1p65f, 0x1p-70f, kInfinity, kNaN}) {
          INFO("target ", target.name(), ", value ", bad, ", accumulate ", accumulate, ", in place ", in_place);
          PartsHead head(target, kRows, kKeys, 1, kColumns, {}, in_place);
          head.set_lens([&](std::size_t row) { return row * 37 % (kKeys + 1); });
          head.draw_powers();
          head.fill_sums(draw_normal);
          const std::vector<float> before = head.all_sums();
          head.pool(0, kRows, accumulate);
          const std::vector<float> fit = head.all_sums();
          head.set_sums(before);
          head.always_gives_flags = true;
          head.pool(0, kRows, accumulate);
          CHECK(same_bits(head.all_sums(), fit));
          head.always_gives_flags = false;
          // All of the row where it is small: one larger number would make it fit.
          for (std::size_t n = 0; n < kColumns; ++n) {
            if (n == 20 || bad == 0x1p-70f) head.value(kBad, n) = bad;
          }
          head.set_sums(before);
          head.pool(0, kRows, accumulate);
          CHECK(!head.are_fit());
          for (std::size_t j = 0; j < kKeys; ++j) CHECK(head.is_fit_value(j) == (j != kBad));
          const std::vector<float> mixed = head.all_sums();
          for (std::size_t row = 0; row < kRows; ++row) {
            INFO("row ", row);
            if (head.seen(row) <= kBad) {
              CHECK(head.same_sums(row, fit));
              continue;
            }
            if (std::isfinite(bad)) {
              PartsErrors error;
              head.add_pool_errors(row, accumulate ? &before : nullptr, error);
              CHECK(error.largest <= kLargest);
            } else {
              for (std::size_t n = 0; n + 1 < kColumns; ++n) CHECK(std::isfinite(head.sums(row)[n]));
              const float last = head.sums(row)[kColumns - 1];
              CHECK((std::isnan(bad) ? std::isnan(last) : last == bad));
            }
            head.set_sums(before);
            head.pool(row, 1, accumulate);
            CHECK(head.same_sums(row, mixed));
            head.set_sums(mixed);
          }
        }
      }
    }
  });
}

TEST_CASE("tile parts: values that are zeros have parts") {
  for_each_target([&](const Target& target) {
    PartsHead head(target, 3, 70, 1, 20, {});
    for (std::size_t n = 0; n < 20; ++n) head.value(33, n) = 0;
    head.draw_powers();
    head.pool(0, 3, false);
    CHECK(head.are_fit());
    PartsErrors error;
    for (std::size_t row = 0; row < 3; ++row) head.add_pool_errors(row, nullptr, error);
    CHECK(error.largest <= kLargestOfNormal);
  });
}

}  // namespace attend::tests
