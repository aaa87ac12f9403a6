// The version's numbers, its text, and what the linked library says.
#include "attend/version.h"

#include <string>

#include <doctest/doctest.h>

namespace attend::tests {

TEST_CASE("version: the library's is its headers', MAJOR.MINOR.PATCH") {
  const std::string numbers = std::to_string(ATTEND_VERSION_MAJOR) + "." + std::to_string(ATTEND_VERSION_MINOR) + "." +
                              std::to_string(ATTEND_VERSION_PATCH);
  CHECK(std::string(ATTEND_VERSION_STRING) == numbers);
  CHECK(std::string(version()) == numbers);
}

}  // namespace attend::tests
