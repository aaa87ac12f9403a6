// Rows that will be read or written before long. Rows of one head lie apart in memory, between those of others, which
// no hardware prefetcher follows; so kernels that compute for a while prefetch them now and then, and they arrive
// meanwhile.
#ifndef ATTEND_KERNELS_PREFETCH_H_
#define ATTEND_KERNELS_PREFETCH_H_

#include <algorithm>
#include <cstddef>
#include <span>

namespace attend::kernels {

// Floats after which the sets of an L1 of 64 sets repeat: each holds 8 or 12 of the lines that lie so far apart.
inline constexpr std::ptrdiff_t kSetsRepeat = 4096 / sizeof(float);

struct PrefetchRows {
  static constexpr std::size_t kLine = 64 / sizeof(float);

  const float* next = nullptr;  // the first row not yet prefetched; never dereferenced
  std::ptrdiff_t stride = 0;    // elements
  std::size_t num_rows = 0;     // from `next` on
  std::size_t size = 0;         // elements of a row
  std::size_t done = 0;         // elements of the first row whose lines are prefetched already
  bool into_l1 = false;         // what fetch_fours does; else into L2

  // Of rows that each begin with a line.
  std::size_t num_lines() const { return num_rows * ((size + kLine - 1) / kLine) - done / kLine; }

  // Prefetches `count` rows, and the line that each ends in, if they do not begin with one. Into L2: the kernel at work
  // fills L1.
  void fetch(std::size_t count) {
    for (; count > 0 && num_rows > 0; --count, --num_rows, next += stride, done = 0) {
      for (std::size_t k = done; k < size; k += kLine) __builtin_prefetch(next + k, 0, 2);
      __builtin_prefetch(next + (size - 1), 0, 2);
    }
  }

  // Prefetches so many lines, to be written: a core that holds them gives them up meanwhile, and no store waits for it.
  void fetch_to_write(std::size_t lines);

  // For steps so short that these loops cost: twice four lines of a row, or what it has left, and the line that these
  // end in. The loops end where rows do, which seems to be mispredicted; here no branch depends on that. Products by
  // pairs of terms, EPYC (Zen 5), AVX3, against three rows a step by `fetch`: dot/b8_h12_m512_n512_d64_lens 19.5 ->
  // 18.5 ms, b1_h12_m512_n512_d64 4.20 -> 4.03. Plain tiles take as long either way; inner loops that fetch a line a
  // turn (PrefetchLines) would lose, dot/b4_h8_m16_n1024_d64 1.09 -> 1.30.
  [[gnu::always_inline]] void fetch_fours() {
    if (num_rows == 0) return;
    PrefetchRows rows = *this;  // in registers
    if (into_l1) {
      rows.fetch_four<3>();
      rows.fetch_four<3>();
    } else {
      rows.fetch_four<2>();
      rows.fetch_four<2>();
    }
    *this = rows;
  }

 private:
  template <int kLocality>
  [[gnu::always_inline]] void fetch_four() {
    const float* line = next + done;
    const std::size_t last = size - 1 - done;
    __builtin_prefetch(line, 0, kLocality);
    __builtin_prefetch(line + std::min(kLine, last), 0, kLocality);
    __builtin_prefetch(line + std::min(2 * kLine, last), 0, kLocality);
    __builtin_prefetch(line + std::min(3 * kLine, last), 0, kLocality);
    __builtin_prefetch(line + std::min(4 * kLine - 1, last), 0, kLocality);
    const std::size_t ends = last < 4 * kLine ? 1 : 0;
    next += stride & -static_cast<std::ptrdiff_t>(ends);
    done = (done + 4 * kLine) & (ends - 1);
    num_rows -= std::min(num_rows, ends);
  }
};

// The same line by line, from the first of several that has rows left: for inner loops, a line or two per turn. Where
// none has rows left, one line is prefetched again and again: cheaper than a branch each time.
class PrefetchLines {
 public:
  PrefetchLines(std::span<PrefetchRows> all, const float* any_line) : rows_{.next = any_line, .size = 1} {
    for (PrefetchRows& rows : all) {
      if (rows.num_rows == 0) continue;
      rows_ = rows;
      source_ = &rows;
      break;
    }
    begin_row();
    line_ += rows_.done;
  }

  // Always inline: g++ 12 takes a function that does nothing but prefetch lines for one without effect.
  [[gnu::always_inline]] void fetch() {
    __builtin_prefetch(line_, 0, 2);
    line_ += PrefetchRows::kLine;
    if (line_ < row_end_) return;
    if (rows_.num_rows > 1) rows_.next += rows_.stride;
    if (rows_.num_rows > 0) --rows_.num_rows;
    begin_row();
  }

  // What is left stays for the next loop.
  void stop() const {
    if (source_ == nullptr) return;
    *source_ = rows_;
    source_->done = rows_.num_rows == 0 ? 0 : static_cast<std::size_t>(line_ - rows_.next);
  }

 private:
  void begin_row() {
    line_ = rows_.next;
    row_end_ = line_ + rows_.size;
  }

  PrefetchRows rows_;
  PrefetchRows* source_ = nullptr;
  const float* line_;
  const float* row_end_;
};

// Elements that lie in one piece, and then others, for steps that prefetch so many of them each, term by term, by a
// pointer that goes through them.
class PrefetchElements {
 public:
  explicit PrefetchElements(std::span<const float> first, std::span<const float> then = {})
      : at_(first.data()), left_(first.size()), then_(then) {}

  const float* at() const { return at_; }
  // A step has prefetched so many; the next one may, too. The last ones are prefetched again and again.
  void take(std::size_t count) {
    if (left_ > 2 * count) {
      at_ += count;
      left_ -= count;
    } else if (!then_.empty()) {
      at_ = then_.data();
      left_ = then_.size();
      then_ = {};
    }
  }

 private:
  const float* at_;
  std::size_t left_;
  std::span<const float> then_;
};

}  // namespace attend::kernels

#endif  // ATTEND_KERNELS_PREFETCH_H_
