// What a result depends on and its reader cannot see: the machine, the build and the libraries.
#ifndef ATTEND_BENCH_FACTS_H_
#define ATTEND_BENCH_FACTS_H_

#include <string>

namespace attend::bench {

// Defined in the one file that may know the library.
std::string highway_version();  // kernels/machine_bench.cc
std::string onednn_version();   // contest/onednn.cc
// The instruction set that oneDNN dispatches to in this process, its cap counted in (contest/onednn.cc).
std::string onednn_isa();

// Puts them into the context that heads every output, JSON included. Call before benchmarks run. No paths and no host
// name: results are to be shared. tools/bench/facts.py knows which of them tell one machine or build from another.
// `selected`: names of the benchmarks that will run, a line each; what bounds a target is measured if one is for it.
void add_facts(const std::string& selected);

}  // namespace attend::bench

#endif  // ATTEND_BENCH_FACTS_H_
