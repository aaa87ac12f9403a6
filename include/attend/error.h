// The one exception type of the library.
//
// Simplest use: catch (const attend::Error& e) { log(e.what()); }
#ifndef ATTEND_ERROR_H_
#define ATTEND_ERROR_H_

#include <stdexcept>
#include <string>

namespace attend {

// Thrown while building a layer, planning, loading, or checking the views of a run: before any output byte changes.
// what() names the argument, what it was and what was expected. Outputs may have changed in one case alone: where
// oneDNN fails within a run, for want of memory above all (Plan::run). The library never prints, aborts or calls exit.
class Error : public std::runtime_error {
 public:
  explicit Error(const std::string& message) : std::runtime_error(message) {}
};

}  // namespace attend

#endif  // ATTEND_ERROR_H_
