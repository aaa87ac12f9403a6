#include "attend/tensor.h"

#include "engine/base/message.h"
#include "engine/view/check.h"

namespace attend {
namespace {

// A view of the tensor reads nothing beside its data.
void check_tensor(const Tensor& tensor, const std::string& name) {
  if (tensor.sizes.size() > static_cast<std::size_t>(kMaxRank)) {
    fail(name, " is ", to_string(tensor.sizes), ", expected at most ", kMaxRank, " axes");
  }
  const std::int64_t count = count_elements(tensor.sizes, name);
  const bool is_nothing = tensor.sizes.empty() && tensor.data.empty();
  if (is_nothing || tensor.data.size() == static_cast<std::uint64_t>(count)) return;
  fail(name, " is ", to_string(tensor.sizes), " with data of ", tensor.data.size(), " elements, expected ", count);
}

}  // namespace

// NOLINTNEXTLINE(performance-unnecessary-value-param): both are moved into the map
void Parameters::insert(std::string name, Tensor tensor) {
  check_tensor(tensor, (source_.empty() ? "parameters" : source_) + ": " + name);
  const auto [place, inserted] = tensors_.try_emplace(std::move(name), std::move(tensor));
  if (!inserted) fail(source_.empty() ? "parameters" : source_, ": two tensors are named ", place->first);
}

bool Parameters::contains(std::string_view name) const { return tensors_.find(name) != tensors_.end(); }

TensorView<const float> Parameters::find(std::string_view name) const {
  const auto place = tensors_.find(name);
  return place == tensors_.end() ? TensorView<const float>() : place->second.view();
}

std::vector<std::string> Parameters::names() const {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : tensors_) names.push_back(name);
  return names;
}

Parameters Parameters::with_prefix(std::string_view prefix) const {
  Parameters result(source_.empty() ? std::string(prefix) : source_ + ":" + std::string(prefix));
  for (const auto& [name, tensor] : tensors_) {
    if (std::string_view(name).starts_with(prefix)) result.insert(name.substr(prefix.size()), tensor);
  }
  if (result.empty()) fail(source_.empty() ? "parameters" : source_, ": no tensor's name starts with \"", prefix, "\"");
  return result;
}

}  // namespace attend
