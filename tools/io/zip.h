// Reading zip archives (APPNOTE.TXT 6.3): stored and deflated members, zip64. One disk, no encryption.
#ifndef ATTEND_TOOLS_IO_ZIP_H_
#define ATTEND_TOOLS_IO_ZIP_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "tools/io/file.h"

namespace attend::io {

// A member as the central directory states it.
struct ZipMember {
  std::string name;
  std::uint16_t flags = 0;
  std::uint16_t method = 0;
  std::uint32_t crc = 0;
  std::uint64_t compressed_bytes = 0;
  std::uint64_t num_bytes = 0;
  std::uint64_t header_offset = 0;  // of the local header
  std::uint64_t end_limit = 0;      // where the next member or the central directory begins
};

class Zip {
 public:
  // Reads the central directory. Throws Error if it does not end where the file ends, has duplicate names, or if
  // members overlap each other or the directory.
  explicit Zip(std::shared_ptr<const File> file);

  const std::map<std::string, ZipMember>& members() const { return members_; }

  // The bytes of a member, checked by CRC when finished. Throws Error if its local header disagrees with the directory.
  std::unique_ptr<ByteStream> open(const ZipMember& member, const std::string& label) const;

 private:
  std::shared_ptr<const File> file_;
  std::map<std::string, ZipMember> members_;
};

}  // namespace attend::io

#endif  // ATTEND_TOOLS_IO_ZIP_H_
