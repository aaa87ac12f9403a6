#include "engine/kernels/kernel_set.h"

#include <array>
#include <bit>

#include <hwy/highway.h>

namespace attend::kernels {
namespace {

// HWY_TARGETS: what this build compiled. SupportedTargets: what the CPU has (and what another Highway user of the
// process has not disabled). Highway numbers better targets with lower bits.
std::uint64_t available_bits() {
  return static_cast<std::uint64_t>(HWY_TARGETS) & static_cast<std::uint64_t>(hwy::SupportedTargets());
}

std::vector<std::int64_t> targets_of(std::uint64_t bits) {
  std::vector<std::int64_t> targets;
  for (; bits != 0; bits &= bits - 1) targets.push_back(std::int64_t{1} << std::countr_zero(bits));
  return targets;
}

KernelSet make_kernel_set(std::int64_t target) {
  return {.target = target,
          .name = target_name(target),
          .pack = pack_kernels(target),
          .tile_product = tile_product_kernels(target),
          .tile_pairs = tile_pairs_kernels(target),
          .tile_parts = tile_parts_kernels(target),
          .value_pairs = value_pairs_kernels(target),
          .softmax_tile = softmax_tile_kernels(target),
          .query_lanes = query_lanes_kernels(target),
          .few_rows = few_rows_kernels(target),
          .masked_softmax = masked_softmax_kernels(target),
          .linear_rows = linear_rows_kernels(target),
          .additive_score = additive_score_kernels(target)};
}

}  // namespace

const char* target_name(std::int64_t target) { return hwy::TargetName(target); }

std::vector<std::int64_t> compiled_targets() { return targets_of(static_cast<std::uint64_t>(HWY_TARGETS)); }

std::vector<std::int64_t> available_targets() { return targets_of(available_bits()); }

std::int64_t best_target() { return std::int64_t{1} << std::countr_zero(available_bits()); }

const KernelSet& kernel_set(std::int64_t target) {
  // Filled once for all targets; a plan keeps the reference.
  static const std::vector<KernelSet> sets = [] {
    std::vector<KernelSet> all;
    for (const std::int64_t each : available_targets()) all.push_back(make_kernel_set(each));
    return all;
  }();
  for (const KernelSet& set : sets) {
    if (set.target == target) return set;
  }
  return sets.back();
}

}  // namespace attend::kernels
