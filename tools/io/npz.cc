// Opening .npz files: zip archives of .npy members, as numpy.savez and numpy.savez_compressed write them.
#include "tools/io/file.h"
#include "tools/io/message.h"
#include "tools/io/stored_tensor.h"
#include "tools/io/zip.h"

namespace attend::io {
namespace {

constexpr std::string_view kSuffix = ".npy";

class Npz final : public TensorFile {
 public:
  explicit Npz(std::shared_ptr<const File> file) : path_(file->path()), zip_(std::move(file)) {}

  // Members that are not .npy are no tensors; numpy gives them out as bytes, here they are not seen.
  std::vector<std::string> names() const override {
    std::vector<std::string> names;
    for (const auto& [member_name, member] : zip_.members()) {
      if (member_name.ends_with(kSuffix)) names.push_back(member_name.substr(0, member_name.size() - kSuffix.size()));
    }
    return names;
  }

  StoredTensor open(const std::string& name) const override {
    const auto found = zip_.members().find(name + std::string(kSuffix));
    if (found == zip_.members().end()) {
      fail(printable_path(path_), "no tensor " + in_quotes(name) + "; there are: " + list_of(names()));
    }
    const std::string label = tensor_label(path_, name);
    return open_npy_stream(label, zip_.open(found->second, label));
  }

 private:
  std::string path_;
  Zip zip_;
};

}  // namespace

std::unique_ptr<TensorFile> open_npz(const std::string& path) {
  return std::make_unique<Npz>(std::make_shared<const File>(path));
}

}  // namespace attend::io
