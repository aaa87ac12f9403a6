// Where keys are said to be written, and their values to be read: prefetching changes no result, so nothing else would
// notice a wrong place.
#include "engine/run/key_side.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <doctest/doctest.h>

#include "attend/target.h"
#include "engine/kernels/kernel_set.h"
#include "engine/plan/plan_impl.h"
#include "tests/run/pool_problem.h"

namespace attend::tests {

TEST_CASE("key side: exponentials are written where it says, of all heads; of a window it says nothing") {
  constexpr std::size_t kEntries = 2, kHeads = 3, kCapacity = 64, kHiddens = 5;
  constexpr float kUntouched = -1;
  detail::PlanImpl plan;
  plan.kernels = &kernels::kernel_set(Target::best().id());
  plan.num_kv_heads = kHeads;
  plan.score_size = plan.inner_size = kHiddens;
  alignas(64) std::array<float, kEntries * kHeads * kCapacity * kHiddens> exps;
  exps.fill(kUntouched);
  std::array<float, exps.size() / kHiddens> max;
  detail::KeySide side{.plan = &plan, .key_exps = exps.data(), .key_max = max.data(), .capacity = kCapacity};
  // Keys 16 to 47 of entry 1, whole vectors of them whatever the target.
  const std::vector<float> keys(32 * kHeads * kHiddens, 0.5f);
  side.take_keys(1, 16, 32, keys.data(), kHeads * kHiddens, 64);
  const kernels::PrefetchRows rows = side.key_exps_rows(1, 16, 32);
  check_rows(rows, exps.data() + (kHeads * kCapacity + 16) * kHiddens, kCapacity * kHiddens, kHeads, 32 * kHiddens);
  std::size_t written = 0;
  for (float e : exps) written += e != kUntouched ? 1 : 0;
  CHECK(written == rows.num_rows * rows.size);
  for (std::size_t h = 0; h < rows.num_rows; ++h) {
    const float* row = rows.next + static_cast<std::ptrdiff_t>(h) * rows.stride;
    for (std::size_t i = 0; i < rows.size; ++i) REQUIRE(row[i] != kUntouched);
  }
  side.is_window = true;
  CHECK(side.key_exps_rows(1, 16, 32).num_rows == 0);
  CHECK(detail::KeySide{.plan = &plan, .capacity = kCapacity}.key_exps_rows(1, 16, 32).num_rows == 0);
}

TEST_CASE("key side: values of a window's keys are read next where they lie in one piece") {
  constexpr std::int64_t kSize = 6, kEntry = 70;
  detail::PlanImpl plan;
  plan.head_value_size = kSize;
  const detail::KeySide side{.plan = &plan};
  const std::array<float, 2 * kEntry> values{};
  const std::int64_t starts[] = {0, 9, 18};
  const auto read_next = [&](const detail::Rows<const float>& rows) {
    return detail::KeysIntoSide(side, starts, rows).read_next(1, 3, 4);
  };
  const std::span<const float> read = read_next({values.data(), kEntry, kEntry, kSize});
  CHECK(read.data() == values.data() + kEntry + 3 * kSize);
  CHECK(read.size() == 4 * kSize);
  for (const std::ptrdiff_t stride : {kSize + 1, -kSize, std::int64_t{0}}) {
    CHECK(read_next({values.data(), kEntry, kEntry, stride}).empty());
  }
  CHECK(read_next({}).empty());
}

}  // namespace attend::tests
