// Writing zip archives of stored members.
#ifndef ATTEND_TOOLS_IO_ZIP_WRITER_H_
#define ATTEND_TOOLS_IO_ZIP_WRITER_H_

#include <cstdint>
#include <string>

#include "tools/io/atomic_file.h"

namespace attend::io {

// Every record carries its sizes and offsets in zip64 form, small archives too (numpy does so in local headers): the
// path that only files beyond 4 GiB need is then the one path, which every test takes. Dates are 1980-01-01, as
// numpy's, so that the same tensors give the same bytes.
class ZipWriter {
 public:
  explicit ZipWriter(AtomicFile& file) : file_(file) {}

  // Announces a member; the caller then writes its num_bytes to the file. name is UTF-8.
  void begin_member(const std::string& name, std::uint64_t num_bytes, std::uint32_t crc);

  // Writes the central directory.
  void finish();

 private:
  AtomicFile& file_;
  std::uint64_t offset_ = 0;
  std::uint64_t num_members_ = 0;
  std::string directory_;
};

}  // namespace attend::io

#endif  // ATTEND_TOOLS_IO_ZIP_WRITER_H_
