// What attention may hold at a time: a worker no more than its share of L2 and what it packs, a run nothing that grows
// with M * N * U, which is what the textbook's (M, N, U) tensor does, nor with M * N.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "attend/attend.h"
#include "tests/support/for_each_target.h"
#include "tests/support/random.h"

namespace attend::tests {
namespace {

// Additive attention of one head, or of several with hidden units in all.
Attention additive(std::int64_t hidden, std::int64_t size, std::int64_t heads) {
  Random random(601);
  const Tensor W = random.normal({hidden, size}), W_o = random.normal({size, hidden});
  const Tensor w_v = random.normal({heads, hidden / heads});
  if (heads == 1) return AdditiveAttention(AdditiveParameters{.W_q = W.view(), .W_k = W.view(), .w_v = w_v.view()});
  return MultiHeadAttention(
      {.num_heads = heads, .scoring = Scoring::kAdditive, .scale = {}},
      MultiHeadParameters{.W_q = W.view(), .W_k = W.view(), .W_v = W.view(), .W_o = W_o.view(), .w_v = w_v.view()});
}

struct Sizes {
  std::int64_t batch, num_queries, num_keys, hidden, value_size;
};

Plan plan_of(const Attention& layer, const Sizes& sizes, PlanOptions options, std::int64_t heads) {
  return layer.plan({.batch = sizes.batch,
                     .num_queries = sizes.num_queries,
                     .num_keys = sizes.num_keys,
                     .value_size = heads == 1 ? sizes.value_size : 0},
                    options);
}

// What a plan says that each of its threads has for itself.
std::size_t worker_bytes(const Plan& plan, int threads) {
  const std::string text = plan.explain(), before = " + " + std::to_string(threads) + " x ";
  const std::size_t at = text.find(before), end = text.find(" per thread", at);
  REQUIRE(end != std::string::npos);
  const std::size_t bytes = std::stoull(text.substr(at + before.size(), end - at - before.size()));
  CHECK(bytes > 0);
  // And between two of them what a core may fetch that passes over one.
  const std::size_t workers = static_cast<std::size_t>(threads);
  CHECK(bytes * workers + (workers - 1) * 64 * 1024 <= plan.workspace_bytes());
  return bytes;
}

// The number between two parts of a plan's explanation; 0: they are not there.
std::size_t number_between(const std::string& text, const std::string& before, const std::string& after) {
  const std::size_t end = text.find(after), at = text.rfind(before, end);
  if (end == std::string::npos || at == std::string::npos) return 0;
  return std::stoull(text.substr(at + before.size(), end - at - before.size()));
}

// Keys that a plan's workers project at a time, of whose projections they hold the exponentials; 0: none.
std::size_t window_keys(const Plan& plan) {
  return number_between(plan.explain(), "keys are projected ", " at a time by the worker");
}

// Bytes of projected keys among a worker's: those exponentials, with a maximum each, and a span of the sums themselves.
std::size_t projected_bytes(const Plan& plan, std::int64_t hidden) {
  if (window_keys(plan) == 0) return 0;
  const std::size_t span = number_between(plan.explain(), " queries x ", " keys, panels");
  CHECK(span > 0);
  return (window_keys(plan) * static_cast<std::size_t>(hidden + 1) + span * static_cast<std::size_t>(hidden)) *
         sizeof(float);
}

// Those of the benchmarks and larger ones.
constexpr Sizes kSizes[] = {{8, 64, 512, 256, 256}, {2, 256, 1024, 128, 128},  {1, 1000, 8192, 256, 256},
                            {64, 1, 100, 256, 256}, {1, 1000, 8192, 512, 512}, {1, 32, 4096, 512, 512},
                            {4, 500, 500, 64, 512}, {2, 300, 2000, 512, 8},    {1, 1, 100000, 256, 256},
                            {8, 64, 512, 512, 512}, {8, 96, 512, 512, 512},    {1, 1, 100000, 512, 512}};

// The sizes of the paper's network (Bahdanau et al. 2015, appendix A.2.1: 1000 hidden units, annotations of 2000) and
// others of up to 1024 hidden units, whose queries and keys are as large.
constexpr Sizes kLargeSizes[] = {{80, 1, 50, 1000, 2000},     {8, 64, 512, 1024, 1024},  {8, 96, 512, 1024, 256},
                                 {64, 1, 100, 1024, 1024},    {1, 32, 4096, 1024, 1024}, {1, 1, 100000, 1024, 1024},
                                 {1, 1000, 8192, 1024, 1024}, {4, 300, 2000, 1024, 8},   {2, 33, 333, 768, 1024}};

void check_worker_bytes(const Attention& layer, const Sizes& sizes, std::int64_t heads) {
  for_each_target([&](const Target& target) {
    for (const bool prepared : {false, true}) {
      for (const int threads : {1, 2, 4}) {
        INFO("B ", sizes.batch, " M ", sizes.num_queries, " N ", sizes.num_keys, " U ", sizes.hidden, " Dv ",
             sizes.value_size, ", ", heads, " heads, ", threads, " threads, prepared ", prepared);
        const PlanOptions options{.threads = threads, .target = target, .prepared_keys = prepared};
        const Plan plan = plan_of(layer, sizes, options, heads);
        const std::size_t exps = window_keys(plan) * static_cast<std::size_t>(sizes.hidden) * sizeof(float);
        CHECK(exps <= std::size_t{1} << 19);
        CHECK(worker_bytes(plan, threads) <= (std::size_t{1} << 20) + projected_bytes(plan, sizes.hidden));
      }
    }
  });
}

}  // namespace

TEST_CASE("contract: an additive worker keeps within 1 MiB beside its keys") {
  for (const Sizes& sizes : kSizes) {
    for (const std::int64_t heads : {1, 8}) check_worker_bytes(additive(sizes.hidden, 96, heads), sizes, heads);
  }
}

TEST_CASE("contract: so it does with 1024 hidden units of large queries and keys") {
  for (const Sizes& sizes : kLargeSizes) {
    for (const std::int64_t heads : {1, 8}) check_worker_bytes(additive(sizes.hidden, 1024, heads), sizes, heads);
  }
}

TEST_CASE("contract: with attention weights a worker keeps whole rows of scores beside that, and no more") {
  for (const Sizes& sizes : kSizes) {
    const Attention layer = additive(sizes.hidden, 96, 1);
    for_each_target([&](const Target& target) {
      const PlanOptions options{.threads = 2, .target = target, .attention_weights = true};
      const std::size_t bytes = worker_bytes(plan_of(layer, sizes, options, 1), 2);
      // Six rows at the least, however long.
      const std::size_t rows = 6 * (static_cast<std::size_t>(sizes.num_keys) + 64) * sizeof(float);
      INFO("M ", sizes.num_queries, " N ", sizes.num_keys, " U ", sizes.hidden);
      CHECK(bytes <= (std::size_t{1} << 20) + rows);
    });
  }
}

TEST_CASE("contract: twice the queries, keys or hidden units take at most twice the workspace") {
  for (const Sizes& sizes :
       {Sizes{8, 64, 512, 256, 256}, Sizes{2, 256, 1024, 128, 128}, Sizes{1, 1000, 8192, 128, 64}}) {
    for (const std::int64_t heads : {1, 8}) {
      for_each_target([&](const Target& target) {
        const PlanOptions options{.threads = 4, .target = target};
        const auto bytes = [&](const Sizes& s) {
          return plan_of(additive(s.hidden, 96, heads), s, options, heads).workspace_bytes();
        };
        const std::size_t base = bytes(sizes);
        Sizes queries = sizes, keys = sizes, hidden = sizes, all = sizes;
        queries.num_queries *= 2;
        keys.num_keys *= 2;
        hidden.hidden *= 2;
        CHECK(bytes(queries) <= 2 * base);
        CHECK(bytes(keys) <= 2 * base);
        CHECK(bytes(hidden) <= 2 * base);
        // All three at once: rows of queries and keys by hidden units grow by 4, the tensor that is not there by 8.
        all.num_queries *= 2;
        all.num_keys *= 2;
        all.hidden *= 2;
        CHECK(bytes(all) <= 4 * base);
        // And it is small beside one (M, N, U) of a batch entry.
        const double textbook = 4.0 * static_cast<double>(sizes.num_queries * sizes.num_keys * sizes.hidden);
        CHECK(static_cast<double>(base) < textbook);
      });
    }
  }
}

TEST_CASE("contract: a worker of dot-product attention keeps within 1 MiB beside one key-value head, packed") {
  struct DotSizes {
    std::int64_t batch, heads, kv_heads, num_queries, num_keys, size;
  };
  for (const DotSizes& s :
       {DotSizes{1, 12, 12, 512, 512, 64}, DotSizes{1, 32, 8, 2048, 2048, 128}, DotSizes{64, 8, 8, 32, 32, 64},
        DotSizes{4, 8, 8, 16, 1024, 64}, DotSizes{1, 32, 8, 1, 4096, 128}, DotSizes{8, 32, 8, 1, 1024, 128},
        DotSizes{1, 8, 1, 1, 100000, 128}, DotSizes{1, 64, 64, 2, 8192, 64}, DotSizes{1, 8, 8, 64, 8192, 512},
        DotSizes{1, 1, 1, 5000, 5000, 512}}) {
    for_each_target([&](const Target& target) {
      for (const int threads : {1, 2, 4}) {
        INFO("B ", s.batch, " H ", s.heads, " M ", s.num_queries, " N ", s.num_keys, " D ", s.size, ", ", threads);
        const Plan plan = DotAttention().plan({.batch = s.batch,
                                               .num_queries = s.num_queries,
                                               .num_keys = s.num_keys,
                                               .query_size = s.size,
                                               .num_heads = s.heads,
                                               .num_kv_heads = s.kv_heads},
                                              {.threads = threads, .target = target});
        // Three bfloat16 parts of a number take 6 bytes.
        const bool by_parts = plan.explain().find("by bfloat16 parts") != std::string::npos;
        const auto packed = static_cast<std::size_t>(2 * (s.num_keys + 64) * s.size) * (by_parts ? 6 : sizeof(float));
        const bool packs = plan.path() == "dot/fused";
        CHECK(worker_bytes(plan, threads) <= (std::size_t{1} << 20) + (packs ? packed : 0));
      }
    });
  }
}

TEST_CASE(
    "contract: few queries on many keys keep within 1 MiB beside a chunk of keys, packed, on the fused path too") {
  for (const std::int64_t size : {64, 128}) {
    for (const std::int64_t queries : {1, 16, 32}) {
      for_each_target([&](const Target& target) {
        INFO("M ", queries, " D ", size);
        const Plan plan = GaussianAttention({.sigma = 4})
                              .plan({.num_queries = queries, .num_keys = 1000000, .query_size = size},
                                    {.threads = 2, .target = target});
        CHECK(plan.path() == "dot/fused");
        const auto packed = static_cast<std::size_t>(2 * (1024 + 64) * (size + 64)) * 6;
        CHECK(worker_bytes(plan, 2) <= (std::size_t{1} << 20) + packed);
      });
    }
  }
}

}  // namespace attend::tests
