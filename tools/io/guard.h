// At the library's door: what escapes is attend::Error.
#ifndef ATTEND_TOOLS_IO_GUARD_H_
#define ATTEND_TOOLS_IO_GUARD_H_

#include <new>
#include <stdexcept>
#include <string_view>

#include "attend/error.h"
#include "tools/io/message.h"

namespace attend::io {

// Returns work(), turning what the standard library and the JSON parser throw into an Error that names the file. Sizes
// are checked against the file before memory is taken, so running out of it means a file too large for this machine.
template <class Work>
auto guarded(std::string_view path, Work&& work) {
  try {
    return work();
  } catch (const Error&) {
    throw;
  } catch (const std::bad_alloc&) {
    fail(printable_path(path), "not enough memory");
  } catch (const std::length_error&) {
    fail(printable_path(path), "not enough memory: larger than any vector");
  } catch (const std::exception& e) {
    fail(printable_path(path), printable(e.what()));
  }
}

}  // namespace attend::io

#endif  // ATTEND_TOOLS_IO_GUARD_H_
