// Intel's tiles (AMX): eight registers of 16 rows of 64 bytes, and an instruction that multiplies two of them, by the
// names of the instructions. And the same in memory for every target, so that what is written for tiles can be tested
// on any CPU.
//
// A tile of A holds 16 rows of 32 bfloat16 numbers. A tile of B holds 32 terms of 16 columns, two terms to a row:
// column n's terms 2 j and 2 j + 1 are the numbers 2 n and 2 n + 1 of row j. A tile of C holds 16 x 16 floats.
//
// In assembly, since Highway has no such instructions and g++ and clang want each function to be marked for its
// intrinsics: compilers know no tile registers of their own to disturb, and a kernel that uses them configures them
// first and releases them at its end. What they hold is a thread's own, and no call's: nothing is kept in them.
//
// Source: Intel 64 and IA-32 Architectures Software Developer's Manual, volume 1, chapter 18; TDPBF16PS rounds to
// nearest, takes subnormal numbers as zeros and leaves none.
#if defined(ATTEND_SIMD_AMX_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ATTEND_SIMD_AMX_INL_H_
#undef ATTEND_SIMD_AMX_INL_H_
#else
#define ATTEND_SIMD_AMX_INL_H_
#endif

#include <hwy/highway.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

// Whether the target's vectors are as long as a row of a tile: targets of CPUs that may have tiles.
#ifndef ATTEND_HAS_AMX
#define ATTEND_HAS_AMX (HWY_ARCH_X86_64 && HWY_TARGET <= HWY_AVX3)
#endif

HWY_BEFORE_NAMESPACE();
namespace attend {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

static constexpr size_t kTileRows = 16, kTileColumns = 16, kTileTerms = 32;
static constexpr size_t kTileBytes = 1024;

// The numbers of a tile in memory, in order.
using TileNumbers = std::uint16_t;
static constexpr size_t kTileNumbers = kTileBytes / sizeof(TileNumbers);

#if ATTEND_HAS_AMX

class AmxTiles {
 public:
  // Before any other, on the thread that goes on to use them: all eight, whole. Takes, with Release, some 600 cycles.
  static HWY_INLINE void Configure() {
    alignas(64) std::uint8_t config[64] = {1};  // palette 1; bytes per row from byte 16 on, rows from byte 48 on
    for (size_t t = 0; t < 8; ++t) {
      config[16 + 2 * t] = 64;
      config[48 + t] = kTileRows;
    }
    asm volatile("ldtilecfg %0" : : "m"(config));
  }
  // After the last.
  static HWY_INLINE void Release() { asm volatile("tilerelease"); }

  template <int t>
  HWY_INLINE void Zero() {
    asm volatile("tilezero %%tmm%c0" : : "i"(t));
  }
  // 16 rows from p on, `stride` bytes apart.
  template <int t>
  HWY_INLINE void Load(const void* p, std::ptrdiff_t stride) {
    asm volatile("tileloadd (%0,%1,1), %%tmm%c2" : : "r"(p), "r"(stride), "i"(t) : "memory");
  }
  template <int t>
  HWY_INLINE void Store(void* p, std::ptrdiff_t stride) {
    asm volatile("tilestored %%tmm%c2, (%0,%1,1)" : : "r"(p), "r"(stride), "i"(t) : "memory");
  }
  // c += a b
  template <int c, int a, int b>
  HWY_INLINE void MultiplyAdd() {
    asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(c), "i"(a), "i"(b));
  }
};

#endif  // ATTEND_HAS_AMX

// Sanitizers leave out products of tiles, whose indices are constants and loops' counters: looking at each took a
// quarter of the tests' time.
#define ATTEND_UNSANITIZED __attribute__((no_sanitize("address"), no_sanitize("undefined")))

// The same without the instructions, far slower: for tests.
class TilesInMemory {
 public:
  static void Configure() {}
  static void Release() {}

  template <int t>
  void Zero() {
    std::memset(tiles_[t], 0, kTileBytes);
  }
  template <int t>
  void Load(const void* p, std::ptrdiff_t stride) {
    for (size_t r = 0; r < kTileRows; ++r) {
      std::memcpy(tiles_[t][r], static_cast<const char*>(p) + static_cast<std::ptrdiff_t>(r) * stride, 64);
    }
  }
  template <int t>
  void Store(void* p, std::ptrdiff_t stride) {
    for (size_t r = 0; r < kTileRows; ++r) {
      std::memcpy(static_cast<char*>(p) + static_cast<std::ptrdiff_t>(r) * stride, tiles_[t][r], 64);
    }
  }
  template <int c, int a, int b>
  ATTEND_UNSANITIZED void MultiplyAdd() {
    // Terms 2 j and 2 j + 1 of all columns.
    float b_even[kTileTerms / 2][kTileColumns], b_odd[kTileTerms / 2][kTileColumns];
    for (size_t j = 0; j < kTileTerms / 2; ++j) {
      for (size_t n = 0; n < kTileColumns; ++n) {
        b_even[j][n] = NumberAt(b, j, 2 * n);
        b_odd[j][n] = NumberAt(b, j, 2 * n + 1);
      }
    }
    for (size_t m = 0; m < kTileRows; ++m) {
      float even[kTileColumns] = {}, odd[kTileColumns] = {}, sums[kTileColumns];
      for (size_t j = 0; j < kTileTerms / 2; ++j) {
        const float a0 = NumberAt(a, m, 2 * j), a1 = NumberAt(a, m, 2 * j + 1);
        for (size_t n = 0; n < kTileColumns; ++n) even[n] += a0 * b_even[j][n];
        for (size_t n = 0; n < kTileColumns; ++n) odd[n] += a1 * b_odd[j][n];
      }
      std::memcpy(sums, tiles_[c][m], sizeof(sums));
      for (size_t n = 0; n < kTileColumns; ++n) sums[n] += even[n] + odd[n];
      std::memcpy(tiles_[c][m], sums, sizeof(sums));
    }
  }

 private:
  ATTEND_UNSANITIZED float NumberAt(int t, size_t row, size_t i) const {
    TileNumbers number;
    std::memcpy(&number, tiles_[t][row] + i * sizeof(number), sizeof(number));
    const std::uint32_t bits = std::uint32_t{number} << 16;
    float x;
    std::memcpy(&x, &bits, sizeof(x));
    return x;
  }

  unsigned char tiles_[8][kTileRows][64] = {};
};

}  // namespace HWY_NAMESPACE
}  // namespace attend
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
