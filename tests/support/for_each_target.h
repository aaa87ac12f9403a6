// Runs a check once per available target, or only on the one that ATTEND_TARGET names (one CTest entry per target, so
// that a crash names its instruction set); "best" is this CPU's best.
#ifndef ATTEND_TESTS_FOR_EACH_TARGET_H_
#define ATTEND_TESTS_FOR_EACH_TARGET_H_

#include <cstdlib>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>

#include "attend/target.h"

namespace attend::tests {

inline std::vector<Target> targets_under_test() {
  const char* forced = std::getenv("ATTEND_TARGET");
  if (forced != nullptr && std::string_view(forced) == "best") return {Target::best()};
  if (forced != nullptr && *forced != '\0') return {Target::from_name(forced)};
  return Target::available();
}

template <class Check>
void for_each_target(Check&& check) {
  for (const Target& target : targets_under_test()) {
    INFO("target ", target.name());
    check(target);
  }
}

}  // namespace attend::tests

#endif  // ATTEND_TESTS_FOR_EACH_TARGET_H_
