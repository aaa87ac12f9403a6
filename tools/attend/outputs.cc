#include "tools/attend/outputs.h"

#include <unistd.h>

#include <cerrno>
#include <fstream>
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

fs::path name_beside(const fs::path& goal, std::size_t index, const char* ending) {
  return goal.parent_path() / (".attend-" + std::to_string(::getpid()) + "-" + std::to_string(index) + ending);
}

// A second name for a file; a copy where the file system has none.
void keep_as(const fs::path& file, const fs::path& second, std::error_code& error) {
  fs::create_hard_link(file, second, error);
  if (error) fs::copy_file(file, second, fs::copy_options::overwrite_existing, error);
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
  if (status.type() == fs::file_type::none) fail(path, error.message());  // its name may be too long
  if (fs::is_directory(status)) fail(path, "is a directory, expected a file");
  if (fs::exists(status) && !fs::is_regular_file(status)) fail(path, "is not a regular file");
  const fs::path directory = goal.has_parent_path() ? goal.parent_path() : fs::path(".");
  if (!fs::is_directory(directory, error)) fail(path, "no such directory");
  if (::access(directory.c_str(), W_OK | X_OK) != 0) fail(path, std::generic_category().message(errno));
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
  const fs::path staged = name_beside(goal, files_.size(), ".staged");
  std::error_code error;
  const fs::file_status before = fs::status(goal, error);
  files_.push_back({.path = path, .staged = staged, .goal = goal, .old = {}, .is_new = !fs::exists(before)});
  if (fs::exists(before)) {  // what was private stays private, from the first byte on
    std::ofstream(staged, std::ios::app).close();
    fs::permissions(staged, before.permissions(), error);
  }
  try {
    write(staged.string());
  } catch (const Error& e) {
    throw Error(about(path, staged, e.what()));
  }
}

void OutputFiles::commit() {
  std::error_code error;
  for (std::size_t i = 0; i < files_.size(); ++i) {
    File& file = files_[i];
    if (!file.is_new && i + 1 < files_.size()) {  // nothing can fail behind the last one
      file.old = name_beside(file.goal, i, ".old");
      keep_as(file.goal, file.old, error);
    }
    if (!error) fs::rename(file.staged, file.goal, error);
    if (!error) continue;
    take_back(i);
    if (!file.old.empty()) {
      std::error_code ignored;
      fs::remove(file.old, ignored);
    }
    fail(file.path, error.message());
  }
  for (const File& file : files_) {
    if (!file.old.empty()) fs::remove(file.old, error);
  }
  files_.clear();
}

void OutputFiles::take_back(std::size_t count) const {
  std::error_code ignored;
  for (std::size_t i = 0; i < count; ++i) {
    const File& file = files_[i];
    if (file.is_new) {
      fs::remove(file.goal, ignored);
    } else {
      fs::rename(file.old, file.goal, ignored);
    }
  }
}

}  // namespace attend::tools
