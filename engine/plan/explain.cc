// A plan in words: a line for each choice and its reason, then what it costs.
#include <algorithm>
#include <iterator>
#include <string>

#include "engine/base/message.h"
#include "engine/plan/cost.h"
#include "engine/plan/planner.h"

namespace attend::detail {
namespace {

std::string line(const std::string& what, const std::string& text) {
  std::string padded = "  " + what;
  padded.resize(std::max<std::size_t>(padded.size() + 1, 14), ' ');
  return padded + text + "\n";
}

// 1234567 -> "1.23 M": three digits are what an estimate deserves. Ends in a space or in a prefix for the unit that
// follows.
std::string rounded(double value) {
  const char* prefixes[] = {"", "k", "M", "G", "T", "P"};
  std::size_t prefix = 0;
  while (value >= 999.5 && prefix + 1 < std::size(prefixes)) {
    value /= 1000;
    ++prefix;
  }
  return number_text(value, std::chars_format::general, 3) + " " + prefixes[prefix];
}

}  // namespace

std::string sizes_text(const PlanImpl& plan) {
  const Shape& s = plan.shape;
  std::string text = "B " + std::to_string(s.batch) + ", M " + std::to_string(s.num_queries) + ", N " +
                     std::to_string(s.num_keys) + ", H " + std::to_string(plan.num_heads) + ", Dq " +
                     std::to_string(s.query_size) + ", Dk " + std::to_string(s.key_size) + ", Dv " +
                     std::to_string(s.value_size);
  text += plan.layer->score == Score::kAdditive ? ", U " : ", D ";
  return text + std::to_string(plan.score_size);
}

std::string explain(const PlanImpl& plan, const TierCounts* counts) {
  const WorkspaceLayout& layout = plan.layout;
  std::string text =
      std::string(plan.layer->name) + " attention, path " + plan.path + ", target " + plan.kernels->name + "\n";
  text += line("shape", sizes_text(plan) + "; a run may have fewer batch entries, queries and keys");
  for (const Reason& reason : plan.reasons) text += line(reason.what, reason.text);
  text += line("target", std::string(plan.kernels->name) + ": " + std::to_string(plan.kernels->pack.panel_width) +
                             " floats a panel");
  text += line("workspace", std::to_string(layout.total) + " bytes = " + std::to_string(layout.workers) + " shared + " +
                                std::to_string(plan.options.threads) + " x " + std::to_string(layout.worker_bytes) +
                                " per thread" + (plan.options.threads > 1 ? ", 64 KiB apart" : "") +
                                "; prepared keys take " + std::to_string(plan.prepared.total) + " bytes");
  const Work work = count_work(plan);
  text += line("work", rounded(work.score_flops + work.pool_flops + work.projection_flops) + "FLOP in products, " +
                           rounded(work.exps) + "exp, " +
                           (work.tanhs > 0 ? rounded(work.tanhs) + "tanh, " : std::string()) +
                           rounded(work.bytes_read + work.bytes_written) + "B read and written, all keys valid");
  if (counts != nullptr) {
    const auto tiles = [](std::uint64_t n, const char* tier) { return std::to_string(n) + " by " + tier; };
    text += line("tiers", tiles(counts->eight, "eight, ") + tiles(counts->four, "four, ") +
                              tiles(counts->three, "three, ") + tiles(counts->two, "two, ") +
                              tiles(counts->one, "one term per division, ") + tiles(counts->rational, "rational tanh") +
                              ": tiles of one query by " + std::to_string(plan.kernels->pack.panel_width) +
                              " keys, in the last run");
  }
  return text;
}

}  // namespace attend::detail
