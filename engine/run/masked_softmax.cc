#include "attend/masked_softmax.h"

#include <algorithm>
#include <array>
#include <cstdint>

#include "engine/base/checked.h"
#include "engine/base/cpus.h"
#include "engine/kernels/kernel_set.h"
#include "engine/plan/prefetch_rules.h"
#include "engine/run/bind.h"
#include "engine/run/items.h"
#include "engine/run/loop_work.h"
#include "engine/view/check.h"
#include "engine/view/valid_lens.h"

namespace attend {
namespace {

// Rows of one work item, fewer of long ones; rows are independent, so results do not depend on it.
constexpr std::int64_t kMostRows = 64, kMostScores = 64 * 1024;

void check_softmax(const TensorView<const float>& input, const TensorView<const std::int32_t>& lens,
                   const TensorView<float>& output) {
  if (input.empty()) fail("input is not given, expected a view of sizes (B, M, N) or (B, H, M, N)");
  if (input.rank() != 3 && input.rank() != 4) {
    fail("input is ", to_string(input.sizes()), ", expected (B, M, N) or (B, H, M, N)");
  }
  if (input.rank() == 4) {
    check_sizes(input, "input", {{"B"}, {"H"}, {"M"}, {"N"}});
    check_sizes(output, "output",
                {{"B", input.size(0)}, {"H", input.size(1)}, {"M", input.size(2)}, {"N", input.size(3)}});
  } else {
    check_sizes(input, "input", {{"B"}, {"M"}, {"N"}});
    check_sizes(output, "output", {{"B", input.size(0)}, {"M", input.size(1)}, {"N", input.size(2)}});
  }
  check_innermost_stride(input, "input");
  check_innermost_stride(output, "output");
  check_written_strides(output, "output");
  check_valid_lens(lens, input.size(0), input.size(-2), input.size(-1), "the length of a row");
}

// Rows of all heads of all entries, numbered one after another.
struct AllRows {
  std::int64_t batch, heads, rows;

  struct Place {
    std::int64_t b, h, m;
  };
  std::int64_t count() const { return batch * heads * rows; }
  Place locate(std::int64_t number) const { return {number / rows / heads, number / rows % heads, number % rows}; }

  // From one row to the next, if there are several ...
  template <class T>
  std::ptrdiff_t stride(const detail::Rows<T>& at) const {
    return rows > 1 ? at.row_stride : heads > 1 ? at.head_stride : at.batch_stride;
  }
  // ... and whether it is the same from each head and entry to the next.
  template <class T>
  bool have_one_stride(const detail::Rows<T>& at) const {
    return (heads <= 1 || at.head_stride == rows * stride(at)) &&
           (batch <= 1 || at.batch_stride == heads * rows * stride(at));
  }
};

}  // namespace

void masked_softmax(TensorView<const float> input, TensorView<const std::int32_t> valid_lens, TensorView<float> output,
                    const MaskedSoftmaxOptions& options) {
  check_softmax(input, valid_lens, output);
  if (std::ranges::any_of(input.sizes(), [](std::int64_t size) { return size == 0; })) return;
  const auto kernels = kernels::masked_softmax_kernels(options.target.id());
  const detail::Rows<const float> in = detail::rows_of(input);
  const detail::Rows<float> out = detail::rows_of(output);
  const std::int64_t columns = input.size(-1);
  const AllRows all{input.size(0), input.rank() == 4 ? input.size(1) : 1, input.size(-2)};
  // Rows of a run have one stride: all of them, or those of a head. Heads of few rows are not worth an item each.
  const bool one_run = all.have_one_stride(in) && all.have_one_stride(out);
  const std::int64_t rows_of_run = one_run ? all.count() : all.rows;
  const std::int64_t rows_per_item = std::clamp<std::int64_t>(kMostScores / columns, 1, kMostRows);
  const std::int64_t items_per_run = (rows_of_run + rows_per_item - 1) / rows_per_item;
  const std::int64_t items = one_run ? items_per_run : all.batch * all.heads * items_per_run;

  const auto scores = static_cast<std::size_t>(all.count() * columns);
  const kernels::SoftmaxPrefetch prefetch =
      detail::softmax_prefetch(this_cpu(), kernels, 2 * sizeof(float) * scores, !valid_lens.empty());
  const bool together = detail::softmax_rows_go_together(this_cpu(), kernels, !valid_lens.empty());
  const auto work = [&](std::size_t item) {
    const auto number = static_cast<std::int64_t>(item);
    const std::int64_t done = number % items_per_run * rows_per_item;
    const std::int64_t first = number / items_per_run * rows_of_run + done;
    const std::int64_t count = std::min(rows_per_item, rows_of_run - done);
    std::array<std::int32_t, kMostRows> lens;
    for (std::int64_t i = 0; i < count && !valid_lens.empty(); ++i) {
      const AllRows::Place row = all.locate(first + i);
      lens[static_cast<std::size_t>(i)] = valid_lens.rank() == 2 ? *valid_lens.at(row.b, row.m) : *valid_lens.at(row.b);
    }
    const AllRows::Place row = all.locate(first);
    kernels.rows({.input = in.at(row.b, row.h, row.m),
                  .input_stride = one_run ? all.stride(in) : in.row_stride,
                  .output = out.at(row.b, row.h, row.m),
                  .output_stride = one_run ? all.stride(out) : out.row_stride,
                  .num_rows = static_cast<std::size_t>(count),
                  .num_columns = static_cast<std::size_t>(columns),
                  .valid_lens = valid_lens.empty() ? nullptr : lens.data(),
                  .valid_lens_stride = 1,
                  .prefetch = prefetch,
                  .together = together});
  };
  if (options.executor != nullptr) {
    const detail::LoopWork loop{.bytes = 2 * sizeof(float) * static_cast<double>(scores)};
    const int threads = detail::loop_threads(options.executor->concurrency(), *options.executor, loop.seconds(1));
    detail::run_items(*options.executor, threads, static_cast<std::size_t>(items),
                      [&](const detail::Item& item) { work(item.index); });
  } else {
    for (std::int64_t item = 0; item < items; ++item) work(static_cast<std::size_t>(item));
  }
}

}  // namespace attend
