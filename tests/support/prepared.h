// Keys and values prepared for many runs: in poisoned memory, in pieces, and what the pieces amount to.
#ifndef ATTEND_TESTS_SUPPORT_PREPARED_H_
#define ATTEND_TESTS_SUPPORT_PREPARED_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "attend/attend.h"
#include "tests/support/run.h"

namespace attend::tests {

inline KeyInputs key_inputs(const Inputs& in) {
  return {.keys = in.keys, .values = in.values, .valid_lens = in.valid_lens};
}

// A run on prepared keys instead of the keys and values of `in`. Lengths per query are given again, those per batch
// entry are what was prepared.
inline Inputs on_prepared(const Inputs& in, const PreparedKeys& prepared) {
  Inputs run{.queries = in.queries, .prepared = &prepared};
  if (in.valid_lens.rank() == 2) run.valid_lens = in.valid_lens;
  return run;
}

// Rows first ... first + count - 1 of every batch entry and head, where they lie.
inline TensorView<const float> rows_of(const TensorView<const float>& view, std::int64_t first, std::int64_t count) {
  std::vector<std::int64_t> sizes(view.sizes().begin(), view.sizes().end());
  const std::size_t axis = sizes.size() - 2;
  sizes[axis] = count;
  return TensorView<const float>(view.data() + first * view.strides()[axis], std::span<const std::int64_t>(sizes),
                                 view.strides());
}
// Those keys and values; no lengths.
inline KeyInputs piece_of(const Inputs& in, std::int64_t first, std::int64_t count) {
  return {.keys = rows_of(in.keys, first, count), .values = rows_of(in.values, first, count)};
}

// Memory that is poisoned before it is used. By default with NaN; 0x7F reads as 3.4e38.
class PoisonedKeys {
 public:
  explicit PoisonedKeys(const Plan& plan, unsigned char byte = 0xFF)
      : memory_(plan.prepared_bytes() + Workspace::kAlignment, std::byte{byte}), keys(plan, memory_) {}

 private:
  std::vector<std::byte> memory_;

 public:
  PreparedKeys keys;
};

inline void prepare(const Plan& plan, const KeyInputs& in, PreparedKeys& prepared, Executor* executor = nullptr) {
  Workspace workspace(plan);
  poison(workspace);
  executor != nullptr ? plan.prepare(in, prepared, workspace, *executor) : plan.prepare(in, prepared, workspace);
}
inline void append(const Plan& plan, const KeyInputs& in, PreparedKeys& prepared, Executor* executor = nullptr) {
  Workspace workspace(plan);
  poison(workspace);
  executor != nullptr ? plan.append(in, prepared, workspace, *executor) : plan.append(in, prepared, workspace);
}

// Prepares the first piece of the keys and values and appends the others.
inline void prepare_in_pieces(const Plan& plan, const Inputs& in, const std::vector<std::int64_t>& pieces,
                              PreparedKeys& prepared, Executor* executor = nullptr) {
  std::int64_t first = 0;
  for (const std::int64_t count : pieces) {
    const KeyInputs piece = piece_of(in, first, count);
    first == 0 ? prepare(plan, piece, prepared, executor) : append(plan, piece, prepared, executor);
    first += count;
  }
}

// A plan's options, to make another that differs in a few.
inline PlanOptions options_of(const Plan& plan, bool with_weights) {
  return {.target = Target::from_name(plan.target_name()),
          .attention_weights = with_weights,
          .path = std::string(plan.path())};
}

// The rows that ragged pieces leave, entry by entry side by side, the rest NaN: piece p is rows pieces[p - 1] ... of
// `from`, of which entry b keeps the first lens[p][b].
inline Tensor compact(const Tensor& from, const std::vector<std::int64_t>& pieces,
                      const std::vector<std::vector<std::int32_t>>& lens) {
  Tensor to = from;
  to.data.assign(from.data.size(), std::numeric_limits<float>::quiet_NaN());
  const std::int64_t heads = from.sizes.size() == 4 ? from.sizes[1] : 1;
  const std::int64_t rows = from.sizes[from.sizes.size() - 2], size = from.sizes.back();
  for (std::int64_t b = 0; b < from.sizes[0]; ++b) {
    for (std::int64_t h = 0; h < heads; ++h) {
      const auto base = static_cast<std::ptrdiff_t>((b * heads + h) * rows * size);
      std::ptrdiff_t source = base, destination = base;
      for (std::size_t p = 0; p < pieces.size(); ++p) {
        const auto kept = static_cast<std::ptrdiff_t>(lens[p][static_cast<std::size_t>(b)]) * size;
        std::copy_n(from.data.begin() + source, kept, to.data.begin() + destination);
        source += static_cast<std::ptrdiff_t>(pieces[p] * size);
        destination += kept;
      }
    }
  }
  return to;
}

}  // namespace attend::tests

#endif  // ATTEND_TESTS_SUPPORT_PREPARED_H_
