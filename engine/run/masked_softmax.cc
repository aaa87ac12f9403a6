#include "attend/masked_softmax.h"

#include <algorithm>

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

// Rows of one work item; rows are independent, so results do not depend on it.
constexpr std::int64_t kRowsPerItem = 64;

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
  check_valid_lens(lens, input.size(0), input.size(-2), input.size(-1));
}

}  // namespace

void masked_softmax(TensorView<const float> input, TensorView<const std::int32_t> valid_lens, TensorView<float> output,
                    const MaskedSoftmaxOptions& options) {
  check_softmax(input, valid_lens, output);
  const auto kernels = kernels::masked_softmax_kernels(options.target.id());
  const detail::Rows<const float> in = detail::rows_of(input);
  const detail::Rows<float> out = detail::rows_of(output);
  const std::int64_t heads = input.rank() == 4 ? input.size(1) : 1;
  const std::int64_t rows = input.size(-2), columns = input.size(-1);
  const std::int64_t items_per_head = (rows + kRowsPerItem - 1) / kRowsPerItem;

  const std::size_t scores = static_cast<std::size_t>(input.size(0) * heads * rows * columns);
  const kernels::SoftmaxPrefetch prefetch =
      detail::softmax_prefetch(this_cpu(), kernels, 2 * sizeof(float) * scores, !valid_lens.empty());
  const auto work = [&](std::size_t item) {
    const auto number = static_cast<std::int64_t>(item);
    const std::int64_t head = number / items_per_head, m = number % items_per_head * kRowsPerItem;
    const std::int64_t b = head / heads, h = head % heads;
    const std::int32_t* lens = nullptr;
    if (!valid_lens.empty()) lens = valid_lens.rank() == 2 ? valid_lens.at(b, m) : valid_lens.at(b);
    kernels.rows({.input = in.at(b, h, m),
                  .input_stride = in.row_stride,
                  .output = out.at(b, h, m),
                  .output_stride = out.row_stride,
                  .num_rows = static_cast<std::size_t>(std::min(kRowsPerItem, rows - m)),
                  .num_columns = static_cast<std::size_t>(columns),
                  .valid_lens = lens,
                  .valid_lens_stride = valid_lens.rank() == 2 ? valid_lens.stride(1) : 0,
                  .prefetch = prefetch});
  };
  const auto items = static_cast<std::size_t>(input.size(0) * heads * items_per_head);
  if (options.executor != nullptr) {
    const detail::LoopWork all{.bytes = 2 * sizeof(float) * static_cast<double>(scores)};
    const int threads = detail::loop_threads(options.executor->concurrency(), *options.executor, all.seconds(1));
    detail::run_items(*options.executor, threads, items, [&](const detail::Item& item) { work(item.index); });
  } else {
    for (std::size_t item = 0; item < items; ++item) work(item);
  }
}

}  // namespace attend
