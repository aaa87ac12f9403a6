#include "tests/support/allocations.h"

#include <dlfcn.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <new>

namespace {

// Constant-initialised: malloc is called before any constructor runs.
constinit std::atomic<bool> armed{false};
constinit std::atomic<int> own_count{0};
constinit std::atomic<int> onednn_count{0};
// Whether operator new has no more memory for our own code on this thread.
constinit thread_local bool exhausted = false;

bool is_onednn(void* caller) noexcept {
  Dl_info info{};
  const bool known = dladdr(caller, &info) != 0 && info.dli_fname != nullptr;
  return known &&
         (std::strstr(info.dli_fname, "libdnnl") != nullptr || std::strstr(info.dli_fname, "libomp") != nullptr ||
          std::strstr(info.dli_fname, "libgomp") != nullptr);
}

[[maybe_unused]] void count(void* caller) noexcept {
  if (!armed.load(std::memory_order_relaxed)) return;
  (is_onednn(caller) ? onednn_count : own_count).fetch_add(1, std::memory_order_relaxed);
}

[[maybe_unused]] bool is_refused(void* caller) noexcept { return exhausted && !is_onednn(caller); }

}  // namespace

#if ATTEND_COUNTS_ALLOCATIONS
extern "C" {
void* __libc_malloc(std::size_t);
void* __libc_calloc(std::size_t, std::size_t);
void* __libc_realloc(void*, std::size_t);
void* __libc_memalign(std::size_t, std::size_t);

void* malloc(std::size_t size) {
  count(__builtin_return_address(0));
  return __libc_malloc(size);
}
void* calloc(std::size_t elements, std::size_t size) {
  count(__builtin_return_address(0));
  return __libc_calloc(elements, size);
}
void* realloc(void* memory, std::size_t size) {
  count(__builtin_return_address(0));
  return __libc_realloc(memory, size);
}
void* memalign(std::size_t alignment, std::size_t size) {
  count(__builtin_return_address(0));
  return __libc_memalign(alignment, size);
}
void* aligned_alloc(std::size_t alignment, std::size_t size) {
  count(__builtin_return_address(0));
  return __libc_memalign(alignment, size);
}
int posix_memalign(void** memory, std::size_t alignment, std::size_t size) {
  count(__builtin_return_address(0));
  *memory = __libc_memalign(alignment, size);
  return *memory == nullptr ? ENOMEM : 0;
}
}

// The other forms of operator new call one of these three or malloc's family. Not inlined, lest GCC takes new and free
// for a mismatched pair.
#define ATTEND_NOINLINE __attribute__((noinline))
ATTEND_NOINLINE void* operator new(std::size_t size) {
  count(__builtin_return_address(0));
  if (is_refused(__builtin_return_address(0))) throw std::bad_alloc();
  if (void* memory = __libc_malloc(size == 0 ? 1 : size)) return memory;
  throw std::bad_alloc();
}
ATTEND_NOINLINE void* operator new[](std::size_t size) {
  count(__builtin_return_address(0));
  if (is_refused(__builtin_return_address(0))) throw std::bad_alloc();
  if (void* memory = __libc_malloc(size == 0 ? 1 : size)) return memory;
  throw std::bad_alloc();
}
ATTEND_NOINLINE void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  count(__builtin_return_address(0));
  return __libc_malloc(size == 0 ? 1 : size);
}
ATTEND_NOINLINE void operator delete(void* memory) noexcept { std::free(memory); }
ATTEND_NOINLINE void operator delete[](void* memory) noexcept { std::free(memory); }
ATTEND_NOINLINE void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
ATTEND_NOINLINE void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }
#endif

namespace attend::tests {

void start_counting() noexcept {
  own_count = 0;
  onednn_count = 0;
  armed = true;
}

Counts stop_counting() noexcept {
  armed = false;
  return {own_count.load(), onednn_count.load()};
}

NoMemory::NoMemory() noexcept { exhausted = true; }
NoMemory::~NoMemory() { exhausted = false; }

}  // namespace attend::tests
