// Rows that will be read or written before long. Rows of one head lie apart in memory, between those of others, which
// no hardware prefetcher follows; so kernels that compute for a while ask for them now and then, and they arrive
// meanwhile.
#ifndef ATTEND_KERNELS_ROWS_AHEAD_H_
#define ATTEND_KERNELS_ROWS_AHEAD_H_

#include <cstddef>

namespace attend::kernels {

struct RowsAhead {
  const float* next = nullptr;  // the first row not yet asked for; never dereferenced
  std::ptrdiff_t stride = 0;    // elements
  std::size_t num_rows = 0;     // from `next` on
  std::size_t size = 0;         // elements of a row

  // Asks for `count` rows. Into L2: the kernel at work fills L1.
  void fetch(std::size_t count) {
    constexpr std::size_t kLine = 64 / sizeof(float);
    for (; count > 0 && num_rows > 0; --count, --num_rows, next += stride) {
      for (std::size_t k = 0; k < size; k += kLine) __builtin_prefetch(next + k, 0, 2);
    }
  }
};

}  // namespace attend::kernels

#endif  // ATTEND_KERNELS_ROWS_AHEAD_H_
