// What a gaussian's keys are packed about.
#ifndef ATTEND_RUN_CENTER_H_
#define ATTEND_RUN_CENTER_H_

#include <cstddef>
#include <cstdint>

#include "engine/run/bind.h"

namespace attend::detail {

// Of the first three of a head's keys whose elements are all finite, the one that is nearest to the others, so that no
// single key far away costs all others their accuracy. Of fewer, the first; of none, null.
//
// Gaussian: -|q - k|^2 / 2 = q.k - |k|^2 / 2 - |q|^2 / 2, where the last term is the same for all keys of a row. Far
// from the origin the products would cancel, so both sides are moved by a key c first. With R the largest distance of
// a query to a visible key, |q - c| <= R and |k - c| <= 2 R: rounding stays within a few ulps of R^2 / sigma^2 = 2
// max|score|.
struct Center {
  const float* key = nullptr;
  std::size_t seen = 0;  // of the head's first keys, so many decide it; more than there are, where three are not finite
};
Center central_key(const Rows<const float>& keys, std::int64_t b, std::int64_t h, std::size_t num_keys,
                   std::size_t size);

}  // namespace attend::detail

#endif  // ATTEND_RUN_CENTER_H_
