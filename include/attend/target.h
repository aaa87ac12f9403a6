// Instruction sets as values: list them, name them, force one.
//
// Simplest use: nothing, every plan takes Target::best().
// Recommended for tests and benchmarks:
//     for (attend::Target t : attend::Target::available()) layer.plan(shape, {.target = t});
#ifndef ATTEND_TARGET_H_
#define ATTEND_TARGET_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace attend {

// One instruction set that this build holds kernels for and this CPU can run. A value; two plans with different targets
// live side by side in one process. No global state is read after construction and none is ever written.
//   Thread-safety: thread-safe. available, from_name and name allocate; best and all else do not.
class Target {
 public:
  // The best available one.
  Target() : Target(best()) {}

  // The fastest target that is compiled in and supported by this CPU.
  static Target best();
  // All of them, best first. Never empty: the last is the portable fallback.
  static std::vector<Target> available();
  // By name ("AVX2"; case does not matter). Throws Error for an unknown or unavailable name, listing the available
  // ones.
  static Target from_name(std::string_view name);

  // "AVX3", "AVX2", "SSE4", "SSSE3", "NEON", "SVE2", "SCALAR", ...: Highway's names.
  std::string name() const;

  // Highway's bit of this target; an implementation detail that costs nothing to show.
  std::int64_t id() const noexcept { return id_; }
  friend bool operator==(const Target& a, const Target& b) noexcept { return a.id_ == b.id_; }

 private:
  explicit Target(std::int64_t id) noexcept : id_(id) {}
  std::int64_t id_;
};

}  // namespace attend

#endif  // ATTEND_TARGET_H_
