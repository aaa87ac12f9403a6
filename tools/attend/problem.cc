#include "tools/attend/problem.h"

#include <string>
#include <utility>

#include "tools/attend/argument.h"
#include "tools/attend/generate.h"
#include "tools/attend/memory.h"

namespace attend::tools {
namespace {

using Sizes = std::vector<std::int64_t>;

constexpr std::int64_t kDefaultSize = 64;  // of queries without files, weights or a word about it
constexpr std::uint64_t kDataSeed = 2;

// Sizes as the files have them; empty: not given.
struct FileSizes {
  Sizes queries, keys, values, valid_lens;
};

// Of the file behind word; none: no sizes.
Sizes sizes_of(const std::string& word, const std::string& file) {
  return file.empty() ? Sizes() : read_argument(word, [&] { return io::load_sizes(file); });
}

Tensor load_floats(const std::string& word, const std::string& file, io::Notices& notices) {
  return file.empty() ? Tensor() : read_argument(word, [&] { return io::load_tensor(file, &notices); });
}

std::string number(std::int64_t value) { return std::to_string(value); }

void check_queries(const std::string& file, const Sizes& sizes, LayerKind kind) {
  const bool may_split = kind == LayerKind::kDot || kind == LayerKind::kGaussian || kind == LayerKind::kAuto;
  if (sizes.size() == 3 || (may_split && sizes.size() == 4)) return;
  fail_sizes(file, "queries", sizes, may_split ? "(B, M, Dq) or, split into heads, (B, H, M, D)" : "(B, M, Dq)");
}

// Keys or values: as many axes and batch entries as the queries, and heads that divide theirs.
void check_like_queries(const std::string& file, const std::string& name, const Sizes& sizes, const Sizes& queries) {
  const bool same_axes = sizes.size() == queries.size();
  const auto heads_fit = [&] {
    return sizes.size() == 3 || sizes[1] == queries[1] || (sizes[1] > 0 && queries[1] % sizes[1] == 0);
  };
  if (same_axes && sizes[0] == queries[0] && heads_fit()) return;
  const std::string heads = queries.size() == 4 ? number(queries[1]) + " or a divisor, " : "";
  fail_sizes(file, name, sizes,
             "(" + number(queries[0]) + ", " + heads + "N, D) to go with queries " + to_string(queries));
}

// A size of 0 would be taken as one that was not given.
void check_elements(const std::string& file, const char* name, const Sizes& sizes) {
  if (!sizes.empty() && sizes.back() == 0) fail_sizes(file, name, sizes, "at least one element each");
}

void check_files(const InputWords& words, const FileSizes& files, LayerKind kind) {
  check_queries(words.queries, files.queries, kind);
  check_elements(words.queries, "queries", files.queries);
  check_elements(words.keys, "keys", files.keys);
  check_elements(words.values, "values", files.values);
  if (!files.keys.empty()) check_like_queries(words.keys, "keys", files.keys, files.queries);
  const Sizes& keys = files.keys.empty() ? files.queries : files.keys;
  if (!files.values.empty()) {
    check_like_queries(words.values, "values", files.values, files.queries);
    if (files.values.size() == 4 && files.values[1] != keys[1]) {
      fail_sizes(words.values, "values", files.values, number(keys[1]) + " heads, as many as keys have");
    }
    const std::size_t rows = keys.size() - 2;
    if (files.values[rows] != keys[rows]) {
      fail_sizes(words.values, "values", files.values, number(keys[rows]) + " rows, as many as there are keys");
    }
  }
  if (files.valid_lens.empty()) return;
  check_lens(words.valid_lens, files.valid_lens, files.queries);
}

// The first as many as there are; missing keys are the queries, missing values the keys.
Shape shape_of(const FileSizes& files) {
  const Sizes& keys = files.keys.empty() ? files.queries : files.keys;
  const Sizes& values = files.values.empty() ? keys : files.values;
  return {.batch = files.queries[0],
          .num_queries = files.queries[files.queries.size() - 2],
          .num_keys = keys[keys.size() - 2],
          .query_size = files.queries.back(),
          .key_size = keys.back(),
          .value_size = values.back(),
          .num_heads = files.queries.size() == 4 ? files.queries[1] : 1,
          .num_kv_heads = keys.size() == 4 ? keys[1] : 0};
}

Shape shape_of(const Words& words) {
  Sizes sizes = words.inputs.shape;
  sizes.resize(6, 0);
  Shape shape{.batch = sizes[0],
              .num_queries = sizes[1],
              .num_keys = sizes[2],
              .query_size = sizes[3],
              .key_size = sizes[4],
              .value_size = sizes[5],
              .num_heads = 1};
  if (words.layer.kind != LayerKind::kMultiHead) {
    shape.num_heads = words.layer.num_heads.value_or(1);
    shape.num_kv_heads = words.layer.num_kv_heads.value_or(0);
  }
  if (!words.layer.weights.empty()) return shape;  // the planner fills in what the weights say
  if (shape.query_size == 0) shape.query_size = kDefaultSize;
  if (shape.key_size == 0) shape.key_size = shape.query_size;
  if (shape.value_size == 0) shape.value_size = shape.key_size;
  return shape;
}

ValidLens lens_of(const InputWords& words, const FileSizes& files) {
  if (!words.shape.empty()) return ValidLens::kAny;
  if (files.valid_lens.empty()) return ValidLens::kNone;
  return files.valid_lens.size() == 1 ? ValidLens::kPerBatch : ValidLens::kPerQuery;
}

TensorView<const float> view_of(const Tensor& tensor) {
  return tensor.sizes.empty() ? TensorView<const float>() : tensor.view();
}

}  // namespace

void fail_sizes(const std::string& file, const std::string& name, const Sizes& found, const std::string& expected) {
  throw Error(file + ": " + name + " have sizes " + to_string(found) + ", expected " + expected);
}

void check_lens(const std::string& file, const Sizes& sizes, const Sizes& rows) {
  const Sizes per_batch = {rows[0]};
  const Sizes per_row = {rows[0], rows[rows.size() - 2]};
  if (sizes != per_batch && sizes != per_row) {
    fail_sizes(file, "valid lens", sizes, to_string(per_batch) + " or " + to_string(per_row));
  }
}

Problem prepare(const Words& words, io::Notices& notices) {
  const PlanOptions options{.threads = num_threads(words.threads),
                            .target = target_of(words.target),
                            .attention_weights = words.outputs.wants_weights,
                            .concat_queries = words.outputs.concat_queries,
                            .causal = words.mask.causal,
                            .padding = words.mask.skip_padded_queries ? Padding::kSkipQueries : Padding::kCompute,
                            .pairs = words.pairs,
                            .parts = words.parts};
  const InputWords& in = words.inputs;
  const bool from_files = in.shape.empty();
  FileSizes files;
  if (from_files) {
    files = {.queries = sizes_of("--queries", in.queries),
             .keys = sizes_of("--keys", in.keys),
             .values = sizes_of("--values", in.values),
             .valid_lens = sizes_of("--valid-lens", in.valid_lens)};
    check_files(in, files, words.layer.kind);
    if (words.mask.skip_padded_queries && files.valid_lens.size() != 1) {
      fail_sizes(in.valid_lens, "valid lens", files.valid_lens,
                 to_string(Sizes{files.queries[0]}) + ": --skip-padded-queries goes by the lengths of batch entries");
    }
  }
  const Shape shape = from_files ? shape_of(files) : shape_of(words);
  Problem problem{.layer = make_layer(words.layer, shape, notices),
                  .shape = shape,
                  .options = options,
                  .head_axis = from_files ? files.queries.size() == 4 : shape.num_heads > 1,
                  .from_files = from_files};
  problem.options.valid_lens = lens_of(in, files);
  const LayerKind kind = problem.layer.kind;
  if (problem.head_axis && kind != LayerKind::kDot && kind != LayerKind::kGaussian) {
    check_queries(in.queries, files.queries, kind);  // auto picked a layer that takes no heads
  }
  return problem;
}

Inputs Data::inputs() const {
  return {.queries = queries.view(),
          .keys = view_of(keys),
          .values = view_of(values),
          .valid_lens = valid_lens.sizes.empty() ? TensorView<const std::int32_t>() : valid_lens.view()};
}

Data load_data(const InputWords& words, io::Notices& notices) {
  Data data;
  data.queries = load_floats("--queries", words.queries, notices);
  data.keys = load_floats("--keys", words.keys, notices);
  data.values = load_floats("--values", words.values, notices);
  if (!words.valid_lens.empty()) {
    data.valid_lens = read_argument("--valid-lens", [&] { return io::load_lengths(words.valid_lens, &notices); });
  }
  return data;
}

Data invent_data(const Problem& problem, const Shape& shape) {
  Generator generator(kDataSeed);
  const auto rows = [&](const char* name, std::int64_t heads, std::int64_t count, std::int64_t size) {
    return problem.head_axis ? generator.normal(name, {shape.batch, heads, count, size})
                             : generator.normal(name, {shape.batch, count, size});
  };
  const std::int64_t kv_heads = shape.num_kv_heads != 0 ? shape.num_kv_heads : shape.num_heads;
  Data data;
  data.queries = rows("queries", shape.num_heads, shape.num_queries, shape.query_size);
  data.keys = rows("keys", kv_heads, shape.num_keys, shape.key_size);
  data.values = rows("values", kv_heads, shape.num_keys, shape.value_size);
  data.valid_lens = generator.lengths("valid_lens", shape.batch, shape.num_keys);
  return data;
}

Outputs Results::outputs() {
  Outputs outputs{.output = output.view(), .attention_weights = {}};
  if (!attention_weights.sizes.empty()) outputs.attention_weights = attention_weights.view();
  return outputs;
}

Results allocate_results(const Problem& problem, const Plan& plan, bool attention_weights) {
  const Shape& shape = plan.shape();
  const auto sizes = [&](std::int64_t heads, std::int64_t columns) {
    Sizes all = {shape.batch, shape.num_queries, columns};
    if (heads > 0) all.insert(all.begin() + 1, heads);
    return all;
  };
  // Views with an axis of one head are (B, 1, M, N), which weight_heads() cannot know.
  const std::int64_t view_heads = problem.head_axis ? shape.num_heads : 0;
  Results results;
  results.output = zeros("output", sizes(view_heads, plan.output_size()));
  if (attention_weights) {
    const std::int64_t heads = problem.head_axis ? view_heads : plan.weight_heads();
    results.attention_weights = zeros("attention_weights", sizes(heads, shape.num_keys));
  }
  return results;
}

Workspace make_workspace(const Plan& plan) {
  return with_memory_for("the workspace: " + std::to_string(plan.workspace_bytes()) + " bytes",
                         [&] { return Workspace(plan); });
}

std::unique_ptr<Executor> make_executor(int threads) {
  if (threads <= 1) return std::make_unique<SerialExecutor>();
  return std::make_unique<ThreadPool>(threads);
}

}  // namespace attend::tools
