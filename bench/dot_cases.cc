#include "bench/dot_cases.h"

#include <algorithm>
#include <charconv>

namespace attend::bench {
namespace {

std::vector<NamedDotCase>& all_cases() {
  static std::vector<NamedDotCase> cases = {
      {"b1_h12_m512_n512_d64", {1, 12, 12, 512, 512, 64}},
      {"b1_h32_kv8_m2048_n2048_d128_causal", {1, 32, 8, 2048, 2048, 128, Causal::kBottomRight}},
      {"b1_h32_kv8_m2048_n2048_d128", {1, 32, 8, 2048, 2048, 128}},
      {"b8_h12_m512_n512_d64_lens", {8, 12, 12, 512, 512, 64, Causal::kNone, kLensB8N512}},
      {"b64_h8_m32_n32_d64", {64, 8, 8, 32, 32, 64}},
      {"b4_h8_m16_n1024_d64", {4, 8, 8, 16, 1024, 64}},
      {"b1_h32_kv8_m1_n4096_d128", {1, 32, 8, 1, 4096, 128}},
      {"b8_h32_kv8_m1_n1024_d128", {8, 32, 8, 1, 1024, 128}}};
  return cases;
}

// Takes `word` and the number behind it from the front of text; 0 if they are not there.
std::int64_t take(std::string_view& text, std::string_view word) {
  if (!text.starts_with(word)) return 0;
  const std::string_view digits = text.substr(word.size());
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (error != std::errc() || number < 1) return 0;
  text.remove_prefix(word.size() + static_cast<std::size_t>(end - digits.data()));
  return number;
}

// Whether its tensors have no more numbers than 16 GiB hold.
bool fits_memory(const DotCase& c) {
  constexpr double kMost = 4294967296.0;
  const auto number = [](std::int64_t n) { return static_cast<double>(n); };
  const double rows = number(c.heads) * number(c.m) + number(c.kv_heads) * number(c.n);
  return number(c.batch) * number(c.d) * rows <= kMost && number(c.heads) * number(c.m) * number(c.n) <= kMost;
}

}  // namespace

const std::vector<NamedDotCase>& dot_cases() { return all_cases(); }

bool add_dot_case(std::string_view name) {
  std::string_view text = name;
  DotCase c{};
  c.batch = take(text, "b");
  c.heads = take(text, "_h");
  c.kv_heads = text.starts_with("_kv") ? take(text, "_kv") : c.heads;
  c.m = take(text, "_m");
  c.n = take(text, "_n");
  c.d = take(text, "_d");
  if (text == "_causal") c.causal = Causal::kBottomRight;
  if (!text.empty() && text != "_causal") return false;
  if (std::min({c.batch, c.heads, c.kv_heads, c.m, c.n, c.d}) == 0 || c.heads % c.kv_heads != 0) return false;
  if (!fits_memory(c)) return false;
  const auto same = [name](const NamedDotCase& other) { return other.name == name; };
  if (std::ranges::none_of(all_cases(), same)) all_cases().push_back({std::string(name), c});
  return true;
}

}  // namespace attend::bench
