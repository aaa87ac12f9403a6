// Arithmetic on sizes that says so when it would wrap, and rounding to multiples.
#ifndef ATTEND_BASE_CHECKED_H_
#define ATTEND_BASE_CHECKED_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>

#include "attend/error.h"

namespace attend {

// "a workspace of 2^63 bytes or more, expected less": who knows what asks for that much puts it in front.
class TooLarge : public Error {
 public:
  explicit TooLarge(const std::string& what)
      : Error(what + " of 2^" + std::to_string(std::numeric_limits<std::ptrdiff_t>::digits) +
              " bytes or more, expected less") {}
};

// a * b, elements or bytes of what is named. Bounded by ptrdiff_t, since sizes become pointer differences.
inline std::size_t checked_multiply(std::size_t a, std::size_t b, const char* what) {
  constexpr auto kMax = static_cast<std::size_t>(std::numeric_limits<std::ptrdiff_t>::max());
  if (a != 0 && b > kMax / a) throw TooLarge(what);
  return a * b;
}

inline std::size_t checked_add(std::size_t a, std::size_t b, const char* what) {
  constexpr auto kMax = static_cast<std::size_t>(std::numeric_limits<std::ptrdiff_t>::max());
  if (a > kMax || b > kMax - a) throw TooLarge(what);
  return a + b;
}

// Of sizes, which are not negative.
constexpr std::size_t to_size(std::int64_t n) { return static_cast<std::size_t>(n); }
constexpr double to_double(std::int64_t n) { return static_cast<double>(n); }

constexpr std::size_t divide_up(std::size_t a, std::size_t b) { return (a + b - 1) / b; }
constexpr std::size_t round_up(std::size_t a, std::size_t multiple) { return divide_up(a, multiple) * multiple; }
// Where part `part` of `parts` begins, of `count` shared out evenly by whole units.
constexpr std::size_t part_begin(std::size_t count, std::size_t unit, std::size_t part, std::size_t parts) {
  const std::size_t begin = divide_up(count, unit) * part / parts * unit;
  return begin < count ? begin : count;
}

}  // namespace attend

#endif  // ATTEND_BASE_CHECKED_H_
