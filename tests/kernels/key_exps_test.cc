// Exponentials of projected keys, on every target: e^2b and max|b| against double, in panels that arrive piece by
// piece, from rows that end at unmapped pages.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include <doctest/doctest.h>
#include <hwy/aligned_allocator.h>

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

// Lanes that the exponentials of so many keys take.
std::size_t lanes_taken(std::size_t num_keys, std::size_t lanes) {
  const std::size_t whole = num_keys / lanes * lanes;
  return whole == num_keys ? whole : whole + kernels::exps_width(num_keys - whole, lanes);
}

// Exponentials that take so many lanes, from a vector's first on, and the maxima of as many keys, both ending at
// unmapped pages.
struct Side {
  Side(std::size_t taken, std::size_t size, std::size_t lanes)
      : num_exps(taken * size), exps((num_exps + lanes - 1) / lanes * lanes), key_max(taken) {
    std::fill(exps.begin(), exps.end(), kUntouched);
    std::fill(key_max.begin(), key_max.end(), kUntouched);
  }
  bool ends() {
    return std::all_of(exps.begin() + static_cast<std::ptrdiff_t>(num_exps), exps.end(),
                       [](float x) { return x == kUntouched; });
  }
  std::size_t num_exps;
  GuardedArray<float> exps, key_max;
};

void exp_keys(const Target& target, Rows& rows, std::size_t first, std::size_t count, std::size_t size,
              std::size_t num_all, Side& side) {
  kernels::additive_score_kernels(target.id())
      .exp_keys({.rows = count == 0 ? nullptr : rows.at(first),
                 .stride = static_cast<std::ptrdiff_t>(rows.stride),
                 .num_keys = count,
                 .num_hiddens = size,
                 .exps = side.exps.data(),
                 .first = first,
                 .num_all = num_all,
                 .key_max = side.key_max.data()});
}

// Of key j of num_all.
float element(const Side& side, std::size_t lanes, std::size_t size, std::size_t num_all, std::size_t j,
              std::size_t u) {
  const std::size_t vector = j / lanes * lanes, width = kernels::exps_width(num_all - vector, lanes);
  return side.exps[vector * size + u * width + j % lanes];
}

}  // namespace

TEST_CASE("exp_keys: a vector is as wide as its keys want") {
  CHECK(kernels::exps_width(16, 16) == 16);
  CHECK(kernels::exps_width(9, 16) == 16);
  CHECK(kernels::exps_width(8, 16) == 8);
  CHECK(kernels::exps_width(5, 16) == 8);
  CHECK(kernels::exps_width(4, 16) == 4);
  CHECK(kernels::exps_width(1, 16) == 4);
  CHECK(kernels::exps_width(100, 16) == 16);  // of those that follow
  CHECK(kernels::exps_width(4, 8) == 4);
  CHECK(kernels::exps_width(5, 8) == 8);
  CHECK(kernels::exps_width(1, 4) == 4);
  CHECK(kernels::exps_width(1, 1) == 1);
}

TEST_CASE("exp_keys: e^2b and max|b| against double, whole vectors and ends") {
  for_each_target([](const Target& target) {
    const std::size_t lanes = kernels::additive_score_kernels(target.id()).lanes;
    std::vector<std::size_t> counts = {0, lanes, 4 * lanes + 3};
    for (std::size_t n = 1; n < lanes; ++n) counts.insert(counts.end(), {n, lanes + n});
    for (const std::size_t num_keys : counts) {
      for (const std::size_t size : {1, 2, 3, 4, 5, 8, 31}) {
        CAPTURE(num_keys);
        CAPTURE(size);
        const std::size_t capacity = lanes_taken(num_keys, lanes);
        Rows rows(num_keys, size, 3);
        Side side(capacity, size, lanes);
        exp_keys(target, rows, 0, num_keys, size, num_keys, side);
        double worst = 0;
        int wrong = 0;
        for (std::size_t j = 0; j < num_keys; ++j) {
          float largest = 0;
          for (std::size_t u = 0; u < size; ++u) {
            const float b = rows.at(j)[u];
            const double truth = std::exp(2 * static_cast<double>(b));
            worst = worse(worst, std::abs(element(side, lanes, size, num_keys, j, u) / truth - 1));
            largest = std::max(largest, std::abs(b));
          }
          wrong += side.key_max[j] != largest;
        }
        for (std::size_t j = num_keys; j < capacity; ++j) {
          wrong += side.key_max[j] != kUntouched;
          for (std::size_t u = 0; u < size; ++u) wrong += element(side, lanes, size, num_keys, j, u) != 1;
        }
        CHECK(wrong == 0);
        CHECK(side.ends());
        CHECK(worst <= 1.6e-7);  // 1.17 ULP at most where no FMA is
      }
    }
  });
}

TEST_CASE("exp_keys: pieces make the bits of the whole and touch no other column") {
  for_each_target([](const Target& target) {
    const std::size_t lanes = kernels::additive_score_kernels(target.id()).lanes;
    for (const std::size_t num_keys : {3 * lanes + 1, 2 * lanes + std::min<std::size_t>(6, lanes)}) {
      const std::size_t capacity = lanes_taken(num_keys, lanes);
      for (const std::size_t size : {1, 4, 7}) {
        const auto at = [&](const Side& side, std::size_t j, std::size_t u) {
          return element(side, lanes, size, num_keys, j, u);
        };
        Rows rows(num_keys, size, 0);
        Side whole(capacity, size, lanes);
        exp_keys(target, rows, 0, num_keys, size, num_keys, whole);
        // Cuts at every place of a vector, borders included.
        for (std::size_t cut = 0; cut + lanes <= num_keys; ++cut) {
          CAPTURE(num_keys);
          CAPTURE(size);
          CAPTURE(cut);
          Side pieces(capacity, size, lanes);
          exp_keys(target, rows, cut, lanes, size, num_keys, pieces);
          const std::size_t end = cut + lanes == num_keys ? capacity : cut + lanes;
          int wrong = 0;
          for (std::size_t j = 0; j < capacity; ++j) {
            const bool written = j >= cut && j < end;
            for (std::size_t u = 0; u < size; ++u)
              wrong += at(pieces, j, u) != (written ? at(whole, j, u) : kUntouched);
            wrong += pieces.key_max[j] != (j >= cut && j < cut + lanes ? whole.key_max[j] : kUntouched);
          }
          CHECK(wrong == 0);
          exp_keys(target, rows, 0, cut, size, num_keys, pieces);
          exp_keys(target, rows, cut + lanes, num_keys - cut - lanes, size, num_keys, pieces);
          wrong = 0;
          for (std::size_t j = 0; j < num_keys; ++j) {
            for (std::size_t u = 0; u < size; ++u) wrong += at(pieces, j, u) != at(whole, j, u);
            wrong += pieces.key_max[j] != whole.key_max[j];
          }
          CHECK(wrong == 0);
        }
      }
    }
  });
}

TEST_CASE("exp_keys: vectors that are widened for keys to come are those of all") {
  for_each_target([](const Target& target) {
    const std::size_t lanes = kernels::additive_score_kernels(target.id()).lanes, size = 5;
    for (std::size_t before = 0; before <= 2 * lanes; ++before) {
      for (std::size_t more = 0; more <= lanes + 1; ++more) {
        const std::size_t num_keys = before + more;
        Rows rows(num_keys, size, 0);
        Side whole(lanes_taken(num_keys, lanes), size, lanes), appended(lanes_taken(num_keys, lanes), size, lanes);
        exp_keys(target, rows, 0, num_keys, size, num_keys, whole);
        exp_keys(target, rows, 0, before, size, before, appended);
        kernels::widen_key_exps(appended.exps.data(), size, lanes, before, more);
        exp_keys(target, rows, before, more, size, num_keys, appended);
        int wrong = 0;
        for (std::size_t j = 0; j < num_keys; ++j) {
          for (std::size_t u = 0; u < size; ++u) {
            wrong += element(appended, lanes, size, num_keys, j, u) != element(whole, lanes, size, num_keys, j, u);
          }
        }
        CAPTURE(before);
        CAPTURE(more);
        CHECK(wrong == 0);
        CHECK(appended.ends());
      }
    }
  });
}

TEST_CASE("largest: of any number of maxima, wherever it stands, infinite or 0") {
  for_each_target([](const Target& target) {
    const kernels::AdditiveScoreKernels kernels = kernels::additive_score_kernels(target.id());
    const std::size_t most = 4 * kernels.lanes;
    const auto maxima = hwy::AllocateAligned<float>(most);
    for (std::size_t n = 0; n <= most; ++n) {
      // What stands behind the last does not count.
      std::fill_n(maxima.get(), most, 9.0f);
      std::fill_n(maxima.get(), n, 0.0f);
      CHECK(kernels.largest(maxima.get(), n) == 0);
      for (std::size_t j = 0; j < n; ++j) {
        for (const float x : {2.5f, std::numeric_limits<float>::infinity()}) {
          maxima[j] = x;
          CHECK(kernels.largest(maxima.get(), n) == x);
        }
        maxima[j] = 0.0f;
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
    Side side(lanes_taken(4, lanes), 4, lanes);
    exp_keys(target, rows, 0, 4, 4, 4, side);
    CHECK(std::isnan(element(side, lanes, 4, 4, 0, 1)));
    CHECK(side.key_max[0] == 2);
    CHECK(side.key_max[1] == kInf);
    CHECK(side.key_max[2] == kInf);
    CHECK(element(side, lanes, 4, 4, 2, 1) == 1);
    CHECK(side.key_max[3] == kMax);
    CHECK(std::abs(element(side, lanes, 4, 4, 3, 0) / std::exp(2.0 * static_cast<double>(kMax)) - 1) < 1.6e-7);
    CHECK(std::abs(element(side, lanes, 4, 4, 3, 1) / std::exp(-2.0 * static_cast<double>(kMax)) - 1) < 1.6e-7);
  });
}

}  // namespace attend::tests
