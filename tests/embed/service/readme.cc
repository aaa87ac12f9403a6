#include <attend/attend.h>
#include <cstdio>
#include <vector>

int main() {
  std::vector<float> q(2 * 1 * 2, 1.0f), k(2 * 10 * 2, 1.0f), v(2 * 10 * 4), out(2 * 1 * 4);
  for (std::size_t i = 0; i < v.size(); ++i) v[i] = static_cast<float>(i % 40);  // each batch entry: 0, 1, ... 39
  std::vector<std::int32_t> lens = {2, 6};                                       // valid keys per batch entry
  auto plan = attend::DotAttention().plan({.batch = 2, .num_keys = 10, .query_size = 2, .value_size = 4});
  attend::Workspace workspace(plan);
  plan.run({.queries = {q.data(), {2, 1, 2}},
            .keys = {k.data(), {2, 10, 2}},
            .values = {v.data(), {2, 10, 4}},
            .valid_lens = {lens.data(), {2}}},
           {.output = {out.data(), {2, 1, 4}}}, workspace);
  for (float x : out) std::printf("%g ", x);
  std::printf("\n%s", plan.explain().c_str());
}
