// attend_bench: see README.md beside this file.
//     taskset -c 0 attend_bench --benchmark_filter='dot/.*/AVX3'
#include <dlfcn.h>

#include <cstddef>
#include <fstream>
#include <string>

#include <benchmark/benchmark.h>

#include "attend/target.h"
#include "bench/benchmarks.h"
#include "bench/support.h"

namespace attend::bench {
namespace {

std::string cpu_model() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    const std::size_t colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) return line.substr(colon + 2);
  }
  return "unknown";
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

// What the numbers depend on and a reader cannot see. No paths: results are to be shared.
void add_context() {
  std::string targets;
  for (const Target& target : Target::available()) targets += (targets.empty() ? "" : " ") + target.name();
  benchmark::AddCustomContext("cpu", cpu_model());
  benchmark::AddCustomContext("targets", targets);
  benchmark::AddCustomContext("highway", highway_version());
#ifdef ATTEND_WITH_ONEDNN
  benchmark::AddCustomContext("onednn", onednn_version());
#else
  benchmark::AddCustomContext("onednn", "none in this build (ATTEND_WITH_ONEDNN)");
#endif
  benchmark::AddCustomContext("compiler", compiler());
  // What bounds every case, in the head of every run.
  benchmark::AddCustomContext("fma_peak", std::to_string(fma_peak(Target::best()) * 1e-9) + " GFLOPS");
  benchmark::AddCustomContext("read_bandwidth", std::to_string(read_bandwidth(std::size_t{32} << 20) * 1e-9) + " GB/s");
#ifdef ATTEND_GIT_COMMIT
  benchmark::AddCustomContext("commit", ATTEND_GIT_COMMIT);
#endif
}

// Everything here is measured on one thread, but for additive/*_threads2, which bring their own; oneDNN's primitives
// take their number of threads from OpenMP when they are made. By name, since oneDNN may have been built on another
// runtime.
void use_one_openmp_thread() {
  if (const auto set = reinterpret_cast<void (*)(int)>(dlsym(RTLD_DEFAULT, "omp_set_num_threads"))) set(1);
}

void register_all() {
  register_machine_benchmarks();
  register_pack_benchmarks();
  register_tile_product_benchmarks();
  register_dot_tile_benchmarks();
  register_masked_softmax_benchmarks();
  register_softmax_tile_benchmarks();
  register_query_lanes_benchmarks();
  register_few_rows_benchmarks();
  register_additive_score_benchmarks();
  register_hwy_tanh_benchmarks();
  register_linear_benchmarks();
  register_layer_benchmarks();
  register_additive_benchmarks();
#ifdef ATTEND_WITH_ONEDNN
  register_dnnl_materialised_benchmarks();
  register_additive_eager_benchmarks();
#endif
  register_naive_benchmarks();
  register_planner_benchmarks();
}

}  // namespace
}  // namespace attend::bench

int main(int argc, char** argv) {
  char name[] = "attend_bench";  // the library prints argv[0], which may be a path
  argv[0] = name;
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  attend::bench::use_one_openmp_thread();
  attend::bench::add_context();
  attend::bench::register_all();
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}
