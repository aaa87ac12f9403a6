// Builds the one-line messages of attend::Error. Used only while planning, loading or checking: never on the hot path.
#ifndef ATTEND_BASE_MESSAGE_H_
#define ATTEND_BASE_MESSAGE_H_

#include <cstdint>
#include <sstream>
#include <string>

#include "attend/error.h"

namespace attend {

// fail("keys has size ", 64, ", queries has ", 48) throws Error("keys has size 64, queries has 48").
template <class... Parts>
[[noreturn]] void fail(const Parts&... parts) {
  std::ostringstream message;
  (message << ... << parts);
  throw Error(message.str());
}

}  // namespace attend

#endif  // ATTEND_BASE_MESSAGE_H_
