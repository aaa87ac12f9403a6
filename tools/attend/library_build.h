// A build of the library as a file, used by its C interface beside this program's own.
#ifndef ATTEND_TOOLS_ATTEND_LIBRARY_BUILD_H_
#define ATTEND_TOOLS_ATTEND_LIBRARY_BUILD_H_

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "attend/plan.h"
#include "tools/attend/problem.h"

namespace attend::tools {

class LibraryBuild {
 public:
  // Loads the shared library and plans the problem with it. Throws Error, beginning with the path, where that fails.
  // The library is to have this program's C interface, attend_c.h: of another major version it may not.
  LibraryBuild(std::string path, const Problem& problem);
  ~LibraryBuild();
  LibraryBuild(LibraryBuild&&) noexcept;

  const std::string& path() const;
  // The first line of its plan's explanation.
  std::string plan_text() const;
  std::size_t workspace_bytes() const;
  // For runs from now on. The memory outlives this, may have any alignment, and is larger than workspace_bytes() by 64.
  void use_workspace(std::span<std::byte> memory);
  // Throws Error, beginning with the path.
  void run(const Inputs& inputs, const Outputs& outputs);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace attend::tools

#endif  // ATTEND_TOOLS_ATTEND_LIBRARY_BUILD_H_
