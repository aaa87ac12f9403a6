// The readers of attend/io.h: which format, which tensor, which element type.
#include <algorithm>
#include <memory>
#include <optional>
#include <string>

#include "attend/io.h"
#include "tools/io/convert.h"
#include "tools/io/guard.h"
#include "tools/io/message.h"
#include "tools/io/spec.h"
#include "tools/io/stored_tensor.h"

namespace attend::io {
namespace {

std::unique_ptr<TensorFile> open_tensor_file(const std::string& path) {
  if (path.ends_with(".npz")) return open_npz(path);
  if (path.ends_with(".safetensors")) return open_safetensors(path);
  fail(printable_path(path), "unknown file type, expected .npz or .safetensors");
}

StoredTensor open_spec(const std::string& text) {
  const Spec spec = parse_spec(text);
  if (spec.name) return open_tensor_file(spec.path)->open(*spec.name);
  if (text.ends_with(".npy")) return open_npy(text);
  if (text.ends_with(".npz") || text.ends_with(".safetensors")) {
    const std::unique_ptr<TensorFile> file = open_tensor_file(text);
    fail(printable_path(text), "holds tensors by name, expected 'file:name' with one of: " + list_of(file->names()));
  }
  fail(printable_path(text), "unknown file type, expected file.npy, file.npz:name or file.safetensors:name");
}

std::vector<std::string> names_with_prefix(const TensorFile& file, const std::string& path, std::string_view prefix) {
  const std::vector<std::string> all = file.names();
  std::vector<std::string> names;
  for (const std::string& name : all) {
    if (name.starts_with(prefix)) names.push_back(name);
  }
  if (names.empty()) {
    const std::string wanted = prefix.empty() ? "" : " whose name starts with " + in_quotes(prefix);
    fail(printable_path(path), "no tensor" + wanted + "; there are: " + list_of(all));
  }
  return names;
}

// As messages name it: "checkpoint.safetensors, prefix 'encoder.'".
std::string source_of(const std::string& path, std::string_view prefix) {
  return printable_path(path) + (prefix.empty() ? "" : ", prefix " + in_quotes(prefix));
}

}  // namespace

Spec parse_spec(const std::string& spec) {
  std::size_t colon = std::string::npos;
  for (const std::string_view ending : {".npz:", ".safetensors:"}) {
    const std::size_t found = spec.find(ending);
    if (found != std::string::npos) colon = std::min(colon, found + ending.size() - 1);
  }
  if (colon == std::string::npos) return {spec, std::nullopt};
  return {spec.substr(0, colon), spec.substr(colon + 1)};
}

Tensor load_tensor(const std::string& spec, Notices* notices) {
  return guarded(spec, [&] {
    StoredTensor stored = open_spec(spec);
    return read_floats(stored, notices);
  });
}

LengthsTensor load_lengths(const std::string& spec, Notices* notices) {
  return guarded(spec, [&] {
    StoredTensor stored = open_spec(spec);
    return read_lengths(stored, notices);
  });
}

std::vector<std::int64_t> load_sizes(const std::string& spec) {
  return guarded(spec, [&] { return read_sizes(open_spec(spec)); });
}

Parameters load(const std::string& path, std::string_view prefix, Notices* notices) {
  return guarded(path, [&] {
    const std::unique_ptr<TensorFile> file = open_tensor_file(path);
    Parameters parameters(source_of(path, prefix));
    std::vector<std::string> left_out;
    for (const std::string& name : names_with_prefix(*file, path, prefix)) {
      StoredTensor stored = file->open(name);
      if (is_float(stored.type)) {
        parameters.insert(name.substr(prefix.size()), read_floats(stored, notices));
      } else {
        left_out.push_back(stored.label + ": " + stored.type_name + " left out, expected floats");
      }
    }
    if (parameters.empty()) fail(source_of(path, prefix), "no float tensors; " + left_out.front());
    if (notices != nullptr) notices->insert(notices->end(), left_out.begin(), left_out.end());
    return parameters;
  });
}

}  // namespace attend::io
