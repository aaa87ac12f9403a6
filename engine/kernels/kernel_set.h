// All kernels of one target as function pointers: what a plan holds. The planner calls kernel_set(target) once; runs
// call through the pointers, so that no dispatch and no global state is on the hot path.
#ifndef ATTEND_KERNELS_KERNEL_SET_H_
#define ATTEND_KERNELS_KERNEL_SET_H_

#include <cstdint>
#include <vector>

#include "engine/kernels/additive_score.h"
#include "engine/kernels/few_rows.h"
#include "engine/kernels/linear_rows.h"
#include "engine/kernels/masked_softmax.h"
#include "engine/kernels/pack.h"
#include "engine/kernels/query_lanes.h"
#include "engine/kernels/softmax_tile.h"
#include "engine/kernels/tile_pairs.h"
#include "engine/kernels/tile_parts.h"
#include "engine/kernels/tile_product.h"
#include "engine/kernels/value_pairs.h"

namespace attend::kernels {

struct KernelSet {
  std::int64_t target = 0;  // Highway's bit
  const char* name = "";    // Highway's name of it
  PackKernels pack;
  TileProductKernels tile_product;
  TilePairsKernels tile_pairs;
  TilePartsKernels tile_parts;
  ValuePairsKernels value_pairs;
  SoftmaxTileKernels softmax_tile;
  QueryLanesKernels query_lanes;
  FewRowsKernels few_rows;
  MaskedSoftmaxKernels masked_softmax;
  LinearRowsKernels linear_rows;
  AdditiveScoreKernels additive_score;
};

// The kernels of one target, which must be one of available_targets().
const KernelSet& kernel_set(std::int64_t target);

// Targets compiled in, best first, whether or not this CPU has them.
std::vector<std::int64_t> compiled_targets();

// Those of them that this CPU supports, best first. Reads CPUID through Highway, never its chosen target.
std::vector<std::int64_t> available_targets();

// The first of them. Allocates nothing.
std::int64_t best_target();

// Highway's name of a target.
const char* target_name(std::int64_t target);

}  // namespace attend::kernels

#endif  // ATTEND_KERNELS_KERNEL_SET_H_
