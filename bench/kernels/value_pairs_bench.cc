// value_pairs/pv_*: pooling of one block of keys by pairs of terms, m rows and n keys of d columns, added to what is
// there, beside tile_product/pv_*. FLOPs: 2 m n d. _values, _powers: what looking at values and at rows costs beside.
#include "engine/kernels/value_pairs.h"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <benchmark/benchmark.h>

#include "attend/target.h"
#include "bench/benchmarks.h"
#include "bench/support.h"
#include "engine/kernels/pack.h"

namespace attend::bench {
namespace {

struct ValuePairsCase {
  const char* name;
  std::size_t rows, keys, columns;
  std::size_t spread = 0;  // elements between a panel's rows
};
constexpr ValuePairsCase kCases[] = {{"pv_m48_n128_d64", 48, 128, 64},
                                     {"pv_m48_n128_d64_spread", 48, 128, 64, 16},
                                     {"pv_m48_n128_d128", 48, 128, 128},
                                     {"pv_m48_n64_d64", 48, 64, 64},
                                     {"pv_m16_n128_d256", 16, 128, 256}};

// Values of normal numbers and powers of normal scores, so that all are fit.
class Problem {
 public:
  Problem(const Target& target, const ValuePairsCase& c)
      : case_(c),
        width_(kernels::pack_kernels(target.id()).panel_width),
        row_stride_(width_ + c.spread),
        panels_((c.columns + width_ - 1) / width_),
        kernels_(kernels::value_pairs_kernels(target.id())),
        values_(c.keys * panels_ * row_stride_, 1),
        powers_(c.rows * c.keys, 2),
        pair_sums_(panels_ * width_, 3),
        sums_(c.rows * panels_ * width_, 4),
        fit_(panels_),
        lens_(c.rows, static_cast<std::int32_t>(c.keys)),
        paired_(c.rows) {
    for (std::size_t i = 0; i < c.rows * c.keys; ++i) powers_.data()[i] = std::exp2(powers_.data()[i]);
    look_at_values();
    look_at_powers();
  }

  void look_at_values() {
    mean_square_ = kernels_.values({.values = values_.data(),
                                    .panel_stride = case_.keys * row_stride_,
                                    .row_stride = static_cast<std::ptrdiff_t>(row_stride_),
                                    .num_values = case_.keys,
                                    .size = case_.columns,
                                    .mean_square = mean_square_,
                                    .pair_sums = pair_sums_.data(),
                                    .fit = fit_.data()});
  }
  void look_at_powers() {
    kernels_.powers({.powers = powers_.data(),
                     .stride = static_cast<std::ptrdiff_t>(case_.keys),
                     .num_rows = case_.rows,
                     .num_keys = case_.keys,
                     .lens = lens_.data(),
                     .mean_square = mean_square_,
                     .paired = paired_.data()});
  }
  void multiply() {
    kernels_.multiply({.product = {.a = powers_.data(),
                                   .a_stride = static_cast<std::ptrdiff_t>(case_.keys),
                                   .b = values_.data(),
                                   .b_panel_stride = case_.keys * row_stride_,
                                   .b_row_stride = static_cast<std::ptrdiff_t>(row_stride_),
                                   .c = sums_.data(),
                                   .c_stride = static_cast<std::ptrdiff_t>(panels_ * width_),
                                   .num_rows = case_.rows,
                                   .num_columns = case_.columns,
                                   .inner = case_.keys,
                                   .accumulate = true},
                       .paired = paired_.data(),
                       .pair_sums = pair_sums_.data(),
                       .fit = fit_.data()});
  }

 private:
  const ValuePairsCase& case_;
  std::size_t width_, row_stride_, panels_;
  kernels::ValuePairsKernels kernels_;
  AlignedFloats values_, powers_, pair_sums_, sums_;
  std::vector<std::int32_t> fit_, lens_;
  std::vector<kernels::PairedRow> paired_;
  float mean_square_ = 0;
};

void multiply(benchmark::State& state, const Target& target, const ValuePairsCase& c) {
  Problem problem(target, c);
  measure(state, [&] { problem.multiply(); });
  count_flops(state, 2.0 * static_cast<double>(c.rows * c.keys * c.columns), target);
}

void look(benchmark::State& state, const Target& target, const ValuePairsCase& c, bool at_values) {
  Problem problem(target, c);
  measure(state, [&] { at_values ? problem.look_at_values() : problem.look_at_powers(); });
  state.counters["per_row"] =
      benchmark::Counter(static_cast<double>(at_values ? c.keys : c.rows),
                         benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}

}  // namespace

void register_value_pairs_benchmarks() {
  for (const ValuePairsCase& c : kCases) {
    for (const Target& target : Target::available()) {
      const std::string name = std::string("value_pairs/") + c.name;
      register_case(name, target.name(), [target, &c](benchmark::State& state) { multiply(state, target, c); });
      for (const bool at_values : {true, false}) {
        register_case(name + (at_values ? "_values" : "_powers"), target.name(),
                      [target, &c, at_values](benchmark::State& state) { look(state, target, c, at_values); });
      }
    }
  }
}

}  // namespace attend::bench
