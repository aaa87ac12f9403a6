// Every compiled target's kernels are reached by the target's own bit.
#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "engine/base/cpus.h"
#include "engine/kernels/kernel_set.h"
#include "tests/support/for_each_target.h"

namespace attend::tests {

TEST_CASE("kernel set: available targets are compiled ones, both best first") {
  const std::vector<std::int64_t> compiled = kernels::compiled_targets(), available = kernels::available_targets();
  REQUIRE(!available.empty());
  CHECK(kernels::best_target() == available.front());
  // Highway's lower bits are better targets.
  CHECK(std::is_sorted(compiled.begin(), compiled.end()));
  CHECK(std::is_sorted(available.begin(), available.end()));
  CHECK(std::includes(compiled.begin(), compiled.end(), available.begin(), available.end()));
}

TEST_CASE("kernel set: every family of a target is there, and of that target") {
  for_each_target([](const Target& target) {
    const kernels::KernelSet& set = kernels::kernel_set(target.id());
    CHECK(set.target == target.id());
    CHECK(std::string(set.name) == target.name());
    CHECK((set.linear_rows.multiply == kernels::linear_rows_kernels(target.id()).multiply));
    CHECK((set.linear_rows.multiply_by_pairs == kernels::linear_rows_kernels(target.id()).multiply_by_pairs));
    const bool has_32 = target.name().starts_with("AVX3"), has_16 = target.name() == "AVX2" && !this_cpu().is_zen5();
    CHECK(set.linear_rows.has_registers_for_pairs == (has_32 || has_16));
    CHECK(set.linear_rows.pairs_by_slices == !set.few_rows.has_32_registers);
    CHECK((set.tile_product.multiply == kernels::tile_product_kernels(target.id()).multiply));
    CHECK((set.tile_pairs.multiply == kernels::tile_pairs_kernels(target.id()).multiply));
    CHECK(set.tile_pairs.has_registers_for_pairs == (has_32 || target.name() == "AVX2"));
    CHECK((set.value_pairs.multiply == kernels::value_pairs_kernels(target.id()).multiply));
    CHECK(set.value_pairs.has_registers_for_pairs == has_32);
    // (Function pointers in their own parentheses: doctest cannot print them.)
    // Another target, another function: a getter that hands out one for all would pass everything else. Getters are
    // compiled for their targets, so that g++ 14 puts instructions into them that a CPU without AVX-512 does not have.
    for (const std::int64_t other : kernels::available_targets()) {
      if (other == target.id()) continue;
      INFO(set.name, " and ", kernels::target_name(other));
      REQUIRE((kernels::linear_rows_kernels(other).multiply != nullptr));
      CHECK((set.linear_rows.multiply != kernels::linear_rows_kernels(other).multiply));
      CHECK((set.linear_rows.multiply_by_pairs != kernels::linear_rows_kernels(other).multiply_by_pairs));
      CHECK((set.tile_product.multiply != kernels::tile_product_kernels(other).multiply));
      CHECK((set.tile_pairs.multiply != kernels::tile_pairs_kernels(other).multiply));
      CHECK((set.value_pairs.multiply != kernels::value_pairs_kernels(other).multiply));
    }
  });
}

}  // namespace attend::tests
