// Files below tests/data, by name.
#ifndef ATTEND_TESTS_SUPPORT_NPZ_DATA_H_
#define ATTEND_TESTS_SUPPORT_NPZ_DATA_H_

#include <string>

#include "attend/io.h"
#include "attend/tensor.h"

namespace attend::tests {

inline std::string data_path(const std::string& name) { return std::string(ATTEND_TEST_DATA_DIR) + "/" + name; }

// One .npz below tests/data.
class NpzData {
 public:
  explicit NpzData(const std::string& name) : path_(data_path(name)) {}

  Tensor tensor(const std::string& name) const { return io::load_tensor(path_ + ":" + name); }
  LengthsTensor lengths(const std::string& name) const { return io::load_lengths(path_ + ":" + name); }
  bool contains(const std::string& name) const {
    try {
      io::load_sizes(path_ + ":" + name);
      return true;
    } catch (const Error&) {
      return false;
    }
  }
  // The tensor, or one without axes (its view is then made empty by view_or_none) when the file has none of that name.
  Tensor tensor_or_none(const std::string& name) const { return contains(name) ? tensor(name) : Tensor{}; }

 private:
  std::string path_;
};

inline TensorView<const float> view_or_none(const Tensor& tensor) {
  return tensor.sizes.empty() ? TensorView<const float>() : tensor.view();
}

}  // namespace attend::tests

#endif  // ATTEND_TESTS_SUPPORT_NPZ_DATA_H_
