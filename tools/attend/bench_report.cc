#include "tools/attend/bench_report.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "tools/attend/console.h"
#include "tools/attend/table.h"
#include "tools/io/message.h"

namespace attend::tools {
namespace {

using Json = nlohmann::ordered_json;

std::string number_text(const char* format, double number) {
  char text[48];
  std::snprintf(text, sizeof text, format, number);
  return text;
}

std::string ratio_text(double ratio) { return number_text(ratio < 0.1 ? "%.2g" : "%.3f", ratio); }

std::string p_text(double p) { return number_text(p < 0.001 ? "%.1e" : "%.3f", p); }

bool is_share(Quantity quantity) { return quantity == Quantity::kPeakPercent || quantity == Quantity::kReadPercent; }

std::string value_text(double value, Quantity quantity) {
  return is_share(quantity) ? number_text("%.1f %%", value) : duration_text(value);
}

const char* verdict_word(Verdict verdict, bool of_shares) {
  switch (verdict) {
    case Verdict::kFaster:
      return of_shares ? "higher" : "faster";
    case Verdict::kSlower:
      return of_shares ? "lower" : "slower";
    case Verdict::kNoDifference:
      return "no difference";
    case Verdict::kNoTest:
      return "no test";
  }
  return "";
}

std::string verdict_text(const ComparedCase& one) {
  if (one.verdict == Verdict::kNoTest) return one.no_test + ": no test";
  return verdict_word(one.verdict, is_share(one.quantity));
}

// A file and its side of what differs.
void add_run(const char* name, const BenchmarkRun& run, const std::vector<ContextDifference>& differences,
             std::string ContextDifference::*side, std::string& text) {
  text += std::string(name) + ": " + run.label + "\n";
  Table table({.indent = 3, .right_aligned = false});
  for (const ContextDifference& difference : differences)
    table.add({io::printable(difference.key), io::printable(difference.*side)});
  text += table.text();
}

std::string heading(const Compared& compared) {
  const std::vector<ContextDifference> differences = context_differences(compared.a, compared.b);
  std::string text;
  add_run("A", compared.a, differences, &ContextDifference::a, text);
  add_run("B", compared.b, differences, &ContextDifference::b, text);
  if (compared.options.across_machines && !machine_differences(compared.a, compared.b).empty()) {
    text +=
        "DIFFERENT MACHINES: below are shares of what each machine can do at most, in per cent (peak_percent or\n"
        "read_percent), and ratios of these shares. They say nothing of how long A and B take.\n";
  }
  return text;
}

std::string case_table(const Compared& compared) {
  Table table({.indent = 0, .right_aligned = true});
  const std::string level = number_text("%.4g %% interval", 100 * (1 - compared.options.alpha));
  table.add({"case", "A", "B", "B/A", level, "p (Holm)", "n", "verdict"});
  for (const ComparedCase& one : compared.comparison.cases) {
    const std::optional<Interval>& interval = one.estimate.interval;
    table.add({io::printable(one.name), value_text(median(one.a), one.quantity),
               value_text(median(one.b), one.quantity), ratio_text(one.estimate.ratio),
               interval ? ratio_text(interval->low) + " to " + ratio_text(interval->high) : "-",
               one.p_holm ? p_text(*one.p_holm) : "-",
               std::to_string(one.a.size()) + "+" + std::to_string(one.b.size()), verdict_text(one)});
  }
  return table.text();
}

void add_list(const std::string& title, const std::vector<std::string>& lines, std::string& text) {
  if (lines.empty()) return;
  text += title + " (" + std::to_string(lines.size()) + "):\n";
  for (const std::string& line : lines) text += "  " + line + "\n";
}

std::string lists(const Comparison& comparison) {
  const auto printable = [](std::vector<std::string> names) {
    for (std::string& name : names) name = io::printable(name);
    return names;
  };
  std::vector<std::string> errors, others;
  for (const ComparedCase& one : comparison.cases) {
    if (!one.has_larger_error()) continue;
    const std::string factor =
        *one.max_error_a > 0 ? number_text(", %.3g times as large", *one.max_error_b / *one.max_error_a) : "";
    errors.push_back(io::printable(one.name) + ": max_error " + number_text("%.1e", *one.max_error_a) + " in A, " +
                     number_text("%.1e", *one.max_error_b) + " in B" + factor);
  }
  for (const auto& [name, reason] : comparison.not_compared) others.push_back(io::printable(name) + ": " + reason);
  std::string text;
  add_list("less exact in B", errors, text);
  add_list("not compared", others, text);
  add_list("only in A", printable(comparison.only_in_a), text);
  add_list("only in B", printable(comparison.only_in_b), text);
  return text;
}

std::string summary(const Comparison& comparison, bool of_shares) {
  const std::size_t count = comparison.cases.size();
  std::string text = std::to_string(count) + (count == 1 ? " case: " : " cases: ");
  for (const Verdict verdict : {Verdict::kFaster, Verdict::kSlower, Verdict::kNoDifference, Verdict::kNoTest}) {
    const std::size_t number = comparison.count(verdict);
    if (verdict == Verdict::kNoTest && number == 0) continue;
    text += (verdict == Verdict::kFaster ? "" : ", ") + std::to_string(number) + " " + verdict_word(verdict, of_shares);
  }
  return text + "; geometric mean of ratios " + ratio_text(comparison.mean_ratio()) + "\n";
}

template <class T>
Json or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json();
}

// What JSON and CSV hold of a case, in this order.
Json case_fields(const ComparedCase& one) {
  const std::optional<Interval>& interval = one.estimate.interval;
  return {{"name", one.name},
          {"quantity", name_of(one.quantity)},
          {"a_median", median(one.a)},
          {"b_median", median(one.b)},
          {"a_repetitions", one.a.size()},
          {"b_repetitions", one.b.size()},
          {"ratio", one.estimate.ratio},
          {"ratio_low", interval ? Json(interval->low) : Json()},
          {"ratio_high", interval ? Json(interval->high) : Json()},
          {"p", or_null(one.p)},
          {"p_holm", or_null(one.p_holm)},
          {"verdict", verdict_word(one.verdict, is_share(one.quantity))},
          {"no_test", one.no_test.empty() ? Json() : Json(one.no_test)},
          {"a_max_error", or_null(one.max_error_a)},
          {"b_max_error", or_null(one.max_error_b)}};
}

// RFC 4180.
std::string csv_field(const Json& value) {
  if (value.is_null()) return "";
  if (!value.is_string()) return value.dump();
  std::string text = value.get<std::string>();
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  for (std::size_t at = text.find('"'); at != std::string::npos; at = text.find('"', at + 2)) text.insert(at, 1, '"');
  return "\"" + text + "\"";
}

}  // namespace

std::string text_report(const Compared& compared) {
  std::string text = heading(compared) + "\n" + case_table(compared) + "\n";
  return text + lists(compared.comparison) + summary(compared.comparison, compared.options.across_machines);
}

std::string json_report(const Compared& compared) {
  const auto& [a, b, options, comparison] = compared;
  Json cases = Json::array(), not_compared = Json::array();
  for (const ComparedCase& one : comparison.cases) cases.push_back(case_fields(one));
  for (const auto& [name, reason] : comparison.not_compared) {
    not_compared.push_back({{"name", name}, {"reason", reason}});
  }
  const bool shares = options.across_machines;
  Json summary = {{"cases", comparison.cases.size()}};
  for (const Verdict verdict : {Verdict::kFaster, Verdict::kSlower, Verdict::kNoDifference, Verdict::kNoTest}) {
    summary[verdict_word(verdict, shares)] = comparison.count(verdict);
  }
  summary["geometric_mean_of_ratios"] = comparison.mean_ratio();
  const Json report = {
      {"a", {{"file", a.label}, {"context", a.context}}},
      {"b", {{"file", b.label}, {"context", b.context}}},
      {"options", {{"alpha", options.alpha}, {"min_effect", options.min_effect}, {"across_machines", shares}}},
      {"cases", std::move(cases)},
      {"only_in_a", comparison.only_in_a},
      {"only_in_b", comparison.only_in_b},
      {"not_compared", std::move(not_compared)},
      {"summary", std::move(summary)}};
  return report.dump(2) + "\n";
}

std::string csv_report(const Compared& compared) {
  std::string names, rows;
  for (const ComparedCase& one : compared.comparison.cases) {
    names.clear();
    const Json fields = case_fields(one);
    for (const auto& [name, value] : fields.items()) {
      names.append(name).append(",");
      rows.append(csv_field(value)).append(",");
    }
    names.back() = rows.back() = '\n';
  }
  return names + rows;
}

}  // namespace attend::tools
