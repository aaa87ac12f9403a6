// The words that run, plan, check and turns share: how they are called, what they mean, which go together.
#ifndef ATTEND_TOOLS_ATTEND_OPTIONS_H_
#define ATTEND_TOOLS_ATTEND_OPTIONS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "attend/plan.h"
#include "attend/target.h"

namespace CLI {
class App;
}

namespace attend::tools {

enum class LayerKind { kAuto, kAdditive, kDot, kBilinear, kGaussian, kMultiHead };

// Which layer, and with what.
struct LayerWords {
  LayerKind kind = LayerKind::kAuto;
  std::string weights;  // file; empty: none
  std::string prefix;
  std::optional<std::int64_t> num_heads;
  std::optional<std::int64_t> num_kv_heads;
  bool additive_scoring = false;
  std::optional<float> scale;
  std::optional<float> sigma;
  std::optional<std::int64_t> num_hiddens;  // of made-up parameters: plan and check only
};

// On what. Files as io::load_tensor takes them; empty: not given. Either queries or shape is given.
struct InputWords {
  std::string queries, keys, values, valid_lens;
  std::vector<std::int64_t> shape;  // B, M, N, Dq, Dk, Dv: the first three at least; plan and check only
};

// Which pairs of queries and keys count, beside the valid lengths.
struct MaskWords {
  Causal causal = Causal::kNone;
  bool skip_padded_queries = false;
};

// Where the results go. Empty: nowhere.
struct OutputWords {
  std::string output;
  std::string attention_weights;
  bool wants_weights = false;  // --attention-weights was given, in plan perhaps without a file
  bool concat_queries = false;
};

struct Words {
  LayerWords layer;
  InputWords inputs;
  MaskWords mask;
  OutputWords outputs;
  std::string target;  // empty: the best
  int threads = 1;     // 0: all
  Pairs pairs = Pairs::kWhereFaster;
  Parts parts = Parts::kWhereFaster;
  bool quiet = false, explain = false;
};

enum class Subcommand { kRun, kPlan, kCheck, kTurns };

// Whether --output and --attention-weights name files that are written; else runs are only spoken of.
bool writes_outputs(Subcommand subcommand);

// What the letters in shapes mean, for the end of a help.
inline constexpr const char* kLettersText =
    "Letters: B batch entries with M queries and N keys each, in H heads, HKV of keys and values; Dq, Dk and Dv\n"
    "elements in a query, a key and a value, or D where those of queries and keys are the same.\n\n";

// Makes the words known to the parser and has it refuse, as wrong usage, those that do not go together. words must live
// while the parser does.
void add_words(CLI::App& app, Subcommand subcommand, Words& words);

// --target and --threads, also for softmax. has_profile: choices for one number of threads may be given.
void add_machine_words(CLI::App& app, std::string& target, int& threads, bool has_profile,
                       const std::string& default_target = "the best");

Target target_of(const std::string& name);  // Error listing the available ones
int num_threads(int threads);               // 0: the CPUs of this process

}  // namespace attend::tools

#endif  // ATTEND_TOOLS_ATTEND_OPTIONS_H_
