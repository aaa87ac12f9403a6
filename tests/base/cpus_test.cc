// What the system says of its processors, and how it is read.
#include "engine/base/cpus.h"

#include <sched.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <thread>

#include <doctest/doctest.h>

#include "attend/executor.h"
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

void write_in(const TempDir& directory, const std::string& group, const std::string& name, std::string_view text) {
  std::filesystem::create_directories(directory.path(group));
  directory.write(group + "/" + name, text);
}

TEST_CASE("cpus: the quota of a container is that of its root, in both versions") {
  const auto quota = [](const std::string& group, const std::string& name, std::string_view text,
                        std::string_view period = "") {
    const TempDir directory;
    write_in(directory, group, name, text);
    if (!period.empty()) write_in(directory, group, "cpu.cfs_period_us", period);
    return quota_cpus_in(directory.path(), directory.path("missing"));
  };
  CHECK(quota(".", "cpu.max", "150000 100000\n") == 1.5);
  CHECK(quota(".", "cpu.max", "max 100000\n") == 0);
  CHECK(quota(".", "cpu.max", "150000\n") == 0);
  CHECK(quota(".", "cpu.max", "150000 0\n") == 0);
  CHECK(quota(".", "cpu.max", "-3 100000\n") == 0);
  CHECK(quota(".", "cpu.max", "") == 0);
  CHECK(quota("cpu", "cpu.cfs_quota_us", "300000\n", "100000\n") == 3);
  CHECK(quota("cpu", "cpu.cfs_quota_us", "-1\n", "100000\n") == 0);
  CHECK(quota("cpu", "cpu.cfs_quota_us", "300000\n") == 0);
  CHECK(quota("elsewhere", "cpu.max", "150000 100000\n") == 0);
}

TEST_CASE("cpus: the quota of a service is the least of its group and those above") {
  const TempDir directory;
  const auto quota = [&](std::string_view membership) {
    directory.write("membership", membership);
    return quota_cpus_in(directory.path("cgroup"), directory.path("membership"));
  };
  write_in(directory, "cgroup/system.slice", "cpu.max", "400000 100000\n");
  write_in(directory, "cgroup/system.slice/a.service", "cpu.max", "200000 100000\n");
  write_in(directory, "cgroup/system.slice/b.service", "cpu.max", "800000 100000\n");
  write_in(directory, "cgroup/system.slice/c.service", "cpu.max", "max 100000\n");
  CHECK(quota("0::/system.slice/a.service\n") == 2);
  CHECK(quota("0::/system.slice/b.service\n") == 4);
  CHECK(quota("0::/system.slice/c.service\n") == 4);
  CHECK(quota("0::/system.slice/a.service/below\n") == 2);
  CHECK(quota("0::/\n") == 0);
  CHECK(quota("0::/user.slice\n") == 0);
  CHECK(quota("0::/../../system.slice\n") == 0);
  CHECK(quota("") == 0);
  CHECK(quota("no colons\n0:one\n0::no slash\n") == 0);

  write_in(directory, "cgroup/cpu/job", "cpu.cfs_quota_us", "50000\n");
  write_in(directory, "cgroup/cpu/job", "cpu.cfs_period_us", "100000\n");
  CHECK(quota("7:memory:/job\n4:cpu,cpuacct:/job/step\n") == 0.5);
  CHECK(quota("4:cpuset:/job\n") == 0);
  CHECK(quota("0::/system.slice/a.service\n4:cpu:/job\n") == 0.5);
}

TEST_CASE("cpus: a quota takes threads for whole CPUs and one for the rest, and no more than there are CPUs") {
  CHECK(threads_for(8, 0) == 8);
  CHECK(threads_for(8, 1.5) == 2);
  CHECK(threads_for(8, 2) == 2);
  CHECK(threads_for(8, 0.1) == 1);
  CHECK(threads_for(2, 7.5) == 2);
  CHECK(threads_for(2, 1e15) == 2);
  CHECK(threads_for(0, 0) == 1);
  CHECK(threads_for(0, 3) == 1);
}

TEST_CASE("cpus: those that a thread may use are those of its affinity mask") {
  bool tried = false;
  int usable = 0, threads = 0;
  std::thread([&] {
    cpu_set_t all, one;
    if (sched_getaffinity(0, sizeof all, &all) != 0) return;  // more CPUs than a set holds
    int first = 0;
    while (!CPU_ISSET(first, &all)) ++first;
    CPU_ZERO(&one);
    CPU_SET(first, &one);
    tried = sched_setaffinity(0, sizeof one, &one) == 0;
    usable = usable_cpus();
    threads = ThreadPool::available_threads();
  }).join();
  if (!tried) {
    MESSAGE("not tried: this system does not let a thread choose its CPU");
    return;
  }
  CHECK(usable == 1);
  CHECK(threads == 1);
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

TEST_CASE("cpus: of the L3 of all of AMD's complexes, a core has at most that of one") {
  CHECK(l3_bytes_of_complex(0) == 0);
  CHECK(l3_bytes_of_complex(16u << 20) == 16u << 20);
  CHECK(l3_bytes_of_complex(508u << 20) == 32u << 20);
  // What the system lists of one complex stands, stacked caches too.
  if (this_cpu().is_amd && !std::filesystem::exists("/sys/devices/system/cpu/cpu0/cache/index3")) {
    CHECK(cache_bytes(3) <= 32u << 20);
  }
}

TEST_CASE("cpus: far is what a quarter of L3 does not hold, from 8 MiB on") {
  CHECK(Cpu{}.least_far_bytes() == 8u << 20);
  CHECK(Cpu{.l3_bytes = 32u << 20}.least_far_bytes() == 8u << 20);
  CHECK(Cpu{.l3_bytes = 256u << 20}.least_far_bytes() == 64u << 20);
}

TEST_CASE("cpus: this CPU has a name, without spaces around it") {
  const std::string name = cpu_name();
  REQUIRE(!name.empty());
  CHECK(name.front() != ' ');
  CHECK(name.back() != ' ');
}

TEST_CASE("cpus: AMD's, and those with AVX-512 and tiles, are those that the system lists as such") {
#if defined(__x86_64__) || defined(__i386__)
  std::ifstream cpuinfo("/proc/cpuinfo");
  bool listed = false, avx512 = false, tiles = false;
  for (std::string line; std::getline(cpuinfo, line);) {
    if (line.find("AuthenticAMD") != std::string::npos) listed = true;
    if (line.find(" avx512f ") != std::string::npos) avx512 = true;
    if (line.find(" amx_bf16") != std::string::npos && line.find(" amx_tile") != std::string::npos) tiles = true;
  }
  CHECK(this_cpu().is_amd == listed);
  CHECK(this_cpu().has_avx512 == avx512);
#if defined(__x86_64__) && defined(__linux__)
  CHECK(this_cpu().has_tiles == tiles);  // no thread of this process has a small stack for signals
#endif
#else
  CHECK(!this_cpu().has_tiles);
  CHECK(!this_cpu().has_avx512);
  CHECK(!this_cpu().is_amd);  // an emulator may list the CPU that it runs on
#endif
}

TEST_CASE("cpus: AMD's with 48 KiB of L1 are Zen 5 or later") {
  CHECK(Cpu{.is_amd = true, .l1_bytes = 48u << 10}.is_zen5());
  CHECK_FALSE(Cpu{.is_amd = true, .l1_bytes = 32u << 10}.is_zen5());
  CHECK_FALSE(Cpu{.l1_bytes = 48u << 10}.is_zen5());
}

TEST_CASE("cpus: AMD's with AVX-512 or 1 MiB of L2 add beside multiplying, none of these alone does") {
  CHECK(Cpu{.is_amd = true, .has_avx512 = true}.adds_beside_products());
  CHECK(Cpu{.is_amd = true, .l2_bytes = 1u << 20}.adds_beside_products());
  CHECK_FALSE(Cpu{.is_amd = true, .l2_bytes = 512u << 10}.adds_beside_products());
  CHECK_FALSE(Cpu{.is_amd = true}.adds_beside_products());
  CHECK_FALSE(Cpu{.has_avx512 = true, .l2_bytes = 2u << 20}.adds_beside_products());
}

}  // namespace
}  // namespace attend::tests
