// The tests' main: doctest's, preceded by one line that says which instruction sets are covered.
#define DOCTEST_CONFIG_IMPLEMENT
#include <cstdio>
#include <string>

#include <doctest/doctest.h>

#include "attend/error.h"
#include "tests/support/for_each_target.h"

namespace {

// CTest's word for "skipped" (SKIP_RETURN_CODE): this CPU or this build lacks the target.
constexpr int kSkipped = 77;

}  // namespace

int main(int argc, char** argv) {
  std::string names;
  try {
    attend::tests::targets_under_test();
  } catch (const attend::Error& error) {
    std::printf("ATTEND_TARGET: %s\nskipped\n", error.what());
    return kSkipped;
  }
  for (const attend::Target& target : attend::tests::targets_under_test()) names += " " + target.name();
  std::printf("targets under test:%s\n", names.c_str());
  std::fflush(stdout);
  doctest::Context context(argc, argv);
  return context.run();
}
