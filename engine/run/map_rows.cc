#include "engine/run/map_rows.h"

#include <algorithm>
#include <cstring>

#include "engine/base/checked.h"

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
  if (first.row + count <= rows_in_entry(job, first.entry)) return true;
  return job.starts == nullptr && rows.batch_stride == job.rows_per_entry * size;
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
  const std::size_t in = job.map->in_size(), out = job.map->out_size();
  const auto first = static_cast<std::int64_t>(block * matmul::Linear::kRowBlock);
  const auto count = std::min<std::int64_t>(matmul::Linear::kRowBlock, job.num_rows() - first);
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
  float* destination = job.destination.at(place.entry, 0, place.row);
  const bool in_place = padded == rows && is_dense(job, job.destination, place, count, static_cast<std::int64_t>(out));
  if (!job.map->multiply(source, in_place ? destination : results, rows, worker + layout.map_scratch)) return false;
  if (!in_place) {
    for_each_row(job, job.destination, place, rows,
                 [&](float* row, std::size_t i) { std::memcpy(row, results + i * out, out * sizeof(float)); });
  }
  return true;
}

}  // namespace attend::detail
