// Output files, all or none.
#ifndef ATTEND_TOOLS_ATTEND_OUTPUTS_H_
#define ATTEND_TOOLS_ATTEND_OUTPUTS_H_

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "attend/tensor_view.h"
#include "tools/io/atomic_file.h"

namespace attend::tools {

// Throws Error if path cannot become a file: no such directory, not writable, a directory itself. To be called before
// the work, so that nobody waits for a result that cannot be kept.
void check_writable(const std::string& path);

// Several files that appear together: all are written beside their goals, then all are renamed. Where one cannot be,
// those renamed before are what they were again: the old file, of which a second name was kept, or none. A link stays,
// and what it leads to is replaced, or made where nothing is there yet. For
// the main thread. Where two live at a time, the one made later is destroyed first.
class OutputFiles {
 public:
  OutputFiles();
  ~OutputFiles();
  OutputFiles(const OutputFiles&) = delete;
  OutputFiles& operator=(const OutputFiles&) = delete;

  // Writes beside path, the tensor as .npy. Nothing if path is empty. Errors: Error naming path.
  void add(const std::string& path, TensorView<const float> tensor);
  void add(const std::string& path, std::string_view bytes);
  // Without it, or where it fails, nothing has changed.
  void commit();

  // Removes what lies beside goals, of all there are. Safe in a handler of a signal that ends the process; it finds
  // commit() not begun or done.
  static void discard_all() noexcept;

 private:
  void stage(const std::string& path, const std::function<void(io::AtomicFile& file)>& write);

  OutputFiles* const earlier_;
  std::unique_ptr<io::AtomicFile> writing_;
  std::vector<std::unique_ptr<io::AtomicFile>> files_;
};

}  // namespace attend::tools

#endif  // ATTEND_TOOLS_ATTEND_OUTPUTS_H_
