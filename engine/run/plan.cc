// The public Plan and its workspace.
#include "attend/plan.h"

#include <cstdint>
#include <new>
#include <utility>

#include "engine/base/message.h"
#include "engine/plan/planner.h"
#include "engine/run/run_plan.h"

namespace attend {

void Plan::run(const Inputs& inputs, const Outputs& outputs, Workspace& workspace, Executor& executor) const {
  if (workspace.size() < workspace_bytes()) {
    fail("workspace has ", workspace.size(), " bytes, expected at least ", workspace_bytes(),
         ", the plan's workspace_bytes()");
  }
  detail::run_plan(*impl_, inputs, outputs, workspace.data(), executor);
}

void Plan::run(const Inputs& inputs, const Outputs& outputs, Workspace& workspace) const {
  SerialExecutor serial;
  run(inputs, outputs, workspace, serial);
}

std::string Plan::explain() const { return detail::explain(*impl_); }
std::string_view Plan::path() const noexcept { return impl_->path; }
std::string_view Plan::target_name() const noexcept { return impl_->kernels->name; }
std::size_t Plan::workspace_bytes() const noexcept { return impl_->layout.total; }
const Shape& Plan::shape() const noexcept { return impl_->shape; }
std::int64_t Plan::output_size() const noexcept { return impl_->output_size; }
std::int64_t Plan::weight_heads() const noexcept {
  return impl_->layer->is_multi_head || impl_->shape.num_heads > 1 ? impl_->num_heads : 0;
}

Workspace::Workspace(std::size_t bytes) : size_(bytes) {
  owned_ = ::operator new (bytes, std::align_val_t{kAlignment});
  data_ = static_cast<std::byte*>(owned_);
}

Workspace::Workspace(std::span<std::byte> memory) {
  void* start = memory.data();
  std::size_t space = memory.size();
  if (std::align(kAlignment, 0, start, space) != nullptr) {
    data_ = static_cast<std::byte*>(start);
    size_ = space;
  }
}

Workspace::~Workspace() { ::operator delete (owned_, std::align_val_t{kAlignment}); }

Workspace::Workspace(Workspace&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)),
      owned_(std::exchange(other.owned_, nullptr)) {}

Workspace& Workspace::operator=(Workspace&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  std::swap(owned_, other.owned_);
  return *this;
}

}  // namespace attend
