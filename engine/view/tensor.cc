#include "attend/tensor.h"

#include "engine/base/message.h"

namespace attend {

// NOLINTNEXTLINE(performance-unnecessary-value-param): both are moved into the map
void Parameters::insert(std::string name, Tensor tensor) {
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
