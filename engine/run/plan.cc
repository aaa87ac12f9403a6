// The public Plan and its workspace.
#include "attend/plan.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>

#include "engine/base/memory.h"
#include "engine/base/message.h"
#include "engine/plan/planner.h"
#include "engine/run/key_side.h"
#include "engine/run/run_plan.h"

namespace attend {

namespace {

void check_workspace(const detail::PlanImpl& plan, const Workspace& workspace) {
  if (workspace.size() >= plan.layout.total) return;
  fail("workspace has ", workspace.size(), " bytes, expected at least ", plan.layout.total,
       ", the plan's workspace_bytes()");
}

void check_counting(const detail::PlanImpl& plan, const Workspace& workspace) {
  if (!plan.options.count_tiers) fail("count_tiers is not set, expected a plan made with PlanOptions::count_tiers");
  check_workspace(plan, workspace);
}

}  // namespace

void Plan::run(const Inputs& inputs, const Outputs& outputs, Workspace& workspace, Executor& executor) const {
  check_workspace(*impl_, workspace);
  if (inputs.prepared == nullptr) {
    return detail::run_plan(*impl_, inputs, nullptr, outputs, workspace.data(), executor);
  }
  const PreparedKeys& prepared = *inputs.prepared;
  const detail::PreparedView view{prepared.memory_.data(), prepared.plan_.get(), prepared.batch_, prepared.num_keys_};
  detail::run_plan(*impl_, inputs, &view, outputs, workspace.data(), executor);
}

void Plan::run(const Inputs& inputs, const Outputs& outputs, Workspace& workspace) const {
  SerialExecutor serial;
  run(inputs, outputs, workspace, serial);
}

void Plan::prepare(const KeyInputs& inputs, PreparedKeys& prepared, Workspace& workspace, Executor& executor) const {
  add_keys(inputs, prepared, workspace, executor, false);
}

void Plan::append(const KeyInputs& inputs, PreparedKeys& prepared, Workspace& workspace, Executor& executor) const {
  add_keys(inputs, prepared, workspace, executor, true);
}

void Plan::prepare(const KeyInputs& inputs, PreparedKeys& prepared, Workspace& workspace) const {
  SerialExecutor serial;
  prepare(inputs, prepared, workspace, serial);
}

void Plan::append(const KeyInputs& inputs, PreparedKeys& prepared, Workspace& workspace) const {
  SerialExecutor serial;
  append(inputs, prepared, workspace, serial);
}

void Plan::add_keys(const KeyInputs& inputs, PreparedKeys& prepared, Workspace& workspace, Executor& executor,
                    bool append) const {
  check_workspace(*impl_, workspace);
  if (prepared.plan_ != impl_) fail("prepared was made for another plan, expected this one or a copy of it");
  const detail::BoundKeys keys = detail::bind_keys(*impl_, inputs);
  const std::int64_t before = append ? prepared.num_keys_ : 0, room = impl_->shape.num_keys - before;
  if (append && prepared.batch_ == 0 && keys.batch > 0)
    fail("prepared holds nothing, expected keys that were prepared first");
  if (append && keys.batch != prepared.batch_) {
    fail("keys has ", keys.batch, " batch entries, expected ", prepared.batch_, ", those prepared");
  }
  if (keys.num_keys > room) {
    fail("num_keys is ", keys.num_keys, ", expected at most ", room, ": the plan was made for ", impl_->shape.num_keys,
         " and ", before, " are prepared");
  }
  const detail::PreparedView view{prepared.memory_.data(), impl_.get(), keys.batch, before + keys.num_keys};
  if (!append) {
    std::fill_n(view.lens(), keys.batch, 0);
    auto* finite = detail::prepared_side(*impl_, view.memory).values_finite;
    if (finite != nullptr) std::fill_n(finite, keys.batch * impl_->num_kv_heads, 1);
  }
  prepared.batch_ = prepared.num_keys_ = 0;  // what a failure leaves
  detail::prepare_keys(*impl_, keys, view, workspace.data(), executor);
  prepared.batch_ = view.batch;
  prepared.num_keys_ = view.num_keys;
}

std::size_t Plan::prepared_bytes() const noexcept { return impl_->prepared.total; }

PreparedKeys::PreparedKeys(const Plan& plan) : plan_(plan.impl_), memory_(plan.prepared_bytes()) {}

PreparedKeys::PreparedKeys(const Plan& plan, std::span<std::byte> memory) : plan_(plan.impl_), memory_(memory) {
  if (memory_.size() < plan.prepared_bytes()) {
    fail("memory has ", memory_.size(), " bytes from its first multiple of ", Workspace::kAlignment,
         " on, expected at least ", plan.prepared_bytes(), ", the plan's prepared_bytes()");
  }
}

PreparedKeys::PreparedKeys(PreparedKeys&& other) noexcept
    : plan_(std::move(other.plan_)),
      memory_(std::move(other.memory_)),
      batch_(std::exchange(other.batch_, 0)),
      num_keys_(std::exchange(other.num_keys_, 0)) {}

PreparedKeys& PreparedKeys::operator=(PreparedKeys&& other) noexcept {
  PreparedKeys moved(std::move(other));
  std::swap(plan_, moved.plan_);
  std::swap(memory_, moved.memory_);
  std::swap(batch_, moved.batch_);
  std::swap(num_keys_, moved.num_keys_);
  return *this;
}

std::int64_t PreparedKeys::len(std::int64_t b) const noexcept {
  if (b < 0 || b >= batch_) return 0;
  return detail::PreparedView{memory_.data(), plan_.get(), batch_, num_keys_}.lens()[b];
}

TierCounts Plan::tier_counts(const Workspace& after_run) const {
  check_counting(*impl_, after_run);
  return detail::tier_counts(*impl_, after_run.data());
}

std::string Plan::explain(const Workspace& after_run) const {
  const TierCounts counts = tier_counts(after_run);
  return detail::explain(*impl_, &counts);
}
std::string Plan::explain() const { return detail::explain(*impl_, nullptr); }
std::span<const std::string> Plan::candidates() const noexcept { return impl_->candidates; }
std::string_view Plan::path() const noexcept { return impl_->path; }
std::string_view Plan::target_name() const noexcept { return impl_->kernels->name; }
std::size_t Plan::workspace_bytes() const noexcept { return impl_->layout.total; }
const Shape& Plan::shape() const noexcept { return impl_->shape; }
std::int64_t Plan::output_size() const noexcept { return impl_->output_size; }
std::int64_t Plan::weight_heads() const noexcept {
  return impl_->layer->is_multi_head || impl_->shape.num_heads > 1 ? impl_->num_heads : 0;
}

Workspace::Workspace(std::size_t bytes) : size_(bytes) {
  owned_ = allocate_memory(bytes);
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

Workspace::~Workspace() {
  if (owned_ != nullptr) free_memory(owned_, size_);
}

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
