// Applies a layer's maps to the rows of tensors: queries, keys and values before pooling, the heads' results
// after it.
#ifndef ATTEND_RUN_MAP_ROWS_H_
#define ATTEND_RUN_MAP_ROWS_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "engine/kernels/prefetch.h"
#include "engine/matmul/linear.h"
#include "engine/plan/plan_impl.h"
#include "engine/run/bind.h"
#include "engine/run/loop_work.h"

namespace attend::detail {

// Takes mapped rows further while they are in cache.
class RowSink {
 public:
  virtual ~RowSink() = default;
  // Rows `first` to first + count - 1 of entry b, in the job's numbering; they stay valid during the call.
  virtual void take(std::int64_t b, std::int64_t first, std::int64_t count, const float* rows,
                    std::ptrdiff_t stride) const = 0;
  // What it will write of them, if that is worth prefetching.
  virtual kernels::PrefetchRows written(std::int64_t b, std::int64_t first, std::int64_t count) const = 0;
  // What is read with them next, if that lies in one piece and is worth prefetching.
  virtual std::span<const float> read_next(std::int64_t /*b*/, std::int64_t /*first*/, std::int64_t /*count*/) const {
    return {};
  }
};

// One tensor through one map. Rows are numbered across the batch, so that small entries share a block of rows.
struct MapJob {
  const matmul::Linear* map = nullptr;
  Rows<const float> source;
  Rows<float> destination;        // data is null: the rows go to the sink alone
  const RowSink* sink = nullptr;  // or none
  // Rows of entry b: those numbered starts[b] to starts[b + 1] - 1; or rows_per_entry each where starts is null.
  const std::int64_t* starts = nullptr;
  std::int64_t rows_per_entry = 0;
  std::int64_t batch = 0;

  std::int64_t num_rows() const { return starts != nullptr ? starts[batch] : batch * rows_per_entry; }
};

// Maps rows first to first + count - 1 of the job's numbering. worker: this worker's part of the workspace. False if
// oneDNN failed or had no memory.
[[nodiscard]] bool map_rows(const MapJob& job, std::int64_t first, std::int64_t count, const PlanImpl& plan,
                            std::byte* worker);

// A job cut for workers: slices of its rows times ranges of its columns. Results do not depend on it.
struct MapCut {
  std::size_t slices = 1, ranges = 1;

  std::size_t pieces() const { return slices * ranges; }
};
// Into as many of `pieces` as rows and columns are enough for: rows first.
MapCut cut_map(const MapJob& job, std::size_t pieces);
// As map_rows, one of the pieces: all slices of some columns before the next columns.
[[nodiscard]] bool map_piece(const MapJob& job, const MapCut& cut, std::size_t piece, const PlanImpl& plan,
                             std::byte* worker);

// What a failure is reported as.
[[noreturn]] void fail_product();

// What they compute, read and write.
LoopWork mapping_work(std::span<const MapJob> jobs);
// Several jobs, up to kMostJobs, as one parallel loop. Throws Error if oneDNN failed or had no memory.
inline constexpr std::size_t kMostJobs = 3;
void map_all(const PlanImpl& plan, std::span<const MapJob> jobs, std::byte* workspace, Executor& executor);

}  // namespace attend::detail

#endif  // ATTEND_RUN_MAP_ROWS_H_
