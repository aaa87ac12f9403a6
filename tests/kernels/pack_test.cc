// Packing copies exactly, pads with zeros and stops at the last element of a row.
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

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

// Rows of `size` elements, `gap` apart, between two unmapped pages: the end page touches the last row's last element.
// Gaps hold NaN. A negative direction walks the rows from the last to the first; stride 0 repeats the only row.
class GuardedRows {
 public:
  GuardedRows(std::size_t num_rows, std::size_t size, std::size_t gap, int direction, Guard guard = Guard::kEnd)
      : stored_(direction == 0 && num_rows > 0 ? 1 : num_rows),
        memory_(stored_ == 0 ? 0 : (stored_ - 1) * (size + gap) + size, guard),
        stride_(direction * static_cast<std::ptrdiff_t>(size + gap)) {
    Random random(17 + size);
    for (float& x : memory_) x = kNaN;
    for (std::size_t row = 0; row < stored_; ++row) {
      for (std::size_t i = 0; i < size; ++i) memory_[row * (size + gap) + i] = random.normal();
    }
    if (direction < 0 && stored_ > 0) origin_ = (stored_ - 1) * (size + gap);
  }

  const float* data() const { return memory_.data() + origin_; }
  std::ptrdiff_t stride() const { return stride_; }
  float at(std::size_t row, std::size_t i) const { return *(data() + static_cast<std::ptrdiff_t>(row) * stride_ + i); }
  float& at(std::size_t row, std::size_t i) {
    return memory_[static_cast<std::size_t>(static_cast<std::ptrdiff_t>(origin_) +
                                            static_cast<std::ptrdiff_t>(row) * stride_) +
                   i];
  }

 private:
  std::size_t stored_;
  GuardedArray<float> memory_;
  std::size_t origin_ = 0;
  std::ptrdiff_t stride_;
};

struct RowLayout {
  std::size_t gap;
  int direction;
};
constexpr RowLayout kRowLayouts[] = {{0, 1}, {5, 1}, {0, -1}, {3, -1}, {0, 0}};

// Panels that end at an unmapped page: writing beyond them crashes. All NaN before packing.
struct Panels : GuardedArray<float> {
  explicit Panels(std::size_t count) : GuardedArray<float>(count) {
    for (float& x : *this) x = kNaN;
  }
};

// Bits, because -0 == 0 and NaN != NaN.
std::uint32_t bits_of(float x) {
  std::uint32_t bits;
  std::memcpy(&bits, &x, sizeof(bits));
  return bits;
}

std::size_t divide_up(std::size_t a, std::size_t b) { return (a + b - 1) / b; }

// One call of pack.keys and what it should have left. Reads the panels as pack.h defines them.
struct Keys {
  std::size_t width, num_keys, size;
  bool half_norms = false;
  std::size_t rows = size + (half_norms ? 1 : 0);
  std::size_t num_panels = divide_up(num_keys, width);
  Panels memory = Panels(num_panels * rows * width);

  void pack(const kernels::PackKernels& kernels, const GuardedRows& keys, const float* center) {
    kernels.keys({.keys = keys.data(),
                  .keys_stride = keys.stride(),
                  .num_keys = num_keys,
                  .size = size,
                  .center = center,
                  .half_norms = half_norms,
                  .panels = memory.data(),
                  .panel_stride = rows * width});
  }
  float at(std::size_t k, std::size_t j) const { return memory[(j / width * rows + k) * width + j % width]; }
  std::size_t count_nonzero_padding() const {
    std::size_t count = 0;
    for (std::size_t j = num_keys; j < num_panels * width; ++j) {
      for (std::size_t k = 0; k < rows; ++k) count += bits_of(at(k, j)) == 0 ? 0 : 1;  // no -0 either
    }
    return count;
  }
};

// 0, 1, odd and around the panel's width.
std::vector<std::size_t> counts_around(std::size_t width) {
  return {0, 1, 3, width - 1, width, width + 1, 2 * width - 1, 2 * width + 3};
}

}  // namespace

TEST_CASE("pack keys: transposed into panels, padded with zeros, any stride, no read beyond a row's end") {
  for_each_target([](const Target& target) {
    const kernels::PackKernels kernels = kernels::pack_kernels(target.id());
    for (const std::size_t num_keys : counts_around(kernels.panel_width)) {
      for (const std::size_t size : {0u, 1u, 7u, 64u, 65u}) {
        for (const RowLayout layout : kRowLayouts) {
          const std::size_t gap = layout.gap;
          const int direction = layout.direction;
          for (const Guard guard : {Guard::kEnd, Guard::kBegin}) {
            const GuardedRows rows(num_keys, size, gap, direction, guard);
            Keys packed{.width = kernels.panel_width, .num_keys = num_keys, .size = size};
            packed.pack(kernels, rows, nullptr);
            std::size_t wrong = packed.count_nonzero_padding();
            for (std::size_t j = 0; j < num_keys; ++j) {
              for (std::size_t k = 0; k < size; ++k) wrong += packed.at(k, j) == rows.at(j, k) ? 0 : 1;
            }
            INFO(num_keys, " keys of size ", size, ", gap ", gap, ", direction ", direction);
            CHECK(wrong == 0);
          }
        }
      }
    }
  });
}

// Every number of keys up to two panels, hence every number of rows left for a vector's last transposition.
TEST_CASE("pack keys: special values are moved bit by bit, whatever the number of keys and the size") {
  for_each_target([](const Target& target) {
    const kernels::PackKernels kernels = kernels::pack_kernels(target.id());
    const float special[] = {kNaN, -kNaN, kInfinity, -kInfinity, -0.0f, 0.0f, std::numeric_limits<float>::denorm_min()};
    for (std::size_t num_keys = 1; num_keys <= 2 * kernels.panel_width; ++num_keys) {
      for (const std::size_t size : {1u, 2u, 3u, 4u, 5u, 15u, 16u, 17u, 34u}) {
        GuardedRows rows(num_keys, size, 0, 1);
        for (std::size_t i = 0; i < num_keys * size; i += 3) rows.at(i / size, i % size) = special[i / 3 % 7];
        Keys packed{.width = kernels.panel_width, .num_keys = num_keys, .size = size};
        packed.pack(kernels, rows, nullptr);
        std::size_t wrong = packed.count_nonzero_padding();
        for (std::size_t j = 0; j < num_keys; ++j) {
          for (std::size_t k = 0; k < size; ++k) wrong += bits_of(packed.at(k, j)) == bits_of(rows.at(j, k)) ? 0 : 1;
        }
        INFO(num_keys, " keys of size ", size);
        CHECK(wrong == 0);
      }
    }
  });
}

TEST_CASE("pack keys: moved by the center, followed by half norms") {
  for_each_target([](const Target& target) {
    const kernels::PackKernels kernels = kernels::pack_kernels(target.id());
    for (const std::size_t num_keys : counts_around(kernels.panel_width)) {
      for (const std::size_t size : {1u, 2u, 7u, 64u}) {
        for (const bool half_norms : {false, true}) {
          const GuardedRows rows(num_keys, size, 2, 1), center(1, size, 0, 1);
          Keys packed{.width = kernels.panel_width, .num_keys = num_keys, .size = size, .half_norms = half_norms};
          packed.pack(kernels, rows, center.data());
          std::size_t wrong = packed.count_nonzero_padding();
          for (std::size_t j = 0; j < num_keys; ++j) {
            double squared = 0;
            for (std::size_t k = 0; k < size; ++k) {
              const float moved = rows.at(j, k) - center.at(0, k);
              wrong += packed.at(k, j) == moved ? 0 : 1;
              squared += static_cast<double>(moved) * moved;
            }
            // A sum in double in the order of k, rounded once: the same bits on every target.
            if (half_norms) wrong += packed.at(size, j) == static_cast<float>(-0.5 * squared) ? 0 : 1;
          }
          INFO(num_keys, " keys of size ", size, ", half norms ", half_norms);
          CHECK(wrong == 0);
        }
      }
    }
  });
}

TEST_CASE("pack keys: half norms are there without a center as well") {
  for_each_target([](const Target& target) {
    const kernels::PackKernels kernels = kernels::pack_kernels(target.id());
    const GuardedRows rows(3, 5, 0, 1);
    Keys packed{.width = kernels.panel_width, .num_keys = 3, .size = 5, .half_norms = true};
    packed.pack(kernels, rows, nullptr);
    for (std::size_t j = 0; j < 3; ++j) {
      double squared = 0;
      for (std::size_t k = 0; k < 5; ++k) squared += static_cast<double>(rows.at(j, k)) * rows.at(j, k);
      CHECK(packed.at(5, j) == doctest::Approx(-squared / 2).epsilon(1e-7));
    }
  });
}

TEST_CASE("pack keys: an infinitely far key becomes zeros and -inf, a NaN stays, neighbours are untouched") {
  for_each_target([](const Target& target) {
    const kernels::PackKernels kernels = kernels::pack_kernels(target.id());
    constexpr std::size_t kSize = 9;
    const std::size_t num_keys = kernels.panel_width + 1;
    for (const float bad : {kInfinity, -kInfinity, 3e38f, kNaN}) {  // the square of 3e38 overflows f32
      for (const std::size_t at : {std::size_t{0}, std::size_t{4}, kSize - 1}) {
        GuardedRows rows(num_keys, kSize, 0, 1);
        const GuardedRows center(1, kSize, 0, 1);
        rows.at(1, at) = bad;
        Keys packed{.width = kernels.panel_width, .num_keys = num_keys, .size = kSize, .half_norms = true};
        packed.pack(kernels, rows, center.data());
        INFO("element ", at, " is ", bad);
        if (bad == bad) {
          CHECK(packed.at(kSize, 1) == -kInfinity);
          for (std::size_t k = 0; k < kSize; ++k) CHECK(packed.at(k, 1) == 0.0f);
        } else {
          CHECK(packed.at(kSize, 1) != packed.at(kSize, 1));
          CHECK(packed.at(at, 1) != packed.at(at, 1));
        }
        for (const std::size_t neighbour : {std::size_t{0}, std::size_t{2}, num_keys - 1}) {
          if (neighbour == 1) continue;
          for (std::size_t k = 0; k < kSize; ++k) {
            CHECK(packed.at(k, neighbour) == rows.at(neighbour, k) - center.at(0, k));
          }
        }
      }
    }
  });
}

TEST_CASE("pack values: copied into panels, padded with zeros, any stride, no read beyond a row's end") {
  for_each_target([](const Target& target) {
    const kernels::PackKernels kernels = kernels::pack_kernels(target.id());
    const std::size_t width = kernels.panel_width;
    for (const std::size_t size : counts_around(width)) {
      for (const std::size_t num_values : {0u, 1u, 5u}) {
        for (const RowLayout layout : kRowLayouts) {
          const std::size_t gap = layout.gap;
          const int direction = layout.direction;
          const GuardedRows rows(num_values, size, gap, direction);
          // Every other size a line further apart than a panel is wide, which is left alone.
          constexpr float kGap = 7.0f;
          const std::size_t row_stride = size % 2 == 0 ? width : width + 16;
          const std::size_t num_panels = divide_up(size, width), stride = num_values * row_stride;
          Panels memory(num_panels * stride);
          std::fill_n(memory.data(), num_panels * stride, kGap);
          const bool finite = kernels.values({.values = rows.data(),
                                              .values_stride = rows.stride(),
                                              .num_values = num_values,
                                              .size = size,
                                              .panels = memory.data(),
                                              .panel_stride = stride,
                                              .row_stride = row_stride});
          std::size_t wrong = 0;
          for (std::size_t j = 0; j < num_values; ++j) {
            for (std::size_t n = 0; n < num_panels * row_stride; ++n) {
              const std::size_t panel = n / row_stride, column = n % row_stride, i = panel * width + column;
              const float expected = column >= width ? kGap : i < size ? rows.at(j, i) : 0.0f;
              wrong += memory[panel * stride + j * row_stride + column] == expected ? 0 : 1;
            }
          }
          INFO(num_values, " values of size ", size, ", gap ", gap, ", direction ", direction);
          CHECK(wrong == 0);
          CHECK(finite);  // the gaps are NaN
        }
      }
    }
  });
}

TEST_CASE("pack values: tells whether every value is finite, wherever one is not") {
  for_each_target([](const Target& target) {
    const kernels::PackKernels kernels = kernels::pack_kernels(target.id());
    const std::size_t width = kernels.panel_width, size = width + 3, num_values = 4;
    const auto pack = [&](const GuardedRows& rows) {
      Panels memory(divide_up(size, width) * num_values * width);
      return kernels.values({.values = rows.data(),
                             .values_stride = rows.stride(),
                             .num_values = num_values,
                             .size = size,
                             .panels = memory.data(),
                             .panel_stride = num_values * width,
                             .row_stride = width});
    };
    for (const float bad : {kInfinity, -kInfinity, kNaN}) {
      for (std::size_t column = 0; column < size; ++column) {
        GuardedRows rows(num_values, size, 1, 1);
        rows.at(column % num_values, column) = bad;
        CHECK_FALSE(pack(rows));
      }
    }
    GuardedRows opposite(num_values, size, 1, 1);
    opposite.at(0, 0) = kInfinity;
    opposite.at(1, 0) = -kInfinity;
    CHECK_FALSE(pack(opposite));
    GuardedRows huge(num_values, size, 1, 1);
    for (std::size_t n = 0; n < size; ++n) {
      huge.at(0, n) = std::numeric_limits<float>::max();
      huge.at(1, n) = std::numeric_limits<float>::lowest();
      huge.at(2, n) = std::numeric_limits<float>::denorm_min();
    }
    CHECK(pack(huge));
  });
}

TEST_CASE("pack queries: centered, scaled, partner of the half norm appended, any stride, no read beyond a row's end") {
  for_each_target([](const Target& target) {
    const kernels::PackKernels kernels = kernels::pack_kernels(target.id());
    for (const std::size_t num_queries : {0u, 1u, 2u, 7u}) {
      for (const std::size_t size : {0u, 1u, 7u, 16u, 65u}) {
        for (const RowLayout layout : kRowLayouts) {
          const std::size_t gap = layout.gap;
          const int direction = layout.direction;
          for (const bool centered : {false, true}) {
            for (const bool append : {false, true}) {
              const GuardedRows rows(num_queries, size, gap, direction), center(1, size, 0, 1);
              const std::size_t stride = size + (append ? 1 : 0);
              constexpr float kScale = 0.375f;
              Panels packed(num_queries * stride);
              kernels.queries({.queries = rows.data(),
                               .queries_stride = rows.stride(),
                               .num_queries = num_queries,
                               .size = size,
                               .center = centered ? center.data() : nullptr,
                               .scale = kScale,
                               .append_scale = append,
                               .packed = packed.data(),
                               .packed_stride = static_cast<std::ptrdiff_t>(stride)});
              std::size_t wrong = 0;
              for (std::size_t m = 0; m < num_queries; ++m) {
                for (std::size_t k = 0; k < size; ++k) {
                  const float moved = centered ? rows.at(m, k) - center.at(0, k) : rows.at(m, k);
                  wrong += packed[m * stride + k] == kScale * moved ? 0 : 1;
                }
                if (append) wrong += packed[m * stride + size] == kScale ? 0 : 1;
              }
              INFO(num_queries, " queries of size ", size, ", gap ", gap, ", centered ", centered);
              CHECK(wrong == 0);
            }
          }
        }
      }
    }
  });
}

}  // namespace attend::tests
