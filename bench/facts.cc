#include "bench/facts.h"

#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include <benchmark/benchmark.h>

#include "attend/target.h"
#include "bench/support.h"
#include "engine/base/cpus.h"
#include "engine/kernels/kernel_set.h"

// Written at every build (tools/cmake/commit.cmake).
#include "attend_commit.h"

namespace attend::bench {
namespace {

// To three digits, without zeros behind the point.
std::string text(double number) {
  std::ostringstream stream;
  stream.precision(3);
  stream << number;
  return stream.str();
}

// cpuid's name; where there is no such instruction, what the kernel says.
std::string cpu_name() {
  const std::string name = attend::cpu_name();
  if (name != "unknown") return name;
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    const std::size_t colon = line.find(": ");
    const bool names = line.starts_with("model name") || line.starts_with("CPU part");
    if (names && colon != std::string::npos) return line.substr(colon + 2);
  }
  return name;
}

std::string cache_sizes() {
  std::string sizes;
  for (const int level : {1, 2, 3}) {
    const auto kib = static_cast<double>(cache_bytes(level)) / 1024;
    sizes += level == 1 ? "L1d " : level == 2 ? ", L2 " : ", L3 ";
    sizes += kib <= 0 ? "unknown" : kib < 1024 ? text(kib) + " KiB" : text(kib / 1024) + " MiB";
  }
  return sizes;
}

std::string governor() {
  std::string name;
  std::ifstream("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor") >> name;
  return name.empty() ? "unreadable" : name;
}

std::string target_names(const std::vector<std::int64_t>& targets) {
  std::string names;
  for (const std::int64_t target : targets)
    names += (names.empty() ? "" : " ") + std::string(kernels::target_name(target));
  return names;
}

std::string compiler() {
#if defined(__clang__)
  return "clang " __clang_version__;
#elif defined(__GNUC__)
  return "g++ " __VERSION__;
#else
  return "unknown";
#endif
}

void add_machine() {
  const double quota = quota_cpus();
  benchmark::AddCustomContext("cpu", cpu_name());
  benchmark::AddCustomContext("cores", std::to_string(std::thread::hardware_concurrency()));
  benchmark::AddCustomContext("cores_usable", std::to_string(usable_cpus()));
  benchmark::AddCustomContext("cpu_quota", quota > 0 ? text(quota) + " CPUs" : "none");
  benchmark::AddCustomContext("cache_sizes", cache_sizes());
  benchmark::AddCustomContext("governor", governor());
}

void add_build() {
  benchmark::AddCustomContext("compiler", compiler());
  benchmark::AddCustomContext("build_type", ATTEND_BUILD_TYPE);
  benchmark::AddCustomContext("flags", ATTEND_BUILD_FLAGS);
  benchmark::AddCustomContext("commit", ATTEND_COMMIT);
  benchmark::AddCustomContext("highway", highway_version());
#ifdef ATTEND_WITH_ONEDNN
  const char* cap = std::getenv("ONEDNN_MAX_CPU_ISA");
  benchmark::AddCustomContext("onednn", onednn_version());
  benchmark::AddCustomContext("onednn_isa", onednn_isa());
  benchmark::AddCustomContext("onednn_cap", cap != nullptr ? cap : "none");
#else
  benchmark::AddCustomContext("onednn", "none");
#endif
}

bool runs(const std::string& selected, const Target& target) {
  const std::string part = "/" + std::string(target.name());  // what follows it: "/real_time", say
  return selected.find(part + "\n") != std::string::npos || selected.find(part + "/") != std::string::npos;
}

// suffix: of the keys.
void add_bounds(const Target& target, const std::string& suffix) {
  benchmark::AddCustomContext("fma_peak" + suffix, text(fma_peak(target) * 1e-9) + " GFLOPS");
  benchmark::AddCustomContext("read_bandwidth" + suffix,
                              text(read_bandwidth(std::size_t{32} << 20, target) * 1e-9) + " GB/s");
}

}  // namespace

void add_facts(const std::string& selected) {
  add_machine();
  add_build();
  benchmark::AddCustomContext("targets_compiled", target_names(kernels::compiled_targets()));
  benchmark::AddCustomContext("targets", target_names(kernels::available_targets()));
  benchmark::AddCustomContext("target_best", Target::best().name());
  // What bounds every case, in the head of every run: contenders refer to the best target.
  add_bounds(Target::best(), "");
  for (const Target& target : Target::available()) {
    if (target != Target::best() && runs(selected, target)) add_bounds(target, "_" + std::string(target.name()));
  }
}

}  // namespace attend::bench
