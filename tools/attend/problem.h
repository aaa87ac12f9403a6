// From words to everything a plan needs, and from files to everything a run needs.
#ifndef ATTEND_TOOLS_ATTEND_PROBLEM_H_
#define ATTEND_TOOLS_ATTEND_PROBLEM_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "attend/attend.h"
#include "attend/io.h"
#include "attend/reference.h"
#include "tools/attend/layer.h"
#include "tools/attend/options.h"

namespace attend::tools {

// What can be planned. No data of queries, keys, values or lengths has been read for it.
struct Problem {
  Layer layer;
  Shape shape;
  PlanOptions options;
  bool head_axis;   // queries are (B, H, M, D), keys and values (B, H or Hkv, N, D)
  bool from_files;  // the sizes are those of files, not of --shape

  reference::Mask mask() const { return {.causal = options.causal, .padding = options.padding}; }
};

// Throws Error "file: name have sizes (3, 4), expected " and what was.
[[noreturn]] void fail_sizes(const std::string& file, const std::string& name, const std::vector<std::int64_t>& found,
                             const std::string& expected);

// Throws Error unless valid lengths of these sizes go with rows (B, M, N) or (B, H, M, N): one for each batch entry or
// for each row.
void check_lens(const std::string& file, const std::vector<std::int64_t>& sizes, const std::vector<std::int64_t>& rows);

// Reads the weights and the sizes of the files, and sees that these agree. Errors name the file.
Problem prepare(const Words& words, io::Notices& notices);

struct Data {
  Tensor queries;
  Tensor keys, values;       // no sizes: not given
  LengthsTensor valid_lens;  // no sizes: not given

  Inputs inputs() const;
};

Data load_data(const InputWords& words, io::Notices& notices);

// Seeded inputs and lengths (B) for a plan without files.
Data invent_data(const Problem& problem, const Shape& shape);

struct Results {
  Tensor output;
  Tensor attention_weights;  // no sizes: not asked for

  Outputs outputs();
};

// Zeros in the shapes that the plan writes, for the whole of its shape.
Results allocate_results(const Problem& problem, const Plan& plan, bool attention_weights);

// Error where there is not enough memory, as in allocate_results.
Workspace make_workspace(const Plan& plan);

// The calling thread alone for one thread, else a pool.
std::unique_ptr<Executor> make_executor(int threads);

}  // namespace attend::tools

#endif  // ATTEND_TOOLS_ATTEND_PROBLEM_H_
