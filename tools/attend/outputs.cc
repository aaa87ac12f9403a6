#include "tools/attend/outputs.h"

#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "attend/error.h"
#include "attend/io.h"
#include "tools/io/links.h"

namespace attend::tools {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail(const std::string& path, const std::string& reason) {
  throw Error(path + ": cannot write: " + reason);
}

// Where a link leads, so that the link stays and its goal is replaced, or made where there is none yet.
fs::path goal_of(const std::string& path) {
  std::error_code error;
  const fs::path goal = io::follow_links(path, error);
  if (error) fail(path, error.message());
  return goal;
}

fs::path staged_name(const fs::path& goal, std::size_t index) {
  return goal.parent_path() / (".attend-" + std::to_string(::getpid()) + "-" + std::to_string(index) + ".staged");
}

// The message about the file beside, as one about the file that was asked for.
std::string about(const std::string& path, const fs::path& staged, std::string message) {
  const std::size_t at = message.find(staged.string());
  return at == std::string::npos ? path + ": " + message : message.replace(at, staged.string().size(), path);
}

}  // namespace

void check_writable(const std::string& path) {
  if (path.empty()) return;
  const fs::path goal = goal_of(path);
  std::error_code error;
  const fs::file_status status = fs::status(goal, error);
  if (fs::is_directory(status)) fail(path, "is a directory, expected a file");
  if (fs::exists(status) && !fs::is_regular_file(status)) fail(path, "is not a regular file");
  const fs::path directory = goal.has_parent_path() ? goal.parent_path() : fs::path(".");
  if (::access(directory.c_str(), W_OK | X_OK) != 0) fail(path, std::generic_category().message(errno));
  if (!fs::is_directory(directory, error)) fail(path, "no such directory");
}

OutputFiles::~OutputFiles() {
  std::error_code ignored;
  for (const File& file : files_) fs::remove(file.staged, ignored);
}

void OutputFiles::add(const std::string& path, TensorView<const float> tensor) {
  stage(path, [&](const std::string& staged) { io::save_npy(staged, tensor); });
}

void OutputFiles::add(const std::string& path, std::string_view bytes) {
  stage(path, [&](const std::string& staged) { io::save_bytes(staged, bytes); });
}

void OutputFiles::stage(const std::string& path, const std::function<void(const std::string& staged)>& write) {
  if (path.empty()) return;
  const fs::path goal = goal_of(path);
  const fs::path staged = staged_name(goal, files_.size());
  std::error_code error;
  const fs::file_status before = fs::status(goal, error);
  files_.push_back({.path = path, .staged = staged, .goal = goal, .is_new = !fs::exists(before)});
  try {
    write(staged.string());
  } catch (const Error& e) {
    throw Error(about(path, staged, e.what()));
  }
  if (fs::exists(before)) fs::permissions(staged, before.permissions(), error);  // what was private stays private
}

void OutputFiles::commit() {
  for (std::size_t i = 0; i < files_.size(); ++i) {
    std::error_code error;
    fs::rename(files_[i].staged, files_[i].goal, error);
    if (!error) continue;
    std::error_code ignored;
    for (std::size_t done = 0; done < i; ++done) {
      if (files_[done].is_new) fs::remove(files_[done].goal, ignored);
    }
    fail(files_[i].path, error.message());
  }
  files_.clear();
}

}  // namespace attend::tools
