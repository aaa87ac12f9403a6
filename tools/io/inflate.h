// Streams over streams: what deflated bytes inflate to, and bytes whose CRC-32 is known.
#ifndef ATTEND_TOOLS_IO_INFLATE_H_
#define ATTEND_TOOLS_IO_INFLATE_H_

#include <zlib.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tools/io/byte_stream.h"

namespace attend::io {

// Raw deflate (RFC 1951) that claims to inflate to num_bytes. It holds one input buffer, never the whole; it stops at
// the claim, and finish() throws Error if the deflated bytes go on beyond it. The constructor throws Error for a claim
// that so many deflated bytes cannot hold, so that remaining() bounds allocations by the size of the file.
class InflateStream final : public ByteStream {
 public:
  InflateStream(std::string label, std::unique_ptr<ByteStream> deflated, std::uint64_t num_bytes);
  ~InflateStream() override;
  InflateStream(const InflateStream&) = delete;
  InflateStream& operator=(const InflateStream&) = delete;

  void read(std::span<std::byte> out) override;
  std::uint64_t remaining() const override { return remaining_; }
  void finish() override;

 private:
  std::size_t inflate_some(std::span<std::byte> out);
  void refill();

  std::string label_;
  std::unique_ptr<ByteStream> deflated_;
  std::uint64_t remaining_;
  std::vector<std::byte> input_;
  z_stream zlib_{};
  bool ended_ = false;
};

// The bytes of another stream; finish() throws Error unless their CRC-32 is the one expected.
class CheckedStream final : public ByteStream {
 public:
  CheckedStream(std::string label, std::unique_ptr<ByteStream> bytes, std::uint32_t expected_crc);

  void read(std::span<std::byte> out) override;
  std::uint64_t remaining() const override { return bytes_->remaining(); }
  void finish() override;

 private:
  std::string label_;
  std::unique_ptr<ByteStream> bytes_;
  std::uint32_t expected_crc_;
  std::uint32_t crc_ = 0;
};

// CRC-32 (ISO 3309, the one of zip) of crc's bytes followed by these; starts from 0.
std::uint32_t update_crc(std::uint32_t crc, std::span<const std::byte> bytes);

}  // namespace attend::io

#endif  // ATTEND_TOOLS_IO_INFLATE_H_
