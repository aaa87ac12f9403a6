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

// The next rows in one call. A sink wants its rows while they are in cache, and all columns of them.
bool map_next(const MapJob& job, std::int64_t first, std::int64_t count, const matmul::Columns& columns,
              const PlanImpl& plan, std::byte* worker) {
  constexpr std::size_t kMax = matmul::Linear::kMaxRows;
  const std::size_t out = job.map->out_size();
  const bool kept = job.destination.data != nullptr;
  auto* unkept = reinterpret_cast<float*>(worker + plan.layout.rows_out);
  std::array<const float*, kMax> sources;
  std::array<float*, kMax> results;
  const Place place = locate(job, first);
  kernels::PrefetchRows written;
  kernels::LinearAhead ahead{.written = &written};
  for_each_entry(job, place, count, [&](std::int64_t b, std::int64_t row, std::int64_t n, std::int64_t index) {
    for (std::int64_t i = 0; i < n; ++i) {
      const auto at = static_cast<std::size_t>(index + i);
      sources[at] = job.source.at(b, 0, row + i);
      results[at] = (kept ? job.destination.at(b, 0, row + i) : unkept + at * out) + columns.first;
    }
    if (job.sink == nullptr || index > 0) return;
    written = job.sink->written(b, row, n);
    ahead.read = job.sink->read_next(b, row, n);
  });
  if (!job.map->multiply_columns(plan.linear_rows(job.map), columns, sources.data(), results.data(),
                                 static_cast<std::size_t>(count), worker + plan.layout.map_scratch, ahead)) {
    return false;
  }
  if (job.sink == nullptr) return true;
  const auto stride = kept ? job.destination.row_stride : static_cast<std::ptrdiff_t>(out);
  for_each_entry(job, place, count, [&](std::int64_t b, std::int64_t row, std::int64_t n, std::int64_t index) {
    job.sink->take(b, row, n, results[static_cast<std::size_t>(index)], stride);
  });
  return true;
}

bool has_sink(const MapJob& job) { return job.sink != nullptr || job.destination.data == nullptr; }

bool map_columns(const MapJob& job, std::int64_t first, std::int64_t end, const matmul::Columns& columns,
                 const PlanImpl& plan, std::byte* worker) {
  const auto most = static_cast<std::int64_t>(plan.window_keys > 0 ? job.map->few_rows(plan.linear_rows(job.map))
                                              : has_sink(job)      ? matmul::Linear::kRowBlock
                                                                   : matmul::Linear::kMaxRows);
  for (; first < end; first += most) {
    if (!map_next(job, first, std::min(most, end - first), columns, plan, worker)) return false;
  }
  return true;
}

// The least rows and columns of a piece, and what pieces begin with multiples of: whole steps of any kernel. Rows come
// first, since all columns of a row are written by one worker then; of large weights, which workers would rather not
// all read, only where there are many. EPYC (Zen 5), 2 threads on cores without a common L3, us with at least 16 rows,
// with 64 and by columns alone: one entry of 77 in a layer of 768 with 12 heads 980, 1040, 1040, of 1280 with 20 heads
// 3540, 3210, 3210, of 512 in a layer of 768 8540, 8560, 9080
// (attend plan --layer multi-head --num-heads 12 --shape 1,77,77,768 --threads 2 --measure).
constexpr std::size_t kFewestRows = 16, kFewestOfLargeWeights = 64, kLargeWeightBytes = std::size_t{4} << 20;
constexpr std::size_t kRowUnit = 16, kFewestColumns = 64, kColumnUnit = 32;

}  // namespace

bool map_rows(const MapJob& job, std::int64_t first, std::int64_t count, const PlanImpl& plan, std::byte* worker) {
  return map_columns(job, first, first + count, {0, job.map->out_size()}, plan, worker);
}

MapCut cut_map(const MapJob& job, std::size_t pieces) {
  const auto rows = static_cast<std::size_t>(job.num_rows());
  const std::size_t out = job.map->out_size(), bytes = job.map->in_size() * out * sizeof(float);
  const bool splits = job.map->splits_columns() && !has_sink(job);
  const std::size_t least_rows = splits && bytes > kLargeWeightBytes ? kFewestOfLargeWeights : kFewestRows;
  const std::size_t most_ranges = splits ? std::max<std::size_t>(out / kFewestColumns, 1) : 1;
  MapCut best;
  for (std::size_t slices = 1; slices <= std::clamp<std::size_t>(rows / least_rows, 1, pieces); ++slices) {
    const MapCut cut{slices, std::min(pieces / slices, most_ranges)};
    if (cut.pieces() >= best.pieces()) best = cut;
  }
  return best;
}

bool map_piece(const MapJob& job, const MapCut& cut, std::size_t piece, const PlanImpl& plan, std::byte* worker) {
  const auto rows = static_cast<std::size_t>(job.num_rows());
  const std::size_t slice = piece % cut.slices, range = piece / cut.slices, out = job.map->out_size();
  const auto row = [&](std::size_t i) { return static_cast<std::int64_t>(part_begin(rows, kRowUnit, i, cut.slices)); };
  const auto column = [&](std::size_t i) { return part_begin(out, kColumnUnit, i, cut.ranges); };
  return map_columns(job, row(slice), row(slice + 1), {column(range), column(range + 1) - column(range)}, plan, worker);
}

LoopWork mapping_work(std::span<const MapJob> jobs) {
  LoopWork work;
  for (const MapJob& job : jobs) {
    const double rows = to_double(job.num_rows()), in = static_cast<double>(job.map->in_size()),
                 out = static_cast<double>(job.map->out_size());
    work.flops += 2 * rows * in * out;
    work.bytes += 4 * (in * out + rows * (in + out));
  }
  return work;
}

void map_all(const PlanImpl& plan, std::span<const MapJob> jobs, std::byte* workspace, Executor& executor) {
  // With four pieces or more for each worker the last one idles for a quarter of its time at worst; with twice as many
  // layers take as long, or longer.
  const int threads = loop_threads(plan, executor, mapping_work(jobs));
  const std::size_t pieces = threads == 1 ? 1 : static_cast<std::size_t>(threads) * divide_up(4, jobs.size());
  std::array<MapCut, kMostJobs> cuts;
  for (std::size_t j = 0; j < jobs.size(); ++j) cuts[j] = cut_map(jobs[j], pieces);
  std::atomic<bool> failed{false};
  // The same piece of all jobs before the next pieces: who maps queries of some heads or entries has their keys too.
  run_items(executor, threads, pieces * jobs.size(), [&](const Item& item) {
    const std::size_t piece = item.index / jobs.size(), j = item.index % jobs.size();
    if (piece >= cuts[j].pieces()) return;
    if (!map_piece(jobs[j], cuts[j], piece, plan, workspace + plan.layout.worker(item.worker))) {
      failed.store(true, std::memory_order_relaxed);
    }
  });
  if (failed.load()) fail_product();
}

void fail_product() {
  fail("oneDNN failed to execute a product that it had accepted when it was planned, or had no memory for it");
}

}  // namespace attend::detail
