// Exponentials of projected keys, on every target: e^2b and max|b| against double, in panels that arrive piece by
// piece, from rows that end at unmapped pages.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include <doctest/doctest.h>

#include "engine/kernels/additive_score.h"
#include "engine/kernels/pack.h"
#include "tests/support/compare.h"
#include "tests/support/for_each_target.h"
#include "tests/support/guard_page.h"
#include "tests/support/random.h"

namespace attend::tests {
namespace {

constexpr float kUntouched = -7.25e33f;

// Rows of keys, size elements each, `gap` apart; the last one ends at an unmapped page.
struct Rows {
  Rows(std::size_t num_keys, std::size_t size, std::size_t gap)
      : stride(size + gap), memory(num_keys == 0 ? 0 : (num_keys - 1) * stride + size) {
    Random random(90 + size);
    for (float& x : memory) x = random.uniform(-43, 43);
  }
  float* at(std::size_t j) { return memory.data() + j * stride; }

  std::size_t stride;
  GuardedArray<float> memory;
};

// Exponentials of `capacity` keys, whole vectors, and the keys' maxima, both ending at unmapped pages.
struct Side {
  Side(std::size_t capacity, std::size_t size) : exps(capacity * size), key_max(capacity) {
    std::fill(exps.begin(), exps.end(), kUntouched);
    std::fill(key_max.begin(), key_max.end(), kUntouched);
  }
  GuardedArray<float> exps, key_max;
};

void exp_keys(const Target& target, Rows& rows, std::size_t first, std::size_t count, std::size_t size, bool last,
              Side& side) {
  kernels::additive_score_kernels(target.id())
      .exp_keys({.rows = count == 0 ? nullptr : rows.at(first),
                 .stride = static_cast<std::ptrdiff_t>(rows.stride),
                 .num_keys = count,
                 .num_hiddens = size,
                 .exps = side.exps.data(),
                 .first = first,
                 .last = last,
                 .key_max = side.key_max.data()});
}

float element(const Side& side, std::size_t lanes, std::size_t size, std::size_t j, std::size_t u) {
  return side.exps[j / lanes * lanes * size + u * lanes + j % lanes];
}

}  // namespace

TEST_CASE("exp_keys: e^2b and max|b| against double, whole vectors and ends") {
  for_each_target([](const Target& target) {
    const std::size_t lanes = kernels::additive_score_kernels(target.id()).lanes;
    for (const std::size_t num_keys : {std::size_t{0}, std::size_t{1}, lanes - 1, lanes, lanes + 1, 4 * lanes + 3}) {
      for (const std::size_t size : {1, 2, 3, 4, 5, 8, 31}) {
        CAPTURE(num_keys);
        CAPTURE(size);
        const std::size_t capacity = std::max<std::size_t>((num_keys + lanes - 1) / lanes * lanes, lanes);
        Rows rows(num_keys, size, 3);
        Side side(capacity, size);
        exp_keys(target, rows, 0, num_keys, size, true, side);
        double worst = 0;
        int wrong = 0;
        for (std::size_t j = 0; j < num_keys; ++j) {
          float largest = 0;
          for (std::size_t u = 0; u < size; ++u) {
            const float b = rows.at(j)[u];
            const double truth = std::exp(2 * static_cast<double>(b));
            worst = worse(worst, std::abs(element(side, lanes, size, j, u) / truth - 1));
            largest = std::max(largest, std::abs(b));
          }
          wrong += side.key_max[j] != largest;
        }
        for (std::size_t j = num_keys; j < capacity; ++j) wrong += side.key_max[j] != kUntouched;
        CHECK(wrong == 0);
        CHECK(worst <= 1.6e-7);  // 1.17 ULP at most where no FMA is
      }
    }
  });
}

TEST_CASE("exp_keys: pieces make the bits of the whole and touch no other column") {
  for_each_target([](const Target& target) {
    const std::size_t lanes = kernels::additive_score_kernels(target.id()).lanes;
    const std::size_t num_keys = 3 * lanes + 1, capacity = 4 * lanes;
    for (const std::size_t size : {1, 4, 7}) {
      Rows rows(num_keys, size, 0);
      Side whole(capacity, size);
      exp_keys(target, rows, 0, num_keys, size, true, whole);
      // Cuts at every place of a vector, borders included.
      for (std::size_t cut = 0; cut <= 2 * lanes; ++cut) {
        CAPTURE(size);
        CAPTURE(cut);
        Side pieces(capacity, size);
        exp_keys(target, rows, cut, lanes, size, false, pieces);
        int wrong = 0;
        for (std::size_t j = 0; j < capacity; ++j) {
          const bool written = j >= cut && j < cut + lanes;
          for (std::size_t u = 0; u < size; ++u) {
            const float expected = written ? element(whole, lanes, size, j, u) : kUntouched;
            wrong += element(pieces, lanes, size, j, u) != expected;
          }
          wrong += pieces.key_max[j] != (written ? whole.key_max[j] : kUntouched);
        }
        CHECK(wrong == 0);
        exp_keys(target, rows, 0, cut, size, false, pieces);
        exp_keys(target, rows, cut + lanes, num_keys - cut - lanes, size, true, pieces);
        wrong = 0;
        for (std::size_t j = 0; j < num_keys; ++j) {
          for (std::size_t u = 0; u < size; ++u) {
            wrong += element(pieces, lanes, size, j, u) != element(whole, lanes, size, j, u);
          }
          wrong += pieces.key_max[j] != whole.key_max[j];
        }
        CHECK(wrong == 0);
      }
    }
  });
}

TEST_CASE("exp_keys: NaN stays NaN and is passed over by the maximum, infinities are not; all up to the largest") {
  for_each_target([](const Target& target) {
    const std::size_t lanes = kernels::additive_score_kernels(target.id()).lanes;
    constexpr float kInf = std::numeric_limits<float>::infinity(), kMax = kernels::kExpMax;
    Rows rows(4, 4, 0);
    const std::vector<float> values = {1, std::nanf(""), -2, 0, kInf, 0, 0, 0, -kInf, 0, 0, 0, kMax, -kMax, 0, 0};
    std::copy(values.begin(), values.end(), rows.memory.begin());
    Side side(lanes * ((4 + lanes - 1) / lanes), 4);
    exp_keys(target, rows, 0, 4, 4, true, side);
    CHECK(std::isnan(element(side, lanes, 4, 0, 1)));
    CHECK(side.key_max[0] == 2);
    CHECK(side.key_max[1] == kInf);
    CHECK(side.key_max[2] == kInf);
    CHECK(element(side, lanes, 4, 2, 1) == 1);
    CHECK(side.key_max[3] == kMax);
    CHECK(std::abs(element(side, lanes, 4, 3, 0) / std::exp(2.0 * static_cast<double>(kMax)) - 1) < 1.6e-7);
    CHECK(std::abs(element(side, lanes, 4, 3, 1) / std::exp(-2.0 * static_cast<double>(kMax)) - 1) < 1.6e-7);
  });
}

}  // namespace attend::tests
