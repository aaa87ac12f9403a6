// Rows of strided tensors through a map, numbered across the batch: each equals the map of that row alone, nothing else
// is read or written.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <span>
#include <vector>

#include <doctest/doctest.h>

#include "engine/kernels/kernel_set.h"
#include "engine/run/map_rows.h"
#include "tests/support/compare.h"
#include "tests/support/for_each_target.h"
#include "tests/support/guard_page.h"
#include "tests/support/random.h"

namespace attend::tests {
namespace {

using detail::MapCut;
using detail::MapJob;
using detail::Rows;
using matmul::Linear;

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr float kUntouched = -7.25e33f;

// One piece, more than there are rows or columns, and what divides nothing.
constexpr MapCut kCuts[] = {{1, 1}, {4, 1}, {1, 2}, {3, 2}, {7, 5}};

// A plan's parts that mapping needs, and one worker's memory cut as the planner cuts it, poisoned.
struct Worker {
  detail::PlanImpl plan;
  GuardedArray<float> memory;

  explicit Worker(const Linear& map) : memory(floats(map)) {
    plan.kernels = &kernels::kernel_set(targets_under_test().front().id());
    plan.layout.rows_out = 0;
    plan.layout.map_scratch = rounded(Linear::kRowBlock * map.out_size()) * sizeof(float);
    std::fill(memory.begin(), memory.end(), kNaN);
  }
  std::byte* data() { return reinterpret_cast<std::byte*>(memory.data()); }

 private:
  static std::size_t rounded(std::size_t count) { return (count + 15) / 16 * 16; }
  static std::size_t floats(const Linear& map) {
    return rounded(Linear::kRowBlock * map.out_size()) + rounded(map.scratch_bytes() / sizeof(float) + 1);
  }
};

// One row on its own.
std::vector<float> map_alone(const Linear& map, const float* row, Worker& worker) {
  std::vector<float> y(map.out_size());
  float* result = y.data();
  REQUIRE(
      map.multiply(worker.plan.kernels->linear_rows, &row, &result, 1, worker.data() + worker.plan.layout.map_scratch));
  return y;
}

// How rows lie in memory: gaps after each row and after each entry, rows or entries from the last to the first.
struct Placement {
  std::int64_t row_gap = 0, entry_gap = 0;
  bool reversed = false;
};
constexpr Placement kPlacements[] = {{}, {3, 0}, {0, 5}, {16, 7}, {0, 0, true}, {3, 5, true}};

// (B, capacity, size) between unmapped pages: the last row's last element, or the first row's first, touches one.
struct Tensor3 {
  std::int64_t batch, capacity, size, row_stride, entry_stride;
  GuardedArray<float> memory;
  std::ptrdiff_t origin = 0;

  Tensor3(std::int64_t entries, std::int64_t rows, std::int64_t row_size, const Placement& placement)
      : batch(entries),
        capacity(rows),
        size(row_size),
        row_stride(row_size + placement.row_gap),
        entry_stride(rows == 0 ? 0 : (rows - 1) * row_stride + row_size + placement.entry_gap),
        memory(static_cast<std::size_t>(
            rows == 0 || entries == 0 ? 0 : (entries - 1) * entry_stride + (rows - 1) * row_stride + row_size)) {
    if (placement.row_gap == 0 && placement.entry_gap == 0) entry_stride = rows * row_stride;  // dense
    std::fill(memory.begin(), memory.end(), kUntouched);
    if (placement.reversed && rows > 0 && entries > 0) {
      origin = (entries - 1) * entry_stride + (rows - 1) * row_stride;
      row_stride = -row_stride;
      entry_stride = -entry_stride;
    }
  }
  float* at(std::int64_t b, std::int64_t row) { return memory.data() + origin + b * entry_stride + row * row_stride; }
  Rows<const float> read() { return {memory.data() + origin, entry_stride, 0, row_stride}; }
  Rows<float> write() { return {memory.data() + origin, entry_stride, 0, row_stride}; }
};

// Maps everything and compares with each row alone. lens: rows of each entry that are mapped; the others are NaN in the
// source, and neither they nor the gaps may be written in the destination. numbered: through MapJob::starts.
void check_map(const Linear& map, const std::vector<std::int64_t>& lens, std::int64_t capacity, bool numbered,
               const Placement& from, const Placement& to) {
  const auto batch = static_cast<std::int64_t>(lens.size());
  const auto in = static_cast<std::int64_t>(map.in_size()), out = static_cast<std::int64_t>(map.out_size());
  Tensor3 source(batch, capacity, in, from), destination(batch, capacity, out, to);
  Random random(static_cast<std::uint64_t>(capacity) + 1);
  std::fill(source.memory.begin(), source.memory.end(), kNaN);
  std::vector<float> expected(destination.memory.begin(), destination.memory.end());
  Worker worker(map);
  for (std::int64_t b = 0; b < batch; ++b) {
    for (std::int64_t row = 0; row < lens[static_cast<std::size_t>(b)]; ++row) {
      for (std::int64_t i = 0; i < in; ++i) source.at(b, row)[i] = random.normal();
      const std::vector<float> y = map_alone(map, source.at(b, row), worker);
      std::copy(y.begin(), y.end(), expected.begin() + (destination.at(b, row) - destination.memory.data()));
    }
  }
  std::vector<std::int64_t> starts(lens.size() + 1, 0);
  std::partial_sum(lens.begin(), lens.end(), starts.begin() + 1);
  const MapJob job{.map = &map,
                   .source = source.read(),
                   .destination = destination.write(),
                   .starts = numbered ? starts.data() : nullptr,
                   .rows_per_entry = capacity,
                   .batch = batch};
  REQUIRE(job.num_rows() == starts.back());
  for (const MapCut& cut : kCuts) {
    if (cut.ranges > 1 && !map.splits_columns()) continue;
    std::fill(destination.memory.begin(), destination.memory.end(), kUntouched);
    for (std::size_t piece = cut.pieces(); piece-- > 0;) {
      std::fill(worker.memory.begin(), worker.memory.end(), kNaN);
      REQUIRE(detail::map_piece(job, cut, piece, worker.plan, worker.data()));
    }
    INFO(batch, " entries of ", capacity, " rows, cut into ", cut.slices, " x ", cut.ranges, ", numbered ", numbered,
         ", gaps ", from.row_gap, " ", from.entry_gap, " to ", to.row_gap, " ", to.entry_gap);
    CHECK(same_bits(destination.memory.data(), expected.data(), expected.size()));
  }
}

Linear random_map(std::int64_t out, std::int64_t in,
                  matmul::Implementation implementation = matmul::Implementation::kBySize) {
  Random random(11);
  const Tensor W = random.normal({out, in}), bias = random.normal({out});
  return Linear(W.view(), bias.view(), "W", implementation);
}

}  // namespace

TEST_CASE("map rows: rows cross batch entries, from and to any strides, up to unmapped pages") {
  const Linear maps[] = {random_map(7, 5), random_map(48, 64)};
  for (const Linear& map : maps) {
    for (const std::int64_t rows : {1, 5, 20, 63, 64, 65, 130, 300}) {
      for (const std::int64_t batch : {1, 3}) {
        for (const Placement& from : kPlacements) {
          for (const Placement& to : kPlacements) {
            check_map(map, std::vector<std::int64_t>(static_cast<std::size_t>(batch), rows), rows, false, from, to);
          }
        }
      }
    }
  }
}

TEST_CASE("map rows: our own kernel, which gets 256 rows where they lie") {
  const Linear map = random_map(75, 52, matmul::Implementation::kLinearRows);
  for (const Placement& placement : {Placement{}, Placement{0, 5}, Placement{3, 0}}) {
    check_map(map, {300, 300}, 300, false, placement, {});
    check_map(map, {300, 17, 0, 280}, 300, true, {}, placement);
  }
}

TEST_CASE("map rows: numbered by valid lengths, rows beyond them are neither read nor written") {
  const Linear map = random_map(24, 17);
  const std::vector<std::vector<std::int64_t>> all_lens = {
      {3}, {70}, {0, 5}, {5, 0}, {0, 0, 4, 0}, {64, 64}, {63, 1, 64}, {1, 1, 1, 1}, {30, 70, 0, 0, 29, 70}, {0, 0}};
  for (const std::vector<std::int64_t>& lens : all_lens) {
    for (const Placement& from : kPlacements) {
      for (const Placement& to : kPlacements) check_map(map, lens, 70, true, from, to);
    }
  }
  // Rows that may go in one call up to the end of an entry, and not beyond it; full entries, and then beyond it.
  for (const std::vector<std::int64_t>& lens : std::vector<std::vector<std::int64_t>>{
           {200, 200, 31}, {128, 200, 64}, {1, 199, 200, 200}, {0, 200, 200, 0, 200}, {140, 0, 0, 150}}) {
    for (const Placement& from : kPlacements) {
      for (const Placement& to : kPlacements) check_map(map, lens, 200, true, from, to);
    }
  }
}

namespace {

// Keeps the rows it is given, and how often.
class Recorder final : public detail::RowSink {
 public:
  using Call = std::array<std::int64_t, 3>;

  Recorder(std::int64_t batch, std::int64_t capacity, std::int64_t size)
      : rows(static_cast<std::size_t>(batch * capacity * size), kUntouched),
        times(static_cast<std::size_t>(batch * capacity), 0),
        capacity_(capacity),
        size_(size) {}

  void take(std::int64_t b, std::int64_t first, std::int64_t count, const float* from,
            std::ptrdiff_t stride) const override {
    CHECK(count > 0);
    if (taken.size() < asked.size()) taken.push_back({b, first, count});
    for (std::int64_t j = 0; j < count; ++j) {
      const auto at = static_cast<std::size_t>(b * capacity_ + first + j);
      ++times.at(at);
      std::copy_n(from + j * stride, size_, rows.begin() + static_cast<std::ptrdiff_t>(at) * size_);
    }
  }
  kernels::PrefetchRows written(std::int64_t b, std::int64_t first, std::int64_t count) const override {
    asked.push_back({b, first, count});
    return {.next = rows.data(), .num_rows = 1, .size = 1};
  }
  std::span<const float> read_next(std::int64_t b, std::int64_t first, std::int64_t count) const override {
    CHECK(asked.back() == Call{b, first, count});
    return rows;
  }
  mutable std::vector<float> rows;
  mutable std::vector<int> times;
  // Calls of both, and what comes first of a block.
  mutable std::vector<Call> asked, taken;

 private:
  std::int64_t capacity_, size_;
};

}  // namespace

TEST_CASE("map rows: a sink takes every row once, by entry and index, beside a destination or instead of one") {
  const std::int64_t in = 17, out = 24, capacity = 140;
  const Linear map = random_map(out, in);
  for (const std::vector<std::int64_t>& lens : std::vector<std::vector<std::int64_t>>{
           {3}, {140}, {0, 5}, {5, 0}, {64, 64}, {63, 1, 64, 0, 70}, {1, 1, 1}, {30, 70, 0, 0, 29, 140}, {0, 0}}) {
    const auto batch = static_cast<std::int64_t>(lens.size());
    std::vector<std::int64_t> starts(lens.size() + 1, 0);
    std::partial_sum(lens.begin(), lens.end(), starts.begin() + 1);
    Tensor3 source(batch, capacity, in, {3, 0});
    Random random(14);
    for (float& x : source.memory) x = random.normal();
    Worker worker(map);
    std::vector<float> expected(static_cast<std::size_t>(batch * capacity * out), kUntouched);
    std::vector<int> once(static_cast<std::size_t>(batch * capacity), 0);
    for (std::int64_t b = 0; b < batch; ++b) {
      for (std::int64_t row = 0; row < lens[static_cast<std::size_t>(b)]; ++row) {
        const std::vector<float> y = map_alone(map, source.at(b, row), worker);
        std::copy(y.begin(), y.end(), expected.begin() + (b * capacity + row) * out);
        once[static_cast<std::size_t>(b * capacity + row)] = 1;
      }
    }
    for (const bool kept : {false, true}) {
      for (const Placement& to : kPlacements) {
        Tensor3 destination(batch, capacity, out, to);
        const Recorder sink(batch, capacity, out);
        const MapJob job{.map = &map,
                         .source = source.read(),
                         .destination = kept ? destination.write() : Rows<float>{},
                         .sink = &sink,
                         .starts = starts.data(),
                         .rows_per_entry = capacity,
                         .batch = batch};
        // Whole blocks, or any rows of the job's numbering.
        const std::int64_t step = to.row_gap == 0 ? static_cast<std::int64_t>(Linear::kMaxRows) : 7;
        for (std::int64_t first = (job.num_rows() - 1) / step * step; first >= 0 && job.num_rows() > 0; first -= step) {
          std::fill(worker.memory.begin(), worker.memory.end(), kNaN);
          REQUIRE(detail::map_rows(job, first, std::min(step, job.num_rows() - first), worker.plan, worker.data()));
        }
        CHECK(sink.times == once);
        CHECK(sink.asked == sink.taken);
        CHECK(sink.asked.empty() == (job.num_rows() == 0));
        CHECK(same_bits(sink.rows, expected));
        std::size_t wrong = 0;
        for (std::int64_t row = 0; row < batch * capacity; ++row) {
          const float* written = destination.at(row / capacity, row % capacity);
          const float* whole = expected.data() + row * out;
          for (std::int64_t i = 0; i < out; ++i) wrong += written[i] == (kept ? whole[i] : kUntouched) ? 0 : 1;
        }
        CHECK(wrong == 0);
      }
    }
  }
}

TEST_CASE("map rows: one source row for all, at zero strides") {
  const Linear map = random_map(9, 12);
  Random random(13);
  GuardedArray<float> row(12);
  for (float& x : row) x = random.normal();
  Worker worker(map);
  GuardedArray<float> results(6 * 9);
  const std::vector<float> alone = map_alone(map, row.data(), worker);
  const MapJob job{.map = &map,
                   .source = {row.data(), 0, 0, 0},
                   .destination = {results.data(), 27, 0, 9},
                   .starts = nullptr,
                   .rows_per_entry = 3,
                   .batch = 2};
  REQUIRE(detail::map_rows(job, 0, job.num_rows(), worker.plan, worker.data()));
  for (std::size_t m = 0; m < 6; ++m) CHECK(same_bits(results.data() + m * 9, alone.data(), 9));
}

TEST_CASE(
    "map rows: pieces are slices of rows where there are many, else ranges of columns, and rows where only those go") {
  const Linear small = random_map(256, 64, matmul::Implementation::kLinearRows);
  const Linear narrow = random_map(64, 64, matmul::Implementation::kLinearRows);
  const Linear large = random_map(1056, 1024, matmul::Implementation::kLinearRows);
  const detail::RowSink* const none = nullptr;
  const Recorder recorder(0, 0, 0);
  const auto cut = [](const Linear& map, std::int64_t rows, std::size_t pieces, const detail::RowSink* sink) {
    float y = 0;
    const MapCut found = detail::cut_map(
        {.map = &map, .source = {}, .destination = {&y, 0, 0, 0}, .sink = sink, .rows_per_entry = rows, .batch = 1},
        pieces);
    return std::vector<std::size_t>{found.slices, found.ranges};
  };
  using Cut = std::vector<std::size_t>;
  CHECK(cut(small, 1000, 1, none) == Cut{1, 1});
  CHECK(cut(small, 64, 4, none) == Cut{4, 1});
  CHECK(cut(small, 63, 4, none) == Cut{2, 2});  // three slices would not make four pieces
  CHECK(cut(small, 200, 26, none) == Cut{12, 2});
  CHECK(cut(small, 31, 4, none) == Cut{1, 4});
  CHECK(cut(small, 0, 4, none) == Cut{1, 4});
  CHECK(cut(small, 31, 8, none) == Cut{1, 4});  // of 64 columns
  CHECK(cut(small, 100, 14, none) == Cut{6, 2});
  CHECK(cut(narrow, 31, 4, none) == Cut{1, 1});
  CHECK(cut(large, 255, 4, none) == Cut{2, 2});
  CHECK(cut(large, 256, 4, none) == Cut{4, 1});
  CHECK(cut(large, 63, 4, none) == Cut{1, 4});
  CHECK(cut(large, 63, 4, &recorder) == Cut{3, 1});
}

}  // namespace attend::tests
