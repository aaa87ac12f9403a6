// The writers of attend/io.h.
#include "tools/io/save.h"

#include <algorithm>
#include <array>
#include <bit>
#include <set>
#include <utility>
#include <vector>

#include "attend/io.h"
#include "tools/io/atomic_file.h"
#include "tools/io/guard.h"
#include "tools/io/inflate.h"
#include "tools/io/little_endian.h"
#include "tools/io/message.h"
#include "tools/io/npy_header.h"
#include "tools/io/utf8.h"
#include "tools/io/zip_writer.h"

namespace attend::io {
namespace {

using View = TensorView<const float>;

constexpr std::size_t kFloatsPerBuffer = std::size_t{1} << 14U;
constexpr std::size_t kMaxNameBytes = 0xFFFF - 4;  // zip's 16-bit length, less ".npy"

void check_view(const View& view, const std::string& label) {
  if (view.rank() == 0)
    fail(label, "cannot write: the view is empty, expected 1 to " + std::to_string(kMaxRank) + " axes");
  if (view.data() == nullptr && view.num_elements() > 0) fail(label, "cannot write: the view has sizes but no data");
}

// Gives write(bytes) all elements in C order, little-endian, a buffer at a time.
template <class Write>
void write_elements(const View& view, Write write) {
  std::vector<std::byte> buffer(kFloatsPerBuffer * sizeof(float));
  std::size_t count = 0;
  const auto flush = [&] {
    write(std::span<const std::byte>(buffer).first(count * sizeof(float)));
    count = 0;
  };
  std::array<std::int64_t, kMaxRank> index{};
  std::int64_t left = view.num_elements();
  while (left > 0) {
    const float value = *view.at(index[0], index[1], index[2], index[3]);
    store_le(buffer.data() + count * sizeof(float), std::bit_cast<std::uint32_t>(value));
    if (++count == kFloatsPerBuffer) flush();
    for (int axis = view.rank() - 1; axis >= 0; --axis) {  // as an odometer
      auto& digit = index[static_cast<std::size_t>(axis)];
      if (++digit < view.size(axis)) break;
      digit = 0;
    }
    --left;
  }
  flush();
}

void check_names(const std::string& path, const std::vector<std::pair<std::string, View>>& tensors) {
  std::set<std::string_view> names;
  for (const auto& [name, view] : tensors) {
    const std::string label = tensor_label(path, name);
    if (name.empty() || name.size() > kMaxNameBytes) {
      fail(label, "cannot write: name of " + std::to_string(name.size()) + " bytes, expected 1 to " +
                      std::to_string(kMaxNameBytes));
    }
    if (name.find('\0') != std::string::npos || find_invalid_utf8(name) != std::string::npos) {
      fail(label, "cannot write: the name is not UTF-8 without NUL");
    }
    if (!names.insert(name).second) fail(label, "cannot write: two tensors have this name");
    check_view(view, label);
  }
}

void write_npz_member(ZipWriter& zip, AtomicFile& file, const std::string& name, const View& view) {
  const std::string header = make_npy_header(view.sizes());
  // The CRC precedes the data in the file: one pass over the elements to know it, a second to write them.
  std::uint32_t crc = update_crc(0, std::as_bytes(std::span<const char>(header)));
  write_elements(view, [&](std::span<const std::byte> bytes) { crc = update_crc(crc, bytes); });
  const std::uint64_t data_bytes = static_cast<std::uint64_t>(view.num_elements()) * sizeof(float);
  zip.begin_member(name + ".npy", header.size() + data_bytes, crc);
  file.write(header);
  write_elements(view, [&](std::span<const std::byte> bytes) { file.write(bytes); });
}

}  // namespace

void write_npy(AtomicFile& file, TensorView<const float> view) {
  check_view(view, file.label());
  file.write(make_npy_header(view.sizes()));
  write_elements(view, [&](std::span<const std::byte> bytes) { file.write(bytes); });
}

void save_npy(const std::string& path, TensorView<const float> view) {
  guarded(path, [&] {
    AtomicFile file(path);
    write_npy(file, view);
    file.commit();
  });
}

void save_npz(const std::string& path, const std::vector<std::pair<std::string, TensorView<const float>>>& tensors) {
  guarded(path, [&] {
    check_names(path, tensors);
    AtomicFile file(path);
    ZipWriter zip(file);
    for (const auto& [name, view] : tensors) write_npz_member(zip, file, name, view);
    zip.finish();
    file.commit();
  });
}

void save_bytes(const std::string& path, std::string_view bytes) {
  guarded(path, [&] {
    AtomicFile file(path);
    file.write(bytes);
    file.commit();
  });
}

}  // namespace attend::io
