// Where a tensor is: file.npy, file.npz:name or file.safetensors:name.
#ifndef ATTEND_TOOLS_IO_SPEC_H_
#define ATTEND_TOOLS_IO_SPEC_H_

#include <optional>
#include <string>

namespace attend::io {

struct Spec {
  std::string path;
  std::optional<std::string> name;  // of a tensor among others in the file
};

// A file of many tensors ends at the first ".npz:" or ".safetensors:"; the name may hold anything, colons too.
Spec parse_spec(const std::string& spec);

}  // namespace attend::io

#endif  // ATTEND_TOOLS_IO_SPEC_H_
