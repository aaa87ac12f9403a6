// Enough work items for the threads, and projected keys where they are wanted: in the cache of the one worker that
// pools them, or in memory for several.
#include "engine/plan/split_rules.h"

#include <algorithm>
#include <string>

#include "engine/base/checked.h"

namespace attend::detail {
namespace {

// Work items per thread where they are not alike. By arithmetic: who ends last keeps the others waiting for an item, a
// quarter of a thread's work if they are. threads/* and what ends in _threads2 show what this comes to.
constexpr std::size_t kItemsPerThread = 4;
// The same where they are, or may be.
constexpr std::size_t kAlikeItemsPerThread = 2;
// Bytes of exponentials of the keys that a worker projects and pools itself: a quarter of 2 MiB of L2, beside the half
// that it has for the rest (tile_rules.cc). Within that half there is no room for the 512 keys of
// additive/b8_m64_n512_u256, which took 11.96 ms projected beforehand and 10.83 so; additive/b64_m1_n100_u256, whose
// entries share a window, 7.13 and 6.55.
constexpr std::size_t kWindowBytes = 512 * 1024;
// The same with their values, where these come into L2 meanwhile: at most as much, and of several entries a quarter of
// 1 MiB, beside the weights, the copies of rows, their results and the next keys. EPYC (Zen 4) without AVX-512, AVX2,
// where pooling waited for L3: additive/b64_m1_n100_u256 10.0 and 9.6 ms, with two entries at a time 9.8;
// additive/b1_m1_n16384_u256, windows of 256 keys, 25.1 and 24.6.
constexpr std::size_t kWindowBytesWithValues = 256 * 1024;
// The least bytes of keys and values of a decoder's work item that heads are split into. EPYC (Zen 4), 2 threads, us,
// all heads in one item and in two: 16 keys of 8 heads of size 128, 128 KiB, 5.6 and 4.0; 64 keys 18.5 and 10.5, 1024
// keys 278 and 147, but 160 in four or eight, whose rows are read in smaller pieces (attend plan --layer dot --shape
// 1,1,1024,128 --num-heads 32 --num-kv-heads 8 --threads 2 --measure). So the two of the first have 64 KiB each, and
// what the busiest thread has to do must become less by more than those pieces cost.
constexpr std::size_t kDecodeItemBytes = 64 * 1024;
constexpr double kWorthIt = 0.9;
// Bytes of what lanes keep of the heads of an item between steps: a quarter of a worker's 1 MiB, by arithmetic. 8 heads
// of 64 lanes of size 128 would be 524 KiB.
constexpr std::size_t kLanesStateBytes = 256 * 1024;

// Whether entries have as many valid keys, or may have.
bool may_be_alike(ValidLens lens) { return lens == ValidLens::kNone || lens == ValidLens::kAny; }

// What the busiest thread does of so many items that are cut into ranges, in items before the cut.
double busiest(std::size_t items, std::size_t ranges, std::size_t threads) {
  return static_cast<double>(divide_up(items * ranges, threads)) / static_cast<double>(ranges);
}

// Into how many ranges of queries each of so many heads is cut. Every range packs, or reads, all keys and values of its
// head. Where heads are alike, or may be, two items a thread do, if they come out even to within a tenth. Intel Xeon
// with AMX, 2 threads, 8 items or more and 4: 2048 queries and keys of a head of size 64 2.17 and 1.91 ms, 1000 queries
// and 700 keys of three heads 1.30 and 1.12 (attend plan --layer dot --shape 1,1000,700,64 --num-heads 3 --threads 2
// --measure); additive/b2_m256_n1024_u128_threads2 3.09 to 3.37 and 3.00 to 3.17.
std::size_t even_query_ranges(const PlanImpl& plan, std::size_t heads) {
  const std::size_t threads = to_size(plan.options.threads), most = divide_up(kItemsPerThread * threads, heads);
  if (plan.options.causal != Causal::kNone || !may_be_alike(plan.options.valid_lens)) return most;
  std::size_t ranges = divide_up(kAlikeItemsPerThread * threads, heads);
  const double even = static_cast<double>(heads) / static_cast<double>(threads);
  while (ranges < most && even < kWorthIt * busiest(heads, ranges, threads)) ++ranges;
  return ranges;
}

// Into how many ranges of heads, at most, each of so many items is cut, so that the busiest thread has less to do.
std::size_t even_head_ranges(std::size_t items, std::size_t threads, std::size_t most) {
  std::size_t best = 1;
  for (std::size_t ranges = 2; ranges <= std::min(most, threads); ++ranges) {
    if (busiest(items, ranges, threads) < kWorthIt * busiest(items, best, threads)) best = ranges;
  }
  return best;
}

// Of decoding.
std::size_t decode_head_ranges(const PlanImpl& plan, std::size_t items) {
  const std::size_t keys = plan.has_chunks() ? plan.chunk_keys : to_size(plan.shape.num_keys);
  const std::size_t row_bytes = to_size(plan.num_kv_heads * (plan.score_size + plan.head_value_size)) * sizeof(float);
  const std::size_t most = std::min(to_size(plan.num_kv_heads), keys * row_bytes / kDecodeItemBytes);
  return even_head_ranges(items, to_size(plan.options.threads), most);
}

// Of lanes: one head each, unless memory is read in its order. Then as many as may be, since rows of some heads are no
// longer one piece of memory: Intel Xeon with AMX, dot/b4_h8_m16_n1024_d64_threads2, 4 entries whole 0.65 to 0.68 ms,
// in two ranges each 0.72 to 0.89. Where entries may have different lengths, twice as many items as threads are enough
// to be worth it; where they will, it takes kItemsPerThread.
std::size_t lanes_head_ranges(const PlanImpl& plan, std::size_t items) {
  const std::size_t heads = to_size(plan.num_kv_heads), threads = to_size(plan.options.threads);
  if (!plan.lanes_prefetch.in_order) return heads;
  const std::size_t numbers = to_size(plan.score_size + plan.head_value_size) + plan.num_lane_steps();
  const std::size_t most_heads = kLanesStateBytes / (numbers * plan.group_queries * sizeof(float));
  const std::size_t least = divide_up(heads, std::max<std::size_t>(most_heads, 1));
  if (threads == 1) return std::min(least, heads);
  const ValidLens lens = plan.options.valid_lens;
  const std::size_t per_thread = may_be_alike(lens) ? kAlikeItemsPerThread : kItemsPerThread;
  const std::size_t for_threads =
      lens == ValidLens::kNone ? even_head_ranges(items, threads, heads) : divide_up(per_thread * threads, items);
  return std::min(std::max(least, for_threads), heads);
}

// Groups of lanes that threads can share, where key-value heads alone do not come out even: whole vectors, for what is
// empty of one is paid for. No row's bits depend on its group. EPYC (Zen 5), 2 threads, 3 heads of 128 queries of 1024
// keys of size 256 1550 and 1260 us, 2 heads of 24 on one of 512 keys of size 64 34 and 25 (attend plan --layer dot
// --num-heads 3 --shape 1,128,1024,256 --threads 2 --measure).
void cut_lane_groups(PlanImpl& plan, std::size_t units) {
  const std::size_t threads = to_size(plan.options.threads), lanes = plan.kernels->query_lanes.lanes;
  const std::size_t heads = plan.lane_heads, queries = plan.lane_queries;
  const auto cut = [&](std::size_t parts) {
    plan.lane_heads = divide_up(heads, parts);
    const std::size_t left = divide_up(parts, divide_up(heads, plan.lane_heads));
    plan.lane_queries = left == 1 ? queries : std::min(queries, round_up(divide_up(queries, left), lanes));
  };
  // Vectors that the busiest thread passes over.
  const auto work = [&] {
    const std::size_t groups = plan.num_lane_groups(plan.shape.num_queries);
    return divide_up(plan.lane_heads * plan.lane_queries, lanes) * divide_up(units * groups, threads);
  };
  std::size_t best = 1, least = work();
  const std::size_t most = std::min(kItemsPerThread * threads, heads * divide_up(queries, lanes));  // a head, a vector
  for (std::size_t parts = 2; parts <= most; ++parts) {
    cut(parts);
    if (static_cast<double>(work()) < kWorthIt * static_cast<double>(least)) {
      best = parts;
      least = work();
    }
  }
  cut(best);
  if (best == 1) return;
  plan.group_queries = plan.tile_queries = round_up(plan.lane_heads * plan.lane_queries, lanes);
  plan.lanes_prefetch.in_order = false;
}

// Into how many of `ranges` the query heads of a key-value head go, where queries make up to so many tiles: evenly if
// they can, for heads are alike, and queries that a mask leaves are not. EPYC (Zen 5), 2 threads, 8 heads of 16 queries
// on one, 1000 keys of size 128: 480 us as one item, 300 in four (attend plan --layer dot --num-heads 8 --num-kv-heads
// 1 --shape 1,16,1000,128 --threads 2 --measure).
std::size_t group_head_ranges(std::size_t heads, std::size_t ranges, std::size_t tiles) {
  const auto is_even = [&](std::size_t some) { return heads % some == 0; };
  std::size_t most = std::min(heads, ranges);
  while (!is_even(most)) --most;
  if (divide_up(ranges, most) <= tiles) return most;
  std::size_t least = std::min(heads, divide_up(ranges, tiles));
  while (!is_even(least)) ++least;
  return least;
}

// Into how many ranges the query heads of each key-value head go, which are alike, and their queries; or the heads of
// each entry where rows are read where they lie.
void choose_ranges(PlanImpl& plan) {
  const std::size_t chunks = plan.num_chunks(), threads = to_size(plan.options.threads);
  if (plan.pooling == Pooling::kLanes && threads > 1) {
    cut_lane_groups(plan, std::max<std::size_t>(to_size(plan.shape.batch * plan.num_kv_heads) * chunks, 1));
  }
  const bool by_head = !plan.reads_rows() || plan.has_lane_groups();
  const std::int64_t heads_per_unit = by_head ? plan.num_kv_heads : 1;
  const std::size_t units = std::max<std::size_t>(to_size(plan.shape.batch * heads_per_unit), 1);
  const std::size_t tiles =
      plan.has_lane_groups() ? plan.num_lane_groups(plan.shape.num_queries)
                             : divide_up(std::max<std::size_t>(to_size(plan.shape.num_queries), 1), plan.tile_queries);
  const bool has_ranges = threads > 1 && (chunks == 1 || plan.has_lane_groups()) && plan.window_keys == 0 && by_head;
  const std::size_t ranges = has_ranges ? even_query_ranges(plan, units * chunks) : 1;
  plan.head_ranges = 1;
  if (!plan.reads_rows()) plan.head_ranges = group_head_ranges(to_size(plan.heads_per_kv_head()), ranges, tiles);
  plan.query_ranges = std::clamp<std::size_t>(divide_up(ranges, plan.head_ranges), 1, tiles);
  if (plan.pooling == Pooling::kDecode) plan.head_ranges = decode_head_ranges(plan, units * chunks);
  if (plan.pooling == Pooling::kLanes) plan.head_ranges = lanes_head_ranges(plan, units * chunks);
}

bool goes_by_head(const PlanImpl& plan) {
  return plan.pooling == Pooling::kLanes && plan.head_ranges == to_size(plan.num_kv_heads);
}

std::string ranges_text(const PlanImpl& plan) {
  if (plan.entries_per_item > 1) return "several entries of the batch each";
  if (!plan.reads_rows() && plan.head_ranges > 1) {
    return std::to_string(plan.head_ranges) + " ranges of the heads that share a key-value head" +
           (plan.query_ranges > 1 ? ", " + std::to_string(plan.query_ranges) + " of their queries" : "") +
           ", since key-value heads alone are too few to share evenly";
  }
  if (plan.query_ranges > 1) {
    return std::to_string(plan.query_ranges) + " ranges of " +
           (plan.has_lane_groups() && plan.lane_heads > 1 ? "heads" : "queries") +
           " per key-value head, since these alone are too few to share evenly";
  }
  if (goes_by_head(plan) || !plan.reads_rows()) return "one per key-value head and batch entry";
  if (plan.head_ranges > 1) return std::to_string(plan.head_ranges) + " ranges of heads per batch entry";
  return "one per batch entry";
}

std::string chunks_text(const PlanImpl& plan) {
  std::string of = plan.reads_rows() ? "of all heads" : "per head";
  if (goes_by_head(plan)) {
    of = "per head";
  } else if (plan.head_ranges > 1) {
    of = "of " + std::to_string(plan.head_ranges) + " ranges of heads";
  }
  return std::to_string(plan.num_chunks()) + " chunks of " + std::to_string(plan.chunk_keys) + " keys " + of +
         ", merged in order, since few queries share them";
}

}  // namespace

// Where all queries of an entry fit one group, nobody else wants its projected keys: they never leave the worker's
// cache. Several small entries together fill the blocks of rows that projections are made in. One entry must not keep
// the other threads waiting, though.
void choose_projection(PlanImpl& plan) {
  if (!plan.factored || plan.layer->is_multi_head || plan.options.prepared_keys) return;
  const std::size_t batch = to_size(plan.shape.batch), threads = to_size(plan.options.threads);
  const bool enough_items = threads == 1 || batch * plan.num_chunks() >= kItemsPerThread * threads;
  const bool one_group = plan.pooling == Pooling::kFused && to_size(plan.shape.num_queries) <= plan.group_queries;
  if (enough_items && one_group) {
    const std::size_t key_bytes = std::max<std::size_t>(plan.inner_size, 1) * sizeof(float),
                      value_bytes = to_size(plan.head_value_size) * sizeof(float);
    const std::size_t fitting = kWindowBytes / key_bytes;
    const std::size_t most = std::max<std::size_t>(batch / (threads == 1 ? 1 : kItemsPerThread * threads), 1);
    const bool whole = !plan.has_chunks() && plan.key_capacity <= fitting;
    const std::size_t least_window = whole ? plan.key_capacity : plan.span_keys;
    plan.values_with_window = plan.key_map->prefetches_reads(plan.linear_rows(plan.key_map)) &&
                              least_window * (key_bytes + value_bytes) <= kWindowBytes;
    if (whole) {
      const std::size_t keys = plan.values_with_window ? kWindowBytesWithValues / (key_bytes + value_bytes) : fitting;
      plan.entries_per_item = std::clamp<std::size_t>(keys / plan.key_capacity, 1, most);
    }
    plan.window_keys = whole ? plan.entries_per_item * plan.key_capacity : plan.span_keys;
  }
  plan.reasons.push_back(
      {"projection", plan.window_keys == 0
                         ? std::string("keys are projected before they are pooled: several workers or groups of "
                                       "queries want them")
                         : "keys are projected " + std::to_string(plan.window_keys) +
                               " at a time by the worker that pools them, " + std::to_string(plan.entries_per_item) +
                               (plan.entries_per_item == 1 ? " entry" : " entries") + " of the batch per item" +
                               (plan.values_with_window ? "; their values are prefetched meanwhile" : "")});
}

void choose_split(PlanImpl& plan) {
  choose_ranges(plan);
  const std::size_t items = std::max<std::size_t>(plan.num_items(to_size(plan.shape.batch), plan.num_chunks()), 1);
  plan.reasons.push_back({"split", count_text(items, "item") + " for " +
                                       count_text(to_size(plan.options.threads), "thread") + ": " +
                                       (plan.num_chunks() > 1 ? chunks_text(plan) : ranges_text(plan)) +
                                       "; results do not depend on the threads" +
                                       (plan.options.threads > 1 ? ", and small loops take fewer" : "")});
}

}  // namespace attend::detail
