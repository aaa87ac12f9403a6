// What a plan costs on this machine, by estimate and by measurement, and choices that were measured instead of ruled.
//
// Simplest use: nothing; the planner's written rules choose, and Plan::explain() says why.
// Recommended in a service that runs few shapes for long: tune them once, keep the text, plan with it ever after.
//     const attend::Tuned tuned = attend::Planner::tune(layer, shape, options);
//     save(tuned.profile.text());                                              // files are the caller's business
//     ...
//     const attend::Profile profile = attend::Profile::parse(load());
//     options.profile = &profile;
//     auto plan = layer.plan(shape, options);                                  // explain() names the profile
#ifndef ATTEND_PLANNER_H_
#define ATTEND_PLANNER_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "attend/executor.h"
#include "attend/layers.h"
#include "attend/plan.h"
#include "attend/target.h"

namespace attend {

// What bounds a run: how fast one core multiplies and reads. Plain numbers, to be stored or made up.
struct Machine {
  double flops = 0;             // FLOP/s of one core in multiply-adds (two each) of a target's widest vectors
  double projection_flops = 0;  // the same of the best target, which oneDNN picks by itself
  // Bytes/s that one core reads in order: from its L2, from the last level it shares, from memory.
  double l2_bandwidth = 0, l3_bandwidth = 0, memory_bandwidth = 0;
  std::size_t l1_bytes = 0, l2_bytes = 0, l3_bytes = 0;  // data caches, as the system states them

  // Measures the calling thread's core: the best of many short loops, since noise only ever slows one down.
  //   Takes some tenths of a second and 32 MiB. What other processes do to shared caches and memory shows.
  //   Thread-safety: thread-safe, though two at a time slow each other down.
  //   Errors: std::bad_alloc.
  static Machine measure(const Target& target = Target::best());
};

// What a run of a plan's full shape takes, all keys valid that a causal mask leaves: what Plan::cost returns.
//   Formula: arithmetic = products + exponentials + tanhs + packing + projections, each its count (padding included)
//     times what one costs on one core; seconds = overhead + (arithmetic + memory) / threads where keys are packed,
//     else overhead + max(arithmetic, memory) / threads; threads: those that have work.
//   Error: off by 12 % in the median and within a factor of 1.5 in 98 % of the shapes without lengths of bench
//     planner/..., 2.1 in the worst (overhead of tiny runs), on the Cascade Lake where it was last fitted, to one
//     thread on AVX-512; on Zen 4 by 23 %, and within 1.5 in 85 %: lanes are faster there than it says. Other targets
//     and several threads, whose bandwidth is taken as so many times one core's, are further off: a figure to tell 10
//     us from 100 us by, and what bounds them, not a promise.
//   Source: the roofline model, Williams, Waterman, Patterson 2009 (doi:10.1145/1498765.1498785), with more than one
//     kind of work.
struct Cost {
  double flops = 0;  // in products of queries, keys and values, and in projections
  double exps = 0, tanhs = 0;
  double bytes_read = 0, bytes_written = 0;  // inputs and outputs, each once
  // Seconds of one core.
  double product_seconds = 0, exp_seconds = 0, tanh_seconds = 0, packing_seconds = 0, projection_seconds = 0;
  double memory_seconds = 0;    // bytes at the speed of the level that holds them all
  double overhead_seconds = 0;  // of a run and its work items
  int threads = 1;              // that have work
  double seconds = 0;           // predicted for the run
  // The largest of the terms: "products", "exponentials", "tanhs", "packing", "projections", "memory" or "overhead".
  std::string_view bound;
};

// A choice for one problem that was measured.
struct ProfileEntry {
  // What was tuned, in words of one line: layer, sizes, mask, options, target, threads. Made by Planner::tune.
  std::string problem;
  std::string path;
  std::int64_t tile_queries = 0, tile_keys = 0;  // as PlanOptions; 0: by the rules
  Pairs pairs = Pairs::kWhereFaster;             // as PlanOptions
  double microseconds = 0;                       // of a run when it was tuned
};

// Choices that were measured, as a text that people can read, compare and keep in a repository:
//     attend profile 3, library 0.1.0, cpu Intel(R) Xeon(R) Processor
//     layer=dot B=1 M=16 ... target=AVX3 threads=1: path=dot/lanes tile_queries=0 tile_keys=0 pairs=never us=12.3
//   One line per problem, sorted. Empty lines and lines that start with # are passed over when parsing, and
//   not kept.
//   A plan takes the entry of exactly its problem, and none other: other batch, one key more, another target or number
//     of threads are other problems, which the rules serve.
//   Thread-safety: a value; const functions may be called from many threads. find, entries, library and cpu allocate
//     nothing, all else does.
class Profile {
 public:
  // Empty, of this library on this CPU.
  Profile();
  // The reverse of text().
  //   Errors: Error that names the line, what it says and what was expected, also for another version of the format.
  //     Another library version or CPU is no error: see library() and cpu().
  static Profile parse(std::string_view text);
  // As above, the first line and one for each entry.
  std::string text() const;

  // Replaces the entry of the same problem.
  //   Errors: Error for an entry that text() could not say.
  void add(const ProfileEntry& entry);
  // Adds the entries of other, which replace those of the same problems.
  //   Errors: Error if both have entries and were measured on different CPUs.
  void merge(const Profile& other);
  // The entry of that problem, or null. Valid until the profile changes.
  const ProfileEntry* find(std::string_view problem) const noexcept;
  const std::vector<ProfileEntry>& entries() const noexcept { return entries_; }

  // Where the entries were measured.
  const std::string& library() const noexcept { return library_; }
  const std::string& cpu() const noexcept { return cpu_; }

 private:
  std::string library_, cpu_;
  std::vector<ProfileEntry> entries_;  // sorted by problem
};

// Where the heads of generated queries, keys, values and outputs lie, for layers that take heads: dot and gaussian. A
// choice of speed alone; what was tuned on one serves the other, too.
enum class HeadLayout {
  kSideBySide,  // (B, M or N, H * D), as projections leave them and split_heads sees them
  kApart,       // (B, H, M or N, D), each head's rows together, as PyTorch's and ONNX's attention take them
};

struct TuneOptions {
  // Time to spend on measuring, about; each candidate runs at least four times however long that takes.
  double seconds = 1;
  // Also other tiles than those of the rules, and plain sums where these multiply by pairs of terms.
  bool tiles = true;
  // null: for PlanOptions::threads above 1, a ThreadPool that lives as long as the call.
  Executor* executor = nullptr;
  HeadLayout head_layout = HeadLayout::kSideBySide;
};

// One way to run a problem, and how long it took.
struct TunedCandidate {
  std::string path;
  std::int64_t tile_queries = 0, tile_keys = 0;  // that were asked for; 0: by the rules
  Pairs pairs = Pairs::kWhereFaster;             // likewise
  double seconds = 0;                            // the least of all samples
  double median_seconds = 0;
  bool by_rules = false;  // what the written rules choose
};

struct Tuned {
  Plan plan;
  Profile profile;                         // of one entry
  std::vector<TunedCandidate> candidates;  // best first
};

class Planner {
 public:
  // Measures the paths that fit (Plan::candidates()), a few tiles of each and, where PlanOptions::pairs leaves that to
  // the rules, plain sums beside pairs of terms, on generated data, and plans with the fastest; the choice of the rules
  // unless another one is more than 2 % faster. Whether pairs are depends on who else uses the core, which no fact of
  // the CPU tells.
  //   Data: queries, keys and values normally distributed, heads as tune_options.head_layout says; lengths uniform in
  //     1..N where options.valid_lens is kPerBatch or kPerQuery, else none. Prepared keys are prepared once,
  //     beforehand. Candidates take turns, so that a slow moment hits all alike.
  //   Results: candidates agree within the contract's bounds, not to the bit; the plan gives the same bits as any
  //     other plan of the same path, tiles and pairs on its target.
  //   options: path restricts the candidates to one; profile is not looked at; threads count.
  //   Thread-safety: thread-safe, but measures wrongly beside other work. Allocates inputs, outputs and workspaces.
  //   Errors: Error as Attention::plan and as measure; if tile_queries or tile_keys is set, which are to be found.
  static Tuned tune(const Attention& layer, const Shape& shape, const PlanOptions& options = {},
                    const TuneOptions& tune_options = {});

  // Seconds of a run of the plan's full shape on such data, the least of all samples. TuneOptions::tiles has no effect.
  //   Thread-safety: thread-safe, but measures wrongly beside other work. Allocates inputs, outputs, a workspace and,
  //     for plans for prepared keys, those.
  //   Errors: Error for data of 2^63 bytes or more and for a thread that cannot be started; std::bad_alloc.
  static double measure(const Plan& plan, const TuneOptions& tune_options = {});
};

}  // namespace attend

#endif  // ATTEND_PLANNER_H_
