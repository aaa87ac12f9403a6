// The text of a profile: one line per problem, read back word by word.
#include "engine/plan/profile.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <iterator>
#include <map>
#include <string_view>
#include <system_error>
#include <utility>

#include "attend/version.h"
#include "engine/base/cpus.h"
#include "engine/base/message.h"

namespace attend {
namespace {

constexpr std::string_view kFormat = "attend profile 3";
constexpr std::string_view kLibrary = ", library ", kCpu = ", cpu ";

// The words of a problem, in their order. Numbers: of digits.
struct Field {
  std::string_view name;
  bool is_number;
};
constexpr Field kFields[] = {
    {"layer", false}, {"B", true},       {"M", true},        {"N", true},        {"H", true},       {"Hkv", true},
    {"Dq", true},     {"Dk", true},      {"Dv", true},       {"D", true},        {"Dh", true},      {"out", true},
    {"lens", false},  {"causal", false}, {"padding", false}, {"weights", false}, {"concat", false}, {"prepared", false},
    {"pairs", false}, {"parts", false},  {"target", false},  {"threads", true}};

constexpr Pairs kPairs[] = {Pairs::kWhereFaster, Pairs::kNever, Pairs::kAlways};

// Times are told with all their digits. Included, so that what is rounded to it may be read back.
constexpr double kMaxMicroseconds = 1e15;

constexpr bool is_digit(char c) { return c >= '0' && c <= '9'; }

// A name of a layer, path or target: no spaces, nothing that the line needs.
bool is_word(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '/' || c == '-' || c == '_';
  });
}

template <class Number>
bool parse_number(std::string_view text, Number& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() && !text.empty();
}

// Takes "name=value" from the front of rest, and the space behind it; empty where something else stands there.
std::string_view take_value(std::string_view& rest, std::string_view name) {
  if (!rest.starts_with(name) || rest.size() <= name.size() || rest[name.size()] != '=') return {};
  rest.remove_prefix(name.size() + 1);
  const std::size_t end = std::min(rest.find(' '), rest.size());
  const std::string_view value = rest.substr(0, end);
  rest.remove_prefix(std::min(end + 1, rest.size()));
  return value;
}

// Behind what was expected: what there is instead, the beginning of it.
std::string found(std::string_view text) {
  constexpr std::size_t kShown = 60;
  if (text.empty()) return ", found nothing";
  std::size_t shown = std::min(text.size(), kShown);  // and no part of a character of UTF-8
  while (shown < text.size() && shown > 0 && (static_cast<unsigned char>(text[shown]) & 0xC0) == 0x80) --shown;
  return ", found \"" + one_line(std::string(text.substr(0, shown))) + (shown < text.size() ? "...\"" : "\"");
}
std::string found_word(std::string_view rest) { return found(rest.substr(0, rest.find(' '))); }

// What is wrong with the words of a problem; empty: nothing.
std::string problem_fault(std::string_view problem) {
  std::string_view rest = problem;
  for (const Field& field : kFields) {
    const std::string_view before = rest;
    const std::string_view value = take_value(rest, field.name);
    const bool fits = field.is_number ? std::all_of(value.begin(), value.end(), is_digit) : is_word(value);
    if (value.empty() || !fits) {
      return "expected " + std::string(field.name) + "=" + (field.is_number ? "a number" : "a word") +
             " in the problem" + found_word(before);
    }
  }
  return rest.empty() ? "" : "expected nothing behind threads= in the problem" + found(rest);
}

std::string entry_fault(const ProfileEntry& entry) {
  if (std::string fault = problem_fault(entry.problem); !fault.empty()) return fault;
  if (!is_word(entry.path)) return "path is \"" + entry.path + "\", expected the name of a path";
  if (std::string fault = detail::tile_queries_fault(entry.tile_queries); !fault.empty()) {
    return "tile_queries is " + std::to_string(entry.tile_queries) + fault;
  }
  if (std::string fault = detail::tile_keys_fault(entry.tile_keys); !fault.empty()) {
    return "tile_keys is " + std::to_string(entry.tile_keys) + fault;
  }
  if (std::find(std::begin(kPairs), std::end(kPairs), entry.pairs) == std::end(kPairs)) {
    return "pairs is " + std::to_string(static_cast<int>(entry.pairs)) +
           ", expected Pairs::kWhereFaster, kNever or kAlways";
  }
  // NaN is not at least 0.
  if (entry.microseconds >= 0 && entry.microseconds <= kMaxMicroseconds) return "";
  char text[32];
  std::snprintf(text, sizeof text, "%g", entry.microseconds);
  return std::string("microseconds is ") + text + ", expected us=TIME, finite, not negative and at most 1e15";
}

// Takes "name=number" from the front of rest. Returns what is wrong; empty: nothing.
template <class Number>
std::string take_number(std::string_view& rest, std::string_view name, const char* expected, Number& number) {
  const std::string_view before = rest;
  if (parse_number(take_value(rest, name), number)) return "";
  return std::string("expected ") + expected + found_word(before);
}

// Likewise "pairs=word".
std::string take_pairs(std::string_view& rest, Pairs& pairs) {
  const std::string_view before = rest, value = take_value(rest, "pairs");
  for (const Pairs known : kPairs) {
    if (value != detail::pairs_word(known)) continue;
    pairs = known;
    return "";
  }
  return "expected pairs=where-faster, never or always behind tile_keys" + found_word(before);
}

// "PROBLEM: path=... tile_queries=... tile_keys=... pairs=... us=...". Returns what is wrong; empty: nothing.
std::string parse_entry(std::string_view line, ProfileEntry& entry) {
  const std::size_t colon = line.find(": ");
  if (colon == std::string_view::npos) {
    return "expected \"PROBLEM: path=PATH tile_queries=N tile_keys=N pairs=WHEN us=TIME\"" + found(line);
  }
  entry.problem = line.substr(0, colon);
  std::string_view rest = line.substr(colon + 2);
  const std::string no_path = "expected path=PATH behind the problem" + found_word(rest);
  entry.path = take_value(rest, "path");
  if (entry.path.empty()) return no_path;
  std::string fault = take_number(rest, "tile_queries", "tile_queries=N behind path", entry.tile_queries);
  if (fault.empty()) fault = take_number(rest, "tile_keys", "tile_keys=N behind tile_queries", entry.tile_keys);
  if (fault.empty()) fault = take_pairs(rest, entry.pairs);
  if (fault.empty()) fault = take_number(rest, "us", "us=TIME behind pairs", entry.microseconds);
  if (fault.empty() && !rest.empty()) fault = "expected nothing behind us=" + found(rest);
  return fault.empty() ? entry_fault(entry) : fault;
}

std::string entry_text(const ProfileEntry& entry) {
  return entry.problem + ": path=" + entry.path + " tile_queries=" + std::to_string(entry.tile_queries) +
         " tile_keys=" + std::to_string(entry.tile_keys) + " pairs=" + detail::pairs_word(entry.pairs) +
         " us=" + detail::microseconds_text(entry.microseconds);
}

bool comes_before(const ProfileEntry& entry, std::string_view problem) { return entry.problem < problem; }

std::string no_header(std::string_view line) {
  return "expected \"" + std::string(kFormat) + ", library VERSION, cpu NAME\"" + found(line);
}

[[noreturn]] void fail_at(std::size_t line, const std::string& fault) { fail("profile, line ", line, ": ", fault); }

}  // namespace

Profile::Profile() : library_(version()), cpu_(one_line(cpu_name())) {}

Profile Profile::parse(std::string_view text) {
  Profile profile;
  std::map<std::string, ProfileEntry> entries;  // in any order, as versions of a file merged by hand may be
  bool has_header = false;
  std::size_t number = 0;
  for (std::string_view rest = text; !rest.empty();) {
    ++number;
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    std::string_view line = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    while (!line.empty() && (line.back() == '\r' || line.back() == ' ')) line.remove_suffix(1);
    if (line.empty() || line.front() == '#') continue;
    if (!has_header) {
      const std::size_t library = line.find(kLibrary), cpu = line.find(kCpu);
      if (library != kFormat.size() || !line.starts_with(kFormat) || cpu == std::string_view::npos || cpu < library) {
        fail_at(number, no_header(line));
      }
      profile.library_ = line.substr(library + kLibrary.size(), cpu - library - kLibrary.size());
      profile.cpu_ = line.substr(cpu + kCpu.size());
      has_header = true;
      continue;
    }
    ProfileEntry entry;
    if (const std::string fault = parse_entry(line, entry); !fault.empty()) fail_at(number, fault);
    std::string problem = entry.problem;
    const bool is_first = entries.try_emplace(std::move(problem), std::move(entry)).second;
    if (!is_first) fail_at(number, "expected one entry per problem, this is the second");
  }
  if (!has_header) fail_at(number + 1, no_header(""));
  for (auto& [problem, parsed] : entries) profile.entries_.push_back(std::move(parsed));
  return profile;
}

std::string Profile::text() const {
  std::string text = std::string(kFormat) + std::string(kLibrary) + library_ + std::string(kCpu) + cpu_ + "\n";
  for (const ProfileEntry& entry : entries_) text += entry_text(entry) + "\n";
  return text;
}

void Profile::add(const ProfileEntry& entry) {
  if (const std::string fault = entry_fault(entry); !fault.empty()) fail("profile entry: ", fault);
  const auto place = std::lower_bound(entries_.begin(), entries_.end(), entry.problem, comes_before);
  if (place != entries_.end() && place->problem == entry.problem) {
    *place = entry;
  } else {
    entries_.insert(place, entry);
  }
}

void Profile::merge(const Profile& other) {
  if (other.entries_.empty()) return;
  if (!entries_.empty() && other.cpu_ != cpu_) {
    fail("profile is of cpu \"", other.cpu_, "\", expected \"", cpu_, "\", where the entries were measured so far");
  }
  if (entries_.empty()) {
    *this = other;
    return;
  }
  // Of two for one problem it takes that of the first range.
  std::vector<ProfileEntry> merged;
  std::set_union(other.entries_.begin(), other.entries_.end(), entries_.begin(), entries_.end(),
                 std::back_inserter(merged),
                 [](const ProfileEntry& a, const ProfileEntry& b) { return a.problem < b.problem; });
  library_ = other.library_;
  entries_ = std::move(merged);
}

const ProfileEntry* Profile::find(std::string_view problem) const noexcept {
  const auto place = std::lower_bound(entries_.begin(), entries_.end(), problem, comes_before);
  return place != entries_.end() && place->problem == problem ? &*place : nullptr;
}

namespace detail {

std::string tile_queries_fault(std::int64_t tile_queries) {
  if (tile_queries >= 0 && tile_queries <= kMaxTileQueries) return "";
  return ", expected 1 to " + std::to_string(kMaxTileQueries) + ", or 0 for the rules' choice";
}

std::string tile_keys_fault(std::int64_t tile_keys) {
  const bool power = tile_keys > 0 && (tile_keys & (tile_keys - 1)) == 0;
  if (tile_keys == 0 || (power && tile_keys >= kMinTileKeys && tile_keys <= kMaxTileKeys)) return "";
  return ", expected a power of two from " + std::to_string(kMinTileKeys) + " to " + std::to_string(kMaxTileKeys) +
         ", or 0 for the rules' choice";
}

namespace {

template <class Way>
const char* when_word(Way way) {
  return way == Way::kNever ? "never" : way == Way::kAlways ? "always" : "where-faster";
}

}  // namespace

const char* pairs_word(Pairs pairs) { return when_word(pairs); }

std::string problem_text(const PlanImpl& plan) {
  const Shape& shape = plan.shape;
  const PlanOptions& options = plan.options;
  // A plan that does not know its lengths is tuned as if there were none.
  const char* lens = options.valid_lens == ValidLens::kPerBatch   ? "batch"
                     : options.valid_lens == ValidLens::kPerQuery ? "query"
                                                                  : "none";
  const char* causal = options.causal == Causal::kNone          ? "none"
                       : options.causal == Causal::kBottomRight ? "bottom-right"
                                                                : "top-left";
  const auto yes = [](bool value) { return std::string(value ? "yes" : "no"); };
  // The layer's name does not say how a multi-head layer scores.
  const std::string layer = std::string(plan.layer->name) +
                            (plan.layer->is_multi_head && plan.layer->score == Score::kAdditive ? "/additive" : "");
  const std::string values[] = {layer,
                                std::to_string(shape.batch),
                                std::to_string(shape.num_queries),
                                std::to_string(shape.num_keys),
                                std::to_string(plan.num_heads),
                                std::to_string(plan.num_kv_heads),
                                std::to_string(shape.query_size),
                                std::to_string(shape.key_size),
                                std::to_string(shape.value_size),
                                std::to_string(plan.score_size),
                                std::to_string(plan.head_value_size),
                                std::to_string(plan.output_size),
                                lens,
                                causal,
                                options.padding == Padding::kSkipQueries ? "skip" : "compute",
                                yes(options.attention_weights),
                                yes(options.concat_queries),
                                yes(options.prepared_keys),
                                pairs_word(options.pairs),
                                when_word(options.parts),
                                plan.kernels->name,
                                std::to_string(options.threads)};
  static_assert(std::size(kFields) == std::size(values));
  std::string text;
  for (std::size_t i = 0; i < std::size(kFields); ++i) {
    text += (i == 0 ? "" : " ") + std::string(kFields[i].name) + "=" + values[i];
  }
  return text;
}

std::string microseconds_text(double microseconds) {
  // Three digits, more before the point, and never an exponent.
  const int decimals = microseconds < 9.995 ? 2 : microseconds < 99.95 ? 1 : 0;
  return number_text(microseconds, std::chars_format::fixed, decimals);
}

}  // namespace detail
}  // namespace attend
