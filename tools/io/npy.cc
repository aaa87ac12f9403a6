// Opening .npy files, versions 1.0, 2.0 and 3.0: magic, version, length, header, data.
#include <algorithm>
#include <array>
#include <map>

#include "attend/tensor_view.h"
#include "tools/io/file.h"
#include "tools/io/little_endian.h"
#include "tools/io/message.h"
#include "tools/io/npy_header.h"
#include "tools/io/stored_tensor.h"

namespace attend::io {
namespace {

// A plain array's header has about a hundred bytes; structured types, which are not read, have more. numpy itself stops
// at 10000 unless told to trust the file.
constexpr std::uint64_t kMaxHeaderBytes = std::uint64_t{1} << 20U;

// Version 1 states the header's length in 16 bits, 2 and 3 in 32; version 3's header is UTF-8 instead of latin-1, which
// is the same for what is read here.
std::uint64_t read_header_length(ByteStream& stream, const std::string& label) {
  std::array<std::byte, 8> preamble{};
  if (stream.remaining() < preamble.size()) {
    fail(label, "is not a .npy file: " + std::to_string(stream.remaining()) + " bytes long");
  }
  stream.read(preamble);
  if (std::string_view(reinterpret_cast<const char*>(preamble.data()), kNpyMagic.size()) != kNpyMagic) {
    fail(label, "is not a .npy file: it does not begin with '\\x93NUMPY'");
  }
  const int major = std::to_integer<int>(preamble[6]);
  const int minor = std::to_integer<int>(preamble[7]);
  if (major < 1 || major > 3 || minor != 0) {
    fail(label, ".npy version " + std::to_string(major) + "." + std::to_string(minor) + ", expected 1.0, 2.0 or 3.0");
  }
  std::array<std::byte, 4> length{};
  stream.read(std::span(length).first(major == 1 ? 2 : 4));
  return load_le<std::uint32_t>(length.data());
}

NpyHeader read_header(ByteStream& stream, const std::string& label) {
  const std::uint64_t length = read_header_length(stream, label);
  if (length > stream.remaining() || length > kMaxHeaderBytes) {
    fail(label, ".npy header of " + std::to_string(length) + " bytes, expected at most " +
                    std::to_string(std::min(stream.remaining(), kMaxHeaderBytes)));
  }
  std::string text(static_cast<std::size_t>(length), '\0');
  stream.read(std::as_writable_bytes(std::span<char>(text)));
  return parse_npy_header(text, label);
}

// "<f4": byte order, kind, bytes (numpy's array interface, typestr). '=' is the byte order of a machine unknown.
void set_type(const NpyHeader& header, StoredTensor& tensor) {
  static const std::map<std::string, ElementType, std::less<>> kTypes = {
      {"f2", ElementType::kFloat16}, {"f4", ElementType::kFloat32}, {"f8", ElementType::kFloat64},
      {"i4", ElementType::kInt32},   {"i8", ElementType::kInt64},
  };
  const std::string& descr = header.descr;
  if (!header.structured && (descr.starts_with('<') || descr.starts_with('>'))) {
    const auto found = kTypes.find(std::string_view(descr).substr(1));
    if (found != kTypes.end()) {
      tensor.type = found->second;
      tensor.type_name = to_string(found->second);
      tensor.big_endian = descr.front() == '>';
      return;
    }
  }
  const bool object = !header.structured && descr.find('O') != std::string::npos;
  const std::string kind = header.structured ? "structured dtype " : object ? "Python object dtype " : "dtype ";
  tensor.type_name = kind + in_quotes(descr);
}

}  // namespace

StoredTensor open_npy_stream(std::string label, std::unique_ptr<ByteStream> stream) {
  StoredTensor tensor;
  tensor.label = std::move(label);
  NpyHeader header = read_header(*stream, tensor.label);
  tensor.sizes = std::move(header.shape);
  tensor.fortran_order = header.fortran_order;
  set_type(header, tensor);
  if (tensor.type != ElementType::kOther) {
    const std::uint64_t expected = checked_num_bytes(tensor.label, tensor.sizes, bits_per_element(tensor.type));
    if (stream->remaining() != expected) {
      fail(tensor.label, std::to_string(stream->remaining()) + " bytes of data, expected " + std::to_string(expected) +
                             " for " + tensor.type_name + " of shape " +
                             attend::to_string(std::span<const std::int64_t>(tensor.sizes)));
    }
  }
  tensor.data = std::move(stream);
  return tensor;
}

StoredTensor open_npy(const std::string& path) {
  auto file = std::make_shared<const File>(path);
  const std::uint64_t num_bytes = file->size();
  std::string label = file->label();
  auto stream = std::make_unique<FileRange>(std::move(file), label, 0, num_bytes);
  return open_npy_stream(std::move(label), std::move(stream));
}

}  // namespace attend::io
