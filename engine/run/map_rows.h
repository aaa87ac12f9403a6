// Applies a layer's maps to the rows of tensors, in blocks: queries, keys and values before pooling, the heads' results
// after it.
#ifndef ATTEND_RUN_MAP_ROWS_H_
#define ATTEND_RUN_MAP_ROWS_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "engine/matmul/linear.h"
#include "engine/plan/plan_impl.h"
#include "engine/run/bind.h"

namespace attend::detail {

// Takes mapped rows further while they are in cache.
class RowSink {
 public:
  virtual ~RowSink() = default;
  // Rows `first` to first + count - 1 of entry b, in the job's numbering; they stay valid during the call.
  virtual void take(std::int64_t b, std::int64_t first, std::int64_t count, const float* rows,
                    std::ptrdiff_t stride) const = 0;
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
  std::size_t num_blocks(std::size_t block_rows) const;
};

// Maps rows first to first + count - 1 of the job's numbering. worker: this worker's part of the workspace. False if
// oneDNN failed or had no memory.
[[nodiscard]] bool map_rows(const MapJob& job, std::int64_t first, std::int64_t count, const PlanImpl& plan,
                            std::byte* worker);
// Block `block` of the job's blocks of block_rows.
[[nodiscard]] bool map_block(const MapJob& job, std::size_t block, std::size_t block_rows, const PlanImpl& plan,
                             std::byte* worker);

// Rows of a block for `workers` at a time: as many as a call takes, unless that leaves too few blocks to share evenly,
// or some workers without one. Results do not depend on it.
std::size_t rows_per_block(std::span<const MapJob> jobs, std::size_t workers);

// What a failure is reported as.
[[noreturn]] void fail_product();

// Several jobs' blocks as one parallel loop. Throws Error if oneDNN failed or had no memory.
void map_all(const PlanImpl& plan, std::span<const MapJob> jobs, std::byte* workspace, Executor& executor);

}  // namespace attend::detail

#endif  // ATTEND_RUN_MAP_ROWS_H_
