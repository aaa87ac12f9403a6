// Plan::prepare and append: keys and values go where KeySide keeps them, behind those that are there.
#include <algorithm>
#include <array>

#include "engine/base/checked.h"
#include "engine/run/center.h"
#include "engine/run/items.h"
#include "engine/run/key_side.h"
#include "engine/run/loop_work.h"
#include "engine/run/map_rows.h"
#include "engine/run/run_plan.h"
#include "engine/view/valid_lens.h"

namespace attend::detail {
namespace {

// Keys of one head that a worker packs at a time.
constexpr std::size_t kKeysPerItem = 512;

// What is added: per entry, how many keys follow how many.
struct Addition {
  const PlanImpl& plan;
  const BoundKeys& keys;
  KeySide side;
  const std::int32_t* lens;    // (B): keys that are there
  const std::int64_t* starts;  // (B + 1): sums of the keys that are new

  std::int64_t count(std::int64_t b) const { return starts[b + 1] - starts[b]; }
};

class KeysToPrepare final : public RowSink {
 public:
  explicit KeysToPrepare(const Addition& addition) : addition_(addition) {}

  void take(std::int64_t b, std::int64_t first, std::int64_t count, const float* rows,
            std::ptrdiff_t stride) const override {
    const std::int64_t before = addition_.lens[b];
    addition_.side.take_keys(b, before + first, count, rows, stride, before + addition_.count(b));
  }
  kernels::PrefetchRows written(std::int64_t b, std::int64_t first, std::int64_t count) const override {
    return addition_.side.key_exps_rows(b, static_cast<std::size_t>(addition_.lens[b] + first),
                                        static_cast<std::size_t>(count));
  }

 private:
  const Addition& addition_;
};

class ValuesToPrepare final : public RowSink {
 public:
  explicit ValuesToPrepare(const Addition& addition) : addition_(addition) {}

  void take(std::int64_t b, std::int64_t first, std::int64_t count, const float* rows,
            std::ptrdiff_t stride) const override {
    addition_.side.take_values(b, addition_.lens[b] + first, count, rows, stride);
  }
  kernels::PrefetchRows written(std::int64_t, std::int64_t, std::int64_t) const override { return {}; }

 private:
  const Addition& addition_;
};

// Before exponentials of new keys take their place behind the others.
void widen_exps(const Addition& addition, std::int64_t b) {
  const PlanImpl& plan = addition.plan;
  for (std::int64_t h = 0; h < plan.num_kv_heads; ++h) {
    kernels::widen_key_exps(addition.side.key_exps_at(b, h, 0), plan.inner_size, plan.kernels->additive_score.lanes,
                            static_cast<std::size_t>(addition.lens[b]), static_cast<std::size_t>(addition.count(b)));
  }
}

// Projected keys and values.
void map_keys(const Addition& addition, std::byte* workspace, Executor& executor) {
  const PlanImpl& plan = addition.plan;
  const KeysToPrepare key_sink(addition);
  const ValuesToPrepare value_sink(addition);
  std::array<MapJob, 2> jobs;
  std::size_t count = 0;
  const auto add = [&](const matmul::Linear* map, const Rows<const float>& source, const RowSink& sink) {
    if (map == nullptr) return;
    jobs[count++] = {.map = map,
                     .source = source,
                     .destination = {},
                     .sink = &sink,
                     .starts = addition.starts,
                     .rows_per_entry = addition.keys.num_keys,
                     .batch = addition.keys.batch};
  };
  add(plan.key_map, addition.keys.keys, key_sink);
  add(plan.value_map, addition.keys.values, value_sink);
  if (count > 0) map_all(plan, {jobs.data(), count}, workspace, executor);
}

// A gaussian's keys are kept as they are too, for queries that are infinitely far, and packed again from the first
// panel that changes: all of them when new keys have moved the center.
void pack_gaussian(const Addition& addition, std::int64_t b, std::int64_t h) {
  const PlanImpl& plan = addition.plan;
  const Rows<float>& rows = addition.side.rows;
  const std::int64_t before = addition.lens[b];
  const auto size = static_cast<std::size_t>(plan.score_size);
  for (std::int64_t j = 0; j < addition.count(b); ++j) {
    std::copy_n(addition.keys.keys.at(b, h, j), size, rows.at(b, h, before + j));
  }
  const Rows<const float> kept = read_only(rows);
  const auto total = static_cast<std::size_t>(before + addition.count(b));
  const float* center = central_key(kept, b, h, total, size).key;
  const bool same_center = center == central_key(kept, b, h, static_cast<std::size_t>(before), size).key;
  const std::size_t panel = plan.kernels->pack.panel_width;
  const std::size_t first = same_center ? static_cast<std::size_t>(before) / panel * panel : 0;
  plan.kernels->pack.keys({.keys = kept.at(b, h, static_cast<std::int64_t>(first)),
                           .keys_stride = kept.row_stride,
                           .num_keys = total - first,
                           .size = size,
                           .center = center,
                           .half_norms = true,
                           .panels = addition.side.key_panels_at(b, h, 0),
                           .panel_stride = plan.inner_size * panel,
                           .first = first});
}

// Keys and values without maps: keys first to last - 1 of the new ones of one head.
void pack_head(const Addition& addition, std::int64_t b, std::int64_t h, std::int64_t first, std::int64_t last) {
  const PlanImpl& plan = addition.plan;
  const std::int64_t place = addition.lens[b] + first;
  if (plan.value_map == nullptr) {
    addition.side.take_head_values(b, h, place, last - first, addition.keys.values.at(b, h, first),
                                   addition.keys.values.row_stride);
  }
  if (plan.key_map != nullptr) return;
  if (plan.reads_rows()) {
    for (std::int64_t j = first; j < last; ++j) {
      std::copy_n(addition.keys.keys.at(b, h, j), plan.score_size, addition.side.rows.at(b, h, addition.lens[b] + j));
    }
    return;
  }
  if (plan.layer->score == Score::kGaussian) {
    if (first == 0) pack_gaussian(addition, b, h);
    return;
  }
  plan.kernels->pack.keys({.keys = addition.keys.keys.at(b, h, first),
                           .keys_stride = addition.keys.keys.row_stride,
                           .num_keys = static_cast<std::size_t>(last - first),
                           .size = static_cast<std::size_t>(plan.score_size),
                           .center = nullptr,
                           .half_norms = false,
                           .panels = addition.side.key_panels_at(b, h, 0),
                           .panel_stride = plan.inner_size * plan.kernels->pack.panel_width,
                           .first = static_cast<std::size_t>(place),
                           .pad = last == addition.count(b)});
}

}  // namespace

void prepare_keys(const PlanImpl& plan, const BoundKeys& keys, const PreparedView& prepared, std::byte* workspace,
                  Executor& executor) {
  auto* starts = reinterpret_cast<std::int64_t*>(workspace + plan.layout.row_starts);
  starts[0] = 0;
  for (std::int64_t b = 0; b < keys.batch; ++b) {
    const bool per_query = !keys.valid_lens.empty() && keys.valid_lens.rank() == 2;
    const std::int64_t rows = per_query ? keys.valid_lens.size(1) : 1;
    starts[b + 1] = starts[b] + VisibleKeys(keys.valid_lens, rows, keys.num_keys).limit(b);
  }
  const Addition addition{plan, keys, prepared_side(plan, prepared.memory), prepared.lens(), starts};
  const bool appends = std::any_of(addition.lens, addition.lens + keys.batch, [](std::int32_t len) { return len > 0; });
  if (plan.factored && appends) {
    run_items(executor, plan.options.threads, static_cast<std::size_t>(keys.batch),
              [&](const Item& item) { widen_exps(addition, static_cast<std::int64_t>(item.index)); });
  }
  map_keys(addition, workspace, executor);
  if (plan.key_map == nullptr || plan.value_map == nullptr) {
    const std::size_t pieces = divide_up(static_cast<std::size_t>(keys.num_keys), kKeysPerItem);
    const auto heads = static_cast<std::size_t>(plan.num_kv_heads);
    const double columns = to_double(plan.num_kv_heads) * to_double(plan.score_size + plan.head_value_size);
    const LoopWork work{.bytes = 8 * columns * to_double(starts[keys.batch])};
    run_items(executor, loop_threads(plan, executor, work), static_cast<std::size_t>(keys.batch) * heads * pieces,
              [&](const Item& item) {
                const auto b = static_cast<std::int64_t>(item.index / (heads * pieces));
                const auto h = static_cast<std::int64_t>(item.index / pieces % heads);
                const auto first = static_cast<std::int64_t>(item.index % pieces * kKeysPerItem);
                const std::int64_t last = std::min(addition.count(b), first + std::int64_t{kKeysPerItem});
                if (first < last) pack_head(addition, b, h, first, last);
              });
  }
  for (std::int64_t b = 0; b < keys.batch; ++b) prepared.lens()[b] += static_cast<std::int32_t>(addition.count(b));
}

}  // namespace attend::detail
