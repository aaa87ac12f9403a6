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
#include <utility>

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
  // Heads of keys and values, (B, Hkv, N, D), a divisor of num_heads: query head h sees those of head h / (H / Hkv), in
  // place (grouped-query attention; Ainslie et al. 2023, arXiv:2305.13245). 0: as many as there are query heads.
  std::int64_t num_kv_heads = 0;  // Hkv
};

// What the caller knows of the lengths when planning; it guides the choice of tiles, and a run is held to it.
enum class ValidLens {
  kAny,       // not known: a run may give none, (B) or (B, M)
  kNone,      // never given: every key is valid
  kPerBatch,  // rank 1, (B); also accepted: none
  kPerQuery,  // rank 2, (B, M); also accepted: none and rank 1
};

// Which keys a query sees by its place, beside the valid lengths: the fewer of both counts.
enum class Causal {
  kNone,         // all
  kBottomRight,  // query i of M sees keys 0 to N - M + i: the queries are the last M of N. None where that is negative
  kTopLeft,      // query i sees keys 0 to i
};

// What happens to queries beyond an entry's valid length, where the queries are as padded as the keys (self-attention).
enum class Padding {
  // They are queries like others.
  kCompute,
  // Query rows at or beyond valid_lens[b] of the run are neither projected nor scored: their output and weights are 0.
  kSkipQueries,
};

// How an additive score takes tanh(a + b) from the exponentials of a query's a and a key's b: how many terms share a
// division, as far as floats have the range for their common denominator. From narrowest to widest.
enum class ScoreTier {
  kByRange = -1,  // per query and panel of keys, the first that max|a| + max|b| allows
  kEight = 0,     // up to about 10; a little more or less where weights w_v differ in size
  kFour = 1,      // up to about 15
  kThree = 2,     // up to about 18: three, three and two of eight; first where a CPU divides fast
  kTwo = 3,       // up to about 24
  kOne = 4,       // up to about 43
  kRational = 5,  // any range: a rational tanh of every sum
};

// Tiles, one query by one panel of keys, that a run scored by each tier.
struct TierCounts {
  std::uint64_t eight = 0, four = 0, three = 0, two = 0, one = 0, rational = 0;
};

// Products by pairs of terms (known as Winograd's inner product): three terms take the time of two multiply-adds on
// CPUs that add in other units than they multiply in and load enough meanwhile, which AMD's do from Zen 4 on. They are
// as exact as plain sums for rows, keys, values and weights that have their norm from many elements; others are
// multiplied plainly. The last bits differ.
enum class Pairs {
  kWhereFaster,  // products of queries and keys, pooling of values, and projections, by the planner's rules
  kNever,        // plain sums, also on these CPUs
  kAlways,       // scores and pooling wherever there are tiles, on every CPU and target: for tests
};

// Products by bfloat16 parts (split-bfloat16 emulation of float32, "bf16x3" elsewhere): a float is the sum of three
// bfloat16 numbers, and six of their products, which tiles (AMX) multiply at 16 times the rate of multiply-adds, make
// one of floats, as exactly as plain sums: about twice as fast. On Intel's servers since Sapphire Rapids, for targets
// AVX3 and better. The last bits differ.
//
// On such CPUs the first layer with matrices, plan or masked_softmax of a process asks Linux for the use of tiles, for
// all its threads and whatever this option says. It is refused where a thread has set up a stack for signals that is
// too small for them; products then go as elsewhere.
enum class Parts {
  kWhereFaster,  // products of queries and keys, pooling of values, and projections, by the planner's rules
  kNever,        // as on CPUs without tiles
  kAlways,       // scores and pooling wherever there are tiles of queries and keys, on every CPU and target: for tests
};

struct Machine;  // attend/planner.h
struct Cost;
class Profile;

struct PlanOptions {
  // The most tasks a run may use at once. It sizes the workspace and never changes a result: the same bits for any
  // number, but see profile.
  int threads = 1;
  Target target = Target::best();
  // Runs will ask for attention_weights. That costs writing them; with more than a few queries and ten thousand keys,
  // the product of queries and keys once more.
  bool attention_weights = false;
  // Luong's attentional concat: each output row is [context; query], query_size elements more (Plan::output_size()).
  bool concat_queries = false;
  ValidLens valid_lens = ValidLens::kAny;
  // N is the number of keys of the run: the size of the keys, or PreparedKeys::num_keys(). kBottomRight counts from it
  // in all entries, also those with fewer keys: several queries behind keys of different lengths want lengths (B, M).
  Causal causal = Causal::kNone;
  // kSkipQueries: valid_lens of a run are rank 1 or none.
  Padding padding = Padding::kCompute;
  // Empty: the planner's rules choose. Otherwise one of the names that explain() prints as candidates, such as
  // "dot/fused": for tests and measurements. An unknown or unfit name is an Error that lists the fit ones.
  std::string path{};
  // 0: the rules choose. Otherwise the queries of a tile, 1 to 1024 (paths fused and materialised), and its keys, a
  // power of two from 128 to 1024 (paths fused and dot/lanes, and additive materialised); a problem with fewer has
  // smaller tiles. A tile that the path does not have is an Error.
  std::int64_t tile_queries = 0, tile_keys = 0;
  // Choices that were measured (attend/planner.h). An entry for exactly this problem overrides the rules; path,
  // tile_queries, tile_keys and pairs each override what the entry says of it, and what it says beside its path is for
  // that path alone. Looked at while planning only. Entries are for one number of threads: with a profile, and only
  // then, threads may change the path and so the last bits of results.
  const Profile* profile = nullptr;
  // Every run will be given prepared keys (PreparedKeys), so that the workspace need not hold projected ones. Chooses
  // no other path, so that results keep their bits; for a few queries, path "dot/fused" uses prepared keys fastest.
  bool prepared_keys = false;
  // Whether products may go by pairs of terms, and whether by bfloat16 parts. With kNever for both, a target's results
  // have the same bits on any CPU, but for projections that go through oneDNN: additive scores then begin with
  // ScoreTier::kEight on all of them.
  Pairs pairs = Pairs::kWhereFaster;
  Parts parts = Parts::kWhereFaster;

  // For tests and measurements, as are Pairs::kAlways and Parts::kAlways; both of path additive/factored.

  // A tier for every tile: results are wrong where the ranges exceed it.
  ScoreTier score_tier = ScoreTier::kByRange;
  // Runs count their tiles, for tier_counts() and explain(workspace).
  bool count_tiers = false;
};

class PreparedKeys;

// What a run reads. keys not given: self-attention (keys are the queries). values not given: the keys.
struct Inputs {
  TensorView<const float> queries{};            // (B, M, Dq), or (B, H, M, D) where Shape::num_heads was given
  TensorView<const float> keys{};               // (B, N, Dk), or (B, Hkv, N, D)
  TensorView<const float> values{};             // (B, N, Dv), or (B, Hkv, N, Dv)
  TensorView<const std::int32_t> valid_lens{};  // (B) or (B, M); not given: all N keys are valid
  // Instead of keys and values. valid_lens then counts prepared keys: at most len(b) each; not given: all of them.
  const PreparedKeys* prepared = nullptr;
};

// What is prepared, or added to what is: as in Inputs. values not given: the keys.
struct KeyInputs {
  TensorView<const float> keys{};
  TensorView<const float> values{};
  // (B), or (B, M) of which the longest per entry counts: keys beyond are neither read nor kept. Not given: all.
  TensorView<const std::int32_t> valid_lens{};
};

// What a run writes.
struct Outputs {
  TensorView<float> output{};             // (B, M, Plan::output_size()), or (B, H, M, the same) where there are heads
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
  // A move is a copy too: what was moved from is still a plan.
  Plan(const Plan&) noexcept = default;
  Plan& operator=(const Plan&) noexcept = default;

  // Computes output = softmax(score(queries, keys)) values, row by row over each row's valid keys.
  //   Shapes: as in Inputs and Outputs; each of B, M, N at most what was planned for.
  //   Strides: in elements; the innermost is 1, but free in valid_lens, all others are free: negative everywhere, zero
  //     only where reading, any number where an axis has one element. Rows of an output do not overlap each other; of
  //     that, zero strides alone are an Error.
  //   Aliasing: output and attention_weights overlap neither each other nor any input; overlap is undefined. Inputs may
  //     overlap each other. No alignment is asked for.
  //   Special values: a row that sees no key (by its valid length or a causal mask) gives output and weights 0; a NaN
  //     or +inf in a score it sees makes that row NaN, of which the sign is not specified and may differ where bits are
  //     said to be the same; a -inf score weighs 0 (all -inf: the row is 0). Keys and values that a row does not see do
  //     not influence it, and those that no row sees are never read, nor are queries that are skipped
  //     (Padding::kSkipQueries), whose output and weights are 0. Dot-product scores, their factor included, overflow
  //     from 2^127 = 1.7e38 on, as do their queries times scale log2(e), which lose digits below 2^-126. Values may
  //     overflow from 2^112 / N on, since weights may be 2^16 until they are divided by their sum, and those below
  //     2^-110 lose digits, since weights may be 2^-12 until then.
  //   Error bound: attention weights, and outputs relative to max|values|, within 2e-7 (4 + S) of the exact result for
  //     the queries and keys as projected; f32 throughout, sums over keys in blocks. S is the largest |score|; of dot
  //     products the largest sum_i |scale q_i k_i|, which is more where terms cancel. Twelve times that where all terms
  //     of a sum are alike and so are their roundings: constant vectors, equal weights on equal values. What
  //     projections and an additive score add, each layer says (attend/layers.h).
  //   Thread-safety: many runs of one plan may go on at once, each with its own workspace. Starts no threads, locks and
  //     allocates nothing itself. The executor may, and oneDNN, which projections by weights of up to 768 KiB may go
  //     through (explain() says so), allocates a little in every call; more than that once where more such calls are in
  //     flight than a plan of the layer has threads, or than 256. The same bits for every executor, number of threads
  //     and batch composition.
  //   Errors: Error before any output changes, for every mismatch of shapes, strides, lengths or workspace size. Also
  //     where oneDNN fails in a projection, for want of memory above all: outputs may have changed then.
  void run(const Inputs& inputs, const Outputs& outputs, Workspace& workspace, Executor& executor) const;
  // The same on the calling thread alone.
  void run(const Inputs& inputs, const Outputs& outputs, Workspace& workspace) const;

  // Does what a run does to keys and values before it meets a query, once for many runs: maps them (W_k k, W_v v),
  // takes the exponentials of an additive score, packs both for the kernels. Replaces what `prepared` held.
  //   prepared: made for this plan (or a copy of it); its batch, N and lengths become those of the inputs.
  //   Results: a run on prepared keys gives the bits that a run on the same keys and values gives.
  //   Shapes, strides, aliasing, special values: as in run. The inputs are not needed afterwards.
  //   Thread-safety: any number of runs may share `prepared`, but none while it is prepared or extended. Allocates
  //     nothing itself, as run.
  //   Errors: Error before anything changes; if oneDNN fails, `prepared` is left empty.
  void prepare(const KeyInputs& inputs, PreparedKeys& prepared, Workspace& workspace, Executor& executor) const;
  void prepare(const KeyInputs& inputs, PreparedKeys& prepared, Workspace& workspace) const;

  // Adds keys and values behind those that each batch entry has: what a decoder does with its own last token. A run
  // then gives the bits of keys and values that were concatenated, entry by entry, valid ones only. prepare comes
  // first: it says how many batch entries there are. Entries may then have different numbers of keys: see
  // PlanOptions::causal. The rest as prepare.
  //   Errors: also `prepared` that holds nothing, another number of batch entries, more keys than there is room for.
  void append(const KeyInputs& inputs, PreparedKeys& prepared, Workspace& workspace, Executor& executor) const;
  void append(const KeyInputs& inputs, PreparedKeys& prepared, Workspace& workspace) const;

  // Path, tiles, target, workspace, estimated work and the reason of every choice, some lines of text.
  //   Thread-safety: thread-safe. Allocates.
  std::string explain() const;
  // The same and the tiles per score tier of the last run that used this workspace.
  //   Thread-safety: thread-safe, but not while the workspace is in use. Allocates.
  //   Errors: as tier_counts.
  std::string explain(const Workspace& after_run) const;
  // Those counts. Not specified for a workspace that no run of this plan has used.
  //   Thread-safety: thread-safe, but not while the workspace is in use. Allocates nothing.
  //   Errors: Error unless the plan was made with PlanOptions::count_tiers; for a workspace that is too small for it.
  TierCounts tier_counts(const Workspace& after_run) const;

  // What follows is thread-safe and allocates nothing.

  // What a run of the whole shape takes on a machine. Formula and error: those of Cost (attend/planner.h).
  Cost cost(const Machine& machine) const;
  // The paths that fit the problem, the one that the rules prefer first. Valid while this plan or a copy of it lives.
  std::span<const std::string> candidates() const noexcept;
  // The chosen path, such as "additive/factored" or "dot/fused". Valid while this plan or a copy of it lives.
  std::string_view path() const noexcept;
  // The instruction set the kernels run on, such as "AVX3". Valid while this plan or a copy of it lives.
  std::string_view target_name() const noexcept;
  // Bytes a Workspace for this plan holds.
  std::size_t workspace_bytes() const noexcept;
  // Bytes of memory that PreparedKeys for this plan take.
  std::size_t prepared_bytes() const noexcept;
  // The largest problem accepted, with every size filled in. Valid while this plan or a copy of it lives.
  const Shape& shape() const noexcept;
  // Elements of one output row: value_size, or for multi-head the rows of W_o; + query_size with concat_queries.
  std::int64_t output_size() const noexcept;
  // Heads that the attention weights are given for; 0 when they are (B, M, N). (Where Shape::num_heads is 1, views of a
  // run with an axis of one head have weights (B, 1, M, N).)
  std::int64_t weight_heads() const noexcept;

 private:
  friend class PreparedKeys;
  friend class Planner;
  void add_keys(const KeyInputs& inputs, PreparedKeys& prepared, Workspace& workspace, Executor& executor,
                bool append) const;

  std::shared_ptr<const detail::PlanImpl> impl_;
};

// Scratch memory for one run at a time. Serves any plan whose workspace_bytes() it covers.
class Workspace {
 public:
  // Owns its memory, in huge pages from 1 MiB on where the system has them. Throws std::bad_alloc when there is none.
  explicit Workspace(const Plan& plan) : Workspace(plan.workspace_bytes()) {}
  explicit Workspace(std::size_t bytes);
  // Uses the caller's memory, of any alignment (up to kAlignment bytes at its start may be skipped: add them), which
  // must outlive this object.
  explicit Workspace(std::span<std::byte> memory);
  ~Workspace();
  // What was moved from has no memory, and a run refuses it. Assignment swaps: it then has what this one had.
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

// Keys and values as a plan's kernels want them, for many runs: the encoder's output of a decoder, the training points
// of a kernel regression.
//
//     attend::PreparedKeys prepared(plan);
//     plan.prepare({.keys = k, .values = v, .valid_lens = lens}, prepared, workspace);
//     for (...) plan.run({.queries = q, .prepared = &prepared}, {.output = out}, workspace);
//
// Has room for the batch and the number of keys that the plan was made for, so that keys may be appended. Empty at
// first: prepare comes before append and before any run. Runs only read it: any number of threads may share it.
class PreparedKeys {
 public:
  // Owns its memory, as a Workspace does. Throws std::bad_alloc when there is none.
  explicit PreparedKeys(const Plan& plan);
  // Uses the caller's memory, plan.prepared_bytes() of it from the first multiple of Workspace::kAlignment on, which
  // must outlive this object. Error if it is smaller.
  PreparedKeys(const Plan& plan, std::span<std::byte> memory);
  // What was moved from holds nothing and serves no plan.
  PreparedKeys(PreparedKeys&& other) noexcept;
  PreparedKeys& operator=(PreparedKeys&& other) noexcept;

  // Batch entries; 0 until something is prepared.
  std::int64_t batch() const noexcept { return batch_; }
  // N: the sizes of the keys prepared and appended, added up. What attention weights of a run have as columns.
  std::int64_t num_keys() const noexcept { return num_keys_; }
  // Keys of entry b, at most num_keys(): the valid ones of those. 0 for an entry that there is not.
  std::int64_t len(std::int64_t b) const noexcept;

 private:
  friend class Plan;
  std::shared_ptr<const detail::PlanImpl> plan_;
  Workspace memory_;
  std::int64_t batch_ = 0, num_keys_ = 0;
};

}  // namespace attend

#endif  // ATTEND_PLAN_H_
