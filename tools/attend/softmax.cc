// attend softmax: masked softmax of a file of scores.
#include <memory>
#include <string>

#include <CLI/CLI.hpp>

#include "attend/masked_softmax.h"
#include "tools/attend/argument.h"
#include "tools/attend/command.h"
#include "tools/attend/console.h"
#include "tools/attend/options.h"
#include "tools/attend/outputs.h"
#include "tools/attend/problem.h"
#include "tools/attend/progress.h"
#include "tools/attend/words.h"

namespace attend::tools {
namespace {

struct SoftmaxWords {
  std::string input, valid_lens, output, target;
  int threads = 1;
};

void run_softmax(const SoftmaxWords& words) {
  const Target target = target_of(words.target);
  check_writable(words.output);
  io::Notices notices;
  Tensor scores = read_argument("--input", [&] { return io::load_tensor(words.input, &notices); });
  if (scores.sizes.size() != 3 && scores.sizes.size() != 4) {
    fail_sizes(words.input, "scores", scores.sizes, "(B, M, N) or (B, H, M, N)");
  }
  LengthsTensor lens;
  if (!words.valid_lens.empty()) {
    lens = read_argument("--valid-lens", [&] { return io::load_lengths(words.valid_lens, &notices); });
    check_lens(words.valid_lens, lens.sizes, scores.sizes);
  }
  print_notes(notices);

  const std::unique_ptr<Executor> executor = make_executor(num_threads(words.threads));
  const Progress progress("softmax of " + words.input);
  masked_softmax(scores.view(), lens.sizes.empty() ? TensorView<const std::int32_t>() : lens.view(), scores.view(),
                 {.target = target, .executor = executor.get()});
  OutputFiles files;
  files.add(words.output, scores.view());
  files.commit();
}

}  // namespace

Command add_softmax(CLI::App& app) {
  const auto words = std::make_shared<SoftmaxWords>();
  CLI::App* parser =
      app.add_subcommand("softmax", "Softmax of the valid part of each row of scores; the rest becomes 0.");
  parser
      ->add_option("--input", words->input,
                   "Scores of M queries to N keys, (B, M, N) or (B, H, M, N), B batch entries, H heads;\nfile.npy, "
                   "file.npz:name or file.safetensors:name.")
      ->option_text("FILE")
      ->required();
  parser
      ->add_option(
          "--valid-lens", words->valid_lens,
          "How many scores are valid, for each batch entry (B) or each row (B, M);\nint32 or int64. Default: all.")
      ->option_text("FILE");
  parser
      ->add_option("--output", words->output,
                   "The softmax, in the shape of the input; .npy, another file than the inputs.")
      ->option_text("FILE")
      ->required();
  add_machine_words(*parser, words->target, words->threads, false);
  parser->footer("Example:\n  attend softmax --input scores.npy --valid-lens lens.npy --output weights.npy");
  parser->callback([words, parser] {
    check_not_empty(*parser, {"--input", "--valid-lens", "--target"});
    check_ending("--output", words->output, {".npy"});
    check_apart({{"--output", words->output}}, {{"--input", words->input}, {"--valid-lens", words->valid_lens}});
  });
  return {parser, [words] { run_softmax(*words); }};
}

}  // namespace attend::tools
