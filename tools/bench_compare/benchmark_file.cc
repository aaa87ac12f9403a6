#include "tools/bench_compare/benchmark_file.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <utility>

#include "tools/io/file.h"
#include "tools/io/message.h"

namespace attend::tools {
namespace {

using Json = nlohmann::json;

// A thousand cases of twenty repetitions have some 12 MB.
constexpr std::uint64_t kMaxBytes = std::uint64_t{64} << 20;
// What takes a value apart calls itself at every level. The format has four.
constexpr int kMaxLevels = 16;
// Matching a regular expression calls itself for every byte.
constexpr std::size_t kMaxNameBytes = 1000;
constexpr const char* kExpected = "expected what a Google Benchmark program writes with --benchmark_out_format=json";

// json with NaN, Infinity and -Infinity outside of strings as null.
std::string without_special_numbers(std::string_view json) {
  std::string text;
  text.reserve(json.size());
  bool in_string = false;
  for (std::size_t i = 0; i < json.size(); ++i) {
    const std::string_view rest = json.substr(i);
    if (!in_string) {
      const std::string_view word = rest.substr(rest.starts_with('-') ? 1 : 0);
      const std::string_view special = word.starts_with("NaN") ? "NaN" : word.starts_with("Infinity") ? "Infinity" : "";
      if (!special.empty()) {
        text += "null";
        i += rest.size() - word.size() + special.size() - 1;
        continue;
      }
    }
    if (json[i] == '"') in_string = !in_string;
    text += json[i];
    if (in_string && json[i] == '\\' && i + 1 < json.size()) text += json[++i];  // an escaped quote ends nothing
  }
  return text;
}

// An entry of the array "benchmarks", with the place that messages name.
struct Entry {
  const Json& json;
  std::string where;

  [[noreturn]] void fail_at(const std::string& key, const std::string& expected) const {
    const auto found = json.find(key);
    const std::string value = found == json.end() ? "absent" : io::printable(found->dump(), 60);
    io::fail(where, key + " is " + value + ", expected " + expected);
  }

  std::string text(const std::string& key) const {
    const auto found = json.find(key);
    if (found == json.end() || !found->is_string()) fail_at(key, "a string");
    return found->get<std::string>();
  }

  std::optional<double> number_or_none(const std::string& key) const {
    const auto found = json.find(key);
    if (found == json.end() || !found->is_number()) return std::nullopt;
    const double number = found->get<double>();
    return std::isfinite(number) ? std::optional(number) : std::nullopt;
  }

  double number(const std::string& key) const {
    const std::optional<double> number = number_or_none(key);
    if (!number) fail_at(key, "a number");
    return *number;
  }

  bool is_true(const std::string& key) const {
    const auto found = json.find(key);
    return found != json.end() && found->is_boolean() && found->get<bool>();
  }
};

double seconds_per_unit(const Entry& entry) {
  const std::string unit = entry.text("time_unit");
  if (unit == "ns") return 1e-9;
  if (unit == "us") return 1e-6;
  if (unit == "ms") return 1e-3;
  if (unit != "s") entry.fail_at("time_unit", "ns, us, ms or s");
  return 1;
}

Measurement measurement_of(const Entry& entry) {
  const double unit = seconds_per_unit(entry);
  return {.cpu_seconds = unit * entry.number("cpu_time"),
          .real_seconds = unit * entry.number("real_time"),
          .peak_percent = entry.number_or_none("peak_percent"),
          .read_percent = entry.number_or_none("read_percent"),
          .max_error = entry.number_or_none("max_error")};
}

// Why the entry has no times, quoted; empty if it has.
std::string failure_of(const Entry& entry) {
  for (const auto& [flag, message] : {std::pair("error_occurred", "error_message"), {"skipped", "skip_message"}}) {
    if (!entry.is_true(flag)) continue;
    const auto found = entry.json.find(message);
    return io::in_quotes(found != entry.json.end() && found->is_string() ? found->get<std::string>() : flag);
  }
  return {};
}

// Collects the entries of each name.
class CaseBuilder {
 public:
  CaseBuilder(std::string name, const Entry& first)
      : place_(first.number_or_none("family_index").value_or(0),
               first.number_or_none("per_family_instance_index").value_or(0)) {
    case_.name = std::move(name);
  }

  // Of its registration in the program.
  std::pair<double, double> place() const { return place_; }

  void add(const Entry& entry) {
    const std::string type = entry.text("run_type");
    if (type == "aggregate") return add_aggregate(entry);
    if (type != "iteration") entry.fail_at("run_type", "iteration or aggregate");
    if (std::string failure = failure_of(entry); !failure.empty()) {
      if (case_.failure.empty()) case_.failure = std::move(failure);
    } else {
      case_.repetitions.push_back(measurement_of(entry));
    }
  }

  // None if the file has but other aggregates of the case, like the order of its complexity.
  std::optional<BenchmarkCase> take() {
    const std::optional<Measurement>& aggregate = median_ ? median_ : mean_;
    if (case_.repetitions.empty() && aggregate) {
      case_.is_aggregate = true;
      case_.repetitions.push_back(*aggregate);
    }
    if (case_.repetitions.empty() && case_.failure.empty()) return std::nullopt;
    return std::move(case_);
  }

 private:
  void add_aggregate(const Entry& entry) {
    const std::string aggregate = entry.text("aggregate_name");
    if (aggregate == "median") median_ = measurement_of(entry);
    if (aggregate == "mean") mean_ = measurement_of(entry);
  }

  std::pair<double, double> place_;
  BenchmarkCase case_;
  std::optional<Measurement> median_, mean_;
};

// "Data L1 48 KiB shared by 2"
std::string cache_text(const Json& cache) {
  const auto number = [&](const char* key) {
    return cache.contains(key) && cache[key].is_number_unsigned() ? cache[key].get<std::uint64_t>() : 0;
  };
  const Json type = cache.value("type", Json());
  return (type.is_string() ? type.get<std::string>() : std::string("?")) + " L" + std::to_string(number("level")) +
         " " + std::to_string(number("size") / 1024) + " KiB shared by " + std::to_string(number("num_sharing"));
}

// Strings without quotes, lists by commas, anything else as in JSON.
std::string context_text(const Json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (!value.is_array()) return value.dump();
  std::string text;
  for (const Json& item : value) {
    text += (text.empty() ? "" : ", ") + (item.is_object() ? cache_text(item) : context_text(item));
  }
  return text;
}

std::vector<BenchmarkCase> read_cases(const Json& benchmarks, const std::string& label) {
  std::vector<CaseBuilder> builders;
  std::map<std::string, std::size_t> places;
  for (std::size_t i = 0; i < benchmarks.size(); ++i) {
    const std::string where = label + ": benchmarks[" + std::to_string(i) + "]";
    if (!benchmarks[i].is_object()) io::fail(where, "is not an object, " + std::string(kExpected));
    const Entry entry{.json = benchmarks[i], .where = where};
    // An aggregate's name ends with _median and the like, its run_name does not.
    const std::string name = entry.text("run_name");
    if (name.size() > kMaxNameBytes) entry.fail_at("run_name", "at most 1000 bytes");
    const auto [place, is_new] = places.emplace(name, builders.size());
    if (is_new) builders.emplace_back(name, entry);
    builders[place->second].add(entry);
  }
  // A run in random order writes its cases in random order.
  std::ranges::stable_sort(builders, {}, &CaseBuilder::place);
  std::vector<BenchmarkCase> cases;
  for (CaseBuilder& builder : builders) {
    if (std::optional<BenchmarkCase> built = builder.take()) cases.push_back(std::move(*built));
  }
  return cases;
}

}  // namespace

BenchmarkRun load_benchmark_run(const std::string& path) {
  const io::File file(path);
  if (file.size() > kMaxBytes) io::fail(file.label(), "is larger than 64 MiB, " + std::string(kExpected));
  return parse_benchmark_run(io::read_whole(file), file.label());
}

BenchmarkRun parse_benchmark_run(std::string_view json, const std::string& label) {
  Json document;
  try {
    document = Json::parse(without_special_numbers(json), [&](int depth, Json::parse_event_t, Json&) {
      if (depth > kMaxLevels) io::fail(label, "nests more than 16 levels, " + std::string(kExpected));
      return true;
    });
  } catch (const Json::parse_error& e) {
    io::fail(label, "is not JSON, near byte " + std::to_string(e.byte) +
                        ": damaged, or of a run that has not finished; " + kExpected);
  } catch (const Json::out_of_range&) {
    io::fail(label, "has a number beyond what a double holds, " + std::string(kExpected));
  }
  const auto has = [&](const char* key, Json::value_t type) {
    return document.is_object() && document.contains(key) && document[key].type() == type;
  };
  if (!has("context", Json::value_t::object) || !has("benchmarks", Json::value_t::array)) {
    io::fail(label, "has no \"context\" and \"benchmarks\", " + std::string(kExpected));
  }
  BenchmarkRun run{.label = label, .context = {}, .cases = read_cases(document["benchmarks"], label)};
  for (const auto& [key, value] : document["context"].items()) run.context.emplace(key, context_text(value));
  return run;
}

}  // namespace attend::tools
