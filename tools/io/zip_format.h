// Numbers of the zip format, with their sections in APPNOTE.TXT 6.3.
#ifndef ATTEND_TOOLS_IO_ZIP_FORMAT_H_
#define ATTEND_TOOLS_IO_ZIP_FORMAT_H_

#include <cstddef>
#include <cstdint>

namespace attend::io::zip_format {

inline constexpr std::uint32_t kLocalHeader = 0x04034b50;     // 4.3.7
inline constexpr std::uint32_t kDirectoryEntry = 0x02014b50;  // 4.3.12
inline constexpr std::uint32_t kEnd64 = 0x06064b50;           // 4.3.14, zip64 end of central directory record
inline constexpr std::uint32_t kEnd64Locator = 0x07064b50;    // 4.3.15
inline constexpr std::uint32_t kEnd = 0x06054b50;             // 4.3.16, end of central directory record

// Sizes of the fixed parts.
inline constexpr std::size_t kLocalHeaderBytes = 30;
inline constexpr std::size_t kEnd64Bytes = 56;
inline constexpr std::size_t kEnd64LocatorBytes = 20;
inline constexpr std::size_t kEndBytes = 22;
inline constexpr std::size_t kMaxCommentBytes = 0xFFFF;

inline constexpr std::uint16_t kEncryptedFlag = 1U << 0U;   // 4.4.4
inline constexpr std::uint16_t kDescriptorFlag = 1U << 3U;  // CRC and sizes follow the data; the local header has zeros
inline constexpr std::uint16_t kUtf8Flag = 1U << 11U;

inline constexpr std::uint16_t kStored = 0;  // 4.4.5
inline constexpr std::uint16_t kDeflated = 8;

inline constexpr std::uint16_t kZip64Extra = 0x0001;  // 4.5.3
// A field with all bits set has its value in a zip64 record (4.4.1.4).
inline constexpr std::uint16_t kElsewhere16 = 0xFFFF;
inline constexpr std::uint32_t kElsewhere32 = 0xFFFFFFFF;

inline constexpr std::uint16_t kVersionZip64 = 45;  // 4.4.3.2

}  // namespace attend::io::zip_format

#endif  // ATTEND_TOOLS_IO_ZIP_FORMAT_H_
