#include "tools/attend/library_build.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <utility>
#include <vector>

#include "attend/attend_c.h"
#include "attend/error.h"

namespace attend::tools {
namespace {

struct CloseLibrary {
  void operator()(void* library) const { dlclose(library); }
};
using Library = std::unique_ptr<void, CloseLibrary>;

// Its own symbols first: where this program uses a shared library too, that is a third build.
Library load(const std::string& path) {
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) throw Error(path + ": no such file");
  // Without a directory the file would be looked for where the system keeps libraries.
  Library library(dlopen(std::filesystem::absolute(path).c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND));
  if (!library) throw Error(path + ": not a shared library that can be loaded: " + dlerror());
  return library;
}

// The C interface of a library.
class Functions {
 private:
  const std::string& path_;
  void* library_;

  template <class F>
  F find(const char* name) {
    void* symbol = dlsym(library_, (std::string("attend_") + name).c_str());
    if (symbol == nullptr) throw Error(path_ + ": no build of attend: it has no function attend_" + name);
    return reinterpret_cast<F>(symbol);
  }

 public:
  Functions(const std::string& path, void* library) : path_(path), library_(library) {}

  decltype(&attend_layer_create_additive) create_additive = find<decltype(create_additive)>("layer_create_additive");
  decltype(&attend_layer_create_dot) create_dot = find<decltype(create_dot)>("layer_create_dot");
  decltype(&attend_layer_create_bilinear) create_bilinear = find<decltype(create_bilinear)>("layer_create_bilinear");
  decltype(&attend_layer_create_gaussian) create_gaussian = find<decltype(create_gaussian)>("layer_create_gaussian");
  decltype(&attend_layer_create_multi_head) create_multi_head =
      find<decltype(create_multi_head)>("layer_create_multi_head");
  decltype(&attend_layer_destroy) destroy_layer = find<decltype(destroy_layer)>("layer_destroy");
  decltype(&attend_plan_create) create_plan = find<decltype(create_plan)>("plan_create");
  decltype(&attend_plan_explain) explain = find<decltype(explain)>("plan_explain");
  decltype(&attend_plan_destroy) destroy_plan = find<decltype(destroy_plan)>("plan_destroy");
  decltype(&attend_plan_workspace_bytes) workspace_bytes = find<decltype(workspace_bytes)>("plan_workspace_bytes");
  decltype(&attend_workspace_create_in) create_workspace = find<decltype(create_workspace)>("workspace_create_in");
  decltype(&attend_workspace_destroy) destroy_workspace = find<decltype(destroy_workspace)>("workspace_destroy");
  decltype(&attend_executor_create) create_executor = find<decltype(create_executor)>("executor_create");
  decltype(&attend_executor_destroy) destroy_executor = find<decltype(destroy_executor)>("executor_destroy");
  decltype(&attend_run) run = find<decltype(run)>("run");
};

template <class To, class View>
To to_c(const View& view) {
  To tensor{};
  tensor.data = view.data();
  tensor.rank = view.rank();
  std::copy(view.sizes().begin(), view.sizes().end(), tensor.sizes);
  std::copy(view.strides().begin(), view.strides().end(), tensor.strides);
  return tensor;
}

attend_shape to_c(const Shape& shape) {
  return {.batch = shape.batch,
          .num_queries = shape.num_queries,
          .num_keys = shape.num_keys,
          .query_size = shape.query_size,
          .key_size = shape.key_size,
          .value_size = shape.value_size,
          .num_heads = shape.num_heads,
          .num_kv_heads = shape.num_kv_heads};
}

}  // namespace

struct LibraryBuild::Impl {
  explicit Impl(std::string file) : path(std::move(file)), library(load(path)), functions(path, library.get()) {}
  ~Impl() {
    functions.destroy_executor(executor);
    functions.destroy_workspace(workspace);
    functions.destroy_plan(plan);
    functions.destroy_layer(layer);
  }
  Impl(const Impl&) = delete;

  void check(attend_status status) const {
    if (status != ATTEND_OK) throw Error(path + ": " + error.message);
  }

  void make_layer(const Layer& from) {
    const std::vector<std::string> names = from.parameters->names();
    std::vector<attend_parameter> parameters;
    for (const std::string& name : names) {
      parameters.push_back({name.c_str(), to_c<attend_tensor>(from.parameters->find(name))});
    }
    const auto scale_of = [](const std::optional<float>& scale) { return scale ? &*scale : nullptr; };
    switch (from.kind) {
      case LayerKind::kAdditive:
        return check(functions.create_additive(parameters.data(), parameters.size(), &layer, &error));
      case LayerKind::kBilinear:
        return check(
            functions.create_bilinear(&from.bilinear.scale, parameters.data(), parameters.size(), &layer, &error));
      case LayerKind::kGaussian:
        return check(functions.create_gaussian(from.gaussian.sigma, &layer, &error));
      case LayerKind::kMultiHead: {
        const attend_multi_head_options options{
            .num_heads = from.multi_head.num_heads,
            .scoring = from.multi_head.scoring == Scoring::kAdditive ? ATTEND_SCORING_ADDITIVE : ATTEND_SCORING_DOT,
            .scale = scale_of(from.multi_head.scale),
            .num_kv_heads = from.multi_head.num_kv_heads};
        return check(functions.create_multi_head(&options, parameters.data(), parameters.size(), &layer, &error));
      }
      default:
        return check(functions.create_dot(scale_of(from.dot.scale), &layer, &error));
    }
  }

  void make_plan(const Problem& problem) {
    const PlanOptions& from = problem.options;
    const std::string target = from.target.name();
    const attend_shape shape = to_c(problem.shape);
    attend_plan_options options{};
    options.threads = from.threads;
    options.attention_weights = from.attention_weights ? 1 : 0;
    options.concat_queries = from.concat_queries ? 1 : 0;
    options.valid_lens = static_cast<std::int32_t>(from.valid_lens);
    options.causal = static_cast<std::int32_t>(from.causal);
    options.padding = static_cast<std::int32_t>(from.padding);
    options.target = target.c_str();
    options.pairs = static_cast<std::int32_t>(from.pairs);
    options.parts = static_cast<std::int32_t>(from.parts);
    check(functions.create_plan(layer, &shape, &options, &plan, &error));
    if (from.threads > 1) check(functions.create_executor(from.threads, &executor, &error));
  }

  std::string path;
  Library library;
  Functions functions;
  attend_layer* layer = nullptr;
  attend_plan* plan = nullptr;
  attend_workspace* workspace = nullptr;
  attend_executor* executor = nullptr;  // null for one thread
  mutable attend_error error{};
};

LibraryBuild::LibraryBuild(std::string path, const Problem& problem) : impl_(std::make_unique<Impl>(std::move(path))) {
  impl_->make_layer(problem.layer);
  impl_->make_plan(problem);
}
LibraryBuild::~LibraryBuild() = default;
LibraryBuild::LibraryBuild(LibraryBuild&&) noexcept = default;

const std::string& LibraryBuild::path() const { return impl_->path; }

std::string LibraryBuild::plan_text() const {
  std::size_t length = 0;
  impl_->check(impl_->functions.explain(impl_->plan, nullptr, 0, &length, &impl_->error));
  std::string text(length + 1, '\0');
  impl_->check(impl_->functions.explain(impl_->plan, text.data(), text.size(), &length, &impl_->error));
  return text.substr(0, text.find('\n'));
}

std::size_t LibraryBuild::workspace_bytes() const {
  std::size_t bytes = 0;
  impl_->check(impl_->functions.workspace_bytes(impl_->plan, &bytes, &impl_->error));
  return bytes;
}

void LibraryBuild::use_workspace(std::span<std::byte> memory) {
  impl_->functions.destroy_workspace(std::exchange(impl_->workspace, nullptr));
  impl_->check(impl_->functions.create_workspace(memory.data(), memory.size(), &impl_->workspace, &impl_->error));
}

void LibraryBuild::run(const Inputs& inputs, const Outputs& outputs) {
  attend_inputs in{};
  in.queries = to_c<attend_tensor>(inputs.queries);
  in.keys = to_c<attend_tensor>(inputs.keys);
  in.values = to_c<attend_tensor>(inputs.values);
  in.valid_lens = to_c<attend_lengths>(inputs.valid_lens);
  attend_outputs out{};
  out.output = to_c<attend_output_tensor>(outputs.output);
  out.attention_weights = to_c<attend_output_tensor>(outputs.attention_weights);
  impl_->check(impl_->functions.run(impl_->plan, &in, &out, impl_->workspace, impl_->executor, &impl_->error));
}

}  // namespace attend::tools
