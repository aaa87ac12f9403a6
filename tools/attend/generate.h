// Seeded numbers for plans and checks without files. The same on every machine.
#ifndef ATTEND_TOOLS_ATTEND_GENERATE_H_
#define ATTEND_TOOLS_ATTEND_GENERATE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "attend/tensor.h"

namespace attend::tools {

class Generator {
 public:
  explicit Generator(std::uint64_t seed) : state_(seed) {}

  // Normally distributed, mean 0. name: for errors, as in zeros().
  Tensor normal(const std::string& name, std::vector<std::int64_t> sizes, double deviation = 1);
  // 0 <= length <= largest; the first is the largest.
  LengthsTensor lengths(const std::string& name, std::int64_t count, std::int64_t largest);

 private:
  std::uint64_t bits();
  double unit();
  double normal();

  std::uint64_t state_;
};

// What made-up parameters map to what.
struct InventedSizes {
  std::int64_t query_size, key_size, value_size;
  std::int64_t num_hiddens;
  std::int64_t num_heads = 1;
  std::int64_t num_kv_heads = 1;
  bool additive_scoring = false;
};

// Parameters with the textbook's names, biases included, of a magnitude that keeps scores around 1.
Parameters invent_additive(const InventedSizes& sizes);
Parameters invent_bilinear(const InventedSizes& sizes);
Parameters invent_multi_head(const InventedSizes& sizes);  // maps values and output to value_size

// The product of sizes. Throws Error when it is more than memory can address.
std::size_t num_elements(const std::vector<std::int64_t>& sizes);
// Throws Error, which says name and sizes, where there is not enough memory.
Tensor zeros(const std::string& name, std::vector<std::int64_t> sizes);

}  // namespace attend::tools

#endif  // ATTEND_TOOLS_ATTEND_GENERATE_H_
