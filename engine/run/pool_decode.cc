// A handful of queries, as a decoder has: all time goes into reading keys and values once. Where the heads of a row lie
// side by side, all of them are walked together, so that memory is read in its order, which prefetchers follow. bench:
// few_rows/decode_*, dot/b1_h32_kv8_m1_n4096_d128.
#include <algorithm>
#include <cstdlib>
#include <limits>

#include "engine/base/carver.h"
#include "engine/kernels/few_rows.h"
#include "engine/kernels/prefetch.h"
#include "engine/run/pool.h"

namespace attend::detail {
namespace {

// Keys of one head at a time. Where a row holds all heads, rows of 4 KiB lie in pages of their own: those of two
// blocks, at work and prefetched, should be fewer than the 64 that L1's TLBs know.
// few_rows/decode_bnhd_r4_n4096_d128_block4, 8, 16, 32 and 64: 1.35, 1.35, 1.33, 1.34 and 1.43 ms from L3 on an Intel
// Xeon with AMX.
constexpr std::size_t kBlockKeys = 16;
// Half of it where heads lie side by side, their rows are a multiple of kernels::kSetsRepeat apart and prefetched into
// L1: rows of 16 keys push each other out of the sets they share. EPYC (Zen 5), 12 ways, us on AVX3 of
// few_rows/decode_bnhd_r1_n4096_d128, _r2 and _r4 by _block16_l1: 940, 1015, 1050; by _block8_l1: 720, 855, 885. Zen
// 4, 8 ways, length/decode_n1024 186 and 162 us, from L3. Sums of values must then not depend on it
// (kernels::kPoolSum): to hold half a sum in memory between two calls was slower, 0.98 beside 0.89 ms for
// dot/b1_h32_kv8_m1_n4096_d128, for it takes as much of L1 as the accumulators do. By fours 0.79 ms, but sums of four
// values cost AVX2 a third where values are cached.
static_assert(kBlockKeys / 2 % kernels::kPoolSum == 0);
// What lies between the block at work and the one that is prefetched: rows of 64 numbers are done with sooner than
// memory answers for 4 KiB ahead. EPYC (Zen 4), 1, 2, 4 and 8 blocks ahead: planner/b1_h8_m1_n4096_d64 487, 436, 370
// and 385 us, dot/b8_h32_kv8_m1_n1024_d128 4.3, 3.9, 3.8 and 3.9 ms, when they were prefetched once.
constexpr std::size_t kAheadBytes = 16 * 1024;

// Some heads of one entry, or all, against one chunk of its keys. Rows of scores, sums and accumulators: key-value head
// by key-value head, query head by query head, query by query.
class DecodePooler {
 public:
  DecodePooler(const PoolJob& job, std::int64_t b, HeadRange heads, std::size_t begin, std::byte* worker)
      : job_(job),
        plan_(*job.plan),
        kernels_(*job.plan->kernels),
        b_(b),
        heads_(heads),
        begin_(begin),
        num_queries_(static_cast<std::size_t>(job.visible.num_queries(b))),
        group_rows_(num_queries_ * static_cast<std::size_t>(plan_.heads_per_kv_head())),
        score_size_(static_cast<std::size_t>(plan_.score_size)),
        prefetch_into_(plan_.decode_prefetch.in_run_over(job.num_bytes())),
        queries_(part<float>(worker, plan_.layout.packed_queries)),
        accumulators_(part<float>(worker, plan_.layout.accumulators)),
        row_max_(part<float>(worker, plan_.layout.row_max)),
        row_sums_(part<float>(worker, plan_.layout.row_sums)),
        row_totals_(part<double>(worker, plan_.layout.row_totals)),
        lens_(part<std::int32_t>(worker, plan_.layout.row_lens)),
        block_lens_(part<std::int32_t>(worker, plan_.layout.tile_lens)),
        scores_(part<float>(worker, plan_.layout.scores)) {}

  void pool(std::size_t limit, std::size_t chunk) {
    std::size_t keys = 0;  // of this chunk that some query sees
    for (std::size_t r = 0; r < group_rows_; ++r) {
      const auto len = static_cast<std::size_t>(job_.visible.num_keys(b_, static_cast<std::int64_t>(r % num_queries_)));
      lens_[r] = static_cast<std::int32_t>(std::min(std::max(len, begin_), limit) - begin_);
      keys = std::max(keys, static_cast<std::size_t>(lens_[r]));
    }
    const std::size_t rows = group_rows_ * static_cast<std::size_t>(heads_.count());
    const std::int64_t first_head = heads_.first * plan_.heads_per_kv_head(),
                       last_head = heads_.last * plan_.heads_per_kv_head();
    std::fill_n(row_max_, rows, -std::numeric_limits<float>::infinity());
    std::fill_n(row_sums_, rows * kernels_.softmax_tile.sums_stride, 0.0f);
    std::fill_n(accumulators_, rows * plan_.padded_values, 0.0f);
    for (std::int64_t h = first_head; h < last_head; ++h) pack_queries(h);
    score(keys);
    for (std::int64_t g = heads_.first; g < heads_.last; ++g) weigh(g, keys);
    pool_values(keys);
    kernels_.softmax_tile.total_sums(row_sums_, rows, row_totals_);
    for (std::int64_t h = first_head; h < last_head; ++h) {
      store_output(h, chunk);
      if (job_.attention_weights.data != nullptr) store_weights(h, keys);
    }
  }

 private:
  std::size_t first_row(std::int64_t kv_head) const {
    return static_cast<std::size_t>(kv_head - heads_.first) * group_rows_;
  }
  std::size_t row_of_head(std::int64_t h) const {
    return static_cast<std::size_t>(h - heads_.first * plan_.heads_per_kv_head()) * num_queries_;
  }

  // Keys of one call, a block or half of one.
  struct Block {
    std::int64_t head;
    std::size_t first, count;  // keys
    kernels::LaterRows later;
  };

  // Where a walk through all blocks of the heads stands: at the `inner`th of the `outer`th row of blocks. It stays at
  // the last one.
  struct Cursor {
    std::size_t outer = 0, inner = 0;
    std::ptrdiff_t place = 0;  // elements from the first block of the first head

    void advance(std::size_t outers, std::size_t inners, std::ptrdiff_t outer_stride, std::ptrdiff_t inner_stride) {
      if (inner + 1 < inners) {
        ++inner;
        place += inner_stride;
      } else if (outer + 1 < outers) {
        place += outer_stride - static_cast<std::ptrdiff_t>(inner) * inner_stride;
        ++outer;
        inner = 0;
      }
    }
  };

  // Calls visit(Block) for all blocks of the heads, in the order of memory.
  template <class T, class Visit>
  void walk(const Rows<T>& rows, std::size_t row_size, std::size_t keys, const Visit& visit) const {
    const bool side_by_side = std::abs(rows.head_stride) < std::abs(rows.row_stride);
    const bool share_sets = side_by_side && rows.row_stride % kernels::kSetsRepeat == 0;
    const std::size_t block_keys = share_sets && kernels::ends_in_l1(prefetch_into_) ? kBlockKeys / 2 : kBlockKeys;
    const auto heads = static_cast<std::size_t>(heads_.count()), blocks = divide_up(keys, block_keys);
    const std::ptrdiff_t block_stride = static_cast<std::ptrdiff_t>(block_keys) * rows.row_stride;
    const auto advance = [&](Cursor& cursor) {
      if (side_by_side) {
        cursor.advance(blocks, heads, block_stride, rows.head_stride);
      } else {
        cursor.advance(heads, blocks, rows.head_stride, block_stride);
      }
    };
    const std::size_t ahead = divide_up(kAheadBytes, block_keys * sizeof(float) * std::max<std::size_t>(row_size, 1));
    Cursor now, far, near;
    for (std::size_t i = 0; i < ahead; ++i) advance(far);
    for (std::size_t i = 0; i < ahead / 2; ++i) advance(near);
    for (std::size_t i = 0; i < heads * blocks; ++i) {
      const std::size_t head = side_by_side ? now.inner : now.outer;
      const std::size_t first = (side_by_side ? now.outer : now.inner) * block_keys;
      visit(Block{.head = heads_.first + static_cast<std::int64_t>(head),
                  .first = first,
                  .count = std::min(block_keys, keys - first),
                  .later = {.into = prefetch_into_, .ahead = far.place - now.place, .again = near.place - now.place}});
      advance(now);
      advance(far);
      advance(near);
    }
  }

  void pack_queries(std::int64_t h) {
    kernels_.pack.queries({.queries = job_.queries.at(b_, h, 0),
                           .queries_stride = job_.queries.row_stride,
                           .num_queries = num_queries_,
                           .size = score_size_,
                           .center = nullptr,
                           .scale = plan_.query_scale,
                           .append_scale = false,
                           .packed = queries_ + row_of_head(h) * score_size_,
                           .packed_stride = static_cast<std::ptrdiff_t>(score_size_)});
  }

  void score(std::size_t keys) {
    walk(job_.keys, score_size_, keys, [&](const Block& block) {
      kernels_.few_rows.dots({.queries = queries_ + first_row(block.head) * score_size_,
                              .queries_stride = static_cast<std::ptrdiff_t>(score_size_),
                              .num_rows = group_rows_,
                              .keys = job_.keys.at(b_, block.head, static_cast<std::int64_t>(begin_ + block.first)),
                              .keys_stride = job_.keys.row_stride,
                              .num_keys = block.count,
                              .size = score_size_,
                              .scores = scores_of(block.head) + block.first,
                              .scores_stride = static_cast<std::ptrdiff_t>(plan_.scores_stride),
                              .later = block.later});
    });
  }

  float* scores_of(std::int64_t g) const { return scores_ + first_row(g) * plan_.scores_stride; }

  void weigh(std::int64_t g, std::size_t keys) {
    kernels_.softmax_tile.step({.scores = scores_of(g),
                                .scores_stride = static_cast<std::ptrdiff_t>(plan_.scores_stride),
                                .num_rows = group_rows_,
                                .num_columns = keys,
                                .lens = lens_,
                                .scale = plan_.score_scale,
                                .max_lanes = nullptr,
                                .row_max = row_max_ + first_row(g),
                                .row_sums = row_sums_ + first_row(g) * kernels_.softmax_tile.sums_stride,
                                .accumulators = accumulators_ + first_row(g) * plan_.padded_values,
                                .accumulators_stride = static_cast<std::ptrdiff_t>(plan_.padded_values),
                                .accumulator_columns = plan_.padded_values});
  }

  void pool_values(std::size_t keys) {
    walk(job_.values, static_cast<std::size_t>(plan_.head_value_size), keys, [&](const Block& block) {
      for (std::size_t r = 0; r < group_rows_; ++r) {
        block_lens_[r] =
            std::clamp(lens_[r] - static_cast<std::int32_t>(block.first), 0, static_cast<std::int32_t>(block.count));
      }
      kernels_.few_rows.pool({.p = scores_of(block.head) + block.first,
                              .p_stride = static_cast<std::ptrdiff_t>(plan_.scores_stride),
                              .num_rows = group_rows_,
                              .lens = block_lens_,
                              .values = job_.values.at(b_, block.head, static_cast<std::int64_t>(begin_ + block.first)),
                              .values_stride = job_.values.row_stride,
                              .num_values = block.count,
                              .value_size = static_cast<std::size_t>(plan_.head_value_size),
                              .accumulators = accumulators_ + first_row(block.head) * plan_.padded_values,
                              .accumulators_stride = static_cast<std::ptrdiff_t>(plan_.padded_values),
                              .later = block.later});
    });
  }

  // The output of one query head, or what merge_chunks makes it of.
  void store_output(std::int64_t h, std::size_t chunk) {
    const std::size_t row = row_of_head(h);
    const float* accumulators = accumulators_ + row * plan_.padded_values;
    if (plan_.has_chunks()) {
      return store_chunk(job_, b_, h, chunk, 0, num_queries_, accumulators, row_max_ + row, row_totals_ + row);
    }
    kernels_.softmax_tile.finish_rows({.accumulators = accumulators,
                                       .accumulators_stride = static_cast<std::ptrdiff_t>(plan_.padded_values),
                                       .row_sum = row_totals_ + row,
                                       .output = job_.output.at(b_, h, 0),
                                       .output_stride = job_.output.row_stride,
                                       .num_rows = num_queries_,
                                       .num_columns = static_cast<std::size_t>(plan_.head_value_size)});
  }

  // p over its sum; or p as it is, of which merge_chunks makes weights.
  void store_weights(std::int64_t h, std::size_t keys) {
    const std::size_t row = row_of_head(h);
    const bool is_last = !plan_.has_chunks();
    kernels_.softmax_tile.finish_rows({.accumulators = scores_ + row * plan_.scores_stride,
                                       .accumulators_stride = static_cast<std::ptrdiff_t>(plan_.scores_stride),
                                       .row_sum = is_last ? row_totals_ + row : nullptr,
                                       .output = job_.attention_weights.at(b_, h, 0) + begin_,
                                       .output_stride = job_.attention_weights.row_stride,
                                       .num_rows = num_queries_,
                                       .num_columns = keys});
    for (std::size_t m = 0; is_last && m < num_queries_; ++m) {
      clear_weights(job_, b_, h, static_cast<std::int64_t>(m), lens_[m]);
    }
  }

  const PoolJob& job_;
  const PlanImpl& plan_;
  const kernels::KernelSet& kernels_;
  const std::int64_t b_;
  const HeadRange heads_;
  const std::size_t begin_;
  const std::size_t num_queries_, group_rows_;  // computed queries; rows that share a key-value head
  const std::size_t score_size_;
  const kernels::PrefetchInto prefetch_into_;
  float* const queries_;
  float* const accumulators_;
  float* const row_max_;
  float* const row_sums_;
  double* const row_totals_;
  std::int32_t* const lens_;
  std::int32_t* const block_lens_;
  float* const scores_;
};

}  // namespace

void pool_decode(const PoolJob& job, std::size_t item, std::byte* worker) {
  const HeadsItem at = heads_item(job, item);
  if (!begin_heads(job, at.b, at.heads.first, at.heads.last, at.chunk)) return;
  const auto [begin, limit] = job.chunk_range(at.b, at.chunk);
  DecodePooler(job, at.b, at.heads, begin, worker).pool(limit, at.chunk);
}

}  // namespace attend::detail
