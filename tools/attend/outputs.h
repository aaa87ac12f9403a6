// Output files, all or none.
#ifndef ATTEND_TOOLS_ATTEND_OUTPUTS_H_
#define ATTEND_TOOLS_ATTEND_OUTPUTS_H_

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "attend/tensor_view.h"

namespace attend::tools {

// Throws Error if path cannot become a file: no such directory, not writable, a directory itself. To be called before
// the work, so that nobody waits for a result that cannot be kept.
void check_writable(const std::string& path);

// Several files that appear together: all are written beside their goals, then all are renamed. Where one cannot be,
// those renamed before are what they were again: the old file, of which a second name was kept, or none. A link stays,
// and what it leads to is replaced, or made where nothing is there yet.
class OutputFiles {
 public:
  OutputFiles() = default;
  ~OutputFiles();  // removes what was not committed
  OutputFiles(const OutputFiles&) = delete;
  OutputFiles& operator=(const OutputFiles&) = delete;

  // Writes beside path, the tensor as .npy. Nothing if path is empty. Errors: Error naming path.
  void add(const std::string& path, TensorView<const float> tensor);
  void add(const std::string& path, std::string_view bytes);
  void commit();

 private:
  struct File {
    std::string path;
    std::filesystem::path staged, goal, old;  // old: what the goal was, while it may have to come back
    bool is_new;
  };
  void stage(const std::string& path, const std::function<void(const std::string& staged)>& write);
  // The first `count` files are what they were before.
  void take_back(std::size_t count) const;

  std::vector<File> files_;
};

}  // namespace attend::tools

#endif  // ATTEND_TOOLS_ATTEND_OUTPUTS_H_
