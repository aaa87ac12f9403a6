// attend_bench: see README.md beside this file.
//     taskset -c 0 attend_bench --benchmark_filter='dot/.*/AVX3'
//     taskset -c 0 attend_bench --dot=b1_h8_m4096_n77_d40 --benchmark_filter='^dot(_graph)?/b1_h8_m4096_'
#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <sstream>
#include <string>
#include <string_view>

#include <benchmark/benchmark.h>

#include "bench/benchmarks.h"
#include "bench/dot_cases.h"
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

// Takes --dot=CASE,CASE from the arguments: cases of dot/* beside its own. False if one is no case.
bool take_dot_cases(int& argc, char** argv) {
  constexpr std::string_view kFlag = "--dot=";
  int kept = 1;
  for (int i = 1; i < argc; ++i) {
    std::string_view argument = argv[i];
    if (!argument.starts_with(kFlag)) {
      argv[kept++] = argv[i];
      continue;
    }
    std::istringstream cases{std::string(argument.substr(kFlag.size()))};
    for (std::string name; std::getline(cases, name, ',');) {
      if (add_dot_case(name)) continue;
      std::cerr << "attend_bench: --dot is \"" << name
                << "\", expected a case such as b1_h32_kv8_m1_n4096_d128: batch, "
                << "heads, heads of keys if they are fewer, queries, keys, size, and _causal if it is; tensors up to "
                   "16 GiB\n";
      return false;
    }
  }
  argc = kept;
  return true;
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
  if (!attend::bench::take_dot_cases(argc, argv)) return 1;
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
