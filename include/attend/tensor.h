// A small owning tensor and a named set of them: what a checkpoint is made of.
#ifndef ATTEND_TENSOR_H_
#define ATTEND_TENSOR_H_

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "attend/tensor_view.h"

namespace attend {

// Dense row-major memory with sizes. For weights and for files; runs take views.
//   view: of this memory, valid until data is resized, moved or destroyed. That data has as many elements as the sizes
//     say is not checked; sizes that no view can have are an Error.
template <class T>
struct BasicTensor {
  std::vector<std::int64_t> sizes;
  std::vector<T> data;

  TensorView<const T> view() const { return TensorView<const T>(data.data(), std::span<const std::int64_t>(sizes)); }
  TensorView<T> view() { return TensorView<T>(data.data(), std::span<const std::int64_t>(sizes)); }
};
using Tensor = BasicTensor<float>;
using LengthsTensor = BasicTensor<std::int32_t>;

// Named tensors, as loaded from a checkpoint: "W_q.weight" -> (U, Dq). Layers look their parameters up by the usual
// names. All have as many elements as their sizes say.
//   Thread-safety: a value; const functions may be called from many threads. contains, find, empty and source allocate
//     nothing.
class Parameters {
 public:
  Parameters() = default;
  // source: where the tensors come from (file and prefix), named in error messages.
  explicit Parameters(std::string source) : source_(std::move(source)) {}

  // Adds a tensor. Throws Error, naming it, if the name is taken, for more than kMaxRank sizes or a negative one, and
  // for more or fewer elements than the sizes multiply to. Without sizes: one element, or none, which is no tensor.
  void insert(std::string name, Tensor tensor);

  bool contains(std::string_view name) const;
  // The tensor of that name, or an empty view. Valid while these parameters live and are not assigned to; inserting
  // others does not touch it.
  TensorView<const float> find(std::string_view name) const;
  // Names in alphabetical order.
  std::vector<std::string> names() const;
  // Those whose name starts with prefix, the prefix cut off, copied: io::load(path, prefix) reads only these and copies
  // nothing. Throws Error if there are none.
  Parameters with_prefix(std::string_view prefix) const;

  bool empty() const noexcept { return tensors_.empty(); }
  const std::string& source() const noexcept { return source_; }

 private:
  std::string source_;
  std::map<std::string, Tensor, std::less<>> tensors_;
};

}  // namespace attend

#endif  // ATTEND_TENSOR_H_
