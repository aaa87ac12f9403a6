// Arithmetic on sizes that says so when it would wrap, and rounding to multiples.
#ifndef ATTEND_BASE_CHECKED_H_
#define ATTEND_BASE_CHECKED_H_

#include <cstddef>
#include <cstdint>
#include <limits>

#include "engine/base/message.h"

namespace attend {

// a * b, or an Error that names what overflowed. Bounded by ptrdiff_t, since sizes become pointer differences.
inline std::size_t checked_multiply(std::size_t a, std::size_t b, const char* what) {
  constexpr auto kMax = static_cast<std::size_t>(std::numeric_limits<std::ptrdiff_t>::max());
  if (a != 0 && b > kMax / a) fail(what, ": ", a, " times ", b, " does not fit in memory");
  return a * b;
}

inline std::size_t checked_add(std::size_t a, std::size_t b, const char* what) {
  constexpr auto kMax = static_cast<std::size_t>(std::numeric_limits<std::ptrdiff_t>::max());
  if (a > kMax || b > kMax - a) fail(what, ": ", a, " plus ", b, " does not fit in memory");
  return a + b;
}

constexpr std::size_t divide_up(std::size_t a, std::size_t b) { return (a + b - 1) / b; }
constexpr std::size_t round_up(std::size_t a, std::size_t multiple) { return divide_up(a, multiple) * multiple; }

}  // namespace attend

#endif  // ATTEND_BASE_CHECKED_H_
