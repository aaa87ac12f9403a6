#include "engine/base/memory.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <new>

#include <sys/mman.h>

#include "engine/base/carver.h"
#include "engine/base/checked.h"

namespace attend {
namespace {

constexpr std::size_t kHugePage = std::size_t{2} << 20;

// More than any address space has. Not left to operator new: libstdc++ 12 rounds sizes up to the alignment, the largest
// to none, and sanitizers end the process.
constexpr std::size_t kMaxBytes = static_cast<std::size_t>(
    std::min<std::uint64_t>(std::uint64_t{1} << 48, std::numeric_limits<std::size_t>::max() / 2));

bool is_large(std::size_t bytes) { return bytes >= kHugePage / 2; }

std::align_val_t alignment_of(std::size_t bytes) {
  return std::align_val_t{is_large(bytes) ? kHugePage : Carver::kAlignment};
}

}  // namespace

void* allocate_memory(std::size_t bytes) {
  if (bytes > kMaxBytes) throw std::bad_alloc();
  const std::size_t size = is_large(bytes) ? round_up(bytes, kHugePage) : bytes;
  void* memory = ::operator new(size, alignment_of(bytes));
#ifdef MADV_HUGEPAGE
  // Advice, no more: where it is not taken, pages are small. So are those that somebody used and gave back to the
  // allocator, until the system gets them back: EPYC (Zen 5), multi_head/b1_s512_e768_h12 and b32_s32_e512_h8 after
  // b8_s128_e768_h12 in one process 0 to 5 %.
  if (is_large(bytes)) {
    static_cast<void>(::madvise(memory, size, MADV_DONTNEED));
    static_cast<void>(::madvise(memory, size, MADV_HUGEPAGE));
  }
#endif
  return memory;
}

void free_memory(void* memory, std::size_t bytes) noexcept { ::operator delete(memory, alignment_of(bytes)); }

}  // namespace attend
