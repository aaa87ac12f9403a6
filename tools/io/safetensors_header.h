// The header of a .safetensors file: https://github.com/huggingface/safetensors, README.md, "Format".
#ifndef ATTEND_TOOLS_IO_SAFETENSORS_HEADER_H_
#define ATTEND_TOOLS_IO_SAFETENSORS_HEADER_H_

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace attend::io {

struct SafetensorsEntry {
  std::string dtype;  // "F32", as written
  std::vector<std::int64_t> shape;
  std::uint64_t begin = 0;  // data_offsets, counted from the end of the header
  std::uint64_t end = 0;
};
using SafetensorsHeader = std::map<std::string, SafetensorsEntry>;

// Parses the JSON text of a header. Strict: one object of objects with exactly the keys dtype, shape and data_offsets,
// plus at most one __metadata__ object of strings, which is ignored; duplicate keys are an Error (the format forbids
// them, and readers would disagree on which one counts). Values are checked for their form only. Throws Error that
// names the file and the tensor.
SafetensorsHeader parse_safetensors_header(std::string_view json, const std::string& path);

}  // namespace attend::io

#endif  // ATTEND_TOOLS_IO_SAFETENSORS_HEADER_H_
