#include "tools/io/inflate.h"

#include <algorithm>
#include <limits>

#include "tools/io/message.h"

namespace attend::io {
namespace {

constexpr std::size_t kInputBytes = std::size_t{1} << 16U;

// zlib counts in unsigned int: longer pieces are given to it in steps.
constexpr std::size_t kMaxZlibBytes = std::numeric_limits<uInt>::max();

// Deflate's best: one bit of length code and one of distance code give 258 bytes (RFC 1951, 3.2.5), so a byte of them
// never gives more than four times that.
constexpr std::uint64_t kMaxInflation = 4 * 258;

}  // namespace

InflateStream::InflateStream(std::string label, std::unique_ptr<ByteStream> deflated, std::uint64_t num_bytes)
    : label_(std::move(label)), deflated_(std::move(deflated)), remaining_(num_bytes), input_(kInputBytes) {
  const std::uint64_t num_deflated = deflated_->remaining();
  if (num_bytes / kMaxInflation > num_deflated) {
    fail(label_, "claims that " + std::to_string(num_deflated) + " deflated bytes hold " + std::to_string(num_bytes) +
                     " bytes, expected at most " + std::to_string(kMaxInflation) + " times as many");
  }
  // Negative window bits: raw deflate, without zlib's own header (APPNOTE.TXT 4.4.5, method 8).
  if (inflateInit2(&zlib_, -MAX_WBITS) != Z_OK) fail(label_, "cannot start to inflate: not enough memory");
}

InflateStream::~InflateStream() { inflateEnd(&zlib_); }

void InflateStream::read(std::span<std::byte> out) {
  if (out.size() > remaining_) {
    fail(label_, "truncated: " + std::to_string(remaining_) + " bytes left, expected " + std::to_string(out.size()));
  }
  while (!out.empty()) {
    const std::size_t num_bytes = inflate_some(out.first(std::min(out.size(), kMaxZlibBytes)));
    if (num_bytes == 0) {
      fail(label_,
           "deflated data ends " + std::to_string(remaining_) + " bytes before the size that the zip directory states");
    }
    out = out.subspan(num_bytes);
    remaining_ -= num_bytes;
  }
}

void InflateStream::finish() {
  std::byte beyond{};
  if (inflate_some({&beyond, 1}) != 0) {
    fail(label_, "deflated data goes on beyond the size that the zip directory states");
  }
  const std::uint64_t num_unused = zlib_.avail_in + deflated_->remaining();
  if (num_unused != 0) fail(label_, std::to_string(num_unused) + " bytes follow the deflated data, expected none");
}

// Inflates at least one byte, unless the deflated data has ended: then returns 0.
std::size_t InflateStream::inflate_some(std::span<std::byte> out) {
  zlib_.next_out = reinterpret_cast<Bytef*>(out.data());
  zlib_.avail_out = static_cast<uInt>(out.size());
  while (!ended_ && zlib_.avail_out == out.size()) {
    if (zlib_.avail_in == 0) refill();
    const int result = ::inflate(&zlib_, Z_NO_FLUSH);
    ended_ = result == Z_STREAM_END;
    // Z_BUF_ERROR: no progress without more input. Input that is at its end too means a truncated stream.
    const bool starved = result == Z_BUF_ERROR && deflated_->remaining() == 0;
    if (starved) fail(label_, "deflated data is truncated");
    if (result == Z_MEM_ERROR) fail(label_, "cannot inflate: not enough memory");
    if (result != Z_OK && result != Z_STREAM_END && result != Z_BUF_ERROR) fail(label_, "deflated data is corrupt");
  }
  return out.size() - zlib_.avail_out;
}

void InflateStream::refill() {
  const auto num_bytes = static_cast<std::size_t>(std::min<std::uint64_t>(input_.size(), deflated_->remaining()));
  deflated_->read(std::span(input_).first(num_bytes));
  zlib_.next_in = reinterpret_cast<Bytef*>(input_.data());
  zlib_.avail_in = static_cast<uInt>(num_bytes);
}

CheckedStream::CheckedStream(std::string label, std::unique_ptr<ByteStream> bytes, std::uint32_t expected_crc)
    : label_(std::move(label)), bytes_(std::move(bytes)), expected_crc_(expected_crc) {}

void CheckedStream::read(std::span<std::byte> out) {
  bytes_->read(out);
  crc_ = update_crc(crc_, out);
}

void CheckedStream::finish() {
  bytes_->finish();
  if (crc_ != expected_crc_) {
    fail(label_, "CRC-32 is " + std::to_string(crc_) + ", expected " + std::to_string(expected_crc_) +
                     " from the zip directory: the data is damaged");
  }
}

std::uint32_t update_crc(std::uint32_t crc, std::span<const std::byte> bytes) {
  if (bytes.empty()) return crc;  // zlib takes a null pointer as "start anew"
  return static_cast<std::uint32_t>(::crc32_z(crc, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
}

}  // namespace attend::io
