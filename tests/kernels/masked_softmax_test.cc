// masked_softmax rows on every target against double: sizes around the lanes, adversarial rows, special values, guard
// pages.
#include "engine/kernels/masked_softmax.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "tests/support/compare.h"
#include "tests/support/for_each_target.h"
#include "tests/support/guard_page.h"
#include "tests/support/random.h"

namespace attend::tests {
namespace {

using kernels::MaskedSoftmaxArgs;

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

// One row whose input is unmapped from its valid length on, and whose output ends at an unmapped page.
std::vector<float> softmax_row(const Target& target, const std::vector<float>& input, std::size_t valid_len,
                               Guard guard = Guard::kEnd) {
  GuardedArray<float> in(valid_len, guard), out(input.size(), guard);
  std::copy_n(input.begin(), valid_len, in.begin());
  std::fill(out.begin(), out.end(), -77.0f);
  const std::int32_t len = static_cast<std::int32_t>(valid_len);
  kernels::masked_softmax_kernels(target.id())
      .rows({.input = in.data(),
             .input_stride = 0,
             .output = out.data(),
             .output_stride = 0,
             .num_rows = 1,
             .num_columns = input.size(),
             .valid_lens = &len,
             .valid_lens_stride = 0});
  return std::vector<float>(out.begin(), out.end());
}

struct Errors {
  double weight = 0.0;  // largest |weight - truth|
  double sum = 0.0;     // |sum of weights - 1|
};

Errors errors_of(const std::vector<float>& weights, const std::vector<float>& input, std::size_t valid_len) {
  std::vector<double> truth(input.size());
  kernels::reference::masked_softmax_row(input.data(), valid_len, input.size(), truth.data());
  Errors errors;
  double sum = 0.0;
  for (std::size_t j = 0; j < input.size(); ++j) {
    const double error = std::abs(weights[j] - truth[j]);
    errors.weight = worse(errors.weight, error);
    sum += weights[j];
  }
  errors.sum = valid_len == 0 ? sum : std::abs(sum - 1.0);
  return errors;
}

TEST_CASE("masked_softmax reference: the formula, by hand") {
  const float input[] = {std::log(1.0f), std::log(2.0f), std::log(5.0f), 100.0f};
  double output[4];
  kernels::reference::masked_softmax_row(input, 3, 4, output);
  CHECK(output[0] == doctest::Approx(0.125));
  CHECK(output[1] == doctest::Approx(0.25));
  CHECK(output[2] == doctest::Approx(0.625));
  CHECK(output[3] == 0.0);
}

TEST_CASE("masked_softmax: every length around the lanes, at guard pages") {
  for_each_target([](const Target& target) {
    Random random(1);
    Errors worst;
    std::vector<std::size_t> lengths(71);
    std::iota(lengths.begin(), lengths.end(), std::size_t{0});
    lengths.insert(lengths.end(), {127, 128, 129, 255, 257, 1000, 1023, 1024, 1025, 2500});
    for (const std::size_t len : lengths) {
      for (const std::size_t padding : {0u, 1u, 5u, 40u}) {
        std::vector<float> input(len + padding);
        for (float& score : input) score = random.uniform(-8.0f, 8.0f);
        const std::vector<float> weights = softmax_row(target, input, len, padding == 1 ? Guard::kBegin : Guard::kEnd);
        const Errors errors = errors_of(weights, input, len);
        worst = {worse(worst.weight, errors.weight), worse(worst.sum, errors.sum)};
        CHECK(std::all_of(weights.begin() + static_cast<std::ptrdiff_t>(len), weights.end(),
                          [](float w) { return w == 0.0f; }));
      }
    }
    MESSAGE(target.name(), ": weights wrong by at most ", worst.weight, ", sums by ", worst.sum);
    CHECK(worst.weight <= 2e-7);
    CHECK(worst.sum <= 1e-6);
  });
}

TEST_CASE("masked_softmax: adversarial rows") {
  struct Row {
    std::string name;
    std::vector<float> scores;
  };
  std::vector<Row> rows;
  Random random(2);
  const auto filled = [](std::size_t n, float value) { return std::vector<float>(n, value); };
  rows.push_back({"all equal, 70000", filled(70000, 3.25f)});
  for (const float gap : {5.0f, 9.7f, 10.3f, 11.1f, 16.5f, 17.2f, 40.0f}) {
    Row row{"one big, 70000 smaller by " + std::to_string(gap), filled(70000, -gap)};
    row.scores[34567] = 0.0f;
    rows.push_back(row);
  }
  for (const float spread : {1e-3f, 1.0f, 30.0f, 1000.0f, 1e5f, 1e30f}) {
    Row row{"uniform in +-" + std::to_string(spread), filled(5003, 0.0f)};
    for (float& score : row.scores) score = random.uniform(-spread, spread);
    rows.push_back(row);
  }
  // One weight near 1 and seven small ones in the same lane of 1, 4, 8 or 16: roundings of its sums that agree.
  const std::vector<std::vector<float>> lanes = {
      {-16.9548111f, -15.7814236f, -16.089529f, -18.2565269f, -16.9762821f, -17.8776932f, 0.000929482281f,
       -16.6356602f},
      {-11.260951f, -5.99973059f, -15.6951838f, -12.2939148f, -12.6652403f, 0.0109186862f, -4.83294344f, -14.9817791f},
      {690.879822f, 682.085449f, 693.916809f, 690.633789f, 699.393005f, 690.618225f, 685.343994f, 692.596985f},
      {-5.34901142f, -16.6692162f, -10.4938526f, -16.229166f, -10.5154572f, -13.0973854f, 0.361097664f, -10.7731771f}};
  for (const std::size_t stride : {1u, 4u, 8u, 16u}) {
    for (const std::vector<float>& lane : lanes) {
      Row row{"one lane of " + std::to_string(stride), filled(lane.size() * stride, -1e4f)};
      for (std::size_t k = 0; k < lane.size(); ++k) row.scores[k * stride] = lane[k];
      rows.push_back(row);
    }
  }
  Row ramp{"ramp up", filled(65536, 0.0f)};
  for (std::size_t j = 0; j < ramp.scores.size(); ++j) ramp.scores[j] = static_cast<float>(j) * 1e-3f;
  rows.push_back(ramp);
  std::reverse(ramp.scores.begin(), ramp.scores.end());
  rows.push_back({"ramp down", ramp.scores});
  for (const float offset : {-1e6f, -3e4f, -700.0f, 700.0f, 3e4f, 1e6f, 1.1e6f, 3e6f}) {
    Row row{"normal around " + std::to_string(offset), filled(3000, 0.0f)};
    for (float& score : row.scores) score = offset + 2.0f * random.normal();
    rows.push_back(row);
  }
  rows.push_back({"two alike at 1e30, rest -1e30", filled(999, -1e30f)});
  rows.back().scores[0] = rows.back().scores[998] = 1e30f;
  rows.push_back({"lowest floats", filled(100, std::numeric_limits<float>::lowest())});
  rows.push_back({"lowest and largest", filled(100, std::numeric_limits<float>::lowest())});
  rows.back().scores[50] = std::numeric_limits<float>::max();
  rows.push_back({"half -inf", filled(2001, -kInf)});
  for (std::size_t j = 0; j < 2001; j += 2) rows.back().scores[j] = random.normal();

  for_each_target([&](const Target& target) {
    Errors worst;
    std::string worst_row;
    for (const Row& row : rows) {
      const Errors errors =
          errors_of(softmax_row(target, row.scores, row.scores.size()), row.scores, row.scores.size());
      INFO(row.name);
      CHECK(errors.weight <= 2e-7);
      CHECK(errors.sum <= 1e-6);
      if (errors.weight > worst.weight) worst_row = row.name;
      worst = {worse(worst.weight, errors.weight), worse(worst.sum, errors.sum)};
    }
    MESSAGE(target.name(), ": weights wrong by at most ", worst.weight, " (", worst_row, "), sums by ", worst.sum);
  });
}

TEST_CASE("masked_softmax: NaN, infinities and empty rows") {
  for_each_target([](const Target& target) {
    // Every place of the special score in rows of every shape of tail.
    for (const std::size_t len : {1u, 2u, 3u, 7u, 16u, 17u, 33u, 64u, 67u, 130u}) {
      for (std::size_t place = 0; place < len; ++place) {
        for (const float special : {kNaN, -kNaN, kInf, -kInf}) {
          std::vector<float> input(len + 3, 0.5f);
          input[place] = special;
          const std::vector<float> weights = softmax_row(target, input, len);
          std::size_t wrong = 0;
          for (std::size_t j = 0; j < input.size(); ++j) {
            const float truth =
                j >= len || (j == place && special == -kInf) ? 0.0f : 1.0f / static_cast<float>(len - 1);
            const bool nan = j < len && special != -kInf;
            wrong += (nan ? std::isnan(weights[j]) : std::abs(weights[j] - truth) <= 1e-6f) ? 0u : 1u;
          }
          INFO("len ", len, ", ", special, " at ", place);
          CHECK(wrong == 0);
        }
        // All others -inf: a NaN must not be taken for an empty row.
        std::vector<float> input(len, -kInf);
        input[place] = kNaN;
        CHECK(std::isnan(softmax_row(target, input, len)[0]));
      }
      const std::vector<float> zeros(len, 0.0f);
      CHECK(softmax_row(target, std::vector<float>(len, -kInf), len) == zeros);
      CHECK(softmax_row(target, std::vector<float>(len, kNaN), 0) == zeros);
    }
    CHECK(softmax_row(target, {}, 0).empty());
  });
}

TEST_CASE("masked_softmax: strides, lengths and in place") {
  for_each_target([](const Target& target) {
    const auto rows = kernels::masked_softmax_kernels(target.id()).rows;
    constexpr std::size_t kRows = 5, kColumns = 37, kStride = 50;
    Random random(3);
    std::vector<float> input(kRows * kStride);
    for (float& score : input) score = random.normal();
    const std::int32_t lens[kRows] = {37, 0, 1, 20, 36};

    std::vector<float> output(kRows * kStride, -77.0f);
    rows({.input = input.data(),
          .input_stride = kStride,
          .output = output.data(),
          .output_stride = kStride,
          .num_rows = kRows,
          .num_columns = kColumns,
          .valid_lens = lens,
          .valid_lens_stride = 1});
    for (std::size_t r = 0; r < kRows; ++r) {
      const auto row = [&](const std::vector<float>& all) {
        const auto first = all.begin() + static_cast<std::ptrdiff_t>(r * kStride);
        return std::vector<float>(first, first + kColumns);
      };
      CHECK(errors_of(row(output), row(input), static_cast<std::size_t>(lens[r])).weight <= 2e-7);
      for (std::size_t j = kColumns; j < kStride; ++j) CHECK(output[r * kStride + j] == -77.0f);
    }

    std::vector<float> in_place = input;
    rows({in_place.data(), kStride, in_place.data(), kStride, kRows, kColumns, lens, 1});
    for (std::size_t r = 0; r < kRows; ++r) {
      CHECK(std::memcmp(&in_place[r * kStride], &output[r * kStride], kColumns * sizeof(float)) == 0);
      for (std::size_t j = kColumns; j < kStride; ++j) CHECK(in_place[r * kStride + j] == input[r * kStride + j]);
    }

    // Rows and lengths walked backwards, then one shared length, then none.
    std::vector<float> backwards(kRows * kStride, -77.0f);
    rows({&input[(kRows - 1) * kStride], -static_cast<std::ptrdiff_t>(kStride), &backwards[(kRows - 1) * kStride],
          -static_cast<std::ptrdiff_t>(kStride), kRows, kColumns, lens + kRows - 1, -1});
    CHECK(backwards == output);

    const std::int32_t shared = kColumns;
    std::vector<float> with_length(kRows * kStride, -77.0f), without(kRows * kStride, -77.0f);
    rows({input.data(), kStride, with_length.data(), kStride, kRows, kColumns, &shared, 0});
    rows({input.data(), kStride, without.data(), kStride, kRows, kColumns, nullptr, 0});
    CHECK(with_length == without);
    CHECK(std::equal(without.begin(), without.begin() + kColumns, output.begin()));
  });
}

TEST_CASE("masked_softmax: rows together have the bits of rows alone, whatever their neighbours' lengths") {
  for_each_target([](const Target& target) {
    const auto rows = kernels::masked_softmax_kernels(target.id()).rows;
    constexpr std::size_t kRows = 11;
    for (const std::size_t columns : {1u,  3u,  4u,  5u,   8u,   15u,  16u,  17u,  31u,   33u,  48u,
                                      63u, 64u, 65u, 100u, 128u, 130u, 191u, 700u, 4096u, 4097u}) {
      Random random(5 + columns);
      GuardedArray<float> input(kRows * columns), output(kRows * columns), in_place(kRows * columns);
      for (float& score : input) score = 3 * random.normal();
      const auto fill = [&](std::size_t r, float score) { std::fill_n(input.data() + r * columns, columns, score); };
      fill(2, -kInf);
      fill(4, 1e30f);  // by other powers
      input[6 * columns + columns / 2] = kNaN;
      const auto all = static_cast<std::int32_t>(columns);
      std::vector<std::vector<std::int32_t>> lengths = {std::vector<std::int32_t>(kRows, all),
                                                        std::vector<std::int32_t>(kRows, all / 2),
                                                        {all, all, all, all - 1, all - 1, all - 1, 0, 0, 0, all, all},
                                                        {}};
      for (std::size_t r = 0; r < kRows; ++r)
        lengths.back().push_back(static_cast<std::int32_t>(r * 31 % (columns + 1)));
      for (const std::vector<std::int32_t>& lens : lengths) {
        const auto stride = static_cast<std::ptrdiff_t>(columns);
        MaskedSoftmaxArgs args{input.data(), stride, output.data(), stride, kRows, columns, lens.data(), 1};
        std::vector<float> alone;
        for (std::size_t r = 0; r < kRows; ++r) {
          std::vector<float> row(columns, -77.0f);
          rows({input.data() + r * columns, 0, row.data(), 0, 1, columns, &lens[r], 0});
          alone.insert(alone.end(), row.begin(), row.end());
        }
        INFO(columns, " columns, lengths ", lens[0], ", ", lens[1]);
        args.together = true;
        for (const std::size_t count : {std::size_t{2}, std::size_t{3}, kRows}) {
          std::fill(output.begin(), output.end(), -77.0f);
          args.num_rows = count;
          rows(args);
          CHECK(same_bits(output.data(), alone.data(), count * columns));
          CHECK(std::all_of(output.begin() + static_cast<std::ptrdiff_t>(count * columns), output.end(),
                            [](float weight) { return weight == -77.0f; }));
        }
        std::copy(input.begin(), input.end(), in_place.begin());
        args.input = args.output = in_place.data();
        rows(args);
        CHECK(same_bits(in_place.data(), alone.data(), alone.size()));
      }
    }
  });
}

TEST_CASE("masked_softmax: what is prefetched changes no bit, together or not") {
  for_each_target([](const Target& target) {
    const auto rows = kernels::masked_softmax_kernels(target.id()).rows;
    constexpr std::size_t kRows = 7, kColumns = 700;  // zeros by eight vectors too
    Random random(4);
    GuardedArray<float> input(kRows * kColumns), output(kRows * kColumns);  // beyond the last row lies nothing
    for (float& score : input) score = random.normal();
    const std::int32_t lens[kRows] = {700, 699, 0, 700, 700, 40, 700};
    for (const std::int32_t* valid_lens : {lens, static_cast<const std::int32_t*>(nullptr)}) {
      MaskedSoftmaxArgs args{input.data(), kColumns, output.data(), kColumns, kRows, kColumns, valid_lens, 1};
      rows(args);
      const std::vector<float> all(output.begin(), output.end());
      for (const kernels::SoftmaxPrefetch prefetch : {kernels::SoftmaxPrefetch::kAll, kernels::SoftmaxPrefetch::kBreaks,
                                                      kernels::SoftmaxPrefetch::kLinesIntoL2}) {
        for (const bool together : {false, true}) {
          std::fill(output.begin(), output.end(), -77.0f);
          args.prefetch = prefetch;
          args.together = together;
          rows(args);
          CHECK(std::equal(all.begin(), all.end(), output.begin()));
        }
      }
    }
  });
}

}  // namespace
}  // namespace attend::tests
