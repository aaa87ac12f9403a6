// Queries, keys and values for the tests of products by bfloat16 parts, and what the kernels and double make of their
// scores and of pooling them. Attention as a whole: tile_parts_attend_cases.h.
#ifndef ATTEND_TESTS_KERNELS_TILE_PARTS_CASES_H_
#define ATTEND_TESTS_KERNELS_TILE_PARTS_CASES_H_

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <vector>

#include <doctest/doctest.h>

#include "engine/kernels/pack.h"
#include "engine/kernels/tile_parts.h"
#include "engine/kernels/tile_product.h"
#include "tests/support/compare.h"
#include "tests/support/for_each_target.h"
#include "tests/support/guard_page.h"
#include "tests/support/random.h"

namespace attend::tests {
inline constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
inline constexpr float kInfinity = std::numeric_limits<float>::infinity();

inline Draw times(float factor) {
  return [factor](Random& random) { return factor * random.normal(); };
}

inline std::size_t up_to(std::size_t n, std::size_t multiple) { return (n + multiple - 1) / multiple * multiple; }
inline std::ptrdiff_t stride_of(std::size_t n) { return static_cast<std::ptrdiff_t>(n); }

// Where rows go by parts: in tiles if the CPU has them.
class TilesOfThread {
 public:
  explicit TilesOfThread(const kernels::TilePartsKernels& target_kernels) : kernels_(target_kernels) {
    kernels_.configure();
  }
  ~TilesOfThread() { kernels_.release(); }
  TilesOfThread(const TilesOfThread&) = delete;
  TilesOfThread& operator=(const TilesOfThread&) = delete;

 private:
  const kernels::TilePartsKernels& kernels_;
};

// Rows of an array, in as many whole tiles as they fill: before an unmapped page, and copied back by the destructor.
class WholeTiles {
 public:
  WholeTiles(GuardedArray<float>& rows, std::size_t first, std::size_t count, std::size_t stride)
      : rows_(rows),
        first_(first * stride),
        count_(count * stride),
        tiles_(up_to(count, kernels::kPartsRows) * stride) {
    std::fill(tiles_.begin(), tiles_.end(), kNaN);
    std::copy_n(rows_.begin() + first_, count_, tiles_.begin());
  }
  ~WholeTiles() { std::copy_n(tiles_.begin(), count_, rows_.begin() + first_); }
  WholeTiles(const WholeTiles&) = delete;
  WholeTiles& operator=(const WholeTiles&) = delete;

  float* data() { return tiles_.data(); }

 private:
  GuardedArray<float>& rows_;
  std::size_t first_, count_;
  GuardedArray<float> tiles_;
};

// Largest error and sum of squares of errors, each relative to what the case says.
struct PartsErrors {
  double largest = 0, squares = 0;
  std::size_t count = 0;

  void add(double relative) {
    largest = worse(largest, std::abs(relative));
    squares += relative * relative;
    ++count;
  }
  double typical() const { return std::sqrt(squares / static_cast<double>(count)); }
};

// Queries, keys and values of a head, each array before an unmapped page, and what comes of them. Scores are exponents
// of two. Values lie in panels or, rows of exactly `columns` numbers, where a user might have them.
class PartsHead {
 public:
  struct Draws {
    Draw query = draw_normal, key = draw_normal, value = draw_normal;
  };

  PartsHead(const Target& target, std::size_t rows, std::size_t keys, std::size_t terms, std::size_t value_columns,
            const Draws& draws, bool in_place = true)
      : num_rows(rows),
        num_keys(keys),
        size(terms),
        columns(value_columns),
        width(kernels::pack_kernels(target.id()).panel_width),
        kernels_(kernels::tile_parts_kernels(target.id())),
        plain_(kernels::tile_product_kernels(target.id())),
        in_place_(in_place),
        key_panels_(up_to(keys, width) * size),
        queries_(rows * size),
        values_(in_place ? keys * columns : up_to(columns, width) * keys),
        query_parts_(kernels::parts_size(rows, size)),
        key_parts_(kernels::parts_size(keys, size)),
        value_parts_(kernels::parts_size(columns, keys)),
        fit_queries_(rows),
        fit_keys_(keys),
        fit_values_(keys),
        scratch_(2 * kernels::pool_parts_scratch()),
        scores_stride_(up_to(keys, std::max(kernels::kPartsColumns, width))),
        sums_stride_(up_to(columns, kernels::kPartsColumns)),
        scores_(rows * scores_stride_),
        sums_(rows * sums_stride_),
        lens_(rows, static_cast<std::int32_t>(keys)) {
    Random random(size * 41 + keys * 7 + columns);
    for (std::size_t j = 0; j < keys; ++j) {
      for (std::size_t k = 0; k < size; ++k) key(j, k) = draws.key(random);
      for (std::size_t n = 0; n < columns; ++n) value(j, n) = draws.value(random);
    }
    for (float& x : queries_) x = draws.query(random);
  }

  float& query(std::size_t row, std::size_t k) { return queries_[row * size + k]; }
  float& key(std::size_t j, std::size_t k) { return key_panels_[(j / width * size + k) * width + j % width]; }
  float& value(std::size_t j, std::size_t n) {
    return in_place_ ? values_[j * columns + n] : values_[(n / width * num_keys + j) * width + n % width];
  }
  std::int32_t& len(std::size_t row) { return lens_[row]; }
  std::size_t seen(std::size_t row) const { return static_cast<std::size_t>(lens_[row]); }
  void set_lens(const std::function<std::size_t(std::size_t)>& of_row) {
    for (std::size_t row = 0; row < num_rows; ++row) {
      lens_[row] = static_cast<std::int32_t>(std::min(of_row(row), num_keys));
    }
  }

  float* scores(std::size_t row) { return scores_.data() + row * scores_stride_; }
  float* sums(std::size_t row) { return sums_.data() + row * sums_stride_; }
  // Of the last call that took them apart.
  bool are_fit() const { return all_fit_; }
  bool is_fit_query(std::size_t row) const { return fit_queries_[row] != 0; }
  bool is_fit_key(std::size_t j) const { return fit_keys_[j] != 0; }
  bool is_fit_value(std::size_t j) const { return fit_values_[j] != 0; }

  // Flags and panels are given where they are wanted, or always.
  bool always_gives_flags = false;

  // Rows first to first + count - 1, taken apart alone. All other scores become NaN.
  void score(std::size_t first, std::size_t count, bool with_lens = false) {
    std::fill(scores_.begin(), scores_.end(), kNaN);
    take_queries(first, count);
    take_keys();
    const TilesOfThread tiles(kernels_);
    kernels::ScorePartsArgs args = score_args(first, count);
    args.lens = with_lens ? lens_.data() + first : nullptr;
    WholeTiles tiles_of_scores(scores_, first, count, scores_stride_);
    args.scores = tiles_of_scores.data();
    kernels_.score(args);
  }
  void score_plainly() {
    std::fill(scores_.begin(), scores_.end(), kNaN);
    plain_.multiply({.a = queries_.data(),
                     .a_stride = stride_of(size),
                     .b = key_panels_.data(),
                     .b_panel_stride = size * width,
                     .b_row_stride = stride_of(width),
                     .c = scores_.data(),
                     .c_stride = stride_of(scores_stride_),
                     .num_rows = num_rows,
                     .num_columns = num_keys,
                     .inner = size,
                     .accumulate = false});
  }
  // Relative to sum |q k|.
  PartsErrors score_error() {
    PartsErrors error;
    for (std::size_t row = 0; row < num_rows; ++row) add_score_errors(row, error);
    return error;
  }
  void add_score_errors(std::size_t row, PartsErrors& error) {
    for (std::size_t j = 0; j < seen(row); ++j) {
      double sum = 0, magnitude = 0;
      for (std::size_t k = 0; k < size; ++k) {
        const double product = static_cast<double>(query(row, k)) * static_cast<double>(key(j, k));
        sum += product;
        magnitude += std::abs(product);
      }
      if (magnitude > 0) error.add((static_cast<double>(scores(row)[j]) - sum) / magnitude);
    }
  }

  // What a softmax might leave in the place of scores: powers of two of normal exponents, 0 from each row's length on.
  void draw_powers(float deviation = 1.0f) {
    Random random(num_keys * 3 + columns);
    for (std::size_t row = 0; row < num_rows; ++row) {
      for (std::size_t j = 0; j < scores_stride_; ++j) {
        const float power = std::exp2(deviation * random.normal());
        scores(row)[j] = j < seen(row) ? power : 0.0f;
      }
    }
  }
  void fill_sums(const Draw& draw) {
    Random random(num_rows * 5 + columns);
    for (float& x : sums_) x = draw(random);
  }
  void pool(std::size_t first, std::size_t count, bool accumulate, bool with_lens = true) {
    take_values();
    const TilesOfThread tiles(kernels_);
    kernels::PoolPartsArgs args = pool_args(count);
    args.powers = scores(first);
    args.powers_stride = stride_of(scores_stride_);
    args.lens = with_lens ? lens_.data() + first : nullptr;
    args.accumulate = accumulate;
    WholeTiles tiles_of_sums(sums_, first, count, sums_stride_);
    args.c = tiles_of_sums.data();
    kernels_.pool(args);
  }
  // Columns of values are padded to whole panels for that: not of values in place.
  void pool_plainly(bool accumulate) {
    std::vector<float> panels(up_to(columns, width) * num_keys);
    AlignedSums padded(up_to(num_rows, kernels::kPartsRows) * up_to(columns, width));
    for (std::size_t j = 0; j < num_keys; ++j) {
      for (std::size_t n = 0; n < columns; ++n) panels[(n / width * num_keys + j) * width + n % width] = value(j, n);
    }
    const std::size_t stride = up_to(columns, width);
    for (std::size_t row = 0; row < num_rows; ++row) std::copy_n(sums(row), columns, &padded[row * stride]);
    AlignedSums aligned(panels.size());
    std::copy(panels.begin(), panels.end(), aligned.begin());
    plain_.multiply({.a = scores_.data(),
                     .a_stride = stride_of(scores_stride_),
                     .b = aligned.data(),
                     .b_panel_stride = num_keys * width,
                     .b_row_stride = stride_of(width),
                     .c = padded.data(),
                     .c_stride = stride_of(stride),
                     .num_rows = num_rows,
                     .num_columns = columns,
                     .inner = num_keys,
                     .accumulate = accumulate});
    for (std::size_t row = 0; row < num_rows; ++row) std::copy_n(&padded[row * stride], columns, sums(row));
  }
  // Of p V, with `before` where it was added to that; relative to sum |p v| and that.
  void add_pool_errors(std::size_t row, const std::vector<float>* before, PartsErrors& error) {
    for (std::size_t n = 0; n < columns; ++n) {
      double sum = before == nullptr ? 0.0 : static_cast<double>((*before)[row * sums_stride_ + n]);
      double magnitude = std::abs(sum);
      for (std::size_t j = 0; j < seen(row); ++j) {
        const double product = static_cast<double>(scores(row)[j]) * static_cast<double>(value(j, n));
        sum += product;
        magnitude += std::abs(product);
      }
      if (magnitude > 0) {
        error.add((static_cast<double>(sums(row)[n]) - sum) / magnitude);
      } else {
        CHECK(sums(row)[n] == 0.0f);
      }
    }
  }
  std::vector<float> all_scores() const { return {scores_.data(), scores_.data() + scores_.size()}; }
  std::vector<float> all_sums() const { return {sums_.data(), sums_.data() + sums_.size()}; }
  void set_sums(const std::vector<float>& from) { std::copy(from.begin(), from.end(), sums_.begin()); }
  bool same_scores(std::size_t row, const std::vector<float>& expected) {
    return same_bits(scores(row), expected.data() + row * scores_stride_, seen(row));
  }
  bool same_sums(std::size_t row, const std::vector<float>& expected) {
    return same_bits(sums(row), expected.data() + row * sums_stride_, columns);
  }

  const std::size_t num_rows, num_keys, size, columns, width;

 protected:
  using AlignedSums = GuardedArray<float>;  // its length a multiple of the lanes

  void take_queries(std::size_t first, std::size_t count) {
    std::fill(query_parts_.begin(), query_parts_.end(), std::uint16_t{0x7fc1});
    all_queries_fit_ = kernels_.queries({.rows = queries_.data() + first * size,
                                         .stride = stride_of(size),
                                         .num_rows = count,
                                         .size = size,
                                         .parts = query_parts_.data(),
                                         .fit = fit_queries_.data() + first});
    all_fit_ = all_queries_fit_;
  }
  void take_keys() {
    std::fill(key_parts_.begin(), key_parts_.end(), std::uint16_t{0x7fc1});
    all_keys_fit_ = kernels_.keys({.panels = key_panels_.data(),
                                   .panel_stride = size * width,
                                   .num_keys = num_keys,
                                   .size = size,
                                   .parts = key_parts_.data(),
                                   .fit = fit_keys_.data()});
    all_fit_ = all_fit_ && all_keys_fit_;
  }
  void take_values() {
    std::fill(value_parts_.begin(), value_parts_.end(), std::uint16_t{0x7fc1});
    std::fill(fit_values_.begin(), fit_values_.end(), std::uint8_t{1});  // left alone where all are
    all_values_fit_ = kernels_.values({.values = values_.data(),
                                       .panel_stride = value_panel_stride(),
                                       .row_stride = value_row_stride(),
                                       .num_values = num_keys,
                                       .size = columns,
                                       .parts = value_parts_.data(),
                                       .fit = fit_values_.data()});
    all_fit_ = all_values_fit_;
  }
  std::size_t value_panel_stride() const { return in_place_ ? width : num_keys * width; }
  std::ptrdiff_t value_row_stride() const { return stride_of(in_place_ ? columns : width); }

  // Of rows that take_queries has taken, and keys from `begin` on, a multiple of tile and panel.
  kernels::ScorePartsArgs score_args(std::size_t first, std::size_t count, std::size_t begin, std::size_t keys) {
    const bool gives_queries = always_gives_flags || !all_queries_fit_;
    const bool gives_keys = always_gives_flags || !all_keys_fit_;
    return {.num_rows = count,
            .num_columns = keys,
            .size = size,
            .queries = query_parts_.data(),
            .fit_queries = gives_queries ? fit_queries_.data() + first : nullptr,
            .plain_queries = queries_.data() + first * size,
            .plain_stride = stride_of(size),
            .keys = key_parts_.data() + kernels::key_parts_at(begin, size),
            .fit_keys = gives_keys ? fit_keys_.data() + begin : nullptr,
            .panels = gives_queries || gives_keys ? key_panels_.data() + begin * size : nullptr,
            .panel_stride = size * width,
            .lens = nullptr,
            .scores = nullptr,
            .scores_stride = stride_of(scores_stride_)};
  }
  kernels::ScorePartsArgs score_args(std::size_t first, std::size_t count) {
    return score_args(first, count, 0, num_keys);
  }
  kernels::PoolPartsArgs pool_args(std::size_t count, std::size_t begin, std::size_t keys) {
    return {.num_rows = count,
            .num_values = keys,
            .size = columns,
            .powers = nullptr,
            .powers_stride = 0,
            .lens = nullptr,
            .values = value_parts_.data() + kernels::value_parts_at(begin),
            .column_stride = kernels::parts_size(kernels::kPartsColumns, num_keys),
            .fit_values = always_gives_flags || !all_values_fit_ ? fit_values_.data() + begin : nullptr,
            .plain_values = values_.data() + stride_of(begin) * value_row_stride(),
            .plain_panel_stride = value_panel_stride(),
            .plain_row_stride = value_row_stride(),
            .accumulate = false,
            .c = nullptr,
            .c_stride = stride_of(sums_stride_),
            .scratch = scratch_.data()};
  }
  kernels::PoolPartsArgs pool_args(std::size_t count) { return pool_args(count, 0, num_keys); }

  kernels::TilePartsKernels kernels_;
  kernels::TileProductKernels plain_;
  bool in_place_;
  GuardedArray<float> key_panels_, queries_, values_;
  GuardedArray<std::uint16_t> query_parts_, key_parts_, value_parts_;
  GuardedArray<std::uint8_t> fit_queries_, fit_keys_, fit_values_;
  GuardedArray<std::uint16_t> scratch_;
  std::size_t scores_stride_, sums_stride_;
  GuardedArray<float> scores_, sums_;
  std::vector<std::int32_t> lens_;
  bool all_queries_fit_ = true, all_keys_fit_ = true, all_values_fit_ = true, all_fit_ = true;
};

}  // namespace attend::tests

#endif  // ATTEND_TESTS_KERNELS_TILE_PARTS_CASES_H_
