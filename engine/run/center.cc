#include "engine/run/center.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace attend::detail {
namespace {

double distance(const float* a, const float* b, std::size_t size) {
  double squared = 0;
  for (std::size_t k = 0; k < size; ++k) {
    const double difference = static_cast<double>(a[k]) - static_cast<double>(b[k]);
    squared += difference * difference;
  }
  return std::sqrt(squared);
}

}  // namespace

Center central_key(const Rows<const float>& keys, std::int64_t b, std::int64_t h, std::size_t num_keys,
                   std::size_t size) {
  std::array<const float*, 3> finite{};
  std::size_t count = 0, seen = 0;
  for (; seen < num_keys && count < finite.size(); ++seen) {
    const float* key = keys.at(b, h, static_cast<std::int64_t>(seen));
    if (std::all_of(key, key + size, [](float x) { return std::isfinite(x); })) finite[count++] = key;
  }
  if (count < finite.size()) return {finite[0], num_keys + 1};
  const double d01 = distance(finite[0], finite[1], size), d02 = distance(finite[0], finite[2], size),
               d12 = distance(finite[1], finite[2], size);
  const std::array<double, 3> sums{d01 + d02, d01 + d12, d02 + d12};
  return {finite[static_cast<std::size_t>(std::min_element(sums.begin(), sums.end()) - sums.begin())], seen};
}

}  // namespace attend::detail
