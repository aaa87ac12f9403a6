// Counts what is allocated, on all threads, and refuses memory on one: malloc's family and operator new, which
// allocations.cc replaces.
//
// What oneDNN allocates within dnnl_primitive_execute (a map of its arguments, some small nodes per product, in 2.6
// and 3.x) is told apart by the caller's address and counted separately: it is nothing that a caller of oneDNN can
// prevent. So is what its OpenMP runtime allocates: clang's does, where a thread calls oneDNN for the first time.
//
// glibc lets an executable define malloc and keeps its own under other names. Sanitizers do the same, so tests that
// count are skipped there.
#ifndef ATTEND_TESTS_SUPPORT_ALLOCATIONS_H_
#define ATTEND_TESTS_SUPPORT_ALLOCATIONS_H_

#include <cstdlib>

#include "tests/support/sanitized.h"

#if defined(__GLIBC__) && !ATTEND_IS_SANITIZED
#define ATTEND_COUNTS_ALLOCATIONS 1
#else
#define ATTEND_COUNTS_ALLOCATIONS 0
#endif

namespace attend::tests {

struct Counts {
  int own, onednn;
};

void start_counting() noexcept;
Counts stop_counting() noexcept;

// What f allocates, on this and all other threads.
template <class F>
Counts allocations_of(F&& f) {
  start_counting();
  try {
    f();
  } catch (...) {
    stop_counting();
    throw;
  }
  return stop_counting();
}

// While it lives, new and new[] of our own code find no memory on this thread.
class NoMemory {
 public:
  NoMemory() noexcept;
  ~NoMemory();
  NoMemory(const NoMemory&) = delete;
  NoMemory& operator=(const NoMemory&) = delete;
};

}  // namespace attend::tests

#endif  // ATTEND_TESTS_SUPPORT_ALLOCATIONS_H_
