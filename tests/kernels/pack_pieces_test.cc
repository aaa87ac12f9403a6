// Keys packed piece by piece leave what packing them at once leaves, and write no column that is not theirs.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

#include <doctest/doctest.h>

#include "engine/kernels/pack.h"
#include "tests/support/for_each_target.h"
#include "tests/support/guard_page.h"
#include "tests/support/random.h"

namespace attend::tests {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr float kUntouched = -7.25e33f;

// Keys as rows, and panels for them between unmapped pages.
class Pieces {
 public:
  Pieces(const Target& target, std::size_t num_keys, std::size_t size, bool centered)
      : kernels_(kernels::pack_kernels(target.id())),
        width_(kernels_.panel_width),
        num_keys_(num_keys),
        size_(size),
        centered_(centered),
        keys_(num_keys * size),
        center_(size) {
    Random random(size * 7 + num_keys);
    for (float& x : keys_) x = random.normal();
    for (float& x : center_) x = random.normal();
    keys_[num_keys * size / 2] = kNaN;  // a payload is moved as it is, center or not
  }

  std::size_t rows() const { return size_ + (centered_ ? 1 : 0); }
  std::size_t floats() const { return (num_keys_ + width_ - 1) / width_ * rows() * width_; }
  // Panels in which nothing has been written.
  struct Panels : GuardedArray<float> {
    explicit Panels(const Pieces& pieces) : GuardedArray<float>(pieces.floats()) {
      std::fill(begin(), end(), kUntouched);
    }
  };

  // Keys first ... last - 1, alone between unmapped pages, rows `gap` apart, forwards or backwards.
  void pack(std::size_t first, std::size_t last, bool pad, std::size_t gap, bool reversed, float* panels) const {
    const std::size_t count = last - first, stride = size_ + gap;
    GuardedArray<float> own(count == 0 ? 0 : (count - 1) * stride + size_, reversed ? Guard::kBegin : Guard::kEnd);
    std::fill(own.begin(), own.end(), kNaN);
    for (std::size_t j = 0; j < count; ++j) {
      std::copy_n(keys_.data() + (first + j) * size_, size_, own.data() + (reversed ? count - 1 - j : j) * stride);
    }
    const auto step = static_cast<std::ptrdiff_t>(stride);
    kernels_.keys({.keys = own.data() + (reversed && count > 0 ? (count - 1) * stride : 0),
                   .keys_stride = reversed ? -step : step,
                   .num_keys = count,
                   .size = size_,
                   .center = centered_ ? center_.data() : nullptr,
                   .half_norms = centered_,
                   .panels = panels,
                   .panel_stride = rows() * width_,
                   .first = first,
                   .pad = pad});
  }

  // Elements of columns first ... last - 1 (of whole panels) whose bits differ.
  std::size_t count_different(const float* a, const float* b, std::size_t first, std::size_t last) const {
    std::size_t count = 0;
    for (std::size_t j = first; j < last; ++j) {
      for (std::size_t k = 0; k < rows(); ++k) {
        const std::size_t at = (j / width_ * rows() + k) * width_ + j % width_;
        count += std::memcmp(a + at, b + at, sizeof(float)) == 0 ? 0 : 1;
      }
    }
    return count;
  }
  std::size_t columns() const { return floats() / rows(); }
  std::size_t width() const { return width_; }

 private:
  kernels::PackKernels kernels_;
  std::size_t width_, num_keys_, size_;
  bool centered_;
  std::vector<float> keys_, center_;
};

}  // namespace

TEST_CASE("pack keys: pieces at any column, in any order, leave the bits of all keys at once") {
  for_each_target([](const Target& target) {
    const std::size_t width = kernels::pack_kernels(target.id()).panel_width;
    for (const std::size_t num_keys : {std::size_t{2}, width - 1, width, width + 1, 2 * width + 3, 3 * width}) {
      for (const std::size_t size : {1u, 3u, 16u, 35u}) {
        const Pieces keys(target, num_keys, size, false);
        Pieces::Panels whole(keys);
        keys.pack(0, num_keys, true, 0, false, whole.data());
        std::size_t wrong = 0;
        for (std::size_t cut = 0; cut <= num_keys; ++cut) {
          const std::size_t second = std::min(num_keys, cut + 1 + cut % (width + 2));
          Pieces::Panels pieces(keys);
          const bool ends_early = second == num_keys;  // the last piece is empty then: the one before pads
          if (!ends_early) keys.pack(second, num_keys, true, cut % 3, cut % 2 == 0, pieces.data());
          keys.pack(cut, second, ends_early, 0, false, pieces.data());
          keys.pack(0, cut, cut == num_keys, 2, cut % 2 == 1, pieces.data());
          wrong += keys.count_different(whole.data(), pieces.data(), 0, keys.columns());
        }
        INFO(num_keys, " keys of size ", size);
        CHECK(wrong == 0);
      }
    }
  });
}

TEST_CASE("pack keys: only the columns of a piece are written, and of its last panel those beyond where it is padded") {
  for_each_target([](const Target& target) {
    const std::size_t width = kernels::pack_kernels(target.id()).panel_width, num_keys = 3 * width;
    for (const std::size_t size : {1u, 5u, 34u}) {
      const Pieces keys(target, num_keys, size, false);
      Pieces::Panels whole(keys);
      keys.pack(0, num_keys, true, 0, false, whole.data());
      const Pieces::Panels untouched(keys);
      const std::vector<float> zeros(keys.floats(), 0.0f);
      std::size_t wrong = 0;
      for (std::size_t first = 0; first < 2 * width; first += first < width ? 1 : 3) {
        for (const std::size_t count : {std::size_t{0}, std::size_t{1}, std::size_t{3}, width - 1, width, width + 1}) {
          for (const bool pad : {false, true}) {
            Pieces::Panels piece(keys);
            const std::size_t last = first + count;
            keys.pack(first, last, pad, 1, false, piece.data());
            const std::size_t end = pad && count > 0 ? (last + width - 1) / width * width : last;
            wrong += keys.count_different(piece.data(), untouched.data(), 0, first);
            wrong += keys.count_different(piece.data(), whole.data(), first, last);
            wrong += keys.count_different(piece.data(), zeros.data(), last, end);
            wrong += keys.count_different(piece.data(), untouched.data(), end, keys.columns());
          }
        }
      }
      INFO("size ", size);
      CHECK(wrong == 0);
    }
  });
}

TEST_CASE("pack keys: moved keys and half norms from any panel on") {
  for_each_target([](const Target& target) {
    const std::size_t width = kernels::pack_kernels(target.id()).panel_width;
    for (const std::size_t num_keys : {width + 1, 2 * width, 3 * width - 1}) {
      for (const std::size_t size : {1u, 6u, 33u}) {
        const Pieces keys(target, num_keys, size, true);
        Pieces::Panels whole(keys);
        keys.pack(0, num_keys, true, 0, false, whole.data());
        for (std::size_t first = 0; first < num_keys; first += width) {
          Pieces::Panels pieces(keys);
          keys.pack(first, num_keys, true, 0, false, pieces.data());
          const Pieces::Panels untouched(keys);
          CHECK(keys.count_different(pieces.data(), untouched.data(), 0, first) == 0);
          keys.pack(0, first, true, 3, true, pieces.data());
          CHECK(keys.count_different(pieces.data(), whole.data(), 0, keys.columns()) == 0);
        }
      }
    }
  });
}

}  // namespace attend::tests
