// Scores by pairs of terms: against double for every count of rows, keys and terms around the kernel's tiles, as exact
// as the tile product on numbers of every kind that goes this way, its bits for all others, the same bits whichever
// rows come together and whatever is hidden from a row, and nothing touched beyond rows and panels.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "engine/kernels/few_rows.h"
#include "engine/kernels/pack.h"
#include "engine/kernels/softmax_tile.h"
#include "engine/kernels/tile_pairs.h"
#include "tests/support/compare.h"
#include "tests/support/for_each_target.h"
#include "tests/support/guard_page.h"
#include "tests/support/random.h"

namespace attend::tests {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

// All keys of a head and some queries, each array before an unmapped page.
class Problem {
 public:
  Problem(const Target& target, std::size_t num_rows, std::size_t keys, std::size_t size,
          const Draw& draw_query = draw_normal, const Draw& draw_key = draw_normal)
      : num_keys(keys),
        width(kernels::pack_kernels(target.id()).panel_width),
        rows_per_step(kernels::few_rows_kernels(target.id()).has_32_registers ? 8 : 4),
        kernels_(kernels::tile_pairs_kernels(target.id())),
        plain_(kernels::tile_product_kernels(target.id())),
        lanes_(kernels::softmax_tile_kernels(target.id()).sums_stride / 2),
        size_(size),
        panels_((num_keys + width - 1) / width),
        keys_(panels_ * width * size),
        pair_sums_(panels_ * width),
        fit_(panels_),
        rows_(num_rows * size),
        copies_(kernels::copied_rows(num_rows) * size),
        paired_(num_rows),
        scores_(num_rows * panels_ * width),
        max_lanes_(num_rows * lanes_),
        lens_(num_rows, static_cast<std::int32_t>(keys)) {
    Random random(size * 41 + keys);
    for (std::size_t j = 0; j < keys; ++j) {
      for (std::size_t k = 0; k < size; ++k) key(j, k) = draw_key(random);
    }
    for (float& x : rows_) x = draw_query(random);
  }

  float& key(std::size_t j, std::size_t k) { return keys_[(j / width * size_ + k) * width + j % width]; }
  float& query(std::size_t row, std::size_t k) { return rows_[row * size_ + k]; }
  const float* scores(std::size_t row) const { return scores_.data() + row * panels_ * width; }
  const float* max_lanes(std::size_t row) const { return max_lanes_.data() + row * lanes_; }
  std::int32_t& len(std::size_t row) { return lens_[row]; }
  std::int32_t fit(std::size_t panel) const { return fit_[panel]; }
  std::size_t lanes() const { return lanes_; }

  // Rows `first` to first + count - 1 and their keys from `begin` on, a multiple of the panel width. All other scores
  // become NaN.
  void score(std::size_t first, std::size_t count, bool by_pairs = true, std::size_t begin = 0) {
    std::fill(scores_.begin(), scores_.end(), kNaN);
    std::fill(copies_.begin(), copies_.end(), kNaN);
    std::fill(max_lanes_.begin(), max_lanes_.end(), kNaN);
    std::vector<std::int32_t> lens;
    for (std::size_t row = first; row < first + count; ++row) {
      lens.push_back(std::max(lens_[row] - static_cast<std::int32_t>(begin), 0));
    }
    const std::size_t columns = panels_ * width;
    const kernels::TileProductArgs product{.a = rows_.data() + first * size_,
                                           .a_stride = static_cast<std::ptrdiff_t>(size_),
                                           .b = keys_.data() + begin * size_,
                                           .b_panel_stride = size_ * width,
                                           .b_row_stride = static_cast<std::ptrdiff_t>(width),
                                           .c = scores_.data() + first * columns + begin,
                                           .c_stride = static_cast<std::ptrdiff_t>(columns),
                                           .num_rows = count,
                                           .num_columns = num_keys - begin,
                                           .inner = size_,
                                           .accumulate = false,
                                           .lens = lens.data(),
                                           .max_lanes = max_lanes_.data() + first * lanes_,
                                           .ahead = ahead};
    const float mean_square = look();
    if (!by_pairs || mean_square == 0) return plain_.multiply(product);
    const std::size_t first_copied = first - copied_before;
    kernels_.rows({.rows = rows_.data() + first_copied * size_,
                   .stride = static_cast<std::ptrdiff_t>(size_),
                   .num_rows = copied_before + count,
                   .size = size_,
                   .lens = lens_.data() + first_copied,
                   .keys_mean_square = mean_square,
                   .copies = copies_.data(),
                   .copies_stride = static_cast<std::ptrdiff_t>(size_),
                   .paired = paired_.data()});
    kernels_.multiply({.product = product,
                       .copies = copies_.data(),
                       .copies_stride = static_cast<std::ptrdiff_t>(size_),
                       .first_copy = copied_before,
                       .paired = paired_.data() + copied_before,
                       .pair_sums = pair_sums_.data() + begin,
                       .fit_keys = fit_.data() + begin / width});
  }

  // At all panels, or at so many at a time.
  float look() {
    const std::size_t at_a_time = panels_at_a_time > 0 ? panels_at_a_time : panels_;
    float mean_square = 0;
    for (std::size_t panel = 0; panel < panels_; panel += at_a_time) {
      const float seen = kernels_.panels({.panels = keys_.data() + panel * size_ * width,
                                          .panel_stride = size_ * width,
                                          .num_panels = std::min(at_a_time, panels_ - panel),
                                          .size = size_,
                                          .mean_square = mean_square,
                                          .pair_sums = pair_sums_.data() + panel * width,
                                          .fit_keys = fit_.data() + panel});
      if (panel > 0) CHECK(seen == mean_square);
      mean_square = seen;
      if (mean_square == 0) break;
    }
    return mean_square;
  }

  // Of the scores that a row sees: the largest error and the sum of squares, relative to |q| |k|, norms.
  struct Error {
    double largest = 0, squares = 0;
  };
  Error error(std::size_t row) {
    Error error;
    for (std::size_t j = 0; j < static_cast<std::size_t>(lens_[row]); ++j) {
      double sum = 0, of_q = 0, of_k = 0;
      for (std::size_t k = 0; k < size_; ++k) {
        const double x = query(row, k), w = key(j, k);
        sum += x * w;
        of_q += x * x;
        of_k += w * w;
      }
      const double relative = (scores(row)[j] - sum) / std::sqrt(of_q * of_k);
      error.largest = worse(error.largest, std::abs(relative));
      error.squares += relative * relative;
    }
    return error;
  }
  std::vector<float> all_scores() const { return {scores_.data(), scores_.data() + scores_.size()}; }
  bool same_seen_scores(std::size_t row, const std::vector<float>& expected) const {
    return same_bits(scores(row), expected.data() + row * panels_ * width, static_cast<std::size_t>(lens_[row]));
  }

  const std::size_t num_keys, width, rows_per_step;
  std::size_t panels_at_a_time = 0;
  std::size_t copied_before = 0;  // rows before `first` that are copied, too
  kernels::PrefetchRows* ahead = nullptr;

 private:
  kernels::TilePairsKernels kernels_;
  kernels::TileProductKernels plain_;
  std::size_t lanes_, size_, panels_;
  GuardedArray<float> keys_, pair_sums_;
  GuardedArray<std::int32_t> fit_;
  GuardedArray<float> rows_, copies_;
  GuardedArray<kernels::PairedRow> paired_;
  GuardedArray<float> scores_, max_lanes_;
  std::vector<std::int32_t> lens_;
};

// Root of the mean square of the errors of all rows.
double typical_error(Problem& problem, std::size_t rows, bool by_pairs) {
  problem.score(0, rows, by_pairs);
  double squares = 0;
  for (std::size_t row = 0; row < rows; ++row) squares += problem.error(row).squares;
  return std::sqrt(squares / static_cast<double>(rows * problem.num_keys));
}

}  // namespace

TEST_CASE("tile pairs: equals double for counts of rows, keys and terms around the tiles, nothing beyond is touched") {
  constexpr std::size_t kRows = 14;
  for_each_target([&](const Target& target) {
    const std::size_t width = kernels::pack_kernels(target.id()).panel_width;
    const std::size_t lanes = kernels::softmax_tile_kernels(target.id()).sums_stride / 2;
    for (const std::size_t keys : {width, width + 1, 2 * width - 1, 2 * width, 2 * width + lanes, 3 * width}) {
      for (const std::size_t size : {12u, 13u, 15u, 17u, 18u, 32u, 47u, 64u, 100u, 127u, 128u}) {
        Problem problem(target, kRows, keys, size);
        for (std::size_t count = 0; count <= kRows; ++count) {
          const std::size_t first = kRows - count;
          problem.score(first, count);
          double worst = 0;
          for (std::size_t row = first; row < kRows; ++row) {
            worst = worse(worst, problem.error(row).largest);
            const float* scores = problem.scores(row);
            // Padding of the last vector is in the maxima.
            if (keys % lanes != 0) continue;
            for (std::size_t lane = 0; lane < lanes; ++lane) {
              float largest = scores[lane];
              for (std::size_t j = lane; j < keys; j += lanes) largest = std::max(largest, scores[j]);
              REQUIRE(problem.max_lanes(row)[lane] == largest);
            }
          }
          INFO(keys, " keys of ", size, ", ", count, " rows");
          CHECK(worst <= 4e-7);
          for (std::size_t row = 0; row < first; ++row) {
            for (std::size_t j = 0; j < keys; ++j) REQUIRE(std::isnan(problem.scores(row)[j]));
          }
        }
      }
    }
  });
}

TEST_CASE("tile pairs: scores are as exact as the tile product's whatever the size, mean and sign of the numbers") {
  constexpr std::size_t kRows = 24;
  struct Kind {
    const char* name;
    Draw query, key;
  };
  const auto times = [](float factor) { return [factor](Random& random) { return factor * random.normal(); }; };
  const Draw positive = [](Random& random) { return random.uniform(0, 1); };
  const Kind kinds[] = {{"normal", draw_normal, draw_normal},
                        {"large keys", times(0.01f), times(30)},
                        {"large queries", times(1e5f), times(0.001f)},
                        {"positive", positive, positive},
                        {"nearly constant", [](Random& random) { return 3 + 0.01f * random.normal(); },
                         [](Random& random) { return 2 - 0.01f * random.normal(); }},
                        {"left by a ReLU", [](Random& random) { return std::max(random.normal(), 0.0f); }, draw_normal},
                        {"tiny and huge", times(1e-11f), times(1e5f)}};
  for_each_target([&](const Target& target) {
    const std::size_t width = kernels::pack_kernels(target.id()).panel_width;
    for (const Kind& kind : kinds) {
      for (const std::size_t size : {64u, 128u}) {
        Problem problem(target, kRows, std::max<std::size_t>(3 * width, 64), size, kind.query, kind.key);
        const double plain = typical_error(problem, kRows, false), pairs = typical_error(problem, kRows, true);
        INFO(std::string(kind.name), ", ", size, " terms: ", pairs, " by pairs, ", plain, " plain");
        CHECK(pairs <= 1.7 * plain);
        CHECK(pairs != plain);
      }
    }
  });
}

TEST_CASE("tile pairs: rows and keys that would lose by them have the bits of the tile product") {
  constexpr std::size_t kRows = 13, kSize = 100, kPanels = 7;
  for_each_target([&](const Target& target) {
    const std::size_t width = kernels::pack_kernels(target.id()).panel_width, keys = kPanels * width;
    Problem problem(target, kRows, keys, kSize);
    for (std::size_t k = 0; k < kSize; ++k) {
      problem.query(0, k) = 0;                             // zeros
      problem.query(1, k) = k == 7 ? 2.5f : 0.0f;          // one number
      problem.query(2, k) *= k % 25 == 3 ? 100.0f : 1.0f;  // a few hold the norm
      problem.query(3, k) *= 1e30f;                        // squares overflow
      problem.query(4, k) *= 1e-30f;                       // squares vanish
      problem.key(width, k) *= 5;                          // a larger norm than the first panel's, by much ...
      problem.key(width + 1, k) *= 3;                      // ... and by less
      problem.key(3 * width - 1, k) *= k == 0 ? 100.0f : 1.0f;
      problem.key(5 * width + 1, k) *= 0.15f;                  // a smaller norm
      problem.key(6 * width + 1, k) = k == 30 ? 10.0f : 0.0f;  // one number, of the usual norm
    }
    problem.query(5, 50) = kNaN;
    problem.query(6, 99) = kInfinity;
    problem.key(4 * width + 1, 50) = kInfinity;
    problem.len(7) = static_cast<std::int32_t>(width - 1);      // less than the first panel
    problem.len(8) = static_cast<std::int32_t>(3 * width - 1);  // not the key that is not fit
    problem.len(9) = static_cast<std::int32_t>(4 * width + 1);  // likewise
    problem.len(10) = static_cast<std::int32_t>(3 * width);     // that key, and no more
    problem.score(0, kRows, false);
    const std::vector<float> plain = problem.all_scores();
    problem.score(0, kRows);
    const std::vector<float> mixed = problem.all_scores();
    CHECK(problem.fit(0) == static_cast<std::int32_t>(width));
    CHECK(problem.fit(1) == 0);
    CHECK(problem.fit(2) == static_cast<std::int32_t>(width - 1));
    CHECK(problem.fit(3) == static_cast<std::int32_t>(width));
    CHECK(problem.fit(4) == 1);
    CHECK(problem.fit(5) == 1);
    CHECK(problem.fit(6) == 1);
    for (std::size_t row = 0; row < kRows; ++row) {
      for (std::size_t panel = 0; panel < kPanels; ++panel) {
        const std::size_t seen = static_cast<std::size_t>(problem.len(row));
        if (seen <= panel * width) continue;
        const std::size_t count = std::min(width, seen - panel * width), at = row * keys + panel * width;
        const bool goes_plain =
            row <= 7 || panel == 1 || (panel == 2 && row != 8) || (panel == 4 && row != 9) || panel >= 5;
        // A single score may come out the same either way.
        if (!goes_plain && count * 4 < width) continue;
        INFO("row ", row, ", panel ", panel);
        CHECK(same_bits(&plain[at], &mixed[at], count) == goes_plain);
      }
    }
    // Keys that are looked at some panels at a time.
    for (const std::size_t at_a_time : {1, 3}) {
      problem.panels_at_a_time = at_a_time;
      problem.score(0, kRows);
      CHECK(same_bits(problem.all_scores(), mixed));
      problem.panels_at_a_time = 0;
    }
    // Alone, and tile by tile of keys.
    for (std::size_t row = 0; row < kRows; ++row) {
      INFO("row ", row, " alone");
      problem.score(row, 1);
      CHECK(problem.same_seen_scores(row, mixed));
      for (std::size_t begin = width; begin < keys; begin += width) {
        problem.score(row, 1, true, begin);
        const std::size_t seen = static_cast<std::size_t>(problem.len(row));
        if (seen <= begin) continue;
        CHECK(same_bits(problem.scores(row) + begin, &mixed[row * keys + begin], seen - begin));
      }
    }
  });
}

TEST_CASE("tile pairs: tiles that begin anywhere among the copies of a group have the same bits") {
  constexpr std::size_t kRows = 23;
  for_each_target([](const Target& target) {
    const std::size_t width = kernels::pack_kernels(target.id()).panel_width;
    // All rows by pairs; one in five not; lengths that end before the last panel.
    for (const int kind : {0, 1, 2}) {
      Problem problem(target, kRows, 3 * width, 50);
      for (std::size_t row = 0; row < kRows; ++row) {
        if (kind == 1 && row % 5 == 3) problem.query(row, 7) = std::numeric_limits<float>::infinity();
        if (kind == 2) problem.len(row) = static_cast<std::int32_t>(width + row % (2 * width));
      }
      for (std::size_t first = 1; first <= 9; ++first) {
        for (const std::size_t count : {1u, 3u, 4u, 9u, 14u}) {
          problem.copied_before = 0;
          problem.score(first, count);
          const std::vector<float> expected = problem.all_scores();
          problem.copied_before = first;
          problem.score(first, count);
          INFO("kind ", kind, ", rows ", first, " to ", first + count - 1);
          for (std::size_t row = first; row < first + count; ++row) CHECK(problem.same_seen_scores(row, expected));
        }
      }
    }
  });
}

TEST_CASE("tile pairs: rows are prefetched at every step of rows and vectors, and change no bit") {
  constexpr std::size_t kRows = 17;
  for_each_target([](const Target& target) {
    Problem problem(target, kRows, 2 * kernels::pack_kernels(target.id()).panel_width, 64);
    problem.score(0, kRows);
    const std::vector<float> expected = problem.all_scores();
    const float row = 0;
    kernels::PrefetchRows ahead{.next = &row, .stride = -7, .num_rows = 1000, .size = 33};
    problem.ahead = &ahead;
    problem.score(0, kRows);
    CHECK(problem.all_scores() == expected);
    const std::size_t steps = (kRows + problem.rows_per_step - 1) / problem.rows_per_step;
    CHECK(ahead.num_rows == 1000 - 2 * steps * problem.num_keys / (2 * problem.lanes()));  // two vectors a step
  });
}

TEST_CASE("tile pairs: a first panel that is no measure leaves all rows to the tile product") {
  for_each_target([&](const Target& target) {
    const std::size_t width = kernels::pack_kernels(target.id()).panel_width;
    for (const float factor : {0.0f, 1e-8f, 1e8f, kInfinity, kNaN}) {
      Problem problem(target, 4, 2 * width, 30);
      for (std::size_t j = 0; j < width; ++j) {
        for (std::size_t k = 0; k < 30; ++k) problem.key(j, k) *= factor;
      }
      problem.score(0, 4, false);
      const std::vector<float> plain = problem.all_scores();
      problem.score(0, 4);
      INFO(factor);
      CHECK(same_bits(problem.all_scores(), plain));
    }
  });
}

TEST_CASE("tile pairs: what is hidden from a row touches none of its bits, whatever it is") {
  constexpr std::size_t kRows = 11, kSize = 48;
  for_each_target([&](const Target& target) {
    const std::size_t width = kernels::pack_kernels(target.id()).panel_width, keys = 4 * width;
    Problem problem(target, kRows, keys, kSize);
    for (std::size_t row = 0; row < kRows; ++row) {
      problem.len(row) = static_cast<std::int32_t>(row * keys / (kRows - 1));  // 0 to all of them
    }
    problem.score(0, kRows);
    const std::vector<float> expected = problem.all_scores();
    for (const float bad : {0.0f, 1e30f, kInfinity, kNaN}) {
      for (std::size_t row = 0; row < kRows; ++row) {
        Problem changed(target, kRows, keys, kSize);
        for (std::size_t other = 0; other < kRows; ++other) changed.len(other) = problem.len(other);
        for (std::size_t j = static_cast<std::size_t>(problem.len(row)); j < keys; ++j) {
          for (std::size_t k = 0; k < kSize; ++k) changed.key(j, k) = bad;
        }
        changed.score(0, kRows);
        INFO("row ", row, ", hidden keys ", bad);
        for (std::size_t other = 0; other <= row; ++other) CHECK(changed.same_seen_scores(other, expected));
      }
    }
  });
}

}  // namespace attend::tests
