#include "tools/attend/generate.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "attend/error.h"
#include "tools/attend/memory.h"

namespace attend::tools {
namespace {

constexpr std::uint64_t kParameterSeed = 1;
constexpr double kBiasDeviation = 0.2;  // enough to be noticed when forgotten

// stem.weight (out, in) and stem.bias (out). 1/sqrt(in) keeps what is mapped at its magnitude.
void invent_map(Generator& generator, const std::string& stem, std::int64_t out, std::int64_t in,
                Parameters& parameters) {
  const double deviation = 1 / std::sqrt(static_cast<double>(std::max<std::int64_t>(in, 1)));
  parameters.insert(stem + ".weight", generator.normal(stem + ".weight", {out, in}, deviation));
  parameters.insert(stem + ".bias", generator.normal(stem + ".bias", {out}, kBiasDeviation));
}

template <class T>
BasicTensor<T> make_tensor(const std::string& name, std::vector<std::int64_t> sizes) {
  const std::size_t count = num_elements(sizes);
  const std::string what = name + " " + to_string(sizes) + ": " + std::to_string(count * sizeof(T)) + " bytes";
  return {std::move(sizes), with_memory_for(what, [&] { return std::vector<T>(count); })};
}

}  // namespace

// splitmix64: Steele, Lea, Flood 2014.
std::uint64_t Generator::bits() {
  std::uint64_t z = (state_ += 0x9E3779B97F4A7C15U);
  z = (z ^ (z >> 30U)) * 0xBF58476D1CE4E5B9U;
  z = (z ^ (z >> 27U)) * 0x94D049BB133111EBU;
  return z ^ (z >> 31U);
}

double Generator::unit() { return static_cast<double>(bits() >> 11U) * 0x1p-53; }

// Box, Muller 1958.
double Generator::normal() {
  const double radius = std::sqrt(-2 * std::log(1 - unit()));
  return radius * std::cos(6.283185307179586 * unit());
}

Tensor Generator::normal(const std::string& name, std::vector<std::int64_t> sizes, double deviation) {
  Tensor tensor = zeros(name, std::move(sizes));
  for (float& x : tensor.data) x = static_cast<float>(deviation * normal());
  return tensor;
}

LengthsTensor Generator::lengths(const std::string& name, std::int64_t count, std::int64_t largest) {
  LengthsTensor tensor = make_tensor<std::int32_t>(name, {count});
  for (std::int32_t& length : tensor.data) {
    length = static_cast<std::int32_t>(bits() % (static_cast<std::uint64_t>(largest) + 1));
  }
  if (count > 0) tensor.data.front() = static_cast<std::int32_t>(largest);
  return tensor;
}

Parameters invent_additive(const InventedSizes& sizes) {
  Generator generator(kParameterSeed);
  Parameters parameters("made-up parameters");
  invent_map(generator, "W_q", sizes.num_hiddens, sizes.query_size, parameters);
  invent_map(generator, "W_k", sizes.num_hiddens, sizes.key_size, parameters);
  parameters.insert("w_v.weight", generator.normal("w_v.weight", {1, sizes.num_hiddens}, 0.5));
  return parameters;
}

Parameters invent_bilinear(const InventedSizes& sizes) {
  Generator generator(kParameterSeed);
  Parameters parameters("made-up parameters");
  const double product = static_cast<double>(sizes.query_size) * static_cast<double>(sizes.key_size);
  parameters.insert("W.weight", generator.normal("W.weight", {sizes.query_size, sizes.key_size},
                                                 1 / std::sqrt(std::max(product, 1.0))));
  return parameters;
}

Parameters invent_multi_head(const InventedSizes& sizes) {
  Generator generator(kParameterSeed);
  Parameters parameters("made-up parameters");
  invent_map(generator, "W_q", sizes.num_hiddens, sizes.query_size, parameters);
  const std::int64_t kv_hiddens = sizes.num_hiddens / (sizes.num_heads / sizes.num_kv_heads);
  invent_map(generator, "W_k", kv_hiddens, sizes.key_size, parameters);
  invent_map(generator, "W_v", kv_hiddens, sizes.value_size, parameters);
  invent_map(generator, "W_o", sizes.value_size, sizes.num_hiddens, parameters);
  if (sizes.additive_scoring) {
    parameters.insert("w_v.weight",
                      generator.normal("w_v.weight", {sizes.num_heads, sizes.num_hiddens / sizes.num_heads}, 0.5));
  }
  return parameters;
}

std::size_t num_elements(const std::vector<std::int64_t>& sizes) {
  constexpr std::uint64_t kMax = std::numeric_limits<std::int64_t>::max() / sizeof(double);
  std::uint64_t count = 1;
  for (const std::int64_t size : sizes) {
    if (size == 0) return 0;
    if (static_cast<std::uint64_t>(size) > kMax / count) {
      throw Error("a tensor of sizes " + to_string(sizes) + " is larger than memory can be");
    }
    count *= static_cast<std::uint64_t>(size);
  }
  return static_cast<std::size_t>(count);
}

Tensor zeros(const std::string& name, std::vector<std::int64_t> sizes) {
  return make_tensor<float>(name, std::move(sizes));
}

}  // namespace attend::tools
