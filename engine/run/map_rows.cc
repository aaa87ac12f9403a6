#include "engine/run/map_rows.h"

#include <algorithm>
#include <atomic>
#include <cstring>

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

// How many of the count rows from `first` lie one after another, size elements each. At least one.
template <class T>
std::int64_t dense_rows(const MapJob& job, const Rows<T>& rows, Place first, std::int64_t count, std::int64_t size) {
  if (rows.row_stride != size) return 1;
  std::int64_t dense = rows_in_entry(job, first.entry) - first.row;
  for (std::int64_t entry = first.entry; dense < count && rows.batch_stride == rows_in_entry(job, entry) * size;) {
    dense += rows_in_entry(job, ++entry);
  }
  return std::min(dense, count);
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

// Calls copy(address of the row in the tensor, its index in the block) for each row of a block.
template <class T, class Copy>
void for_each_row(const MapJob& job, const Rows<T>& rows, Place place, std::size_t count, const Copy& copy) {
  for (std::size_t i = 0; i < count; ++i) {
    while (place.row >= rows_in_entry(job, place.entry)) place = {place.entry + 1, 0};
    copy(rows.at(place.entry, 0, place.row), i);
    ++place.row;
  }
}

// The next rows to map in one call, of `count` from `place`: whole blocks of 64 that lie densely at both ends, as they
// are; else one block, which may pass through the workspace. A sink wants its rows while they are in cache.
std::int64_t next_rows(const MapJob& job, Place place, std::int64_t count) {
  constexpr auto kBlock = static_cast<std::int64_t>(matmul::Linear::kRowBlock);
  if (count <= kBlock || job.sink != nullptr || job.destination.data == nullptr) return std::min(count, kBlock);
  const auto in = static_cast<std::int64_t>(job.map->in_size()), out = static_cast<std::int64_t>(job.map->out_size());
  const std::int64_t from = dense_rows(job, job.source, place, count, in);
  const std::int64_t whole = dense_rows(job, job.destination, place, from, out) / kBlock * kBlock;
  const auto rows = static_cast<std::size_t>(whole);
  return whole > kBlock && job.map->padded_rows(rows) == rows ? whole : kBlock;
}

bool map_next(const MapJob& job, Place place, std::int64_t count, const WorkspaceLayout& layout, std::byte* worker) {
  const std::size_t in = job.map->in_size(), out = job.map->out_size();
  const auto rows = static_cast<std::size_t>(count);
  // Rows used where they lie must not need padding: what follows them may be unmapped, or somebody's result.
  const std::size_t padded = job.map->padded_rows(rows);
  auto* gathered = reinterpret_cast<float*>(worker + layout.rows_in);
  auto* results = reinterpret_cast<float*>(worker + layout.rows_out);

  const float* source = job.source.at(place.entry, 0, place.row);
  if (padded != rows || dense_rows(job, job.source, place, count, static_cast<std::int64_t>(in)) < count) {
    for_each_row(job, job.source, place, rows,
                 [&](const float* row, std::size_t i) { std::memcpy(gathered + i * in, row, in * sizeof(float)); });
    std::fill(gathered + rows * in, gathered + padded * in, 0.0f);
    source = gathered;
  }
  const bool kept = job.destination.data != nullptr;
  const bool in_place =
      kept && padded == rows && dense_rows(job, job.destination, place, count, static_cast<std::int64_t>(out)) == count;
  float* mapped = in_place ? job.destination.at(place.entry, 0, place.row) : results;
  if (!job.map->multiply(source, mapped, rows, worker + layout.map_scratch)) return false;
  if (kept && !in_place) {
    for_each_row(job, job.destination, place, rows,
                 [&](float* row, std::size_t i) { std::memcpy(row, results + i * out, out * sizeof(float)); });
  }
  if (job.sink == nullptr) return true;
  for_each_entry(job, place, count, [&](std::int64_t b, std::int64_t row, std::int64_t n, std::int64_t index) {
    job.sink->take(b, row, n, mapped + static_cast<std::size_t>(index) * out, static_cast<std::ptrdiff_t>(out));
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

bool map_rows(const MapJob& job, std::int64_t first, std::int64_t count, const WorkspaceLayout& layout,
              std::byte* worker) {
  while (count > 0) {
    const Place place = locate(job, first);
    const std::int64_t rows = next_rows(job, place, count);
    if (!map_next(job, place, rows, layout, worker)) return false;
    first += rows;
    count -= rows;
  }
  return true;
}

bool map_block(const MapJob& job, std::size_t block, std::size_t block_rows, const WorkspaceLayout& layout,
               std::byte* worker) {
  const auto first = static_cast<std::int64_t>(block * block_rows);
  const std::int64_t count = std::min(static_cast<std::int64_t>(block_rows), job.num_rows() - first);
  return map_rows(job, first, count, layout, worker);
}

std::size_t rows_per_block(std::span<const MapJob> jobs, std::size_t workers) {
  std::size_t rows = matmul::Linear::kMostRows;
  if (workers <= 1) return rows;
  // With four blocks for each worker the last one idles for a quarter of its time at worst; halving the rows costs 2 %
  // (256 to 128) and another 4 % (128 to 64) of a product of 768 x 768.
  while (rows > matmul::Linear::kRowBlock && count_blocks(jobs, rows) < 4 * workers) rows /= 2;
  return rows;
}

void map_all(const PlanImpl& plan, std::span<const MapJob> jobs, std::byte* workspace, Executor& executor) {
  const int workers = std::min(plan.options.threads, executor.concurrency());
  const std::size_t block_rows = rows_per_block(jobs, static_cast<std::size_t>(std::max(1, workers)));
  const std::size_t blocks = count_blocks(jobs, block_rows);
  std::atomic<bool> failed{false};
  run_items(executor, plan.options.threads, blocks, [&](std::size_t item, std::size_t worker) {
    for (const MapJob& job : jobs) {
      const std::size_t own = job.num_blocks(block_rows);
      if (item < own) {
        std::byte* memory = workspace + plan.layout.workers + worker * plan.layout.worker_bytes;
        if (!map_block(job, item, block_rows, plan.layout, memory)) failed.store(true, std::memory_order_relaxed);
        return;
      }
      item -= own;
    }
  });
  if (failed.load()) fail_product();
}

void fail_product() { fail("oneDNN failed to execute a product that it had accepted when it was planned"); }

}  // namespace attend::detail
