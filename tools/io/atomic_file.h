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
// keeps its own, and its owner and group where the system lets it. Nothing is synced to disk: this guards against
// readers and failures, not against power cuts. Only free names are taken beside the goal: what others left or planted
// there is neither used nor followed.
class AtomicFile {
 public:
  // Throws Error if the goal is something else than a regular file, or if its directory cannot be written.
  explicit AtomicFile(const std::string& path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(std::span<const std::byte> bytes);
  void write(std::string_view text) { write(std::as_bytes(std::span<const char>(text))); }

  // The path as messages name it.
  const std::string& label() const { return label_; }

  // For files that appear together: the last errors of writing come here, and commit() has only to rename. Nothing
  // may be written after it.
  void close();

  // Nothing may be written after it.
  void commit();

  // Before commit(): what is at the goal keeps a second name, until this object goes.
  void keep_old();
  // After keep_old() and commit(): the goal is what it was, the old file or none.
  void take_back();

  // Removes what is beside the goal. Neither locks nor allocates: handlers of signals may call it before they end the
  // process.
  void discard() const noexcept;

 private:
  AtomicFile(std::string label, std::string goal);
  void copy_old();
  [[noreturn]] void fail_to(const std::string& doing, int reason) const;

  std::string label_;
  std::string goal_;
  std::string temporary_;
  std::string old_;  // the second name; empty: none
  int descriptor_ = -1;
};

}  // namespace attend::io

#endif  // ATTEND_TOOLS_IO_ATOMIC_FILE_H_
