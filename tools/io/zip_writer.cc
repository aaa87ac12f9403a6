#include "tools/io/zip_writer.h"

#include <algorithm>

#include "tools/io/little_endian.h"
#include "tools/io/zip_format.h"

namespace attend::io {
namespace {

using namespace zip_format;  // NOLINT(google-build-using-namespace): constants only, in this file only

constexpr std::uint16_t kTime = 0;
constexpr std::uint16_t kDate = (1U << 5U) | 1U;  // 1980-01-01 (APPNOTE.TXT 4.4.6)

// Flag, method, time and date, CRC, the two sizes "elsewhere", lengths of name and extra field: what local headers
// (4.3.7) and directory entries (4.3.12) have in common.
void append_common(std::string& to, const std::string& name, std::uint32_t crc, std::uint16_t extra_bytes) {
  const bool ascii = std::all_of(name.begin(), name.end(), [](char c) { return static_cast<unsigned char>(c) < 0x80; });
  append_le<std::uint16_t>(to, kVersionZip64);
  append_le<std::uint16_t>(to, ascii ? std::uint16_t{0} : kUtf8Flag);
  append_le<std::uint16_t>(to, kStored);
  append_le<std::uint16_t>(to, kTime);
  append_le<std::uint16_t>(to, kDate);
  append_le<std::uint32_t>(to, crc);
  append_le<std::uint32_t>(to, kElsewhere32);
  append_le<std::uint32_t>(to, kElsewhere32);
  append_le<std::uint16_t>(to, static_cast<std::uint16_t>(name.size()));
  append_le<std::uint16_t>(to, extra_bytes);
}

}  // namespace

void ZipWriter::begin_member(const std::string& name, std::uint64_t num_bytes, std::uint32_t crc) {
  constexpr std::uint16_t kExtraHeaderBytes = 4;
  constexpr std::uint16_t kUnixAttributes = 0600;  // of the member, should someone extract it

  std::string header;
  append_le<std::uint32_t>(header, kLocalHeader);
  append_common(header, name, crc, kExtraHeaderBytes + 16);
  header += name;
  append_le<std::uint16_t>(header, kZip64Extra);
  append_le<std::uint16_t>(header, 16);
  append_le<std::uint64_t>(header, num_bytes);
  append_le<std::uint64_t>(header, num_bytes);

  append_le<std::uint32_t>(directory_, kDirectoryEntry);
  append_le<std::uint16_t>(directory_, (3U << 8U) | kVersionZip64);  // made by: Unix (4.4.2)
  append_common(directory_, name, crc, kExtraHeaderBytes + 24);
  append_le<std::uint16_t>(directory_, 0);  // comment
  append_le<std::uint16_t>(directory_, 0);  // disk
  append_le<std::uint16_t>(directory_, 0);  // internal attributes
  append_le<std::uint32_t>(directory_, std::uint32_t{kUnixAttributes} << 16U);
  append_le<std::uint32_t>(directory_, kElsewhere32);  // offset of the local header
  directory_ += name;
  append_le<std::uint16_t>(directory_, kZip64Extra);
  append_le<std::uint16_t>(directory_, 24);
  append_le<std::uint64_t>(directory_, num_bytes);
  append_le<std::uint64_t>(directory_, num_bytes);
  append_le<std::uint64_t>(directory_, offset_);

  file_.write(header);
  offset_ += header.size() + num_bytes;
  ++num_members_;
}

void ZipWriter::finish() {
  std::string end;
  append_le<std::uint32_t>(end, kEnd64);  // 4.3.14
  append_le<std::uint64_t>(end, kEnd64Bytes - 12);
  append_le<std::uint16_t>(end, kVersionZip64);
  append_le<std::uint16_t>(end, kVersionZip64);
  append_le<std::uint32_t>(end, 0);  // this disk
  append_le<std::uint32_t>(end, 0);  // the directory's disk
  append_le<std::uint64_t>(end, num_members_);
  append_le<std::uint64_t>(end, num_members_);
  append_le<std::uint64_t>(end, directory_.size());
  append_le<std::uint64_t>(end, offset_);

  append_le<std::uint32_t>(end, kEnd64Locator);  // 4.3.15
  append_le<std::uint32_t>(end, 0);
  append_le<std::uint64_t>(end, offset_ + directory_.size());
  append_le<std::uint32_t>(end, 1);  // disks in all

  append_le<std::uint32_t>(end, kEnd);  // 4.3.16
  append_le<std::uint16_t>(end, 0);
  append_le<std::uint16_t>(end, 0);
  append_le<std::uint16_t>(end, kElsewhere16);
  append_le<std::uint16_t>(end, kElsewhere16);
  append_le<std::uint32_t>(end, kElsewhere32);
  append_le<std::uint32_t>(end, kElsewhere32);
  append_le<std::uint16_t>(end, 0);  // comment

  file_.write(directory_);
  file_.write(end);
}

}  // namespace attend::io
