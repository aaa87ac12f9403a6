// A file that appears at its path whole, or not at all.
#ifndef ATTEND_TOOLS_IO_ATOMIC_FILE_H_
#define ATTEND_TOOLS_IO_ATOMIC_FILE_H_

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace attend::io {

// Writes to a temporary file in the goal's directory (a rename across file systems is not atomic) and renames it in
// commit(). Without commit() the temporary file is removed and what was at the path stays. If the path is a symbolic
// link, the link stays and its target is replaced. A new file has the permissions that the umask gives, a replaced one
// keeps its own. Nothing is synced to disk: this guards against readers and failures, not against power cuts.
class AtomicFile {
 public:
  // Throws Error if the goal is something else than a regular file, or if its directory cannot be written.
  explicit AtomicFile(const std::string& path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(std::span<const std::byte> bytes);
  void write(std::string_view text) { write(std::as_bytes(std::span<const char>(text))); }

  // Nothing may be written after it.
  void commit();

 private:
  [[noreturn]] void fail_to(const std::string& doing, int reason) const;

  std::string label_;  // the path as the caller gave it, for messages
  std::string goal_;
  std::string temporary_;
  int descriptor_ = -1;
};

}  // namespace attend::io

#endif  // ATTEND_TOOLS_IO_ATOMIC_FILE_H_
