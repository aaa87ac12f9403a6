// Opening .safetensors files: 8 bytes of header length, a JSON header, then the tensors' bytes side by side.
#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "attend/tensor_view.h"
#include "tools/io/file.h"
#include "tools/io/little_endian.h"
#include "tools/io/message.h"
#include "tools/io/safetensors_header.h"
#include "tools/io/stored_tensor.h"

namespace attend::io {
namespace {

constexpr std::uint64_t kLengthBytes = 8;
// The reference reader's bound (MAX_HEADER_SIZE in safetensors/src/tensor.rs).
constexpr std::uint64_t kMaxHeaderBytes = 100'000'000;

// Element sizes of every type that is known, so that data_offsets are checked for those too that are not read. A type
// of a later day spoils only its own tensor.
struct Dtype {
  std::uint64_t bits;
  ElementType type;
};
const std::map<std::string, Dtype, std::less<>>& dtypes() {
  constexpr ElementType kOther = ElementType::kOther;
  static const std::map<std::string, Dtype, std::less<>> kDtypes = {
      {"F16", {16, ElementType::kFloat16}},
      {"BF16", {16, ElementType::kBfloat16}},
      {"F32", {32, ElementType::kFloat32}},
      {"F64", {64, ElementType::kFloat64}},
      {"I32", {32, ElementType::kInt32}},
      {"I64", {64, ElementType::kInt64}},
      {"BOOL", {8, kOther}},
      {"U8", {8, kOther}},
      {"I8", {8, kOther}},
      {"I16", {16, kOther}},
      {"U16", {16, kOther}},
      {"U32", {32, kOther}},
      {"U64", {64, kOther}},
      {"C64", {64, kOther}},
      {"F4", {4, kOther}},
      {"F6_E2M3", {6, kOther}},
      {"F6_E3M2", {6, kOther}},
      {"F8_E5M2", {8, kOther}},
      {"F8_E4M3", {8, kOther}},
      {"F8_E5M2FNUZ", {8, kOther}},
      {"F8_E4M3FNUZ", {8, kOther}},
      {"F8_E8M0", {8, kOther}},
  };
  return kDtypes;
}

std::string offsets_text(const SafetensorsEntry& entry) {
  return "data_offsets [" + std::to_string(entry.begin) + ", " + std::to_string(entry.end) + "]";
}

void check_entry(const SafetensorsEntry& entry, const std::string& label, std::uint64_t data_bytes) {
  if (entry.begin > entry.end || entry.end > data_bytes) {
    fail(label, offsets_text(entry) + ", expected in order and at most " + std::to_string(data_bytes) +
                    ", the bytes after the header");
  }
  const auto found = dtypes().find(entry.dtype);
  if (found == dtypes().end()) return;
  const std::uint64_t expected = checked_num_bytes(label, entry.shape, found->second.bits);
  if (entry.end - entry.begin != expected) {
    fail(label, offsets_text(entry) + " hold " + std::to_string(entry.end - entry.begin) + " bytes, expected " +
                    std::to_string(expected) + " for " + entry.dtype + " of shape " +
                    attend::to_string(std::span<const std::int64_t>(entry.shape)));
  }
}

// "The byte buffer needs to be entirely indexed, and cannot contain holes" (README, "Format"); nor may tensors overlap.
void check_coverage(const SafetensorsHeader& header, const std::string& path, std::uint64_t data_bytes) {
  std::vector<std::pair<const std::string*, const SafetensorsEntry*>> in_order;
  for (const auto& [name, entry] : header) in_order.emplace_back(&name, &entry);
  std::sort(in_order.begin(), in_order.end(), [](const auto& a, const auto& b) {
    return std::pair(a.second->begin, a.second->end) < std::pair(b.second->begin, b.second->end);
  });
  std::uint64_t covered = 0;
  for (const auto& [name, entry] : in_order) {
    if (entry->begin != covered) {
      const std::string wrong =
          entry->begin < covered ? " overlap the tensor before" : " leave a gap after the tensor before";
      fail(tensor_label(path, *name),
           offsets_text(*entry) + wrong + ", expected to begin at " + std::to_string(covered));
    }
    covered = entry->end;
  }
  if (covered != data_bytes) {
    fail(printable_path(path), std::to_string(data_bytes) + " bytes after the header, expected " +
                                   std::to_string(covered) + ", the end of the last tensor");
  }
}

class Safetensors final : public TensorFile {
 public:
  explicit Safetensors(std::shared_ptr<const File> file) : file_(std::move(file)) {
    read_header();
    const std::uint64_t data_bytes = file_->size() - data_offset_;
    for (const auto& [name, entry] : header_) check_entry(entry, tensor_label(file_->path(), name), data_bytes);
    check_coverage(header_, file_->path(), data_bytes);
  }

  std::vector<std::string> names() const override {
    std::vector<std::string> names;
    for (const auto& [name, entry] : header_) names.push_back(name);
    return names;
  }

  StoredTensor open(const std::string& name) const override {
    const auto found = header_.find(name);
    if (found == header_.end()) {
      fail(file_->label(), "no tensor " + in_quotes(name) + "; there are: " + list_of(names()));
    }
    const SafetensorsEntry& entry = found->second;
    StoredTensor tensor;
    tensor.label = tensor_label(file_->path(), name);
    const auto dtype = dtypes().find(entry.dtype);
    tensor.type = dtype == dtypes().end() ? ElementType::kOther : dtype->second.type;
    tensor.type_name =
        tensor.type == ElementType::kOther ? "dtype " + printable(entry.dtype) : std::string(to_string(tensor.type));
    tensor.sizes = entry.shape;
    tensor.data = std::make_unique<FileRange>(file_, tensor.label, data_offset_ + entry.begin, entry.end - entry.begin);
    return tensor;
  }

 private:
  void read_header() {
    const std::string& label = file_->label();
    if (file_->size() < kLengthBytes) {
      fail(label, "is not a .safetensors file: " + std::to_string(file_->size()) + " bytes long");
    }
    std::array<std::byte, kLengthBytes> length_bytes{};
    file_->read_at(0, length_bytes);
    const std::uint64_t length = load_le<std::uint64_t>(length_bytes.data());
    const std::uint64_t most = std::min(file_->size() - kLengthBytes, kMaxHeaderBytes);
    if (length > most) {
      fail(label, "header of " + std::to_string(length) + " bytes, expected at most " + std::to_string(most));
    }
    std::string json(static_cast<std::size_t>(length), '\0');
    file_->read_at(kLengthBytes, std::as_writable_bytes(std::span<char>(json)));
    header_ = parse_safetensors_header(json, file_->path());
    data_offset_ = kLengthBytes + length;
  }

  std::shared_ptr<const File> file_;
  SafetensorsHeader header_;
  std::uint64_t data_offset_ = 0;
};

}  // namespace

std::unique_ptr<TensorFile> open_safetensors(const std::string& path) {
  return std::make_unique<Safetensors>(std::make_shared<const File>(path));
}

}  // namespace attend::io
