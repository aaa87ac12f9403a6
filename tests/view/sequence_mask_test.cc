#include <limits>
#include <vector>

#include <doctest/doctest.h>

#include "attend/attend.h"
#include "tests/support/compare.h"
#include "tests/support/layouts.h"
#include "tests/support/random.h"

namespace attend::tests {

TEST_CASE("sequence_mask: everything at or beyond the length becomes the value, the rest stays") {
  const std::vector<std::vector<std::int64_t>> kSizes = {{3, 7}, {3, 7, 5}, {3, 7, 2, 3}};
  const std::int32_t lens[] = {0, 7, 4};
  for (const auto& sizes : kSizes) {
    for (const float value : {0.0f, -1e6f, std::numeric_limits<float>::infinity()}) {
      const Tensor before = Random(91).normal(sizes);
      Tensor x = before;
      sequence_mask(x.view(), TensorView<const std::int32_t>(lens, {3}), value);
      const std::size_t inner = x.data.size() / 21;
      bool right = true;
      for (std::size_t i = 0; i < x.data.size(); ++i) {
        const std::size_t b = i / (7 * inner);
        const std::size_t n = i / inner % 7;
        right = right && x.data[i] == (n < static_cast<std::size_t>(lens[b]) ? before.data[i] : value);
      }
      CHECK(right);
    }
  }
}

TEST_CASE("sequence_mask: the textbook's example") {
  std::vector<float> x = {1, 2, 3, 4, 5, 6};
  const std::int32_t lens[] = {1, 2};
  sequence_mask(TensorView<float>(x.data(), {2, 3}), TensorView<const std::int32_t>(lens, {2}));
  CHECK(x == std::vector<float>{1, 0, 0, 4, 5, 0});
}

TEST_CASE("sequence_mask: any strides, the innermost too, and nothing between the elements changes") {
  std::vector<float> memory(100, 1.0f);
  const std::int32_t lens[] = {1, 3};
  const TensorView<float> x(memory.data() + 60, {2, 4, 3}, {-50, 7, 2});
  sequence_mask(x, TensorView<const std::int32_t>(lens, {2}), 9.0f);
  int masked = 0;
  for (const float element : memory) masked += element == 9.0f ? 1 : 0;
  CHECK(masked == (3 + 1) * 3);
  CHECK(*x.at(0, 0, 2) == 1.0f);
  CHECK(*x.at(0, 1, 0) == 9.0f);
  CHECK(*x.at(1, 2, 2) == 1.0f);
  CHECK(*x.at(1, 3, 2) == 9.0f);
}

TEST_CASE("sequence_mask: mistakes are named and change nothing") {
  std::vector<float> x(12, 1.0f);
  const std::int32_t good[] = {1, 2}, negative[] = {1, -2}, large[] = {7, 1};
  using Lengths = TensorView<const std::int32_t>;
  const TensorView<float> view(x.data(), {2, 6});
  CHECK(missing_parts(error_message([&] { sequence_mask(view, Lengths(negative, {2})); }),
                      {"valid_lens", "-2", "6", "the length of x"}) == "");
  CHECK(missing_parts(error_message([&] { sequence_mask(view, Lengths(large, {2})); }), {"valid_lens", "7", "6"}) ==
        "");
  CHECK(missing_parts(error_message([&] { sequence_mask(view, Lengths(good, {1})); }), {"valid_lens", "(1)", "(2)"}) ==
        "");
  CHECK(missing_parts(error_message([&] {
                        sequence_mask(view, Lengths(good, {2, 1}));
                      }),
                      {"valid_lens", "(2, 1)"}) == "");
  CHECK(missing_parts(error_message([&] { sequence_mask(view, Lengths()); }), {"valid_lens"}) == "");
  CHECK(missing_parts(error_message([&] {
                        sequence_mask({x.data(), {12}}, Lengths(good, {2}));
                      }),
                      {"x", "(12)"}) == "");
  CHECK(missing_parts(error_message([&] { sequence_mask({}, Lengths(good, {2})); }), {"x"}) == "");
  // Elements that lie on each other, along any axis.
  const std::vector<std::vector<std::int64_t>> kStrides = {{0, 2, 1}, {6, 0, 1}, {6, 2, 0}};
  for (const auto& strides : kStrides) {
    const TensorView<float> overlapping(x.data(), std::vector<std::int64_t>{2, 3, 2}, strides);
    CHECK(missing_parts(error_message([&] { sequence_mask(overlapping, Lengths(good, {2})); }),
                        {"x has strides " + to_string(strides), "(2, 3, 2)", "no zero stride"}) == "");
  }
  CHECK(x == std::vector<float>(12, 1.0f));
}

}  // namespace attend::tests
