#include "tools/attend/outputs.h"

#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>

#include "attend/error.h"
#include "tools/attend/signals.h"
#include "tools/io/guard.h"
#include "tools/io/links.h"
#include "tools/io/save.h"

namespace attend::tools {
namespace {

namespace fs = std::filesystem;

// A handler has no other way to them. It and all else here changes under HeldSignals.
std::atomic<OutputFiles*> latest{nullptr};
static_assert(std::atomic<OutputFiles*>::is_always_lock_free);

[[noreturn]] void fail(const std::string& path, const std::string& reason) {
  throw Error(path + ": cannot write: " + reason);
}

}  // namespace

void check_writable(const std::string& path) {
  if (path.empty()) return;
  std::error_code error;
  const fs::path goal = io::follow_links(path, error);
  if (error) fail(path, error.message());
  const fs::file_status status = fs::status(goal, error);
  if (status.type() == fs::file_type::none) fail(path, error.message());  // its name may be too long
  if (fs::is_directory(status)) fail(path, "is a directory, expected a file");
  if (fs::exists(status) && !fs::is_regular_file(status)) fail(path, "is not a regular file");
  if (fs::exists(status) && ::access(goal.c_str(), W_OK) != 0) fail(path, std::generic_category().message(errno));
  const fs::path directory = goal.has_parent_path() ? goal.parent_path() : fs::path(".");
  if (!fs::is_directory(directory, error)) fail(path, "no such directory");
  if (::access(directory.c_str(), W_OK | X_OK) != 0) {
    fail(path, "no new file in its directory: " + std::generic_category().message(errno));
  }
}

OutputFiles::OutputFiles() : earlier_(latest) {
  const HeldSignals held;
  latest = this;
}

OutputFiles::~OutputFiles() {
  const HeldSignals held;
  latest = earlier_;
  writing_.reset();
  files_.clear();
}

void OutputFiles::discard_all() noexcept {
  for (const OutputFiles* each = latest; each != nullptr; each = each->earlier_) {
    if (each->writing_) each->writing_->discard();
    for (const auto& file : each->files_) file->discard();
  }
}

void OutputFiles::add(const std::string& path, TensorView<const float> tensor) {
  stage(path, [&](io::AtomicFile& file) { io::write_npy(file, tensor); });
}

void OutputFiles::add(const std::string& path, std::string_view bytes) {
  stage(path, [&](io::AtomicFile& file) { file.write(bytes); });
}

void OutputFiles::stage(const std::string& path, const std::function<void(io::AtomicFile& file)>& write) {
  if (path.empty()) return;
  io::guarded(path, [&] {
    {
      const HeldSignals held;
      writing_ = std::make_unique<io::AtomicFile>(path);
    }
    try {
      write(*writing_);
      writing_->close();
    } catch (...) {
      const HeldSignals held;
      writing_.reset();
      throw;
    }
    const HeldSignals held;
    files_.push_back(std::move(writing_));
  });
}

void OutputFiles::commit() {
  const HeldSignals held;
  std::size_t count = 0;
  try {
    for (; count < files_.size(); ++count) {
      if (count + 1 < files_.size()) files_[count]->keep_old();  // nothing can fail behind the last one
      files_[count]->commit();
    }
  } catch (...) {
    while (count > 0) files_[--count]->take_back();
    throw;
  }
  files_.clear();
}

}  // namespace attend::tools
