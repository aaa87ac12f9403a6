// One run: what queries see, then parallel loops over work items: project queries, keys and values where the layer
// does, pool the heads, merge chunks of keys, project the heads' results.
#include "engine/run/run_plan.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>

#include "engine/run/bind.h"
#include "engine/run/items.h"
#include "engine/run/loop_work.h"
#include "engine/run/map_rows.h"
#include "engine/run/pool.h"
#include "engine/run/query_order.h"
#include "engine/view/valid_lens.h"

namespace attend::detail {
namespace {

// One run: the bound problem, the workspace and who works on it.
struct Run {
  const PlanImpl& plan;
  const Bound& bound;
  std::byte* workspace;
  Executor& executor;

  template <class T>
  T* part(std::size_t offset) const {
    return reinterpret_cast<T*>(workspace + offset);
  }
  std::byte* worker(std::size_t index) const { return workspace + plan.layout.worker(index); }
};

// How many keys of each entry some query sees, and the running sum of it: all later work is proportional to these.
void count_visible_keys(const Run& run) {
  auto* limits = run.part<std::int32_t>(run.plan.layout.key_limits);
  auto* starts = run.part<std::int64_t>(run.plan.layout.row_starts);
  starts[0] = 0;
  for (std::int64_t b = 0; b < run.bound.batch; ++b) {
    limits[b] = run.bound.visible.limit(b);
    starts[b + 1] = starts[b] + limits[b];
  }
}

// The same for queries, where padded ones are skipped; null: all of them are computed.
const std::int64_t* count_queries(const Run& run) {
  if (!run.bound.visible.skips_queries()) return nullptr;
  auto* starts = run.part<std::int64_t>(run.plan.layout.query_starts);
  starts[0] = 0;
  for (std::int64_t b = 0; b < run.bound.batch; ++b) starts[b + 1] = starts[b] + run.bound.visible.num_queries(b);
  return starts;
}

QueryOrder order_of(const Run& run) {
  const Bound& bound = run.bound;
  if (!run.plan.may_order_queries()) return {};
  return {bound.visible, bound.batch, bound.num_queries, bound.num_keys,
          run.part<std::int32_t>(run.plan.layout.query_order)};
}

// Output rows of skipped queries, where they are not what pooling clears: behind an output map or a concatenation.
void clear_skipped_outputs(const Run& run) {
  const auto size = static_cast<std::size_t>(run.plan.output_size);
  const std::int64_t heads = run.plan.layer->is_multi_head ? 1 : run.plan.num_heads;
  for (std::int64_t b = 0; b < run.bound.batch; ++b) {
    for (std::int64_t m = run.bound.visible.num_queries(b); m < run.bound.num_queries; ++m) {
      for (std::int64_t h = 0; h < heads; ++h) std::fill_n(run.bound.output.at(b, h, m), size, 0.0f);
    }
  }
}

// Rows of a projected tensor in the workspace: (B, rows, size), heads side by side within a row.
Rows<float> projected_rows(const Run& run, std::size_t offset, std::int64_t rows, const matmul::Linear& map,
                           std::int64_t head_size) {
  const auto size = static_cast<std::ptrdiff_t>(map.out_size());
  return {run.part<float>(offset), rows * size, head_size, size};
}

// Queries, keys and values as the score sees them; what has no map is used as it lies, what is prepared is there.
void map_inputs(const Run& run, bool prepared, const std::int64_t* query_starts, PoolJob& pool) {
  const PlanImpl& plan = run.plan;
  const Bound& bound = run.bound;
  const auto* starts = run.part<const std::int64_t>(plan.layout.row_starts);
  const KeysIntoSide key_exps(pool.packed, starts);
  std::array<MapJob, kMostJobs> jobs;
  std::size_t count = 0;
  const auto add = [&](const matmul::Linear* map, const Rows<const float>& source, std::size_t offset,
                       std::int64_t rows, std::int64_t head_size, const std::int64_t* numbering, const RowSink* sink,
                       Rows<const float>& seen) {
    if (map == nullptr) return;
    const Rows<float> destination = projected_rows(run, offset, rows, *map, head_size);
    jobs[count++] = {.map = map,
                     .source = source,
                     .destination = destination,
                     .sink = sink,
                     .starts = numbering,
                     .rows_per_entry = rows,
                     .batch = bound.batch};
    seen = read_only(destination);
  };
  add(plan.query_map, bound.queries, plan.layout.query, bound.num_queries, plan.score_size, query_starts, nullptr,
      pool.queries);
  // Padded keys are neither projected nor read.
  if (!prepared && plan.window_keys > 0) {
    pool.key_job = {.map = plan.key_map,
                    .source = bound.keys,
                    .destination = {},
                    .sink = nullptr,
                    .starts = starts,
                    .rows_per_entry = bound.num_keys,
                    .batch = bound.batch};
  } else if (!prepared) {
    add(plan.key_map, bound.keys, plan.layout.key, bound.num_keys, plan.score_size, starts,
        plan.keeps_key_exps() ? &key_exps : nullptr, pool.keys);
    add(plan.value_map, bound.values, plan.layout.value, bound.num_keys, plan.head_value_size, starts, nullptr,
        pool.values);
  }
  if (count > 0) map_all(plan, {jobs.data(), count}, run.workspace, run.executor);
}

// Luong's [context; query]: the second half of each output row.
void concat_queries(const Run& run) {
  const PlanImpl& plan = run.plan;
  const Bound& bound = run.bound;
  const std::int64_t heads = plan.layer->is_multi_head ? 1 : plan.num_heads;
  const auto bytes = static_cast<std::size_t>(plan.shape.query_size) * sizeof(float);
  const auto entries = static_cast<std::size_t>(bound.batch * heads);
  const LoopWork work{.bytes = 2.0 * static_cast<double>(entries * bytes) * to_double(bound.num_queries)};
  run_items(run.executor, loop_threads(plan, run.executor, work), entries, [&](const Item& item) {
    const std::int64_t b = static_cast<std::int64_t>(item.index) / heads,
                       h = static_cast<std::int64_t>(item.index) % heads;
    for (std::int64_t m = 0; m < bound.visible.num_queries(b); ++m) {
      std::memcpy(bound.output.at(b, h, m) + plan.context_size, bound.queries.at(b, h, m), bytes);
    }
  });
}

// Scores, softmax and pooling of every head, and the projection of keys by those who pool them. A power counts as ten
// operations, a tanh as plan/cost.cc has it.
LoopWork pooling_work(const PoolJob& pool) {
  const PlanImpl& plan = *pool.plan;
  const double rows = to_double(pool.batch * plan.num_heads) * to_double(pool.num_queries);
  const double keys = to_double(pool.num_keys), columns = to_double(plan.score_size + plan.head_value_size);
  const double per_term = plan.layer->score != Score::kAdditive ? 2 : plan.factored ? 9 : 52;
  const double per_key = per_term * to_double(plan.score_size) + 2 * to_double(plan.head_value_size) + 10;
  LoopWork work{.flops = rows * keys * per_key,
                .bytes = 4 * columns * (rows + to_double(pool.batch * plan.num_kv_heads) * keys)};
  if (pool.key_job.map != nullptr) {
    const LoopWork projecting = mapping_work({&pool.key_job, 1});
    work.flops += projecting.flops;
    work.bytes += projecting.bytes;
  }
  return work;
}

// Of all chunks of all rows.
LoopWork merging_work(const PoolJob& pool) {
  const double rows = to_double(pool.batch * pool.plan->num_heads) * to_double(pool.num_queries);
  return {.bytes = 4 * rows * static_cast<double>(pool.num_chunks() * pool.plan->padded_values)};
}

// Pools every head, then merges chunks of keys.
void pool_heads(const Run& run, const PoolJob& pool) {
  const PlanImpl& plan = run.plan;
  auto* counts = plan.options.count_tiers ? run.part<std::uint64_t>(plan.layout.tier_counts) : nullptr;
  std::atomic<bool> failed{false};
  const int threads = loop_threads(plan, run.executor, pooling_work(pool));
  run_items(run.executor, threads, num_pool_items(pool), [&](const Item& item) {
    auto* own_counts = counts == nullptr ? nullptr : counts + item.worker * kernels::kNumScoreTiers;
    if (!pool_item(pool, item, run.worker(item.worker), own_counts)) failed.store(true, std::memory_order_relaxed);
  });
  if (failed.load()) fail_product();
  if (!plan.has_chunks()) return;
  run_items(run.executor, loop_threads(plan, run.executor, merging_work(pool)),
            static_cast<std::size_t>(pool.batch * plan.num_heads),
            [&](const Item& item) { merge_chunks(pool, item.index); });
}

std::size_t num_tier_counters(const PlanImpl& plan) {
  return plan.options.count_tiers ? static_cast<std::size_t>(plan.options.threads) * kernels::kNumScoreTiers : 0;
}

}  // namespace

void run_plan(const PlanImpl& plan, const Inputs& inputs, const PreparedView* prepared, const Outputs& outputs,
              std::byte* workspace, Executor& executor) {
  const Bound bound = bind(plan, inputs, prepared, outputs);
  const Run run{plan, bound, workspace, executor};
  std::fill_n(run.part<std::uint64_t>(plan.layout.tier_counts), num_tier_counters(plan), std::uint64_t{0});
  if (bound.batch == 0 || bound.num_queries == 0) return;
  count_visible_keys(run);
  const std::int64_t* query_starts = count_queries(run);

  PoolJob pool{.plan = &plan,
               .batch = bound.batch,
               .num_queries = bound.num_queries,
               .num_keys = bound.num_keys,
               .queries = bound.queries,
               .keys = bound.keys,
               .values = bound.values,
               .packed = prepared != nullptr ? prepared_side(plan, prepared->memory) : workspace_side(plan, workspace),
               .key_job = {},
               .visible = bound.visible,
               .order = order_of(run),
               .key_limits = run.part<const std::int32_t>(plan.layout.key_limits),
               .output = bound.output,
               .attention_weights = bound.attention_weights,
               .chunk_accumulators = run.part<float>(plan.layout.chunk_accumulators),
               .chunk_max = run.part<float>(plan.layout.chunk_max),
               .chunk_sum = run.part<double>(plan.layout.chunk_sum)};
  if (prepared != nullptr) {
    pool.keys = read_only(pool.packed.rows);
    pool.values = read_only(pool.packed.value_rows);
  }
  map_inputs(run, prepared != nullptr, query_starts, pool);

  MapJob output_job{.map = plan.output_map,
                    .source = {},
                    .destination = bound.output,
                    .sink = nullptr,
                    .starts = query_starts,
                    .rows_per_entry = bound.num_queries,
                    .batch = bound.batch};
  if (plan.output_map != nullptr) {
    const std::ptrdiff_t size = static_cast<std::ptrdiff_t>(plan.output_map->in_size());
    pool.output = {run.part<float>(plan.layout.pooled), bound.num_queries * size, plan.head_value_size, size};
    output_job.source = read_only(pool.output);
  }
  pool_heads(run, pool);
  if (query_starts != nullptr && (plan.output_map != nullptr || plan.options.concat_queries))
    clear_skipped_outputs(run);
  if (plan.output_map != nullptr) map_all(plan, {&output_job, 1}, workspace, executor);
  if (plan.options.concat_queries) concat_queries(run);
}

TierCounts tier_counts(const PlanImpl& plan, const std::byte* workspace) {
  const auto* counts = reinterpret_cast<const std::uint64_t*>(workspace + plan.layout.tier_counts);
  TierCounts sum;
  for (std::size_t i = 0; i < num_tier_counters(plan); i += kernels::kNumScoreTiers) {
    sum.eight += counts[i];
    sum.four += counts[i + 1];
    sum.three += counts[i + 2];
    sum.two += counts[i + 3];
    sum.one += counts[i + 4];
    sum.rational += counts[i + 5];
  }
  return sum;
}

}  // namespace attend::detail
