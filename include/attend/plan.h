// Plan once, run many times.
//
// Simplest correct call (serial, best instruction set):
//     auto plan = layer.plan({.batch = 8, .num_queries = 128, .num_keys = 128});
//     attend::Workspace workspace(plan);
//     plan.run({.queries = q, .keys = k, .values = v, .valid_lens = lens}, {.output = out}, workspace);
// Recommended in a service: plan once for the largest request with {.threads = n}, keep one Workspace per concurrent
// run and one Executor for the process, and log plan.explain() at start-up.
#ifndef ATTEND_PLAN_H_
#define ATTEND_PLAN_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "attend/executor.h"
#include "attend/target.h"
#include "attend/tensor_view.h"

namespace attend {

// The largest problem a plan is to accept; a run may have fewer batch entries, queries or keys.
struct Shape {
  std::int64_t batch = 1;        // B
  std::int64_t num_queries = 1;  // M, per batch entry
  std::int64_t num_keys = 1;     // N, key-value pairs per batch entry
  // Elements per row. 0 takes what the layer's parameters say; dot and gaussian have none, so query_size is needed
  // there (key_size then equals it) and value_size 0 means key_size. additive, bilinear: value_size 0 means key_size.
  std::int64_t query_size = 0;  // Dq
  std::int64_t key_size = 0;    // Dk
  std::int64_t value_size = 0;  // Dv
  // Heads of views that are split already, (B, H, N, D): dot and gaussian only. Multi-head layers know their own.
  std::int64_t num_heads = 1;  // H
};

// What the caller knows of the lengths when planning; it guides the choice of tiles, and a run is held to it.
enum class ValidLens {
  kAny,       // not known: a run may give none, (B) or (B, M)
  kNone,      // never given: every key is valid
  kPerBatch,  // rank 1, (B); also accepted: none
  kPerQuery,  // rank 2, (B, M); also accepted: none and rank 1
};

struct PlanOptions {
  // The most tasks a run may use at once. It sizes the workspace and never changes a result: the same bits for any
  // number.
  int threads = 1;
  Target target = Target::best();
  // Runs will ask for attention_weights.
  bool attention_weights = false;
  // Luong's attentional concat: each output row is [context; query], value_size + query_size elements.
  bool concat_queries = false;
  ValidLens valid_lens = ValidLens::kAny;
  // Empty: the planner's rules choose. Otherwise one of the names that explain() prints as candidates, such as
  // "dot/fused": for tests and measurements. An unknown or unfit name is an Error that lists the fit ones.
  std::string path{};
};

// What a run reads. keys not given: self-attention (keys are the queries). values not given: the keys.
struct Inputs {
  TensorView<const float> queries{};            // (B, M, Dq), or (B, H, M, D) where Shape::num_heads was given
  TensorView<const float> keys{};               // (B, N, Dk), or (B, H, N, D)
  TensorView<const float> values{};             // (B, N, Dv), or (B, H, N, Dv)
  TensorView<const std::int32_t> valid_lens{};  // (B) or (B, M); not given: all N keys are valid
};

// What a run writes.
struct Outputs {
  TensorView<float> output{};             // (B, M, Dv), or (B, H, M, Dv); + Dq columns with concat_queries
  TensorView<float> attention_weights{};  // not given, or (B, M, N); (B, H, M, N) where there are heads
};

class Workspace;

namespace detail {
struct PlanImpl;
}

// The frozen outcome of planning. Immutable, cheap to copy, shareable between threads; it keeps the layer's packed
// parameters alive. Made by a layer's plan().
class Plan {
 public:
  explicit Plan(std::shared_ptr<const detail::PlanImpl> impl) : impl_(std::move(impl)) {}

  // Computes output = softmax(score(queries, keys)) values, row by row over each row's valid keys.
  //   Shapes: as in Inputs and Outputs; each of B, M, N at most what was planned for. Innermost strides are 1, all
  //   other
  //     strides are free (negative and zero too where reading), in elements.
  //   Aliasing: output and attention_weights overlap neither each other nor any input; overlap is undefined. Inputs may
  //     overlap each other. No alignment is asked for.
  //   Special values: a row without valid keys gives output and weights 0; a NaN or +inf in a valid score makes that
  //   row
  //     NaN; a -inf score weighs 0 (all -inf: the row is 0). Keys and values at or beyond a row's valid length do not
  //     influence it, and those that no row sees are never read.
  //   Error bound: attention weights, and outputs relative to max|values|, within 2e-7 (4 + max|score|) of the exact
  //   result
  //     for the projected queries and keys; f32 throughout, sums over keys in blocks. See each layer for its
  //     projections.
  //   Thread-safety: many runs of one plan may go on at once, each with its own workspace. Allocates nothing and locks
  //     nothing itself (the executor may; oneDNN, which projections go through, makes some small allocations of its own
  //     in every call), starts no threads. The same bits for every executor, number of threads and batch composition.
  //   Errors: Error before any output changes, for every mismatch of shapes, strides, lengths or workspace size.
  void run(const Inputs& inputs, const Outputs& outputs, Workspace& workspace, Executor& executor) const;
  // The same on the calling thread alone.
  void run(const Inputs& inputs, const Outputs& outputs, Workspace& workspace) const;

  // Path, tiles, target, workspace, estimated work and the reason of every choice, some lines of text.
  std::string explain() const;
  // The chosen path, such as "additive/factored" or "dot/fused".
  std::string_view path() const noexcept;
  // The instruction set the kernels run on, such as "AVX3".
  std::string_view target_name() const noexcept;
  // Bytes a Workspace for this plan holds.
  std::size_t workspace_bytes() const noexcept;
  // The largest problem accepted, with every size filled in.
  const Shape& shape() const noexcept;
  // Elements of one output row: value_size or num_hiddens, + query_size with concat_queries.
  std::int64_t output_size() const noexcept;
  // Heads that the attention weights are given for; 0 when they are (B, M, N). (Where Shape::num_heads is 1, views of a
  // run with an axis of one head have weights (B, 1, M, N).)
  std::int64_t weight_heads() const noexcept;

 private:
  std::shared_ptr<const detail::PlanImpl> impl_;
};

// Scratch memory for one run at a time. Serves any plan whose workspace_bytes() it covers.
class Workspace {
 public:
  // Owns its memory. Throws std::bad_alloc when there is none.
  explicit Workspace(const Plan& plan) : Workspace(plan.workspace_bytes()) {}
  explicit Workspace(std::size_t bytes);
  // Uses the caller's memory, of any alignment (up to kAlignment bytes at its start may be skipped: add them).
  explicit Workspace(std::span<std::byte> memory);
  ~Workspace();
  Workspace(Workspace&& other) noexcept;
  Workspace& operator=(Workspace&& other) noexcept;

  static constexpr std::size_t kAlignment = 64;

  // Aligned to kAlignment.
  std::byte* data() const noexcept { return data_; }
  std::size_t size() const noexcept { return size_; }

 private:
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
  void* owned_ = nullptr;
};

}  // namespace attend

#endif  // ATTEND_PLAN_H_
