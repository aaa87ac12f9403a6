// Queries in the lanes on every target: packing, steps and leaving together, against the attention of each query in
// double.
#include "engine/kernels/query_lanes.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <doctest/doctest.h>
#include <hwy/aligned_allocator.h>

#include "tests/kernels/query_lanes_cases.h"
#include "tests/support/compare.h"
#include "tests/support/for_each_target.h"
#include "tests/support/guard_page.h"
#include "tests/support/random.h"

namespace attend::tests {
namespace {

using kernels::PrefetchRows;
using kernels::QueryLanesKernels;

TEST_CASE("query_lanes: sizes around the lanes and the registers, value size unlike size, ragged lengths") {
  for_each_target([](const Target& target) {
    const QueryLanesKernels kernels = kernels::query_lanes_kernels(target.id());
    Random random(1);
    double worst = 0;
    const auto check = [&](std::size_t heads, std::size_t queries, std::size_t keys, std::size_t size,
                           std::size_t value_size, std::size_t step, int ragged) {
      INFO(heads, " x ", queries, " x ", keys, ", ", size, " and ", value_size, ", step ", step, ", ragged ", ragged);
      const Guard guard = random.bits() % 2 == 0 ? Guard::kEnd : Guard::kBegin;
      LanesProblem p(heads, queries, keys, size, value_size, random, guard);
      for (std::size_t i = 0; i < p.lens.size(); ++i) {
        if (ragged == 1) p.lens[i] = static_cast<std::int32_t>(random.integer(0, static_cast<std::int64_t>(keys)));
        if (ragged == 2) p.lens[i] = static_cast<std::int32_t>(std::min(keys, i % queries + 1));
      }
      const double error = lanes_error(run_lanes(kernels, p, step, true, guard), p);
      CHECK(error <= 1.0);
      worst = std::max(worst, error);
    };
    const std::size_t sizes[] = {1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 23, 25, 31, 32, 33, 48, 63, 64, 65, 67, 100};
    for (const std::size_t n : sizes) {
      for (int ragged = 0; ragged < 3; ++ragged) {
        check(1, n, 19, 5, 6, 8, ragged);   // lanes
        check(3, 3, n, 7, 9, 16, ragged);   // keys
        check(1, 17, 9, n, 3, 9, ragged);   // size
        check(2, 9, 9, 3, n, 4, ragged);    // value size
        check(n, 1, 21, 8, 8, 32, ragged);  // heads
      }
    }
    // Every way to make up rows of the values' product, one vector of them and two.
    for (std::size_t n = 1; n <= 26; ++n) {
      for (int ragged = 0; ragged < 3; ++ragged) check(1, n, 140, 3, 3 * kernels.lanes, 140, ragged);
    }
    for (int ragged = 0; ragged < 3; ++ragged) {
      check(1, 32, 32, 64, 64, 32, ragged);
      check(1, 8, 8, 8, 8, 8, ragged);
      check(4, 5, 300, 511, 130, 300, ragged);  // blocks of the inner dimension
      check(1, 16, 513, 129, 257, 128, ragged);
      check(2, 40, 70, 64, 48, 70, ragged);
    }
    MESSAGE(target.name(), ": ", worst, " of the bound");
  });
}

TEST_CASE("query_lanes: keys 4 KiB apart give the bits of keys at any other distance") {
  for_each_target([](const Target& target) {
    const QueryLanesKernels kernels = kernels::query_lanes_kernels(target.id());
    for (const std::size_t queries : {1u, 4u, 5u, 8u, 9u, 16u, 17u, 33u, 50u}) {
      for (const std::size_t keys : {1u, 7u, 8u, 9u, 15u, 16u, 17u, 31u}) {
        INFO(queries, " queries, ", keys, " keys");
        Random random(queries * 100 + keys), same_random(queries * 100 + keys);
        LanesProblem near(1, queries, keys, 131, 19, random);
        LanesProblem apart(1, queries, keys, 131, 19, same_random, Guard::kEnd, 1024);
        std::copy(near.v.begin(), near.v.end(), apart.v.begin());
        for (std::size_t j = 0; j < keys; ++j) {
          std::copy_n(near.k.data() + j * near.key_stride, near.size, apart.k.data() + j * apart.key_stride);
        }
        CHECK(run_lanes(kernels, near, keys) == run_lanes(kernels, apart, keys));
        CHECK(lanes_error(run_lanes(kernels, apart, keys), apart) <= 1.0);
      }
    }
  });
}

TEST_CASE("query_lanes: values 4 KiB apart give the bits of values at any other distance, hidden NaN included") {
  for_each_target([](const Target& target) {
    const QueryLanesKernels kernels = kernels::query_lanes_kernels(target.id());
    for (const std::size_t queries : {1u, 4u, 6u, 13u, 16u, 17u, 50u}) {
      for (const std::size_t keys : {1u, 2u, 17u, 130u}) {
        INFO(queries, " queries, ", keys, " keys");
        Random random(queries * 100 + keys), same_random(queries * 100 + keys);
        LanesProblem near(1, queries, keys, 5, 2 * 64 + 37, random);
        LanesProblem apart(1, queries, keys, 5, 2 * 64 + 37, same_random, Guard::kEnd, 0, 1024);
        for (std::size_t i = 1; i < queries; ++i) {
          near.lens[i] = apart.lens[i] = static_cast<std::int32_t>(random.integer(0, static_cast<int>(keys) - 1));
        }
        near.v.data()[(keys - 1) * near.value_stride + 3] = kNaN;  // which the first query alone sees
        for (std::size_t j = 0; j < keys; ++j) {
          std::copy_n(near.v.data() + j * near.value_stride, near.value_size, apart.v.data() + j * apart.value_stride);
        }
        const std::vector<float> expected = run_lanes(kernels, near, 64);
        CHECK(same_bits(run_lanes(kernels, apart, 64), expected));
        CHECK(std::count_if(expected.begin(), expected.end(), [](float x) { return std::isnan(x); }) == 1);
      }
    }
  });
}

TEST_CASE("query_lanes: a lane does not depend on the others, to the bit") {
  for_each_target([](const Target& target) {
    const QueryLanesKernels kernels = kernels::query_lanes_kernels(target.id());
    Random random(2);
    constexpr std::size_t kQueries = 50, kKeys = 150, kSize = 33, kValueSize = 37;
    LanesProblem all(1, kQueries, kKeys, kSize, kValueSize, random);
    for (float& x : all.q) x *= 6;  // scores far enough apart for m to move now and then
    for (std::int32_t& len : all.lens) len = static_cast<std::int32_t>(random.integer(0, kKeys));
    all.lens[0] = kKeys;
    const std::vector<float> together = run_lanes(kernels, all, 64);
    for (std::size_t i = 0; i < kQueries; ++i) {
      LanesProblem alone(1, 1, kKeys, kSize, kValueSize, random);
      std::copy_n(all.query(i), kSize, alone.q.data());
      std::copy(all.k.begin(), all.k.end(), alone.k.begin());
      std::copy(all.v.begin(), all.v.end(), alone.v.begin());
      alone.lens[0] = all.lens[i];
      const std::vector<float> result = run_lanes(kernels, alone, 64);
      CHECK(std::equal(result.begin(), result.end(), together.begin() + static_cast<std::ptrdiff_t>(i * kValueSize)));
    }
  });
}

TEST_CASE(
    "query_lanes: rows that are prefetched meanwhile change no bit, lie anywhere, and are prefetched to the last") {
  for_each_target([](const Target& target) {
    const QueryLanesKernels kernels = kernels::query_lanes_kernels(target.id());
    Random random(4);
    for (const std::size_t queries : {1u, 6u, 7u, 8u, 14u, 16u, 33u, 50u}) {
      LanesProblem p(1, queries, 130, 36, 2 * 64 + 37, random);  // values: panels, vectors and a tail
      for (std::int32_t& len : p.lens) len = static_cast<std::int32_t>(random.integer(1, 130));
      p.lens[0] = 130;  // terms enough to prefetch all
      const float* unmapped = p.k.data() + p.k.size();
      PrefetchRows ahead[] = {{},
                              {.next = unmapped, .stride = 100, .num_rows = 7, .size = 33},
                              {.next = p.q.data(), .stride = -5, .num_rows = 1, .size = 1},
                              {.next = unmapped, .stride = 0, .num_rows = 3, .size = 64}};
      const std::vector<float> expected = run_lanes(kernels, p, 64);
      CHECK(run_lanes(kernels, p, 64, true, Guard::kEnd, {.ahead = ahead}) == expected);
      std::size_t left = 0;
      for (const PrefetchRows& rows : ahead) left += rows.num_rows;
      CHECK(left == (kernels.prefetches ? 0 : 7 + 1 + 3));
    }
  });
}

TEST_CASE("query_lanes: values kept for the queries that follow change no bit, whatever they see") {
  for_each_target([](const Target& target) {
    const QueryLanesKernels kernels = kernels::query_lanes_kernels(target.id());
    Random random(8);
    for (const std::size_t queries : {1u, 3u, 4u, 5u, 6u, 7u, 8u, 9u, 12u, 13u, 20u}) {
      for (const std::size_t value_size : {2u, 8u, 16u, 37u, 64u}) {
        LanesProblem p(1, queries, 290, 5, value_size, random);
        for (const std::size_t hidden : {127u, 255u}) p.v[hidden * p.value_stride] = kNaN;  // from who sees no more
        // All see all; some block of 128 is not seen whole by one, or by any.
        for (const std::int32_t shortest : {290, 256, 255, 128, 127, 0}) {
          for (std::int32_t& len : p.lens) len = static_cast<std::int32_t>(random.integer(shortest, 290));
          p.lens[queries / 2] = shortest;
          CAPTURE(queries);
          CAPTURE(value_size);
          CAPTURE(shortest);
          for (const std::size_t step : {std::size_t{100}, std::size_t{290}}) {
            const std::vector<float> expected = run_lanes(kernels, p, step, true, Guard::kEnd, {.keep_values = false});
            PrefetchRows ahead[] = {{.next = p.k.data(), .stride = 1, .num_rows = 10, .size = 1}};
            CHECK(same_bits(run_lanes(kernels, p, step), expected));
            CHECK(same_bits(run_lanes(kernels, p, step, true, Guard::kEnd, {.ahead = ahead}), expected));
          }
        }
      }
    }
  });
}

TEST_CASE("query_lanes: two lines a term are prefetched where 16 keys are at work, else one") {
  for_each_target([](const Target& target) {
    const QueryLanesKernels kernels = kernels::query_lanes_kernels(target.id());
    if (!kernels.prefetches) return;
    Random random(6);
    constexpr std::size_t kTerms = 8, kRows = 40;
    for (const std::size_t keys : {8u, 16u}) {
      const LanesProblem p(1, kernels.lanes, keys, kTerms, 8, random);
      const std::vector<float> expected = run_lanes(kernels, p, keys);
      std::size_t left[2] = {};
      for (const bool two_lines : {false, true}) {
        PrefetchRows ahead[] = {{.next = p.k.data(), .stride = 1, .num_rows = kRows, .size = 1}};
        CHECK(run_lanes(kernels, p, keys, true, Guard::kEnd, {.ahead = ahead, .two_lines = two_lines}) == expected);
        left[two_lines ? 1 : 0] = ahead[0].num_rows;
      }
      CAPTURE(keys);
      const bool many = kernels.has_32_registers;
      const std::size_t passes = keys == 16 && !many ? 2 : 1;  // 12 and 4 keys
      CHECK(kRows - left[0] == passes * kTerms);
      CHECK(kRows - left[1] == (keys == 16 && many ? 2 : passes) * kTerms);
    }
  });
}

TEST_CASE("query_lanes: a line per term of values is prefetched too where that is asked for and registers are 32") {
  for_each_target([](const Target& target) {
    const QueryLanesKernels kernels = kernels::query_lanes_kernels(target.id());
    Random random(7);
    constexpr std::size_t kKeys = 9, kRows = 1000;
    for (const std::size_t vectors : {1u, 2u, 3u, 4u, 5u}) {  // of values, the last one not whole
      const LanesProblem p(1, kernels.lanes + 1, kKeys, 6, vectors * kernels.lanes - (kernels.lanes > 1 ? 1 : 0),
                           random);
      const std::vector<float> expected = run_lanes(kernels, p, kKeys);
      std::size_t left[2] = {};
      for (const bool of_values : {false, true}) {
        PrefetchRows ahead[] = {{.next = p.k.data(), .stride = 1, .num_rows = kRows, .size = 1}};
        const LanesHints hints{.ahead = ahead, .ahead_of_values = of_values};
        CHECK(same_bits(run_lanes(kernels, p, kKeys, true, Guard::kEnd, hints), expected));
        left[of_values ? 1 : 0] = ahead[0].num_rows;
      }
      CAPTURE(vectors);
      // Once per key for each step of rows and two whole vectors of values.
      const std::size_t more = left[0] - left[1], pairs = p.value_size / kernels.lanes / 2;
      const bool fetches = kernels.prefetches && kernels.has_32_registers && pairs > 0;
      CHECK(more % (kKeys * std::max<std::size_t>(pairs, 1)) == 0);
      CHECK((more > 0) == fetches);
    }
  });
}

TEST_CASE("query_lanes: thousands of keys, scores that creep, jump and are large") {
  for_each_target([](const Target& target) {
    const QueryLanesKernels kernels = kernels::query_lanes_kernels(target.id());
    Random random(3);
    constexpr std::size_t kKeys = 8192, kQueries = 17;
    double worst = 0;
    // Scores are q * k of size 1: a factor per query, a course per key.
    for (int course = 0; course < 8; ++course) {
      LanesProblem p(1, kQueries, kKeys, 1, 2, random);
      for (std::size_t j = 0; j < kKeys; ++j) {
        const float x = static_cast<float>(j);
        float& key = p.k[j * p.key_stride];
        key = course == 0   ? 0.3f
              : course == 1 ? x * 1e-5f
              : course == 2 ? x / 100
              : course == 3 ? -x / 100
              : course == 4 ? static_cast<float>(j / 128) * 9
              : course == 5 ? random.uniform(-3000, 3000)
              : course == 6 ? random.uniform(-3e6f, 3e6f)
                            : random.uniform(-1e30f, 1e30f);
        p.v[j * p.value_stride] = j % 3 == 0 ? 1.0f : 0.25f;
      }
      for (std::size_t i = 0; i < kQueries; ++i) p.q[i * p.query_stride] = 1 + static_cast<float>(i) / 16;
      const double error = lanes_error(run_lanes(kernels, p, 128), p);
      INFO("course ", course);
      CHECK(error <= 1.0);
      worst = std::max(worst, error);
    }
    MESSAGE(target.name(), ": ", worst, " of the bound");
  });
}

TEST_CASE("query_lanes: what is beyond a lane's length does not influence it, be it NaN or infinite") {
  for_each_target([](const Target& target) {
    const QueryLanesKernels kernels = kernels::query_lanes_kernels(target.id());
    Random random(4);
    constexpr std::size_t kQueries = 37, kKeys = 40;
    LanesProblem clean(1, kQueries, kKeys, 9, 18, random), dirty(1, kQueries, kKeys, 9, 18, random);
    std::copy(clean.q.begin(), clean.q.end(), dirty.q.begin());
    for (const float special : {kNaN, kInf, -kInf}) {
      for (std::size_t from = 0; from < kKeys; from += 7) {
        for (std::size_t i = 0; i < kQueries; ++i) {
          dirty.lens[i] = clean.lens[i] = static_cast<std::int32_t>(i % 3 == 0 ? kKeys : i % (from + 1));
        }
        std::copy(clean.k.begin(), clean.k.end(), dirty.k.begin());
        std::copy(clean.v.begin(), clean.v.end(), dirty.v.begin());
        for (std::size_t j = from; j < kKeys; ++j) {
          for (std::size_t k = 0; k < 9; ++k) dirty.k[j * dirty.key_stride + k] = special;
          for (std::size_t n = 0; n < 18; ++n) dirty.v[j * dirty.value_stride + n] = special;
        }
        const std::vector<float> expected = run_lanes(kernels, clean, 16), result = run_lanes(kernels, dirty, 16);
        INFO(special, " from ", from);
        for (std::size_t i = 0; i < kQueries; ++i) {
          if (i % 3 == 0) continue;  // it sees them
          const std::ptrdiff_t begin = static_cast<std::ptrdiff_t>(i * 18);
          CHECK(std::equal(result.begin() + begin, result.begin() + begin + 18, expected.begin() + begin));
        }
      }
    }
  });
}

TEST_CASE("query_lanes: NaN and +inf scores make their lane NaN, -inf weighs 0, wherever they stand") {
  for_each_target([](const Target& target) {
    const QueryLanesKernels kernels = kernels::query_lanes_kernels(target.id());
    Random random(5);
    constexpr std::size_t kQueries = 19, kKeys = 21;
    const auto all_nan = [](const float* row) { return std::isnan(row[0]) && std::isnan(row[1]); };
    for (std::size_t place = 0; place < kKeys; ++place) {
      for (const float special : {kNaN, kInf, -kInf}) {
        // Query i sees the special number in key `place` (times 1), the others 0 times it: of size 2.
        LanesProblem p(1, kQueries, kKeys, 1, 2, random);
        for (float& x : p.q) x = 1.0f;
        p.k[place * p.key_stride] = special;
        if (special != -kInf && place < 5) p.k[(kKeys - 1) * p.key_stride] = 200;  // must not scale the NaN away
        for (std::size_t i = 0; i < kQueries; i += 2) p.lens[i] = static_cast<std::int32_t>(place);
        const std::vector<float> result = run_lanes(kernels, p, 5);
        INFO(special, " at ", place);
        LanesProblem without(1, kQueries, kKeys, 1, 2, random);
        std::copy(p.q.begin(), p.q.end(), without.q.begin());
        std::copy(p.k.begin(), p.k.end(), without.k.begin());
        std::copy(p.v.begin(), p.v.end(), without.v.begin());
        without.lens = p.lens;
        without.k[place * p.key_stride] = -1e4f;
        const std::vector<float> others = run_lanes(kernels, without, 5);
        for (std::size_t i = 0; i < kQueries; ++i) {
          if (i % 2 == 1 && special != -kInf) {
            CHECK(all_nan(result.data() + 2 * i));
          } else {
            CHECK(std::equal(result.begin() + static_cast<std::ptrdiff_t>(2 * i),
                             result.begin() + static_cast<std::ptrdiff_t>(2 * i + 2),
                             others.begin() + static_cast<std::ptrdiff_t>(2 * i)));
          }
        }
      }
    }
    LanesProblem nothing(1, kQueries, kKeys, 1, 2, random);
    for (float& x : nothing.q) x = 1.0f;
    for (std::size_t j = 0; j < kKeys; ++j) nothing.k[j * nothing.key_stride] = -kInf;
    const std::vector<float> zeros(kQueries * 2, 0.0f);
    CHECK(run_lanes(kernels, nothing, 8) == zeros);
    for (std::size_t j = 0; j < kKeys; ++j) nothing.v[j * nothing.value_stride] = kInf;  // 0 * inf in o
    CHECK(run_lanes(kernels, nothing, 8) == zeros);
    std::fill(nothing.lens.begin(), nothing.lens.end(), 0);
    CHECK(run_lanes(kernels, nothing, 8) == zeros);
  });
}

TEST_CASE("query_lanes: weights are stored in their rows, nothing between them is touched") {
  for_each_target([](const Target& target) {
    const QueryLanesKernels kernels = kernels::query_lanes_kernels(target.id());
    Random random(7);
    const auto check = [&](std::size_t heads, std::size_t queries, std::size_t keys, bool divide) {
      INFO(heads, " x ", queries, " x ", keys, ", divide ", divide);
      const std::size_t used = heads * queries, L = (used + kernels.lanes - 1) / kernels.lanes * kernels.lanes;
      const auto p = hwy::AllocateAligned<float>(keys * L), sums = hwy::AllocateAligned<float>(2 * L);
      for (std::size_t i = 0; i < keys * L; ++i) p[i] = i % L < used ? random.uniform(0, 1) : kNaN;
      for (std::size_t i = 0; i < 2 * L; ++i) sums[i] = i < L ? random.uniform(1, 9) : 0.25f;
      sums[0] = 0.25f;  // nothing was seen: zeros, whatever p is
      p[0] = kInf;
      const Guard guard = random.bits() % 2 == 0 ? Guard::kEnd : Guard::kBegin;
      const std::size_t row = keys + 3;
      GuardedArray<float> weights((used - 1) * row + keys, guard);
      std::fill(weights.begin(), weights.end(), -77.0f);
      kernels.store_weights({.from = p.get(),
                             .lane_sum = sums.get(),
                             .lane_lost = sums.get() + L,
                             .num_heads = heads,
                             .num_queries = queries,
                             .size = keys,
                             .output = weights.data() + (used - 1) * row,
                             .head_stride = -static_cast<std::ptrdiff_t>(queries * row),
                             .row_stride = -static_cast<std::ptrdiff_t>(row),
                             .divide = divide});
      std::size_t wrong = 0;
      for (std::size_t i = 0; i < weights.size(); ++i) {
        const std::size_t lane = used - 1 - i / row, key = i % row;
        double expected = -77;
        if (key < keys) expected = p[key * L + lane];
        if (key < keys && divide) expected = lane == 0 ? 0 : expected / (sums[lane] - 0.25);
        const bool is_right = expected == static_cast<double>(weights[i]) ||
                              (divide && std::abs(weights[i] - expected) <= 1.5e-7 * std::abs(expected));
        wrong += is_right ? 0u : 1u;
      }
      CHECK(wrong == 0);
    };
    for (const bool divide : {false, true}) {
      for (const std::size_t n : {1u, 2u, 3u, 4u, 5u, 7u, 8u, 9u, 15u, 16u, 17u, 31u, 33u, 65u}) {
        check(1, n, 21, divide);
        check(3, 7, n, divide);
        check(n, 2, 4, divide);
      }
    }
  });
}

TEST_CASE("query_lanes: a chunk leaves o, m and l") {
  for_each_target([](const Target& target) {
    const QueryLanesKernels kernels = kernels::query_lanes_kernels(target.id());
    for (const std::size_t heads : {1u, 2u}) {  // one head's results are stored from registers
      Random random(6);
      LanesProblem p(heads, 10 / heads, 70, 12, 6, random);
      const std::vector<float> whole = run_lanes(kernels, p, 16), parts = run_lanes(kernels, p, 16, false);
      CAPTURE(heads);
      for (std::size_t i = 0; i < 10; ++i) {
        const float m = parts[i * 8 + 6], l = parts[i * 8 + 7];
        CHECK(m == std::round(m));
        CHECK(l > 0.7f);
        for (std::size_t n = 0; n < 6; ++n) {
          CHECK(std::abs(parts[i * 8 + n] / l - whole[i * 6 + n]) <= 2e-7f * (1e-3f + std::abs(whole[i * 6 + n])));
        }
      }
    }
  });
}

}  // namespace
}  // namespace attend::tests
