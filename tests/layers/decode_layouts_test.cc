// Decoding walks keys and values in the order of memory, in calls of as many keys as the layout makes wise: the same
// bits for each layout. Only CPUs that prefetch rows into L1 take 8 keys a call for some of these, others always 16;
// what comes of calls of 8 and of 16 is in tests/kernels/few_rows_test.cc for all.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <doctest/doctest.h>

#include "attend/attend.h"
#include "tests/support/compare.h"
#include "tests/support/for_each_target.h"
#include "tests/support/random.h"
#include "tests/support/run.h"

namespace attend::tests {
namespace {

// The numbers of (H, N, D) in order, as a (1, H, N, D) view of these strides.
struct Placed {
  std::vector<float> memory;
  TensorView<const float> view;

  Placed(const std::vector<float>& numbers, std::int64_t heads, std::int64_t rows, std::int64_t size,
         std::int64_t head_stride, std::int64_t row_stride)
      : memory(static_cast<std::size_t>((heads - 1) * head_stride + (rows - 1) * row_stride + size), kSentinel) {
    for (std::int64_t h = 0; h < heads; ++h) {
      for (std::int64_t n = 0; n < rows; ++n) {
        std::copy_n(numbers.begin() + (h * rows + n) * size, size, memory.begin() + h * head_stride + n * row_stride);
      }
    }
    const std::vector<std::int64_t> sizes = {1, heads, rows, size}, strides = {0, head_stride, row_stride, 1};
    view = TensorView<const float>(memory.data(), sizes, strides);
  }
};

}  // namespace

TEST_CASE("dot/decode: heads side by side, rows 4 KiB apart, head after head: the same bits") {
  constexpr std::int64_t kHeads = 4, kKvHeads = 2, kSize = 48, kValueSize = 80, kMaxKeys = 300;
  Random random(81);
  const auto numbers = [&random](std::int64_t count) {
    std::vector<float> all(static_cast<std::size_t>(count));
    for (float& x : all) x = random.normal();
    return all;
  };
  for (const std::int64_t num_queries : {1, 2, 3}) {
    for (const std::int64_t num_keys : {5, 8, 23, 24, 200, 300}) {
      const std::vector<float> queries = numbers(kHeads * num_queries * kSize);
      const std::vector<float> keys = numbers(kKvHeads * num_keys * kSize);
      const std::vector<float> values = numbers(kKvHeads * num_keys * kValueSize);
      // The last query sees 12 keys less, and 9 the one before.
      std::vector<std::int32_t> lens;
      for (std::int64_t m = 0; m < num_queries; ++m) {
        lens.push_back(static_cast<std::int32_t>(std::max<std::int64_t>(1, num_keys - 12 + 3 * (num_queries - 1 - m))));
      }
      const Placed q(queries, kHeads, num_queries, kSize, num_queries * kSize, kSize);
      const auto pooled = [&](const Target& target, std::int64_t head_stride, std::int64_t row_stride) {
        const Placed k(keys, kKvHeads, num_keys, kSize, head_stride, row_stride);
        const Placed v(values, kKvHeads, num_keys, kValueSize, head_stride, row_stride);
        const Plan plan = DotAttention().plan({.num_queries = num_queries,
                                               .num_keys = kMaxKeys,
                                               .query_size = kSize,
                                               .value_size = kValueSize,
                                               .num_heads = kHeads,
                                               .num_kv_heads = kKvHeads},
                                              {.target = target, .attention_weights = true, .path = "dot/decode"});
        return run_plan(plan, {q.view, k.view, v.view, {lens.data(), {1, num_queries}}}, true);
      };
      for_each_target([&](const Target& target) {
        CAPTURE(num_queries);
        CAPTURE(num_keys);
        const RunResult expected = pooled(target, kMaxKeys * 100, 100);  // head after head
        CHECK(same_bits(expected, pooled(target, 80, 160)));
        CHECK(same_bits(expected, pooled(target, 512, 1024)));  // 4 KiB
        CHECK(same_bits(expected, pooled(target, 80, 2048)));
      });
    }
  }
}

}  // namespace attend::tests
