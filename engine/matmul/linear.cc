#include "engine/matmul/linear.h"

#include <memory>
#include <string>
#include <utility>

#include "engine/base/checked.h"
#include "engine/base/cpus.h"
#include "engine/base/memory.h"
#include "engine/base/message.h"
#include "engine/matmul/packed_rows.h"
#ifdef ATTEND_WITH_ONEDNN
#include "engine/matmul/dnnl_product.h"
#endif

namespace attend::matmul {
namespace {

struct Choice {
  Implementation implementation;
  const char* reason;
  When pairs = When::kNever, parts = When::kNever;
};

Choice held_to(Implementation asked) {
  return {asked, "", asked == Implementation::kLinearPairs ? When::kAlways : When::kNever,
          asked == Implementation::kLinearParts ? When::kAlways : When::kNever};
}

// Where tiles of bfloat16 parts are multiplied at 16 / 6 of the FMA peak (kernels/parts.h). Smaller weights have little
// to gain, since rows of x are taken apart for each; GFLOPS by parts and plainly, 256 rows: 32 x 32 76 and 139, 64 x 64
// 144 and 152, 32 x 256 157 and 142, 96 x 96 176 and 160, 64 x 256 196 and 145, 128 x 128 211 and 152.
bool go_by_parts(TensorView<const float> W) {
  const std::int64_t out = W.size(0), in = W.size(1);
  return PackedRows::has_tiles() && out >= 64 && in >= 64 && out * in >= 8192 && PackedRows::are_fit_for_parts(W);
}

constexpr Choice kByParts{Implementation::kLinearParts, " (this CPU multiplies tiles)", When::kNever,
                          When::kWhereFaster};

// Zen 4 and later: additions cost nothing beside multiplications, and three terms take the time of two
// (kernels/linear_pairs-inl.h), which no other product can match there.
bool go_by_pairs(TensorView<const float> W) {
  return this_cpu().adds_beside_products() && PackedRows::are_fit_for_pairs(W);
}

constexpr Choice kByPairs{Implementation::kLinearPairs, " (this CPU adds beside multiplying)", When::kWhereFaster};

#ifdef ATTEND_WITH_ONEDNN
// Our own kernel where vectors are those of AVX2: GFLOPS on an EPYC (Zen 3, FMA peak 103), oneDNN 2.6 and ours,
//     192 x 256, 64 rows  82, 86    256 x 256, 512 rows  78, 90    512 x 512, 1024 rows  58, 89
//     768 x 768, 16 rows  77, 84    768 x 768, 100 rows  70, 88                                    (bench: linear/*)
bool has_short_vectors() {
#if defined(__x86_64__)
  return !this_cpu().has_avx512;
#else
  return false;
#endif
}
#endif

// oneDNN where weights stay in L2. Share of the FMA peak of one core of an Emerald Rapids server, AVX-512, calls of 256
// rows, oneDNN 2.6 against our own kernel (bench: linear/*):
//     192 x 256  99.0, 98.8    256 x 256  96.1, 94.2    512 x 512  97.0, 96.2    768 x 768  93.1, 95.2
//     1024 x 1024  92.1, 95.1    1024 x 4096  90.1, 95.6    768 x 768 in calls of 100 rows  77.8, 94.5
// On a Cascade Lake server with 1 MiB of L2 the two are within 6 % of each other at all of these sizes. On an EPYC (Zen
// 5), with 1 MiB too, layers of 512 x 512 take 8.92 ms with oneDNN and 8.79 with our own kernel, 6.82 and 6.62 where
// batches are padded, 4.80 and 4.53 where padded queries are skipped as well (multi_head/b32_s32_e512_h8); of 256 x 256
// as long with either to within 1 % (additive/b8_m64_n512_u256), in calls of 64 and 16 rows 4.00 and 3.89 ms
// (additive/b64_m1_n100_u256).
Choice choose(TensorView<const float> W, [[maybe_unused]] const char* name, Implementation asked) {
#ifndef ATTEND_WITH_ONEDNN
  if (asked == Implementation::kOneDnn) {
    fail(name, ": held to oneDNN, and this build is without it (ATTEND_WITH_ONEDNN)");
  }
#endif
  if (asked != Implementation::kBySize) return held_to(asked);
  if (go_by_parts(W)) return kByParts;
  if (go_by_pairs(W)) return kByPairs;
#ifdef ATTEND_WITH_ONEDNN
  const std::size_t in = to_size(W.size(1)), out = to_size(W.size(0));
  if (has_short_vectors()) return {Implementation::kLinearRows, " (faster than oneDNN without AVX-512)"};
  if (are_large_weights(in, out)) {
    return {Implementation::kLinearRows, " (in blocks that stay in L2, which the weights as a whole may not)"};
  }
  if (!DnnlProduct::is_offered(in, out)) {
    return {Implementation::kLinearRows, " (oneDNN has only its reference implementation here)"};
  }
  return {Implementation::kOneDnn, " (the weights stay in L2)"};
#else
  return {Implementation::kLinearRows, ""};
#endif
}

}  // namespace

Linear::Linear(TensorView<const float> W, TensorView<const float> bias, const char* name, Implementation asked)
    : in_size_(to_size(W.size(1))), out_size_(to_size(W.size(0))) {
  // Whether there is room for a copy, before all of W is looked at: a broadcast view may be larger than any memory.
  allocate_elements<float>(checked_multiply(checked_multiply(in_size_, out_size_, name), sizeof(float), name) /
                           sizeof(float));
  const Choice choice = choose(W, name, asked);
  std::string reason = choice.reason;
#ifdef ATTEND_WITH_ONEDNN
  if (choice.implementation == Implementation::kOneDnn) {
    auto product = std::make_unique<DnnlProduct>(W, bias, name);
    if (product->is_right()) {
      product_ = std::move(product);
    } else if (asked == Implementation::kOneDnn) {
      fail(name, ": held to ", product->implementation(), ", which gives wrong results");
    } else {
      reason = " (" + product->implementation() + " gives wrong results)";
    }
  }
#endif
  own_ = product_ == nullptr;
  if (own_) product_ = std::make_unique<PackedRows>(W, bias, name, choice.pairs, choice.parts);
  implementation_ = product_->implementation() + reason;
}

}  // namespace attend::matmul
