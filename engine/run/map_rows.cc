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

// Whether rows first ... first + count - 1 lie one after another, size elements each.
template <class T>
bool is_dense(const MapJob& job, const Rows<T>& rows, Place first, std::int64_t count, std::int64_t size) {
  if (count > 1 && rows.row_stride != size) return false;
  std::int64_t left = count - (rows_in_entry(job, first.entry) - first.row);
  for (std::int64_t entry = first.entry; left > 0; left -= rows_in_entry(job, ++entry)) {
    if (rows.batch_stride != rows_in_entry(job, entry) * size) return false;
  }
  return true;
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

}  // namespace

std::size_t MapJob::num_blocks() const {
  return map == nullptr ? 0 : divide_up(static_cast<std::size_t>(num_rows()), matmul::Linear::kRowBlock);
}

bool map_block(const MapJob& job, std::size_t block, const WorkspaceLayout& layout, std::byte* worker) {
  const auto first = static_cast<std::int64_t>(block * matmul::Linear::kRowBlock);
  const auto count = std::min<std::int64_t>(matmul::Linear::kRowBlock, job.num_rows() - first);
  return map_rows(job, first, count, layout, worker);
}

bool map_rows(const MapJob& job, std::int64_t first, std::int64_t count, const WorkspaceLayout& layout,
              std::byte* worker) {
  const std::size_t in = job.map->in_size(), out = job.map->out_size();
  const auto rows = static_cast<std::size_t>(count);
  const Place place = locate(job, first);
  // Rows used where they lie must not need padding: what follows them may be unmapped, or somebody's result.
  const std::size_t padded = job.map->padded_rows(rows);
  auto* gathered = reinterpret_cast<float*>(worker + layout.rows_in);
  auto* results = reinterpret_cast<float*>(worker + layout.rows_out);

  const float* source = job.source.at(place.entry, 0, place.row);
  if (padded != rows || !is_dense(job, job.source, place, count, static_cast<std::int64_t>(in))) {
    for_each_row(job, job.source, place, rows,
                 [&](const float* row, std::size_t i) { std::memcpy(gathered + i * in, row, in * sizeof(float)); });
    std::fill(gathered + rows * in, gathered + padded * in, 0.0f);
    source = gathered;
  }
  const bool kept = job.destination.data != nullptr;
  const bool in_place =
      kept && padded == rows && is_dense(job, job.destination, place, count, static_cast<std::int64_t>(out));
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

void map_all(const PlanImpl& plan, std::span<const MapJob> jobs, std::byte* workspace, Executor& executor) {
  std::size_t blocks = 0;
  for (const MapJob& job : jobs) blocks += job.num_blocks();
  std::atomic<bool> failed{false};
  run_items(executor, plan.options.threads, blocks, [&](std::size_t item, std::size_t worker) {
    for (const MapJob& job : jobs) {
      const std::size_t own = job.num_blocks();
      if (item < own) {
        std::byte* memory = workspace + plan.layout.workers + worker * plan.layout.worker_bytes;
        if (!map_block(job, item, plan.layout, memory)) failed.store(true, std::memory_order_relaxed);
        return;
      }
      item -= own;
    }
  });
  if (failed.load()) fail_product();
}

void fail_product() { fail("oneDNN failed to execute a product that it had accepted when it was planned"); }

}  // namespace attend::detail
