// split_heads and merge_heads: other views of the same memory.
#include <numeric>
#include <vector>

#include <doctest/doctest.h>

#include "attend/attend.h"
#include "tests/support/compare.h"
#include "tests/support/layouts.h"
#include "tests/support/run.h"

namespace attend::tests {

TEST_CASE("split_heads: head h of row n starts at n * row_stride + h * D") {
  std::vector<float> data(2 * 3 * 20);
  std::iota(data.begin(), data.end(), 0.0f);
  const TensorView<float> whole(data.data(), {2, 3, 20});
  const TensorView<float> heads = split_heads(whole, 5);
  CHECK(std::vector(heads.sizes().begin(), heads.sizes().end()) == std::vector<std::int64_t>{2, 5, 3, 4});
  CHECK(heads.data() == data.data());
  for (int b = 0; b < 2; ++b) {
    for (int h = 0; h < 5; ++h) {
      for (int n = 0; n < 3; ++n) {
        for (int d = 0; d < 4; ++d) CHECK(heads.at(b, h, n, d) == whole.at(b, n, h * 4 + d));
      }
    }
  }
}

TEST_CASE("merge_heads undoes split_heads, whatever the outer strides") {
  std::vector<float> data(1000);
  for (const std::int64_t heads : {1, 2, 6, 12}) {
    for (const TensorView<float>& view :
         {TensorView<float>(data.data(), {2, 3, 12}), TensorView<float>(data.data(), {2, 3, 12}, {200, 40, 1}),
          TensorView<float>(data.data() + 500, {2, 3, 12}, {-100, -12, 1}),
          TensorView<float>(data.data(), {2, 3, 12}, {0, 12, 1})}) {
      const TensorView<float> merged = merge_heads(split_heads(view, heads));
      CHECK(merged.data() == view.data());
      CHECK(std::vector(merged.sizes().begin(), merged.sizes().end()) ==
            std::vector(view.sizes().begin(), view.sizes().end()));
      CHECK(std::vector(merged.strides().begin(), merged.strides().end()) ==
            std::vector(view.strides().begin(), view.strides().end()));
    }
  }
}

TEST_CASE("split_heads and merge_heads refuse what they cannot view, and say what it was") {
  const std::vector<float> data(100);
  const TensorView<const float> whole(data.data(), {1, 2, 20});
  CHECK(missing_parts(error_message([&] { split_heads(whole, 3); }), {"num_heads", "3", "20"}) == "");
  CHECK(missing_parts(error_message([&] { split_heads(whole, 0); }), {"num_heads", "0"}) == "");
  CHECK(missing_parts(error_message([&] { split_heads(whole, -2); }), {"num_heads", "-2"}) == "");
  CHECK(missing_parts(error_message([&] { split_heads(split_heads(whole, 2), 2); }), {"(1, 2, 2, 10)"}) == "");
  CHECK(missing_parts(error_message([&] { merge_heads(whole); }), {"(1, 2, 20)"}) == "");
  // (B, H, N, D) dense in memory: the heads of a row are apart.
  const TensorView<const float> apart(data.data(), {1, 5, 2, 4});
  CHECK(missing_parts(error_message([&] { merge_heads(apart); }), {"8", "4"}) == "");
}

TEST_CASE("views check their sizes") {
  const float x = 0;
  CHECK(missing_parts(error_message([&] { TensorView<const float>(&x, {1, 1, 1, 1, 1}); }), {"5", "4"}) == "");
  CHECK(missing_parts(error_message([&] { TensorView<const float>(&x, {1, -1}); }), {"-1"}) == "");
  CHECK(missing_parts(error_message([&] {
                        TensorView<const float>(&x, {1, 1}, {1});
                      }),
                      {"1 strides", "2 sizes"}) == "");
  CHECK(TensorView<const float>().empty());
  CHECK(!TensorView<const float>(&x, {1, 0, 3}).empty());
  CHECK(TensorView<const float>(&x, {1, 0, 3}).num_elements() == 0);
  CHECK(TensorView<const float>(&x, {2, 3, 4}).stride(0) == 12);
  CHECK(TensorView<const float>(&x, {2, 3, 4}).size(-1) == 4);
}

TEST_CASE("split heads run as they lie: dot on views of (B, N, H*D) equals dot on a dense copy") {
  Random random(90);
  const Tensor queries = random.normal({2, 5, 12}), keys = random.normal({2, 20, 12}),
               values = random.normal({2, 20, 9});
  const std::int32_t lens[] = {20, 7};
  const Inputs strided{.queries = split_heads(queries.view(), 3),
                       .keys = split_heads(keys.view(), 3),
                       .values = split_heads(values.view(), 3),
                       .valid_lens = TensorView<const std::int32_t>(lens, {2})};
  const std::vector<float> q = dense(strided.queries), k = dense(strided.keys), v = dense(strided.values);
  const Inputs copied{.queries = TensorView<const float>(q.data(), strided.queries.sizes()),
                      .keys = TensorView<const float>(k.data(), strided.keys.sizes()),
                      .values = TensorView<const float>(v.data(), strided.values.sizes()),
                      .valid_lens = strided.valid_lens};
  const Shape shape{.batch = 2, .num_queries = 5, .num_keys = 20, .query_size = 4, .value_size = 3, .num_heads = 3};
  for_each_plan(DotAttention(), shape, {}, [&](const Plan& plan, bool with_weights) {
    const RunResult expected = run_plan(plan, copied, with_weights);
    CHECK(same_bits(expected, run_plan(plan, strided, with_weights)));

    // And the output may be written through split heads, which merges them.
    std::vector<float> merged(2 * 5 * 9);
    Workspace workspace(plan);
    Outputs out{.output = split_heads(TensorView<float>(merged.data(), {2, 5, 9}), 3)};
    std::vector<float> weights = sentinels({2, 3, 5, 20});
    if (with_weights) out.attention_weights = TensorView<float>(weights.data(), {2, 3, 5, 20});
    plan.run(strided, out, workspace);
    CHECK(same_bits(dense(out.output), expected.output));
  });
}

}  // namespace attend::tests
