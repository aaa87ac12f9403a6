// Which argument a file was given to.
#ifndef ATTEND_TOOLS_ATTEND_ARGUMENT_H_
#define ATTEND_TOOLS_ATTEND_ARGUMENT_H_

#include <string>

#include "attend/error.h"

namespace attend::tools {

// Returns read(), whose errors name the file, and names the argument as well: "--queries: q.npy: cannot open: ...".
template <class Read>
auto read_argument(const std::string& word, Read&& read) {
  try {
    return read();
  } catch (const Error& e) {
    throw Error(word + ": " + e.what());
  }
}

}  // namespace attend::tools

#endif  // ATTEND_TOOLS_ATTEND_ARGUMENT_H_
