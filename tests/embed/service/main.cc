// Plans once, runs, and checks the textbook's example: identical keys, lengths 2 and 6 over the values 0 ... 39.
// PACKAGE_VERSION is attend's version as the build system knows it.
#include <cmath>
#include <cstdio>
#include <string_view>
#include <vector>

#include <attend/attend.h>
#include <attend/io.h>

static_assert(std::string_view(ATTEND_VERSION_STRING) == PACKAGE_VERSION);

int main() {
  std::printf("attend %s\n", attend::version());
  if (std::string_view(attend::version()) != PACKAGE_VERSION) return 1;

  std::vector<float> queries(2 * 1 * 2, 0.5f), keys(2 * 10 * 2, 1.0f), values(2 * 10 * 4), output(2 * 1 * 4);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 40);
  const std::vector<std::int32_t> lens = {2, 6};

  const attend::DotAttention layer;
  const attend::Plan plan =
      layer.plan({.batch = 2, .num_queries = 1, .num_keys = 10, .query_size = 2, .value_size = 4});
  attend::Workspace workspace(plan);
  plan.run({.queries = {queries.data(), {2, 1, 2}},
            .keys = {keys.data(), {2, 10, 2}},
            .values = {values.data(), {2, 10, 4}},
            .valid_lens = {lens.data(), {2}}},
           {.output = {output.data(), {2, 1, 4}}}, workspace);
  attend::io::save_npy("output.npy", attend::TensorView<const float>(output.data(), {2, 1, 4}));

  const float expected[] = {2, 3, 4, 5, 10, 11, 12, 13};
  for (int i = 0; i < 8; ++i) {
    std::printf("%g ", static_cast<double>(output[static_cast<std::size_t>(i)]));
    if (std::abs(output[static_cast<std::size_t>(i)] - expected[i]) > 2e-6f) return 1;
  }
  std::puts("");
  return attend::io::load_tensor("output.npy").data == output ? 0 : 1;
}
