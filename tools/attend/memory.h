// Memory that there is not: what it was for.
#ifndef ATTEND_TOOLS_ATTEND_MEMORY_H_
#define ATTEND_TOOLS_ATTEND_MEMORY_H_

#include <new>
#include <string>

#include "attend/error.h"

namespace attend::tools {

// Returns work(), which takes memory for what.
template <class Work>
auto with_memory_for(const std::string& what, Work&& work) {
  try {
    return work();
  } catch (const std::bad_alloc&) {
    throw Error("not enough memory for " + what);
  }
}

}  // namespace attend::tools

#endif  // ATTEND_TOOLS_ATTEND_MEMORY_H_
