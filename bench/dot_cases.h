// What dot/* measures, and other libraries beside it: cases whose names other programs know too, and any others that
// are asked for by such a name.
#ifndef ATTEND_BENCH_DOT_CASES_H_
#define ATTEND_BENCH_DOT_CASES_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "attend/plan.h"

namespace attend::bench {

struct DotCase {
  std::int64_t batch, heads, kv_heads, m, n, d;
  Causal causal = Causal::kNone;
  std::vector<std::int32_t> lens = {};
};
struct NamedDotCase {
  std::string name;
  DotCase problem;
};

// The lengths that other libraries are measured with (contest/peer.py).
inline const std::vector<std::int32_t> kLensB8N512 = {383, 148, 511, 77, 290, 26, 441, 212};

// Those of contest/peer.py, and what was added. Read when benchmarks are registered.
const std::vector<NamedDotCase>& dot_cases();

// bB_hH[_kvHKV]_mM_nN_dD[_causal], as "b1_h32_kv8_m1_n4096_d128": the case is added, unless it is there already. False:
// that is no such name, or of tensors beyond 16 GiB.
bool add_dot_case(std::string_view name);

}  // namespace attend::bench

#endif  // ATTEND_BENCH_DOT_CASES_H_
