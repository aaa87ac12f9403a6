// attend_bench: see README.md beside this file.
//     taskset -c 0 attend_bench --benchmark_filter='dot/.*/AVX3'
#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <sstream>
#include <string>
#include <string_view>

#include <benchmark/benchmark.h>

#include "bench/benchmarks.h"
#include "bench/facts.h"

namespace attend::bench {
namespace {

// Everything here is measured on one thread, but for *_threads2 and threads/*, which bring their own; oneDNN's
// primitives take their number of threads from OpenMP when they are made. By name, since oneDNN may have been built on
// another runtime.
void use_one_openmp_thread() {
  if (const auto set = reinterpret_cast<void (*)(int)>(dlsym(RTLD_DEFAULT, "omp_set_num_threads"))) set(1);
}

void register_all() {
  register_machine_benchmarks();
  register_pack_benchmarks();
  register_tile_product_benchmarks();
  register_value_pairs_benchmarks();
  register_tile_parts_benchmarks();
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
  register_length_benchmarks();
  register_threads_benchmarks();
#ifdef ATTEND_WITH_ONEDNN
  register_dnnl_materialised_benchmarks();
  register_dnnl_graph_benchmarks();
  register_additive_eager_benchmarks();
#endif
  register_naive_benchmarks();
  register_planner_benchmarks();
}

bool asks_for_list(int argc, char** argv) {
  return std::getenv("BENCHMARK_LIST_TESTS") != nullptr ||
         std::any_of(argv, argv + argc, [](std::string_view argument) {
           return argument.starts_with("--benchmark_list_tests") && !argument.ends_with("=false");
         });
}

// What --benchmark_filter lets run, a name per line. The library tells it only where its flag asks for a list.
std::string selected_names() {
  static char program[] = "attend_bench";  // the library keeps it
  char list[] = "--benchmark_list_tests=true", run[] = "--benchmark_list_tests=false";
  const auto set = [](char* flag) {
    int argc = 2;
    char* argv[] = {program, flag, nullptr};
    benchmark::Initialize(&argc, argv);
  };
  std::ostringstream names;
  benchmark::ConsoleReporter reporter;
  reporter.SetOutputStream(&names);
  set(list);
  benchmark::RunSpecifiedBenchmarks(&reporter);
  set(run);
  return names.str();
}

}  // namespace
}  // namespace attend::bench

int main(int argc, char** argv) {
  char name[] = "attend_bench";  // the library prints argv[0], which may be a path
  argv[0] = name;
  const bool lists = attend::bench::asks_for_list(argc, argv);
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  attend::bench::use_one_openmp_thread();
  attend::bench::register_all();
  if (!lists) {  // which says nothing of the machine
    const std::string selected = attend::bench::selected_names();
    if (selected.empty()) return 0;  // and the library has told why
    attend::bench::add_facts(selected);
  }
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}
