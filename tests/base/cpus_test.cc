// What the system says of its processors, and how it is read.
#include "engine/base/cpus.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include <doctest/doctest.h>

#include "tests/support/temp_dir.h"

namespace attend::tests {
namespace {

void write_cache(const TempDir& directory, int index, std::string_view level, std::string_view type,
                 std::string_view size) {
  const std::string cache = "index" + std::to_string(index) + "/";
  std::filesystem::create_directory(directory.path(cache));
  directory.write(cache + "level", level);
  directory.write(cache + "type", type);
  directory.write(cache + "size", size);
}

TEST_CASE("cpus: caches are those of data, as the system lists them") {
  const TempDir directory;
  CHECK(cache_bytes_in(directory.path(), 1) == 0);  // nothing is listed
  write_cache(directory, 0, "1\n", "Instruction\n", "64K\n");
  write_cache(directory, 1, "1\n", "Data\n", "48K\n");
  write_cache(directory, 2, "2\n", "Unified\n", "2048K\n");
  write_cache(directory, 3, "3\n", "Unified\n", "32M\n");
  CHECK(cache_bytes_in(directory.path(), 1) == 48u << 10);
  CHECK(cache_bytes_in(directory.path(), 2) == 2u << 20);
  CHECK(cache_bytes_in(directory.path(), 3) == 32u << 20);
  CHECK(cache_bytes_in(directory.path(), 4) == 0);
  CHECK(cache_bytes_in(directory.path("missing"), 1) == 0);
}

TEST_CASE("cpus: this machine's caches have sizes or none, and other levels none") {
  CHECK(cache_bytes(1) <= cache_bytes(2));
  CHECK(cache_bytes(0) == 0);
  CHECK(cache_bytes(4) == 0);
}

TEST_CASE("cpus: far is what a quarter of L3 does not hold, from 8 MiB on") {
  CHECK(Cpu{}.least_far_bytes() == 8u << 20);
  CHECK(Cpu{.l3_bytes = 32u << 20}.least_far_bytes() == 8u << 20);
  CHECK(Cpu{.l3_bytes = 256u << 20}.least_far_bytes() == 64u << 20);
}

TEST_CASE("cpus: this CPU has this machine's caches") {
  CHECK(this_cpu().l1_bytes == cache_bytes(1));
  CHECK(this_cpu().l3_bytes == cache_bytes(3));
}

TEST_CASE("cpus: AMD's are those that the system lists as AMD's") {
#if defined(__x86_64__) || defined(__i386__)
  std::ifstream cpuinfo("/proc/cpuinfo");
  bool listed = false;
  for (std::string line; std::getline(cpuinfo, line);) {
    if (line.find("AuthenticAMD") != std::string::npos) listed = true;
  }
  CHECK(this_cpu().is_amd == listed);
#else
  CHECK(!this_cpu().is_amd);  // an emulator may list the CPU that it runs on
#endif
}

}  // namespace
}  // namespace attend::tests
