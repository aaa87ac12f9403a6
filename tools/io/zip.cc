#include "tools/io/zip.h"

#include <algorithm>
#include <vector>

#include "tools/io/byte_cursor.h"
#include "tools/io/inflate.h"
#include "tools/io/message.h"
#include "tools/io/zip_format.h"

namespace attend::io {
namespace {

using namespace zip_format;  // NOLINT(google-build-using-namespace): constants only, in this file only

std::vector<std::byte> bytes_at(const File& file, std::uint64_t offset, std::uint64_t num_bytes) {
  std::vector<std::byte> bytes(num_bytes);
  file.read_at(offset, bytes);
  return bytes;
}

// Where the central directory is.
struct Directory {
  std::uint64_t num_members = 0;
  std::uint64_t num_bytes = 0;
  std::uint64_t offset = 0;
  std::uint64_t end = 0;  // where it must end: at the first of the end records
};

// The last thing in the file, but for a comment whose length it states. Its signature is searched from the back, and
// taken only where that comment would end with the file.
std::uint64_t find_end_record(const File& file) {
  if (file.size() < kEndBytes) fail(file.label(), "is not a zip file: " + std::to_string(file.size()) + " bytes long");
  const std::uint64_t tail_bytes = std::min<std::uint64_t>(file.size(), kEndBytes + kMaxCommentBytes);
  const std::uint64_t tail_offset = file.size() - tail_bytes;
  const std::vector<std::byte> tail = bytes_at(file, tail_offset, tail_bytes);
  for (std::size_t at = tail.size() - kEndBytes + 1; at-- > 0;) {
    const std::byte* record = tail.data() + at;
    const std::size_t comment_bytes = load_le<std::uint16_t>(record + 20);
    if (load_le<std::uint32_t>(record) == kEnd && at + kEndBytes + comment_bytes == tail.size())
      return tail_offset + at;
  }
  fail(file.label(), "is not a zip file or is truncated: no end of central directory record at its end");
}

Directory parse_end_record(const File& file, std::uint64_t end_offset) {
  const std::vector<std::byte> bytes = bytes_at(file, end_offset, kEndBytes);
  ByteCursor cursor(bytes, file.label(), "zip end record");
  cursor.take_bytes(4);  // signature
  const auto this_disk = cursor.take<std::uint16_t>();
  const auto directory_disk = cursor.take<std::uint16_t>();
  const auto members_here = cursor.take<std::uint16_t>();
  Directory directory;
  directory.num_members = cursor.take<std::uint16_t>();
  directory.num_bytes = cursor.take<std::uint32_t>();
  directory.offset = cursor.take<std::uint32_t>();
  directory.end = end_offset;
  if (this_disk != directory_disk || members_here != directory.num_members) {
    fail(file.label(), "is one part of a zip archive over several disks, expected a whole one");
  }
  return directory;
}

// The zip64 record has the same fields in 64 bits; those of the short record must agree or say "elsewhere".
Directory parse_end64_record(const File& file, const Directory& short_record, std::uint64_t end_offset) {
  const std::uint64_t locator_offset = end_offset - kEnd64LocatorBytes;
  const std::vector<std::byte> locator = bytes_at(file, locator_offset, kEnd64LocatorBytes);
  const std::uint64_t record_offset = load_le<std::uint64_t>(locator.data() + 8);
  // Its first version, which is the only one that is written without encryption, is of fixed size and lies right before
  // the locator.
  if (locator_offset < kEnd64Bytes || record_offset != locator_offset - kEnd64Bytes) {
    fail(file.label(), "zip64 end record at byte " + std::to_string(record_offset) +
                           ", expected right before its locator at " + std::to_string(locator_offset));
  }
  const std::vector<std::byte> bytes = bytes_at(file, record_offset, kEnd64Bytes);
  ByteCursor cursor(bytes, file.label(), "zip64 end record");
  if (cursor.take<std::uint32_t>() != kEnd64) fail(file.label(), "zip64 end record has a wrong signature");
  cursor.take_bytes(8 + 2 + 2 + 4 + 4 + 8);  // its size, versions, disks, members on this disk
  Directory directory;
  directory.num_members = cursor.take<std::uint64_t>();
  directory.num_bytes = cursor.take<std::uint64_t>();
  directory.offset = cursor.take<std::uint64_t>();
  directory.end = record_offset;
  const auto agree = [](std::uint64_t small, std::uint64_t elsewhere, std::uint64_t large) {
    return small == elsewhere || small == large;
  };
  if (!agree(short_record.num_members, kElsewhere16, directory.num_members) ||
      !agree(short_record.num_bytes, kElsewhere32, directory.num_bytes) ||
      !agree(short_record.offset, kElsewhere32, directory.offset)) {
    fail(file.label(), "zip64 end record and zip end record disagree");
  }
  return directory;
}

Directory find_directory(const File& file) {
  const std::uint64_t end_offset = find_end_record(file);
  Directory directory = parse_end_record(file, end_offset);
  if (end_offset >= kEnd64LocatorBytes) {
    const std::vector<std::byte> signature = bytes_at(file, end_offset - kEnd64LocatorBytes, 4);
    if (load_le<std::uint32_t>(signature.data()) == kEnd64Locator) {
      directory = parse_end64_record(file, directory, end_offset);
    }
  }
  if (directory.offset > directory.end || directory.num_bytes != directory.end - directory.offset) {
    fail(file.label(), "zip directory of " + std::to_string(directory.num_bytes) + " bytes at byte " +
                           std::to_string(directory.offset) + ", expected to end at byte " +
                           std::to_string(directory.end));
  }
  return directory;
}

// 4.5.3: the zip64 extra field holds, in this order, those of the values whose own field says "elsewhere".
void read_zip64_extra(std::span<const std::byte> extra, const std::string& label, std::uint64_t& num_bytes,
                      std::uint64_t& compressed_bytes, std::uint64_t* header_offset) {
  ByteCursor fields(extra, label, "zip extra field");
  while (fields.remaining() >= 4) {  // shorter rests are padding that some writers leave
    const auto id = fields.take<std::uint16_t>();
    const auto length = fields.take<std::uint16_t>();
    ByteCursor field(fields.take_bytes(length), label, "zip64 extra field");
    if (id != kZip64Extra) continue;
    if (num_bytes == kElsewhere32) num_bytes = field.take<std::uint64_t>();
    if (compressed_bytes == kElsewhere32) compressed_bytes = field.take<std::uint64_t>();
    if (header_offset != nullptr && *header_offset == kElsewhere32) *header_offset = field.take<std::uint64_t>();
    return;
  }
}

ZipMember parse_member(ByteCursor& cursor, const std::string& label) {
  if (cursor.take<std::uint32_t>() != kDirectoryEntry) fail(label, "zip directory has an entry with a wrong signature");
  ZipMember member;
  cursor.take_bytes(2 + 2);  // versions
  member.flags = cursor.take<std::uint16_t>();
  member.method = cursor.take<std::uint16_t>();
  cursor.take_bytes(2 + 2);  // time and date
  member.crc = cursor.take<std::uint32_t>();
  member.compressed_bytes = cursor.take<std::uint32_t>();
  member.num_bytes = cursor.take<std::uint32_t>();
  const auto name_bytes = cursor.take<std::uint16_t>();
  const auto extra_bytes = cursor.take<std::uint16_t>();
  const auto comment_bytes = cursor.take<std::uint16_t>();
  cursor.take_bytes(2 + 2 + 4);  // disk, attributes
  member.header_offset = cursor.take<std::uint32_t>();
  member.name = cursor.take_text(name_bytes);
  read_zip64_extra(cursor.take_bytes(extra_bytes), label, member.num_bytes, member.compressed_bytes,
                   &member.header_offset);
  cursor.take_bytes(comment_bytes);
  return member;
}

// Members that share bytes make a zip bomb out of a small file. Each ends before the next begins, and the last before
// the directory; what precedes a member's data is at least its fixed header and name.
void set_end_limits(std::vector<ZipMember>& members, std::uint64_t directory_offset, const std::string& label) {
  std::sort(members.begin(), members.end(),
            [](const ZipMember& a, const ZipMember& b) { return a.header_offset < b.header_offset; });
  for (std::size_t i = 0; i < members.size(); ++i) {
    ZipMember& member = members[i];
    member.end_limit = i + 1 < members.size() ? members[i + 1].header_offset : directory_offset;
    const std::uint64_t header_bytes = kLocalHeaderBytes + member.name.size();
    const bool fits = member.header_offset <= member.end_limit && member.end_limit <= directory_offset &&
                      header_bytes <= member.end_limit - member.header_offset &&
                      member.compressed_bytes <= member.end_limit - member.header_offset - header_bytes;
    if (!fits) {
      fail(label, "zip member " + in_quotes(member.name) + " of " + std::to_string(member.compressed_bytes) +
                      " bytes at byte " + std::to_string(member.header_offset) + ", expected to end by byte " +
                      std::to_string(member.end_limit) + ", where something else begins");
    }
  }
}

// The directory is the truth; a local header that tells another story is a file that readers would disagree about.
// Returns where the member's data begins.
std::uint64_t check_local_header(const File& file, const ZipMember& member, const std::string& label) {
  const std::vector<std::byte> fixed = bytes_at(file, member.header_offset, kLocalHeaderBytes);
  ByteCursor cursor(fixed, label, "zip local header");
  if (cursor.take<std::uint32_t>() != kLocalHeader) fail(label, "zip local header has a wrong signature");
  cursor.take_bytes(2);  // version
  const auto flags = cursor.take<std::uint16_t>();
  const auto method = cursor.take<std::uint16_t>();
  cursor.take_bytes(2 + 2);  // time and date
  const auto crc = cursor.take<std::uint32_t>();
  std::uint64_t compressed_bytes = cursor.take<std::uint32_t>();
  std::uint64_t num_bytes = cursor.take<std::uint32_t>();
  const std::uint64_t name_bytes = cursor.take<std::uint16_t>();
  const std::uint64_t extra_bytes = cursor.take<std::uint16_t>();
  const std::uint64_t data_offset = member.header_offset + kLocalHeaderBytes + name_bytes + extra_bytes;
  if (data_offset > member.end_limit || member.compressed_bytes > member.end_limit - data_offset) {
    fail(label, "zip member's data begins at byte " + std::to_string(data_offset) + ", expected " +
                    std::to_string(member.compressed_bytes) + " bytes before byte " + std::to_string(member.end_limit));
  }
  const std::vector<std::byte> rest =
      bytes_at(file, member.header_offset + kLocalHeaderBytes, name_bytes + extra_bytes);
  ByteCursor variable(rest, label, "zip local header");
  const std::string name = variable.take_text(name_bytes);
  read_zip64_extra(variable.take_bytes(extra_bytes), label, num_bytes, compressed_bytes, nullptr);

  // With the descriptor flag (4.4.4, bit 3) a writer that could not seek back has left zeros.
  const bool may_be_zero = (flags & kDescriptorFlag) != 0;
  const auto agree = [may_be_zero](std::uint64_t local, std::uint64_t truth) {
    return local == truth || (may_be_zero && local == 0);
  };
  const auto differs = [&](const std::string& what) {
    fail(label, "zip local header and zip directory differ in the " + what);
  };
  if (name != member.name) differs("name: " + in_quotes(name) + " and " + in_quotes(member.name));
  if (flags != member.flags) differs("flags");
  if (method != member.method) differs("compression method");
  if (!agree(crc, member.crc)) differs("CRC-32");
  if (!agree(compressed_bytes, member.compressed_bytes)) differs("compressed size");
  if (!agree(num_bytes, member.num_bytes)) differs("size");
  return data_offset;
}

}  // namespace

Zip::Zip(std::shared_ptr<const File> file) : file_(std::move(file)) {
  const std::string& label = file_->label();
  const Directory directory = find_directory(*file_);
  const std::vector<std::byte> bytes = bytes_at(*file_, directory.offset, directory.num_bytes);
  ByteCursor cursor(bytes, label, "zip directory");
  std::vector<ZipMember> members;
  while (cursor.remaining() > 0) members.push_back(parse_member(cursor, label));
  if (members.size() != directory.num_members) {
    fail(label, "zip directory has " + std::to_string(members.size()) + " entries, expected " +
                    std::to_string(directory.num_members));
  }
  set_end_limits(members, directory.offset, label);
  for (ZipMember& member : members) {
    if (members_.contains(member.name)) fail(label, "zip directory has two members named " + in_quotes(member.name));
    std::string name = member.name;
    members_.emplace(std::move(name), std::move(member));
  }
}

std::unique_ptr<ByteStream> Zip::open(const ZipMember& member, const std::string& label) const {
  if ((member.flags & kEncryptedFlag) != 0) fail(label, "zip member is encrypted, expected a plain one");
  if (member.method != kStored && member.method != kDeflated) {
    fail(label, "zip compression method " + std::to_string(member.method) + ", expected 0 (stored) or 8 (deflated)");
  }
  if (member.method == kStored && member.compressed_bytes != member.num_bytes) {
    fail(label, "stored zip member of " + std::to_string(member.num_bytes) + " bytes takes " +
                    std::to_string(member.compressed_bytes) + ", expected as many");
  }
  const std::uint64_t data_offset = check_local_header(*file_, member, label);
  std::unique_ptr<ByteStream> bytes = std::make_unique<FileRange>(file_, label, data_offset, member.compressed_bytes);
  if (member.method == kDeflated) bytes = std::make_unique<InflateStream>(label, std::move(bytes), member.num_bytes);
  return std::make_unique<CheckedStream>(label, std::move(bytes), member.crc);
}

}  // namespace attend::io
