#include "tools/bench_compare/comparison.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "tools/io/message.h"

namespace attend::tools {
namespace {

// All pairs of repetitions are held in memory.
constexpr std::size_t kMaxRepetitions = 1000;
constexpr double kMaxClockRatio = 1.25;

// A part of the name between slashes. Google Benchmark appends it, and "/threads:2" after it.
bool has_part(std::string_view name, std::string_view part) {
  for (std::size_t at = name.find(part); at != std::string_view::npos; at = name.find(part, at + 1)) {
    const std::size_t end = at + part.size();
    if (at > 0 && name[at - 1] == '/' && (end == name.size() || name[end] == '/')) return true;
  }
  return false;
}

std::optional<double> value_of(const Measurement& measurement, Quantity quantity) {
  switch (quantity) {
    case Quantity::kCpuTime:
      return measurement.cpu_seconds;
    case Quantity::kRealTime:
      return measurement.real_seconds;
    case Quantity::kPeakPercent:
      return measurement.peak_percent;
    case Quantity::kReadPercent:
      return measurement.read_percent;
  }
  return std::nullopt;
}

bool has_quantity(const BenchmarkCase& one, Quantity quantity) {
  return std::ranges::all_of(one.repetitions, [&](const Measurement& m) { return value_of(m, quantity).has_value(); });
}

std::optional<Quantity> quantity_of(const BenchmarkCase& a, const BenchmarkCase& b, const CompareOptions& options) {
  if (options.across_machines) {
    for (const Quantity share : {Quantity::kPeakPercent, Quantity::kReadPercent}) {
      if (has_quantity(a, share) && has_quantity(b, share)) return share;
    }
    return std::nullopt;
  }
  if (options.time) return options.time;
  const bool is_real = has_part(a.name, "real_time") || has_part(a.name, "manual_time");
  return is_real ? Quantity::kRealTime : Quantity::kCpuTime;
}

std::vector<double> sample_of(const BenchmarkCase& one, Quantity quantity) {
  std::vector<double> sample;
  for (const Measurement& m : one.repetitions) sample.push_back(*value_of(m, quantity));
  return sample;
}

std::optional<double> max_error_of(const BenchmarkCase& one) {
  std::optional<double> largest;
  for (const Measurement& m : one.repetitions) {
    if (m.max_error) largest = std::max(largest.value_or(*m.max_error), *m.max_error);
  }
  return largest;
}

// Why there can be no test of the case by itself; "" if there can.
std::string no_test_of(const BenchmarkCase& a, const BenchmarkCase& b, double alpha) {
  const std::size_t m = a.repetitions.size(), n = b.repetitions.size();
  if (a.is_aggregate || b.is_aggregate) return "aggregates only";
  if (std::min(m, n) == 1) return "1 repetition";
  if (smallest_p(m, n) > alpha) return "too few repetitions, " + std::to_string(m) + " and " + std::to_string(n);
  return "";
}

// The reason why two cases of one name cannot be compared; "" if they can.
std::string obstacle(const BenchmarkCase& a, const BenchmarkCase& b, std::optional<Quantity> quantity) {
  for (const auto& [one, file] : {std::pair(&a, "A"), {&b, "B"}}) {
    if (!one->failure.empty()) return std::string("failed in ") + file + ": " + one->failure;
  }
  if (!quantity) return "has neither peak_percent nor read_percent in both files";
  for (const auto& [one, file] : {std::pair(&a, "A"), {&b, "B"}}) {
    const std::vector<double> sample = sample_of(*one, *quantity);
    if (std::ranges::all_of(sample, [](double value) { return value > 0; })) continue;
    return std::string(name_of(*quantity)) + " is not above 0 in " + file;
  }
  return "";
}

ComparedCase compare_case(const BenchmarkCase& a, const BenchmarkCase& b, Quantity quantity, double alpha) {
  ComparedCase compared{.name = a.name,
                        .quantity = quantity,
                        .a = sample_of(a, quantity),
                        .b = sample_of(b, quantity),
                        .estimate = {},
                        .p = {},
                        .p_holm = {},
                        .no_test = no_test_of(a, b, alpha),
                        .max_error_a = max_error_of(a),
                        .max_error_b = max_error_of(b)};
  if (compared.no_test.empty()) {
    compared.estimate = hodges_lehmann(compared.a, compared.b, alpha);
    compared.p = mann_whitney(compared.a, compared.b).p;
  } else {
    compared.estimate.ratio = median(compared.b) / median(compared.a);
  }
  return compared;
}

Verdict verdict_of(const ComparedCase& compared, const CompareOptions& options) {
  const double ratio = compared.estimate.ratio;
  if (*compared.p_holm > options.alpha || std::abs(ratio - 1) < options.min_effect) return Verdict::kNoDifference;
  return (ratio < 1) != options.across_machines ? Verdict::kFaster : Verdict::kSlower;
}

void judge(std::vector<ComparedCase>& cases, const CompareOptions& options) {
  std::vector<ComparedCase*> tested;
  std::vector<double> p;
  double smallest = 1;
  for (ComparedCase& compared : cases) {
    if (!compared.p) continue;
    tested.push_back(&compared);
    p.push_back(*compared.p);
    smallest = std::min(smallest, smallest_p(compared.a.size(), compared.b.size()));
  }
  const bool can_tell = smallest * static_cast<double>(tested.size()) <= options.alpha;
  const std::vector<double> adjusted = holm(p);
  for (std::size_t i = 0; i < tested.size(); ++i) {
    tested[i]->p_holm = adjusted[i];
    if (can_tell) {
      tested[i]->verdict = verdict_of(*tested[i], options);
    } else {
      tested[i]->no_test = "too few repetitions among " + std::to_string(tested.size()) + " cases";
    }
  }
}

void check_repetitions(const BenchmarkRun& run) {
  for (const BenchmarkCase& one : run.cases) {
    if (one.repetitions.size() <= kMaxRepetitions) continue;
    io::fail(run.label, io::in_quotes(one.name) + " has " + std::to_string(one.repetitions.size()) +
                            " repetitions, expected at most " + std::to_string(kMaxRepetitions));
  }
}

using CasesByName = std::unordered_map<std::string_view, const BenchmarkCase*>;

CasesByName cases_by_name(const BenchmarkRun& run) {
  CasesByName cases;
  for (const BenchmarkCase& one : run.cases) cases.emplace(one.name, &one);
  return cases;
}

[[noreturn]] void fail_empty(const BenchmarkRun& a, const BenchmarkRun& b, const Comparison& comparison,
                             const CompareOptions& options) {
  if (comparison.not_compared.empty()) {
    throw Error(a.label + " and " + b.label + " have no case in common" +
                (options.filter ? " that matches --filter" : ""));
  }
  const Comparison::NotCompared& first = comparison.not_compared.front();
  throw Error("none of the cases that " + a.label + " and " + b.label +
              " have in common can be compared: " + io::in_quotes(first.name) + " " + first.reason);
}

std::string context_value(const BenchmarkRun& run, const std::string& key) {
  const auto found = run.context.find(key);
  return found == run.context.end() ? "-" : found->second;
}

bool differ_in_clock(const std::string& a, const std::string& b) {
  std::array<double, 2> clocks{};
  std::from_chars(a.data(), a.data() + a.size(), clocks[0]);
  std::from_chars(b.data(), b.data() + b.size(), clocks[1]);
  const auto [slow, fast] = std::minmax(clocks[0], clocks[1]);
  return slow > 0 && fast > kMaxClockRatio * slow;
}

}  // namespace

const char* name_of(Quantity quantity) {
  switch (quantity) {
    case Quantity::kCpuTime:
      return "cpu_time";
    case Quantity::kRealTime:
      return "real_time";
    case Quantity::kPeakPercent:
      return "peak_percent";
    case Quantity::kReadPercent:
      return "read_percent";
  }
  return "";
}

std::size_t Comparison::count(Verdict verdict) const {
  return static_cast<std::size_t>(std::ranges::count(cases, verdict, &ComparedCase::verdict));
}

double Comparison::mean_ratio() const {
  double sum = 0;
  for (const ComparedCase& compared : cases) sum += std::log(compared.estimate.ratio);
  return std::exp(sum / static_cast<double>(cases.size()));
}

Comparison compare_runs(const BenchmarkRun& a, const BenchmarkRun& b, const CompareOptions& options) {
  check_repetitions(a);
  check_repetitions(b);
  const auto matches = [&](const std::string& name) { return !options.filter || options.filter(name); };
  const CasesByName in_a = cases_by_name(a), in_b = cases_by_name(b);
  Comparison comparison;
  for (const BenchmarkCase& one : a.cases) {
    if (!matches(one.name)) continue;
    const auto other = in_b.find(one.name);
    if (other == in_b.end()) {
      comparison.only_in_a.push_back(one.name);
      continue;
    }
    const std::optional<Quantity> quantity = quantity_of(one, *other->second, options);
    if (std::string reason = obstacle(one, *other->second, quantity); !reason.empty()) {
      comparison.not_compared.push_back({one.name, std::move(reason)});
    } else {
      comparison.cases.push_back(compare_case(one, *other->second, *quantity, options.alpha));
    }
  }
  for (const BenchmarkCase& one : b.cases) {
    if (matches(one.name) && !in_a.contains(one.name)) comparison.only_in_b.push_back(one.name);
  }
  if (comparison.cases.empty()) fail_empty(a, b, comparison, options);
  judge(comparison.cases, options);
  return comparison;
}

std::size_t needed_repetitions(std::size_t num_cases, double alpha) {
  std::size_t repetitions = 2;
  while (static_cast<double>(num_cases) * smallest_p(repetitions, repetitions) > alpha) ++repetitions;
  return repetitions;
}

std::vector<ContextDifference> context_differences(const BenchmarkRun& a, const BenchmarkRun& b) {
  std::map<std::string, std::string> keys = a.context;
  keys.insert(b.context.begin(), b.context.end());
  std::vector<ContextDifference> differences;
  for (const auto& [key, ignored] : keys) {
    std::string in_a = context_value(a, key), in_b = context_value(b, key);
    if (in_a != in_b) differences.push_back({key, std::move(in_a), std::move(in_b)});
  }
  return differences;
}

std::vector<ContextDifference> machine_differences(const BenchmarkRun& a, const BenchmarkRun& b) {
  std::vector<ContextDifference> differences = context_differences(a, b);
  std::erase_if(differences, [&](const ContextDifference& difference) {
    const std::string& key = difference.key;
    if (!a.context.contains(key) || !b.context.contains(key)) return true;
    if (key == "mhz_per_cpu") return !differ_in_clock(difference.a, difference.b);
    return key != "host_name" && key != "cpu" && key != "num_cpus" && key != "caches";
  });
  return differences;
}

}  // namespace attend::tools
