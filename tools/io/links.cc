#include "tools/io/links.h"

namespace attend::io {
namespace {

constexpr int kMaxLinks = 40;  // as the Linux kernel (MAXSYMLINKS)

}  // namespace

std::filesystem::path follow_links(const std::string& path, std::error_code& error) {
  std::filesystem::path goal(path);
  for (int i = 0; i < kMaxLinks; ++i) {
    if (!std::filesystem::is_symlink(goal, error)) {
      error.clear();  // where nothing is, there is no link either
      return goal;
    }
    const std::filesystem::path target = std::filesystem::read_symlink(goal, error);
    if (error) return goal;
    goal = goal.parent_path() / target;  // an absolute target replaces all of it
  }
  error = std::make_error_code(std::errc::too_many_symbolic_link_levels);
  return goal;
}

}  // namespace attend::io
