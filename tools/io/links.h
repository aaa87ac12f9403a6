// Symbolic links on the way to a file that is to be written.
#ifndef ATTEND_TOOLS_IO_LINKS_H_
#define ATTEND_TOOLS_IO_LINKS_H_

#include <filesystem>
#include <string>
#include <system_error>

namespace attend::io {

// The file that a path means once its links are followed. It need not exist yet: a dangling link names it too, which
// std::filesystem::canonical refuses. Links in a circle, or that cannot be read, set error.
std::filesystem::path follow_links(const std::string& path, std::error_code& error);

}  // namespace attend::io

#endif  // ATTEND_TOOLS_IO_LINKS_H_
