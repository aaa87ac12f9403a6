#include "engine/run/map_rows.h"

#include <algorithm>
#include <array>
#include <atomic>

#include "engine/base/checked.h"
#include "engine/base/message.h"
#include "engine/run/items.h"

namespace attend::detail {
namespace {

struct Place {
  std::int64_t entry, row;
};

Place locate(const MapJob& job, std::int64_t number) {
  if (job.starts == nullptr) return {number / job.rows_per_entry, number % job.rows_per_entry};
  const std::int64_t entry = std::upper_bound(job.starts, job.starts + job.batch + 1, number) - job.starts - 1;
  return {entry, number - job.starts[entry]};
}

std::int64_t rows_in_entry(const MapJob& job, std::int64_t entry) {
  return job.starts == nullptr ? job.rows_per_entry : job.starts[entry + 1] - job.starts[entry];
}

// Calls visit(entry, first row, number of rows, index of the first in the block) for each entry that a block touches.
template <class Visit>
void for_each_entry(const MapJob& job, Place place, std::int64_t count, const Visit& visit) {
  for (std::int64_t done = 0; done < count; place = {place.entry + 1, 0}) {
    const std::int64_t rows = std::min(count - done, rows_in_entry(job, place.entry) - place.row);
    if (rows > 0) visit(place.entry, place.row, rows, done);
    done += rows;
  }
}

// The next rows in one call. A sink wants its rows while they are in cache.
bool map_next(const MapJob& job, std::int64_t first, std::int64_t count, const PlanImpl& plan, std::byte* worker) {
  constexpr std::size_t kMax = matmul::Linear::kMaxRows;
  const std::size_t out = job.map->out_size();
  const bool kept = job.destination.data != nullptr;
  auto* unkept = reinterpret_cast<float*>(worker + plan.layout.rows_out);
  std::array<const float*, kMax> sources;
  std::array<float*, kMax> results;
  const Place place = locate(job, first);
  for_each_entry(job, place, count, [&](std::int64_t b, std::int64_t row, std::int64_t n, std::int64_t index) {
    for (std::int64_t i = 0; i < n; ++i) {
      const auto at = static_cast<std::size_t>(index + i);
      sources[at] = job.source.at(b, 0, row + i);
      results[at] = kept ? job.destination.at(b, 0, row + i) : unkept + at * out;
    }
  });
  if (!job.map->multiply(plan.linear_rows(job.map), sources.data(), results.data(), static_cast<std::size_t>(count),
                         worker + plan.layout.map_scratch)) {
    return false;
  }
  if (job.sink == nullptr) return true;
  const auto stride = kept ? job.destination.row_stride : static_cast<std::ptrdiff_t>(out);
  for_each_entry(job, place, count, [&](std::int64_t b, std::int64_t row, std::int64_t n, std::int64_t index) {
    job.sink->take(b, row, n, results[static_cast<std::size_t>(index)], stride);
  });
  return true;
}

std::size_t count_blocks(std::span<const MapJob> jobs, std::size_t block_rows) {
  std::size_t blocks = 0;
  for (const MapJob& job : jobs) blocks += job.num_blocks(block_rows);
  return blocks;
}

}  // namespace

std::size_t MapJob::num_blocks(std::size_t block_rows) const {
  return map == nullptr ? 0 : divide_up(static_cast<std::size_t>(num_rows()), block_rows);
}

bool map_rows(const MapJob& job, std::int64_t first, std::int64_t count, const PlanImpl& plan, std::byte* worker) {
  const bool sinks = job.sink != nullptr || job.destination.data == nullptr;
  const auto most = static_cast<std::int64_t>(plan.window_keys > 0 ? job.map->few_rows(plan.linear_rows(job.map))
                                              : sinks              ? matmul::Linear::kRowBlock
                                                                   : matmul::Linear::kMaxRows);
  for (const std::int64_t end = first + count; first < end; first += most) {
    if (!map_next(job, first, std::min(most, end - first), plan, worker)) return false;
  }
  return true;
}

bool map_block(const MapJob& job, std::size_t block, std::size_t block_rows, const PlanImpl& plan, std::byte* worker) {
  const auto first = static_cast<std::int64_t>(block * block_rows);
  return map_rows(job, first, std::min(static_cast<std::int64_t>(block_rows), job.num_rows() - first), plan, worker);
}

std::size_t rows_per_block(std::span<const MapJob> jobs, std::size_t workers) {
  constexpr std::size_t kFewestRows = 16;
  std::size_t rows = matmul::Linear::kMaxRows;
  if (workers <= 1) return rows;
  // With four blocks for each worker the last one idles for a quarter of its time at worst. Fewer rows cost our own
  // kernel little: 768 x 768 reaches 94.5 % of the peak with 100 rows, 95.2 with 256 (linear/r100, r256_i768_o768).
  while (rows > matmul::Linear::kRowBlock && count_blocks(jobs, rows) < 4 * workers) rows /= 2;
  // A quarter of 64 rows takes half of their time at most (linear/r16_*, r64_*): better than workers without any. Xeon
  // with AMX, 2 threads, additive/b64_m1_n100_u256_prepared 323 -> 300 us.
  while (rows > kFewestRows && count_blocks(jobs, rows) < workers) rows /= 2;
  return rows;
}

void map_all(const PlanImpl& plan, std::span<const MapJob> jobs, std::byte* workspace, Executor& executor) {
  const int workers = std::min(plan.options.threads, executor.concurrency());
  const std::size_t block_rows = rows_per_block(jobs, static_cast<std::size_t>(std::max(1, workers)));
  const std::size_t blocks = count_blocks(jobs, block_rows);
  std::atomic<bool> failed{false};
  run_items(executor, plan.options.threads, blocks, [&](const Item& item) {
    std::size_t block = item.index;
    for (const MapJob& job : jobs) {
      const std::size_t own = job.num_blocks(block_rows);
      if (block < own) {
        std::byte* memory = workspace + plan.layout.worker(item.worker);
        if (!map_block(job, block, block_rows, plan, memory)) failed.store(true, std::memory_order_relaxed);
        return;
      }
      block -= own;
    }
  });
  if (failed.load()) fail_product();
}

void fail_product() {
  fail("oneDNN failed to execute a product that it had accepted when it was planned, or had no memory for it");
}

}  // namespace attend::detail
