// A handful of queries against keys and values where they lie, on every target, against double.
#include "engine/kernels/few_rows.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <hwy/aligned_allocator.h>

#include "tests/support/for_each_target.h"
#include "tests/support/guard_page.h"
#include "tests/support/random.h"

namespace attend::tests {
namespace {

using kernels::FewRowsKernels;

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr float kUntouched = -77.0f;
constexpr std::size_t kAlign = 64;  // a multiple of the lanes of every target of today

std::size_t padded(std::size_t n) { return (n + kAlign - 1) / kAlign * kAlign; }

// Queries, keys and scores that end at unmapped pages (or begin at them), rows a little apart.
struct Dots {
  std::size_t rows, keys, size;
  std::size_t query_stride, key_stride, score_stride;
  kernels::LaterRows later = {};
  GuardedArray<float> q, k, scores;

  Dots(std::size_t rows_, std::size_t keys_, std::size_t size_, Random& random, Guard guard)
      : rows(rows_),
        keys(keys_),
        size(size_),
        query_stride(size + 1),
        key_stride(size + 3),
        score_stride(keys + 2),
        q((rows - 1) * query_stride + size, guard),
        k((keys - 1) * key_stride + size, guard),
        scores((rows - 1) * score_stride + keys, guard) {
    for (float& x : q) x = random.normal();
    for (float& x : k) x = random.normal();
  }
  void run(const FewRowsKernels& kernels, std::size_t row, std::size_t num_rows, std::size_t key,
           std::size_t num_keys) {
    kernels.dots({.queries = q.data() + row * query_stride,
                  .queries_stride = static_cast<std::ptrdiff_t>(query_stride),
                  .num_rows = num_rows,
                  .keys = k.data() + key * key_stride,
                  .keys_stride = static_cast<std::ptrdiff_t>(key_stride),
                  .num_keys = num_keys,
                  .size = size,
                  .scores = scores.data() + row * score_stride + key,
                  .scores_stride = static_cast<std::ptrdiff_t>(score_stride),
                  .later = later});
  }
};

TEST_CASE("few_rows dots: any number of rows and keys, any size, and nothing beyond is touched") {
  for_each_target([](const Target& target) {
    const FewRowsKernels kernels = kernels::few_rows_kernels(target.id());
    Random random(1);
    double worst = 0;
    const auto check = [&](std::size_t rows, std::size_t keys, std::size_t size, Guard guard) {
      Dots p(rows, keys, size, random, guard);
      std::fill(p.scores.begin(), p.scores.end(), kUntouched);
      p.run(kernels, 0, rows, 0, keys);
      std::size_t wrong = 0;
      for (std::size_t i = 0; i < p.scores.size(); ++i) {
        const std::size_t r = i / p.score_stride, j = i % p.score_stride;
        if (j >= keys) {
          wrong += p.scores[i] != kUntouched ? 1u : 0u;
          continue;
        }
        double truth = 0, magnitude = 0;
        for (std::size_t k = 0; k < size; ++k) {
          const double product = static_cast<double>(p.q[r * p.query_stride + k]) * p.k[j * p.key_stride + k];
          truth += product;
          magnitude += std::abs(product);
        }
        const double error = std::abs(p.scores[i] - truth) / (2e-7 * (0.1 * magnitude + std::abs(truth) + 1e-30));
        wrong += error <= 8 ? 0u : 1u;  // terms that cancel: up to three roundings of all they sum to in magnitude
        worst = std::max(worst, error);
      }
      INFO(rows, " rows, ", keys, " keys, size ", size);
      CHECK(wrong == 0);
    };
    for (const Guard guard : {Guard::kEnd, Guard::kBegin}) {
      for (std::size_t rows = 1; rows <= 9; ++rows) {
        for (const std::size_t keys : {1u, 2u, 3u, 4u, 5u, 7u, 8u, 9u, 15u, 16u, 17u, 33u})
          check(rows, keys, 21, guard);
      }
      for (std::size_t size = 1; size <= 70; ++size) check(5, 9, size, guard);
      for (const std::size_t size : {127u, 128u, 129u, 512u, 513u, 1029u, 2048u, 2049u, 5000u})
        check(3, 18, size, guard);
    }
    MESSAGE(target.name(), ": ", worst, " times 2e-7 (|score| + sum of |terms| / 10)");
  });
}

TEST_CASE("few_rows dots: a score does not depend on the other rows and keys of the call, to the bit") {
  for_each_target([](const Target& target) {
    const FewRowsKernels kernels = kernels::few_rows_kernels(target.id());
    Random random(2);
    Dots p(7, 29, 77, random, Guard::kEnd);
    p.run(kernels, 0, 7, 0, 29);
    const std::vector<float> together(p.scores.begin(), p.scores.end());
    for (std::size_t row = 0; row < 7; ++row) {
      for (std::size_t key = 0; key < 29; key += 5) p.run(kernels, row, 1, key, std::min<std::size_t>(5, 29 - key));
    }
    CHECK(std::equal(together.begin(), together.end(), p.scores.begin()));
    // A query of NaN and a key of infinities stay among themselves.
    for (std::size_t k = 0; k < 77; ++k) p.q[3 * p.query_stride + k] = kNaN, p.k[6 * p.key_stride + k] = kInf;
    p.run(kernels, 0, 7, 0, 29);
    for (std::size_t i = 0; i < p.scores.size(); ++i) {
      const std::size_t r = i / p.score_stride, j = i % p.score_stride;
      if (j >= 29) continue;
      if (r == 3) {
        CHECK(std::isnan(p.scores[i]));
      } else if (j != 6) {
        CHECK(p.scores[i] == together[i]);
      } else {
        CHECK(!std::isfinite(p.scores[i]));
      }
    }
  });
}

// Values that end at an unmapped page, p of each row, accumulators with something in them.
struct Pool {
  std::size_t rows, values, size;
  std::size_t value_stride, p_stride, o_stride;
  kernels::LaterRows later = {};
  GuardedArray<float> v, p;
  hwy::AlignedFreeUniquePtr<float[]> o;
  std::vector<float> before;
  std::vector<std::int32_t> lens;

  Pool(std::size_t rows_, std::size_t values_, std::size_t size_, Random& random, Guard guard)
      : rows(rows_),
        values(values_),
        size(size_),
        value_stride(size + 3),
        p_stride(values + 1),
        o_stride(padded(size)),
        v((values - 1) * value_stride + size, guard),
        p((rows - 1) * p_stride + values, guard),
        o(hwy::AllocateAligned<float>(rows * o_stride)),
        before(rows * o_stride) {
    for (float& x : v) x = random.normal();
    for (float& x : p) x = random.uniform(0.0f, 1.0f);
    for (float& x : before) x = random.normal();
    for (std::size_t r = 0; r < rows; ++r) lens.push_back(static_cast<std::int32_t>(values));
  }
  // Rows [row, row + num_rows) of o, which become before + p v.
  void run(const FewRowsKernels& kernels, std::size_t row, std::size_t num_rows) {
    std::copy_n(before.begin() + static_cast<std::ptrdiff_t>(row * o_stride), num_rows * o_stride,
                o.get() + row * o_stride);
    kernels.pool({.p = p.data() + row * p_stride,
                  .p_stride = static_cast<std::ptrdiff_t>(p_stride),
                  .num_rows = num_rows,
                  .lens = lens.data() + row,
                  .values = v.data(),
                  .values_stride = static_cast<std::ptrdiff_t>(value_stride),
                  .num_values = values,
                  .value_size = size,
                  .accumulators = o.get() + row * o_stride,
                  .accumulators_stride = static_cast<std::ptrdiff_t>(o_stride),
                  .later = later});
  }
};

TEST_CASE("few_rows pool: any number of rows and values, any size, rows of any length") {
  for_each_target([](const Target& target) {
    const FewRowsKernels kernels = kernels::few_rows_kernels(target.id());
    Random random(3);
    double worst = 0;
    const auto check = [&](std::size_t rows, std::size_t values, std::size_t size, Guard guard, bool ragged) {
      Pool p(rows, values, size, random, guard);
      if (ragged) {
        for (std::int32_t& len : p.lens)
          len = static_cast<std::int32_t>(random.integer(0, static_cast<std::int64_t>(values)));
      }
      p.run(kernels, 0, rows);
      std::size_t wrong = 0;
      for (std::size_t r = 0; r < rows; ++r) {
        for (std::size_t n = 0; n < size; ++n) {
          double truth = p.before[r * p.o_stride + n], magnitude = std::abs(truth);
          for (std::size_t j = 0; j < static_cast<std::size_t>(p.lens[r]); ++j) {
            const double product = static_cast<double>(p.p[r * p.p_stride + j]) * p.v[j * p.value_stride + n];
            truth += product;
            magnitude += std::abs(product);
          }
          const double error = std::abs(p.o[r * p.o_stride + n] - truth) / (2e-7 * (0.1 * magnitude + std::abs(truth)));
          wrong += error <= 4 ? 0u : 1u;
          worst = std::max(worst, error);
        }
      }
      INFO(rows, " rows, ", values, " values, size ", size);
      CHECK(wrong == 0);
    };
    for (const Guard guard : {Guard::kEnd, Guard::kBegin}) {
      for (const bool ragged : {false, true}) {
        for (std::size_t rows = 1; rows <= 9; ++rows) {
          for (const std::size_t values : {1u, 2u, 8u, 16u, 17u}) check(rows, values, 37, guard, ragged);
        }
        for (std::size_t size = 1; size <= 70; ++size) check(5, 6, size, guard, ragged);
        for (const std::size_t values : {127u, 128u, 129u, 1000u}) check(7, values, 130, guard, ragged);
      }
    }
    MESSAGE(target.name(), ": ", worst, " times 2e-7 (|o| + sum of |terms| / 10)");
  });
}

TEST_CASE("few_rows pool: calls of as many values as a sum has, or twice as many, come to the bits of one call") {
  for_each_target([](const Target& target) {
    const FewRowsKernels kernels = kernels::few_rows_kernels(target.id());
    Random random(6);
    Pool pool(5, 45, 77, random, Guard::kEnd);
    pool.lens = {45, 44, 17, 8, 3};
    pool.run(kernels, 0, 5);
    const std::vector<float> at_once(pool.o.get(), pool.o.get() + 5 * pool.o_stride);
    for (const std::size_t step : {kernels::kPoolSum, 2 * kernels::kPoolSum}) {
      std::copy(pool.before.begin(), pool.before.end(), pool.o.get());
      for (std::size_t first = 0; first < 45; first += step) {
        const std::size_t count = std::min<std::size_t>(step, 45 - first);
        std::vector<std::int32_t> lens;
        for (const std::int32_t len : pool.lens) {
          lens.push_back(std::clamp(len - static_cast<std::int32_t>(first), 0, static_cast<std::int32_t>(count)));
        }
        kernels.pool({.p = pool.p.data() + first,
                      .p_stride = static_cast<std::ptrdiff_t>(pool.p_stride),
                      .num_rows = 5,
                      .lens = lens.data(),
                      .values = pool.v.data() + first * pool.value_stride,
                      .values_stride = static_cast<std::ptrdiff_t>(pool.value_stride),
                      .num_values = count,
                      .value_size = 77,
                      .accumulators = pool.o.get(),
                      .accumulators_stride = static_cast<std::ptrdiff_t>(pool.o_stride)});
      }
      for (std::size_t i = 0; i < at_once.size(); ++i) {
        if (i % pool.o_stride < 77) CHECK(at_once[i] == pool.o[i]);
      }
    }
  });
}

TEST_CASE("few_rows: rows that are prefetched meanwhile change no bit and lie anywhere") {
  for_each_target([](const Target& target) {
    const FewRowsKernels kernels = kernels::few_rows_kernels(target.id());
    Random random(5);
    for (const std::size_t rows : {5u, 7u}) {  // four and one, four and three
      Dots dots(rows, 29, 77, random, Guard::kEnd);
      dots.run(kernels, 0, rows, 0, 29);
      const std::vector<float> scores(dots.scores.begin(), dots.scores.end());
      Pool pool(rows, 29, 77, random, Guard::kEnd);
      pool.run(kernels, 0, rows);
      const std::vector<float> pooled(pool.o.get(), pool.o.get() + rows * pool.o_stride);
      // The next block, then far beyond either end of what is mapped.
      const std::ptrdiff_t far = std::ptrdiff_t{1} << 20;
      using kernels::PrefetchInto;
      for (const PrefetchInto into : {PrefetchInto::kL2, PrefetchInto::kL2KeysThenL1, PrefetchInto::kL2Thrice,
                                      PrefetchInto::kL2ThenL1, PrefetchInto::kL1, PrefetchInto::kL1Twice}) {
        for (const std::ptrdiff_t ahead : {std::ptrdiff_t{16 * 80}, far, -far}) {
          const int where = static_cast<int>(into);
          CAPTURE(where);
          CAPTURE(rows);
          dots.later = pool.later = {.into = into, .ahead = ahead, .again = ahead / 2};
          std::fill(dots.scores.begin(), dots.scores.end(), 0.0f);  // as they were mapped
          dots.run(kernels, 0, rows, 0, 29);
          CHECK(std::equal(scores.begin(), scores.end(), dots.scores.begin()));
          pool.run(kernels, 0, rows);
          for (std::size_t i = 0; i < pooled.size(); ++i) {
            if (i % pool.o_stride < 77) CHECK(pooled[i] == pool.o[i]);
          }
        }
      }
    }
  });
}

TEST_CASE("few_rows pool: a row does not depend on the others, and values beyond its length do not reach it") {
  for_each_target([](const Target& target) {
    const FewRowsKernels kernels = kernels::few_rows_kernels(target.id());
    Random random(4);
    for (const float special : {0.5f, kInf, -kInf, kNaN}) {
      Pool p(7, 150, 75, random, Guard::kEnd);
      p.lens = {0, 3, 140, 77, 128, 129, 1};
      // The length of every row but the last is the end of what is finite for it: p is 0 beyond, as the softmax leaves
      // it.
      for (std::size_t r = 0; r < 7; ++r) {
        std::fill(p.p.data() + r * p.p_stride + p.lens[r], p.p.data() + r * p.p_stride + 150, 0.0f);
      }
      for (std::size_t n = 0; n < 75; ++n) p.v[140 * p.value_stride + n] = special;
      p.run(kernels, 0, 7);
      const std::vector<float> together(p.o.get(), p.o.get() + 7 * p.o_stride);
      for (std::size_t r = 0; r < 7; ++r) p.run(kernels, r, 1);
      for (std::size_t i = 0; i < together.size(); ++i) {
        if (i % p.o_stride >= 75) continue;
        CHECK(std::isfinite(together[i]));
        CHECK(together[i] == p.o[i]);
        if (i / p.o_stride == 0) CHECK(together[i] == p.before[i]);
      }
      // Rows that see it do get it.
      p.lens.assign(7, 150);
      for (std::size_t r = 0; r < 7; ++r) p.p[r * p.p_stride + 140] = 1.0f;
      p.lens[2] = 140;
      p.run(kernels, 0, 7);
      for (std::size_t r = 0; r < 7; ++r) CHECK(std::isfinite(p.o[r * p.o_stride]) == (r == 2 || special == 0.5f));
    }
  });
}

}  // namespace
}  // namespace attend::tests
