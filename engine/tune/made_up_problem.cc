#include "engine/tune/made_up_problem.h"

#include <cstddef>
#include <vector>

#include "engine/base/checked.h"

namespace attend::detail {
namespace {

// splitmix64: Steele, Lea, Flood 2014.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  std::uint64_t bits() {
    std::uint64_t z = (state_ += 0x9E3779B97F4A7C15u);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
  }
  // Of mean 0 and deviation 1, nearly normal: the sum of four uniform ones of 16 bits.
  float normal() {
    const std::uint64_t z = bits();
    std::uint64_t sum = 0;
    for (unsigned shift = 0; shift < 64; shift += 16) sum += (z >> shift) & 0xFFFF;
    return (static_cast<float>(sum) * 0x1p-16f - 2.0f) * 1.7320508f;
  }

 private:
  std::uint64_t state_;
};

Tensor normal_rows(Random& random, std::int64_t batch, std::int64_t rows, std::int64_t columns) {
  const std::size_t count = checked_multiply(
      checked_multiply(static_cast<std::size_t>(batch), static_cast<std::size_t>(rows), "generated data"),
      static_cast<std::size_t>(columns), "generated data");
  checked_multiply(count, sizeof(float), "generated data");
  Tensor tensor{{batch, rows, columns}, std::vector<float>(count)};
  for (float& x : tensor.data) x = random.normal();
  return tensor;
}

}  // namespace

MadeUpProblem::MadeUpProblem(const PlanImpl& plan, HeadLayout layout)
    : heads_(plan.shape.num_heads),
      kv_heads_(plan.shape.num_kv_heads > 0 ? plan.shape.num_kv_heads : heads_),
      layout_(layout) {
  const Shape& s = plan.shape;
  Random random(1);
  queries_ = normal_rows(random, s.batch, s.num_queries, heads_ * s.query_size);
  keys_ = normal_rows(random, s.batch, s.num_keys, kv_heads_ * s.key_size);
  values_ = normal_rows(random, s.batch, s.num_keys, kv_heads_ * s.value_size);
  const ValidLens lens = plan.options.valid_lens;
  // Plans that skip queries want lengths per entry.
  const bool per_query = lens == ValidLens::kPerQuery && plan.options.padding != Padding::kSkipQueries;
  if (lens == ValidLens::kPerQuery || lens == ValidLens::kPerBatch) {
    lens_.sizes = {s.batch};
    if (per_query) lens_.sizes.push_back(s.num_queries);
    lens_.data.resize(static_cast<std::size_t>(s.batch * (per_query ? s.num_queries : 1)));
    for (std::int32_t& len : lens_.data) {
      const auto most = static_cast<std::uint64_t>(s.num_keys);
      len = most == 0 ? 0 : 1 + static_cast<std::int32_t>(random.bits() % most);
    }
  }
  const std::int64_t columns = heads_ * plan.output_size;
  output_.sizes = {s.batch, s.num_queries, columns};
  output_.data.resize(static_cast<std::size_t>(s.batch * s.num_queries * columns));
  if (plan.options.attention_weights) {
    weights_.sizes = {s.batch, s.num_queries, s.num_keys};
    if (plan.layer->is_multi_head || heads_ > 1) weights_.sizes.insert(weights_.sizes.begin() + 1, plan.num_heads);
    std::size_t count = 1;
    for (const std::int64_t size : weights_.sizes) {
      count = checked_multiply(count, static_cast<std::size_t>(size), "generated data");
    }
    checked_multiply(count, sizeof(float), "generated data");
    weights_.data.resize(count);
  }
}

template <class T>
TensorView<T> MadeUpProblem::on_heads(const TensorView<T>& rows, std::int64_t heads) const {
  if (heads_ == 1) return rows;
  if (layout_ == HeadLayout::kSideBySide) return split_heads(rows, heads);
  return {rows.data(), {rows.size(0), heads, rows.size(1), rows.size(2) / heads}};
}

Inputs MadeUpProblem::inputs() const {
  Inputs in{.queries = on_heads(queries_.view(), heads_),
            .keys = on_heads(keys_.view(), kv_heads_),
            .values = on_heads(values_.view(), kv_heads_),
            .valid_lens = {}};
  if (!lens_.sizes.empty()) in.valid_lens = lens_.view();
  return in;
}

Outputs MadeUpProblem::outputs() {
  Outputs out{.output = on_heads(output_.view(), heads_), .attention_weights = {}};
  if (!weights_.sizes.empty()) out.attention_weights = weights_.view();
  return out;
}

}  // namespace attend::detail
