// What a plan costs: counts against sums written out here, and times that follow the machine's numbers.
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "attend/attend.h"
#include "engine/base/cpus.h"
#include "engine/kernels/query_lanes.h"
#include "tests/support/for_each_target.h"
#include "tests/support/layer_cases.h"

namespace attend::tests {
namespace {

// A machine of round numbers.
Machine simple_machine() {
  Machine machine;
  machine.flops = machine.projection_flops = 1e11;
  machine.l2_bandwidth = 1e11;
  machine.l3_bandwidth = 3e10;
  machine.memory_bandwidth = 1e10;
  machine.l1_bytes = 32 << 10;
  machine.l2_bytes = 1 << 20;
  machine.l3_bytes = 32 << 20;
  return machine;
}

Cost cost_of(const Shape& shape, const PlanOptions& options = {}) {
  return DotAttention().plan(shape, options).cost(simple_machine());
}

}  // namespace

TEST_CASE("cost: FLOPs, exponentials and bytes of a dot product on heads") {
  const Shape shape{.batch = 3, .num_queries = 20, .num_keys = 50, .query_size = 16, .value_size = 8, .num_heads = 4};
  const Cost cost = cost_of(shape);
  CHECK(cost.flops == 2.0 * 3 * 4 * 20 * 50 * (16 + 8));
  CHECK(cost.exps == 3.0 * 4 * 20 * 50);
  CHECK(cost.tanhs == 0);
  CHECK(cost.bytes_read == 4.0 * 3 * 4 * (20 * 16 + 50 * (16 + 8)));
  CHECK(cost.bytes_written == 4.0 * 3 * 4 * 20 * 8);
  CHECK(cost.projection_seconds == 0);
  // Heads that share keys read fewer of them and compute as much.
  Shape grouped = shape;
  grouped.num_kv_heads = 2;
  CHECK(cost_of(grouped).flops == cost.flops);
  CHECK(cost_of(grouped).bytes_read == 4.0 * 3 * (4 * 20 * 16 + 2 * 50 * (16 + 8)));
  CHECK(cost_of(shape, {.attention_weights = true, .path = "dot/materialised"}).bytes_written ==
        cost.bytes_written + 4.0 * 3 * 4 * 20 * 50);
}

TEST_CASE("cost: keys and columns of values that do not fill a vector cost one") {
  for_each_target([](const Target& target) {
    const auto lanes = static_cast<std::int64_t>(kernels::query_lanes_kernels(target.id()).lanes);
    for (const char* path : {"dot/fused", "dot/materialised"}) {
      const auto seconds = [&](std::int64_t keys, std::int64_t columns) {
        const Shape shape{.num_queries = 64, .num_keys = keys, .query_size = 64, .value_size = columns};
        const PlanOptions plainly{.target = target, .path = path, .pairs = Pairs::kNever, .parts = Parts::kNever};
        return DotAttention().plan(shape, plainly).cost(simple_machine()).product_seconds;
      };
      CHECK(seconds(256, 65) == doctest::Approx(seconds(256, 64 + lanes)).scale(0));
      CHECK(seconds(256, 64 + lanes) > seconds(256, 64));
      const auto of_scores = [&](std::int64_t keys) { return 2 * seconds(keys, 64) - seconds(keys, 128); };
      CHECK(of_scores(257) == doctest::Approx(of_scores(256 + lanes)).scale(0));
      CHECK(of_scores(256 + lanes) > of_scores(256));
    }
  });
}

TEST_CASE("cost: a causal mask leaves what its rule says") {
  for (const std::int64_t m : {1, 3, 20, 50, 70}) {
    for (const std::int64_t n : {1, 5, 20, 50}) {
      for (const Causal causal : {Causal::kBottomRight, Causal::kTopLeft}) {
        const Shape shape{.batch = 2, .num_queries = m, .num_keys = n, .query_size = 4};
        std::int64_t pairs = 0;
        for (std::int64_t i = 0; i < m; ++i) {
          const std::int64_t first = causal == Causal::kTopLeft ? 0 : n - m;
          pairs += std::min(std::max<std::int64_t>(first + i + 1, 0), n);
        }
        INFO(m, " queries, ", n, " keys");
        CHECK(cost_of(shape, {.causal = causal}).exps == 2 * static_cast<double>(pairs));
      }
    }
  }
}

TEST_CASE("cost: additive attention counts tanhs, its exponentials and its projections") {
  const LayerCase c({.layer = Layer::kAdditive, .batch = 2, .num_queries = 7, .num_keys = 30, .num_hiddens = 12});
  const Machine machine = simple_machine();
  const Cost cost = c.attention.plan(c.shape).cost(machine);
  CHECK(cost.tanhs == 2.0 * 7 * 30 * 12);
  CHECK(cost.exps == 2.0 * (7 * 30 + 12 * (7 + 30)));
  CHECK(cost.flops == 2.0 * 2 * (7 * 30 * 5 + 7 * 8 * 12 + 30 * 11 * 12));
  CHECK(cost.projection_seconds > 0);
  const Cost prepared = c.attention.plan(c.shape, {.prepared_keys = true}).cost(machine);
  CHECK(prepared.flops == cost.flops - 2.0 * 2 * 30 * 11 * 12);
  CHECK(prepared.seconds < cost.seconds);
  CHECK(c.attention.plan(c.shape, {.path = "additive/rational"}).cost(machine).tanh_seconds > 2 * cost.tanh_seconds);
}

TEST_CASE("cost: the prediction follows the machine, and names what bounds it") {
  const Shape shape{.batch = 1, .num_queries = 512, .num_keys = 512, .query_size = 64, .num_heads = 8};
  const Plan plan =
      DotAttention().plan(shape, {.pairs = Pairs::kNever, .parts = Parts::kNever});  // else they may pass it
  Machine machine = simple_machine();
  const Cost cost = plan.cost(machine);
  CHECK(cost.bound == "products");
  CHECK(cost.seconds > cost.flops / machine.flops);
  CHECK(cost.seconds < 3 * cost.flops / machine.flops);
  machine.flops *= 2;
  CHECK(plan.cost(machine).product_seconds == doctest::Approx(cost.product_seconds / 2).scale(0));
  CHECK(plan.cost(machine).seconds < cost.seconds);
  // Decoding reads all keys for one query each.
  const Plan decode = DotAttention().plan(
      {.batch = 64, .num_queries = 1, .num_keys = 4096, .query_size = 64, .num_heads = 8, .num_kv_heads = 8});
  const Cost reading = decode.cost(simple_machine());
  CHECK(reading.bound == "memory");
  CHECK(reading.memory_seconds == doctest::Approx((reading.bytes_read + reading.bytes_written) / 1e10).scale(0));
  CHECK(DotAttention().plan({.num_queries = 1, .num_keys = 1, .query_size = 1}).cost(simple_machine()).bound ==
        "overhead");
}

TEST_CASE("cost: threads share the work that there is") {
  const Shape shape{.batch = 8, .num_queries = 256, .num_keys = 256, .query_size = 64, .num_heads = 8};
  const Cost one = cost_of(shape), four = cost_of(shape, {.threads = 4});
  CHECK(one.threads == 1);
  CHECK(four.threads == 4);
  CHECK(four.seconds < 0.3 * one.seconds);
  CHECK(cost_of({.num_queries = 1, .num_keys = 8, .query_size = 8}, {.threads = 4}).threads == 1);
}

TEST_CASE("cost: large weights are multiplied on the plan's target, small ones where oneDNN likes") {
  const auto projection_seconds = [](std::int64_t size, double onednn_flops) {
    const std::vector<float> W(static_cast<std::size_t>(size * size), 0.5f);
    const TensorView<const float> view(W.data(), {size, size});
    const MultiHeadAttention layer({.num_heads = 1, .scoring = Scoring::kDot, .scale = {}},
                                   {.W_q = view, .W_k = view, .W_v = view, .W_o = view});
    Machine machine = simple_machine();
    machine.projection_flops = onednn_flops;
    return layer.plan({.num_queries = 24, .num_keys = 30}).cost(machine).projection_seconds;
  };
  // 448 x 448 are 784 KiB: four maps of 24 or 30 rows, at 90 % of the peak, by pairs of terms at 135 % (Zen 5: 120,
  // AVX2: 105), or by bfloat16 parts at 130 %.
  const std::string best = Target::best().name();
  const bool is_avx3 = best.starts_with("AVX3"), zen5 = this_cpu().is_zen5();
  const double of_pairs = is_avx3 ? (zen5 ? 1.2 : 1.35) : best == "AVX2" && !zen5 ? 1.05 : 0.9;
  const double share = this_cpu().has_tiles && is_avx3 ? 1.3 : this_cpu().adds_beside_products() ? of_pairs : 0.9;
  CHECK(projection_seconds(448, 1e11) ==
        doctest::Approx(2.0 * 448 * 448 * (2 * 24 + 2 * 30) / (share * 1e11)).scale(0));
  CHECK(projection_seconds(448, 4e11) == projection_seconds(448, 1e11));
#if defined(ATTEND_WITH_ONEDNN) && defined(__x86_64__)
  const double by_onednn = this_cpu().has_avx512 ? 4 : 1;  // times as fast: without AVX-512 our own kernel is taken
  CHECK(projection_seconds(48, 4e11) == doctest::Approx(projection_seconds(48, 1e11) / by_onednn).scale(0));
#endif
}

TEST_CASE("cost: scores and pooling by pairs of terms or by parts take less, where the target has what they need") {
  const Shape shape{.num_queries = 512, .num_keys = 512, .query_size = 64};
  for_each_target([&](const Target& target) {
    const auto seconds = [&](Pairs pairs, Parts parts = Parts::kNever) {
      return cost_of(shape, {.target = target, .path = "dot/fused", .pairs = pairs, .parts = parts}).product_seconds;
    };
    const double flops = 2.0 * 512 * 512 * 64, plain = 2 * flops / 0.93e11;
    CHECK(seconds(Pairs::kNever) == doctest::Approx(plain).scale(0));
    const double on_avx3 = this_cpu().is_zen5() ? flops / 1.1e11 + flops / 1e11 : flops / 1.25e11 + flops / 1.2e11;
    const double on_avx2 = flops / 1e11 + flops / 0.93e11;
    const double by_pairs = target.name().starts_with("AVX3") ? on_avx3 : target.name() == "AVX2" ? on_avx2 : plain;
    CHECK(seconds(Pairs::kAlways) == doctest::Approx(by_pairs).scale(0));
    const bool has_tiles = this_cpu().has_tiles && target.name().starts_with("AVX3");
    CHECK(seconds(Pairs::kNever, Parts::kAlways) == doctest::Approx(has_tiles ? 2 * flops / 1.3e11 : plain).scale(0));
  });
}

TEST_CASE("cost: nothing to do and nothing known is no division by zero") {
  CHECK(cost_of({.batch = 0, .num_queries = 0, .num_keys = 0, .query_size = 8}).flops == 0);
  CHECK(std::isfinite(cost_of({.batch = 0, .num_queries = 0, .num_keys = 0, .query_size = 8}).seconds));
  CHECK(std::isfinite(DotAttention().plan({.num_queries = 9, .num_keys = 9, .query_size = 8}).cost(Machine()).seconds));
}

TEST_CASE("machine: every number is measured, on every target") {
  for_each_target([](const Target& target) {
    const Machine machine = Machine::measure(target);
    CHECK(machine.flops > 1e6);  // emulators are slow
    CHECK(machine.flops < 1e12);
    CHECK(machine.projection_flops > 1e6);
    CHECK(machine.projection_flops < 1e12);
    for (const double bandwidth : {machine.l2_bandwidth, machine.l3_bandwidth, machine.memory_bandwidth}) {
      CHECK(bandwidth > 1e6);
      CHECK(bandwidth < 1e12);
    }
    CHECK(machine.l1_bytes > 0);
    CHECK(machine.l1_bytes <= machine.l2_bytes);
    CHECK(machine.l2_bytes <= machine.l3_bytes);
  });
}

TEST_CASE("cost: packed keys wait for memory, fused weights score twice") {
  const Machine machine = simple_machine();
  const Shape shape{.num_queries = 300, .num_keys = 300, .query_size = 64};
  const Cost packed = DotAttention().plan(shape, {.path = "dot/fused"}).cost(machine);
  const double arithmetic = packed.product_seconds + packed.exp_seconds + packed.tanh_seconds + packed.packing_seconds +
                            packed.projection_seconds;
  CHECK(packed.seconds == doctest::Approx(packed.overhead_seconds + arithmetic + packed.memory_seconds).scale(0));
  const Cost rows =
      DotAttention().plan({.num_queries = 4, .num_keys = 300, .query_size = 64}, {.path = "dot/lanes"}).cost(machine);
  CHECK(rows.seconds ==
        doctest::Approx(rows.overhead_seconds + std::max(rows.product_seconds + rows.exp_seconds, rows.memory_seconds))
            .scale(0));
  const Cost weights = DotAttention().plan(shape, {.attention_weights = true, .path = "dot/fused"}).cost(machine);
  CHECK(weights.exps == 2 * packed.exps);
  CHECK(weights.flops == 1.5 * packed.flops);
  for_each_target([&](const Target& target) {
    const auto seconds = [&](std::int64_t keys) {
      return DotAttention()
          .plan({.num_queries = 64, .num_keys = keys, .query_size = 64},
                {.target = target, .path = "dot/fused", .pairs = Pairs::kNever, .parts = Parts::kNever})
          .cost(machine)
          .product_seconds;
    };
    if (target.name() == "SCALAR") return;
    CHECK(seconds(257) > seconds(256) * 258 / 256);  // the scores of a whole vector more
  });
}

}  // namespace attend::tests
