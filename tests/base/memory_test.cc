// The engine's own memory: where it begins, that all of it can be written, and what is no size.
#include "engine/base/memory.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <new>
#include <utility>

#include <doctest/doctest.h>
#include <sys/mman.h>

namespace attend::tests {
namespace {

constexpr std::size_t kMega = std::size_t{1} << 20;

std::uintptr_t address(const void* memory) { return reinterpret_cast<std::uintptr_t>(memory); }

TEST_CASE("memory begins with a cache line, with a huge page where there is 1 MiB of it, and is there to its end") {
  for (const std::size_t bytes :
       {std::size_t{0}, std::size_t{1}, std::size_t{65}, kMega - 1, kMega, 2 * kMega, 2 * kMega + 1, 5 * kMega + 77}) {
    CAPTURE(bytes);
    void* memory = allocate_memory(bytes);
    REQUIRE(memory != nullptr);
    CHECK(address(memory) % (bytes >= kMega ? 2 * kMega : 64) == 0);
    std::memset(memory, 7, bytes);
    free_memory(memory, bytes);
  }
}

#ifdef MADV_HUGEPAGE
// Seen by what the pages hold: those that the system gives anew are zeros, what a process wrote before is not.
TEST_CASE("memory from 1 MiB on lies on fresh pages, though the allocator has it from before") {
  constexpr std::size_t kBytes = 4 * kMega;
  for (int turn = 0; turn < 4; ++turn) {
    CAPTURE(turn);
    void* memory = allocate_memory(kBytes);
    const auto* bytes = static_cast<const unsigned char*>(memory);
    CHECK(std::all_of(bytes, bytes + kBytes, [](unsigned char byte) { return byte == 0; }));
    std::memset(memory, 7, kBytes);
    free_memory(memory, kBytes);
  }
}
#endif

TEST_CASE("memory that there cannot be is std::bad_alloc, as large as a size can be") {
  const std::size_t most = std::numeric_limits<std::size_t>::max();
  for (const std::size_t bytes : {most, most - 1, most - 63, most - kMega, most / 2 + 1}) {
    CAPTURE(bytes);
    CHECK_THROWS_AS(static_cast<void>(allocate_memory(bytes)), std::bad_alloc);
  }
}

TEST_CASE("elements: as many as asked for, freed with them") {
  Memory<float> none;
  CHECK(none == nullptr);
  Memory<float> some = allocate_elements<float>(kMega);
  some[0] = some[kMega - 1] = 1.0f;
  none = std::move(some);
  CHECK(none[kMega - 1] == 1.0f);
  CHECK(none.get_deleter().bytes == 4 * kMega);
}

}  // namespace
}  // namespace attend::tests
