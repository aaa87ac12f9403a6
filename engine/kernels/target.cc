#include "attend/target.h"

#include <algorithm>
#include <cctype>

#include "engine/base/message.h"
#include "engine/kernels/kernel_set.h"

namespace attend {

Target Target::best() { return Target(kernels::best_target()); }

std::vector<Target> Target::available() {
  std::vector<Target> targets;
  for (const std::int64_t id : kernels::available_targets()) targets.push_back(Target(id));
  return targets;
}

Target Target::from_name(std::string_view name) {
  const auto same = [](char a, char b) {
    return std::toupper(static_cast<unsigned char>(a)) == std::toupper(static_cast<unsigned char>(b));
  };
  std::string names;
  for (const Target& target : available()) {
    const std::string candidate = target.name();
    if (std::equal(name.begin(), name.end(), candidate.begin(), candidate.end(), same)) return target;
    names += (names.empty() ? "" : ", ") + candidate;
  }
  fail("target is \"", name, "\", expected one that this build has and this CPU runs: ", names);
}

std::string Target::name() const { return kernels::target_name(id_); }

}  // namespace attend
