// The tests' main: doctest's, preceded by one line that says which instruction sets are covered.
#define DOCTEST_CONFIG_IMPLEMENT
#include <cstdio>

#include <doctest/doctest.h>

#include "tests/support/for_each_target.h"

int main(int argc, char** argv) {
  std::string names;
  for (const attend::Target& target : attend::tests::targets_under_test()) names += " " + target.name();
  std::printf("targets under test:%s\n", names.c_str());
  std::fflush(stdout);
  doctest::Context context(argc, argv);
  return context.run();
}
