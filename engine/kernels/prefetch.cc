#include "engine/kernels/prefetch.h"

// x86-64 has the instruction since Broadwell, AMD's always; processors before that pass over it. Compilers take it only
// where they are told so, and prefetch for reading otherwise, which leaves a line with the core that wrote it last.
#if defined(__x86_64__)
#define ATTEND_PREFETCHES_TO_WRITE [[gnu::target("prfchw")]]
#else
#define ATTEND_PREFETCHES_TO_WRITE
#endif

namespace attend::kernels {

ATTEND_PREFETCHES_TO_WRITE void PrefetchRows::fetch_to_write(std::size_t lines) {
  for (; lines > 0 && num_rows > 0; --lines) {
    __builtin_prefetch(next + done, 1, 3);
    done += kLine;
    if (done < size) continue;
    next += stride;
    --num_rows;
    done = 0;
  }
}

}  // namespace attend::kernels
