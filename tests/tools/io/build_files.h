// Good and bad files, byte by byte, for the tests of tools/io.
#ifndef ATTEND_TESTS_TOOLS_IO_BUILD_FILES_H_
#define ATTEND_TESTS_TOOLS_IO_BUILD_FILES_H_

#include <bit>
#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "attend/error.h"
#include "attend/io.h"
#include "tests/support/temp_dir.h"

namespace attend::tests {

template <std::unsigned_integral T>
std::string le(T value) {
  std::string bytes;
  for (std::size_t i = 0; i < sizeof(T); ++i) bytes += static_cast<char>((std::uint64_t{value} >> (8 * i)) & 0xFFU);
  return bytes;
}
inline std::string le16(std::uint64_t value) { return le(static_cast<std::uint16_t>(value)); }
inline std::string le32(std::uint64_t value) { return le(static_cast<std::uint32_t>(value)); }
inline std::string le64(std::uint64_t value) { return le(value); }

inline std::string f32_bytes(const std::vector<float>& values) {
  std::string bytes;
  for (const float value : values) bytes += le(std::bit_cast<std::uint32_t>(value));
  return bytes;
}

inline std::string from_hex(std::string_view hex) {
  const auto digit = [](char c) { return c <= '9' ? c - '0' : c - 'a' + 10; };
  std::string bytes;
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2)
    bytes += static_cast<char>(digit(hex[i]) * 16 + digit(hex[i + 1]));
  return bytes;
}

// CRC-32 bit by bit: slow, short, and not zlib's.
inline std::uint32_t crc32_of(std::string_view bytes) {
  std::uint32_t crc = 0xFFFFFFFF;
  for (const char c : bytes) {
    crc ^= static_cast<unsigned char>(c);
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1U) ^ ((crc & 1U) != 0 ? 0xEDB88320U : 0U);
  }
  return ~crc;
}

// Runs work and returns the message of the Error it throws, or "no error". Other exceptions pass.
template <class Work>
std::string error_of(Work&& work) {
  try {
    work();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

// The same with the directory cut out, so that messages can be compared: "x.npy: cannot open: ...".
template <class Work>
std::string error_in(const TempDir& dir, Work&& work) {
  std::string message = error_of(work);
  const std::string prefix = dir.path() + "/";
  for (std::size_t at = message.find(prefix); at != std::string::npos; at = message.find(prefix)) {
    message.erase(at, prefix.size());
  }
  return message;
}

// ---- .npy -----------------------------------------------------------------------------------------------------------

// A file of version major.0 with this text as its header.
inline std::string npy_file(std::string_view header, std::string_view data, int major = 1) {
  std::string bytes = "\x93NUMPY";
  bytes += static_cast<char>(major);
  bytes += '\0';
  bytes += major == 1 ? le16(header.size()) : le32(header.size());
  bytes += header;
  bytes += data;
  return bytes;
}

inline std::string npy_dict(std::string_view descr, std::string_view shape, std::string_view order = "False") {
  return "{'descr': '" + std::string(descr) + "', 'fortran_order': " + std::string(order) +
         ", 'shape': " + std::string(shape) + ", }\n";
}

inline std::string npy_array(std::string_view descr, std::string_view shape, std::string_view data) {
  return npy_file(npy_dict(descr, shape), data);
}

// ---- .safetensors ---------------------------------------------------------------------------------------------------

inline std::string safetensors_file(std::string_view json, std::string_view data) {
  return le64(json.size()) + std::string(json) + std::string(data);
}

// ---- zip, a record at a time (APPNOTE.TXT, sections in brackets)
// ------------------------------------------------------

struct ZipPart {
  std::string name;
  std::string data;  // as stored in the file
  std::uint64_t num_bytes = 0;
  std::uint64_t compressed_bytes = 0;
  std::uint32_t crc = 0;
  std::uint16_t method = 0;
  std::uint16_t flags = 0;
  bool zip64 = false;  // sizes and offset in an extra field
};

inline ZipPart stored_part(std::string name, std::string data) {
  ZipPart part;
  part.name = std::move(name);
  part.num_bytes = part.compressed_bytes = data.size();
  part.crc = crc32_of(data);
  part.data = std::move(data);
  return part;
}

// Deflate without compressing (RFC 1951, 3.2.4): one final stored block.
inline ZipPart deflated_part(std::string name, const std::string& data) {
  ZipPart part = stored_part(std::move(name), data);
  part.data = '\x01' + le16(data.size()) + le16(~data.size()) + data;
  part.compressed_bytes = part.data.size();
  part.method = 8;
  return part;
}

inline std::string zip_common(const ZipPart& part) {
  return le16(20) + le16(part.flags) + le16(part.method) + le32(0) + le32(part.crc) +
         le32(part.zip64 ? 0xFFFFFFFF : part.compressed_bytes) + le32(part.zip64 ? 0xFFFFFFFF : part.num_bytes) +
         le16(part.name.size());
}

inline std::string zip_local(const ZipPart& part) {  // 4.3.7
  const std::string extra =
      part.zip64 ? le16(1) + le16(16) + le64(part.num_bytes) + le64(part.compressed_bytes) : std::string();
  return "PK\x03\x04" + zip_common(part) + le16(extra.size()) + part.name + extra;
}

inline std::string zip_entry(const ZipPart& part, std::uint64_t offset) {  // 4.3.12
  const std::string extra = part.zip64
                                ? le16(1) + le16(24) + le64(part.num_bytes) + le64(part.compressed_bytes) + le64(offset)
                                : std::string();
  return "PK\x01\x02" + le16(20) + zip_common(part) + le16(extra.size()) + le16(0) + le16(0) + le16(0) + le32(0) +
         le32(part.zip64 ? 0xFFFFFFFF : offset) + part.name + extra;
}

inline std::string zip_end(std::uint64_t num_entries, std::uint64_t directory_bytes, std::uint64_t directory_offset,
                           std::string_view comment = "") {  // 4.3.16
  return "PK\x05\x06" + le16(0) + le16(0) + le16(num_entries) + le16(num_entries) + le32(directory_bytes) +
         le32(directory_offset) + le16(comment.size()) + std::string(comment);
}

inline std::string zip_end64(std::uint64_t num_entries, std::uint64_t directory_bytes, std::uint64_t directory_offset) {
  const std::string record = "PK\x06\x06" + le64(44) + le16(45) + le16(45) + le32(0) + le32(0) + le64(num_entries) +
                             le64(num_entries) + le64(directory_bytes) + le64(directory_offset);            // 4.3.14
  const std::string locator = "PK\x06\x07" + le32(0) + le64(directory_offset + directory_bytes) + le32(1);  // 4.3.15
  return record + locator + zip_end(0xFFFF, 0xFFFFFFFF, 0xFFFFFFFF);
}

// What the local headers say, and what the directory says, which in a good file is the same.
inline std::string zip_file(const std::vector<ZipPart>& local, const std::vector<ZipPart>& central,
                            std::string_view comment = "") {
  std::string bytes;
  std::string directory;
  for (std::size_t i = 0; i < local.size(); ++i) {
    directory += zip_entry(central[i], bytes.size());
    bytes += zip_local(local[i]) + local[i].data;
  }
  return bytes + directory + zip_end(local.size(), directory.size(), bytes.size(), comment);
}
inline std::string zip_file(const std::vector<ZipPart>& parts) { return zip_file(parts, parts); }

// ---- files that numpy wrote (1.24.2)
// ----------------------------------------------------------------------------------

// numpy.save of arange(6, dtype='f4').reshape(2, 3)
inline std::string numpy_npy() {
  return from_hex(
      "934e554d5059010076007b276465736372273a20273c6634272c2027666f727472616e5f6f72646572273a2046616c73652c2027"
      "7368617065273a2028322c2033292c207d2020202020202020202020202020202020202020202020202020202020202020202020"
      "20202020202020202020202020202020202020202020200a000000000000803f0000004000004040000080400000a040");
}

// numpy.savez of the same as x: stored, zip64 extra fields in the local header
inline std::string numpy_npz() {
  return from_hex(
      "504b0304140000000000000021004fe9002a980000009800000005001400782e6e70790100100098000000000000009800000000"
      "000000934e554d5059010076007b276465736372273a20273c6634272c2027666f727472616e5f6f72646572273a2046616c7365"
      "2c20277368617065273a2028322c2033292c207d2020202020202020202020202020202020202020202020202020202020202020"
      "20202020202020202020202020202020202020202020202020200a000000000000803f0000004000004040000080400000a04050"
      "4b01021403140000000000000021004fe9002a9800000098000000050000000000000000000000800100000000782e6e7079504b"
      "0506000000000100010033000000cf0000000000");
}

// numpy.savez_compressed of the same as x, and of array([3, 1], 'i8') as n
inline std::string numpy_compressed_npz() {
  return from_hex(
      "504b0304140000000800000021004fe9002a550000009800000005001400782e6e70790100100098000000000000005500000000"
      "0000009bec17ea1b10c9c850c650ad9e925a9c5ca46ea5a06e9366a2aea3a09e965f54529498179f5f94920a12774bcc294e058a"
      "17672416a402f91a463a0ac69a3a0ab50a64032e063068b007120e4004c40d40bcc00100504b0304140000000800000021008cde"
      "33e04a00000090000000050014006e2e6e70790100100090000000000000004a000000000000009bec17ea1b10c9c850c650ad9e"
      "925a9c5ca46ea5a06e9369a1aea3a09e965f54529498179f5f94920a12774bcc294e058a17672416a402f91a463a9a3a0ab50a14"
      "002e6606086084d200504b01021403140000000800000021004fe9002a5500000098000000050000000000000000000000800100"
      "000000782e6e7079504b01021403140000000800000021008cde33e04a0000009000000005000000000000000000000080018c00"
      "00006e2e6e7079504b05060000000002000200660000000d0100000000");
}

// The same x in a deflated zip that Python wrote to a pipe: sizes in data descriptors behind the data
inline std::string streamed_npz() {
  return from_hex(
      "504b03041400080008002e61745d00000000000000000000000005000000782e6e70799bec17ea1b10c9c850c650ad9e925a9c5c"
      "a46ea5a06e9366a2aea3a09e965f54529498179f5f94920a12774bcc294e058a17672416a402f91a463a0ac69a3a0ab50a64032e"
      "063068b007120e4004c40d40bcc00100504b07084fe9002a5500000098000000504b010214031400080008002e61745d4fe9002a"
      "5500000098000000050000000000000000000000800100000000782e6e7079504b05060000000001000100330000008800000000"
      "00");
}

}  // namespace attend::tests

#endif  // ATTEND_TESTS_TOOLS_IO_BUILD_FILES_H_
