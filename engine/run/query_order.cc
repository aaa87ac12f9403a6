#include "engine/run/query_order.h"

#include <array>

namespace attend::detail {
namespace {

// Lengths that are told apart: tiles end within a 256th of all keys of each other.
constexpr std::int64_t kLengths = 256;

bool is_rising(const VisibleKeys& visible, std::int64_t b, std::int64_t num_queries) {
  for (std::int64_t m = 1; m < num_queries; ++m) {
    if (visible.num_keys(b, m) < visible.num_keys(b, m - 1)) return false;
  }
  return true;
}

// A counting sort, which leaves queries of like lengths as they lie.
void sort_entry(const VisibleKeys& visible, std::int64_t b, std::int64_t num_queries, std::int64_t num_keys,
                std::int32_t* to) {
  std::array<std::int32_t, kLengths + 1> places{};  // of each length, where its next query goes
  const auto length = [&](std::int64_t m) {
    return static_cast<std::size_t>((num_keys - visible.num_keys(b, m)) * (kLengths - 1) / num_keys);
  };
  for (std::int64_t m = 0; m < num_queries; ++m) ++places[length(m) + 1];
  for (std::size_t i = 1; i < places.size(); ++i) places[i] += places[i - 1];
  for (std::int64_t m = 0; m < num_queries; ++m) to[places[length(m)]++] = static_cast<std::int32_t>(m);
}

}  // namespace

QueryOrder::QueryOrder(const VisibleKeys& visible, std::int64_t batch, std::int64_t num_queries, std::int64_t num_keys,
                       std::int32_t* to) {
  if (!visible.has_lens_per_query() || num_keys == 0) return;
  std::int64_t b = 0;
  while (b < batch && is_rising(visible, b, num_queries)) ++b;
  if (b == batch) return;
  for (b = 0; b < batch; ++b) sort_entry(visible, b, num_queries, num_keys, to + b * num_queries);
  queries_ = to;
  num_queries_ = num_queries;
}

}  // namespace attend::detail
