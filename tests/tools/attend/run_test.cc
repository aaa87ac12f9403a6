// attend run and attend softmax: what they write, from which files.
#include "tests/tools/attend/process.h"

#ifdef ATTEND_CLI_PATH

#include <algorithm>
#include <bit>
#include <cmath>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "attend/attend.h"
#include "attend/io.h"
#include "tests/support/compare.h"
#include "tests/support/npz_data.h"
#include "tests/tools/io/build_files.h"

namespace attend::tests {
namespace {

double max_difference(const Tensor& a, const Tensor& b) {
  REQUIRE(a.sizes == b.sizes);
  double largest = 0;
  for (std::size_t i = 0; i < a.data.size(); ++i) {
    largest = worse(largest, std::abs(static_cast<double>(a.data[i]) - static_cast<double>(b.data[i])));
  }
  return largest;
}

// The words for a layer of tests/data/dates.
std::vector<std::string> words_for(const std::string& layer, const std::string& prefix) {
  const std::string inputs = data_path("dates/" + layer + ".npz");
  const NpzData data("dates/" + layer + ".npz");
  std::vector<std::string> words = {"run", "--prefix", prefix, "--queries", inputs + ":queries"};
  for (const char* name : {"keys", "values"}) {
    if (data.contains(name)) words.insert(words.end(), {std::string("--") + name, inputs + ":" + name});
  }
  words.insert(words.end(), {"--valid-lens", inputs + ":valid_lens"});
  return words;
}

void check_agrees_with_pytorch(const std::string& layer, const std::string& prefix,
                               const std::vector<std::string>& more) {
  const TempDir dir;
  std::vector<std::string> words = words_for(layer, prefix);
  words.insert(words.end(), more.begin(), more.end());
  words.insert(words.end(), {"--output", dir.path("o.npy"), "--attention-weights", dir.path("w.npy")});
  const Finished finished = run_attend(words);
  CHECK(finished.err == "");
  REQUIRE(finished.exit_code == 0);
  CHECK(lines_of(finished.out).size() == 1);
  CHECK(contains(finished.out, "path "));
  CHECK(contains(finished.out, "target " + Target::best().name()));
  const NpzData expected("dates/" + layer + ".npz");
  CHECK(max_difference(io::load_tensor(dir.path("o.npy")), expected.tensor("output")) < 1e-5);
  CHECK(max_difference(io::load_tensor(dir.path("w.npy")), expected.tensor("attention_weights")) < 5e-6);
  CHECK(dir.names() == std::vector<std::string>{"o.npy", "w.npy"});
}

}  // namespace

TEST_CASE("attend run: trained layers agree with PyTorch") {
  const std::string recurrent = data_path("dates/recurrent.safetensors");
  const std::string transformer = data_path("dates/transformer.safetensors");
  check_agrees_with_pytorch("recurrent.decoder.attention", "decoder.attention.",
                            {"--layer", "additive", "--weights", recurrent});
  const std::vector<std::string> heads = {"--layer", "multi-head", "--num-heads", "4", "--weights", transformer};
  check_agrees_with_pytorch("transformer.encoder.self_attn", "encoder.layers.0.self_attn.", heads);
  check_agrees_with_pytorch("transformer.decoder.self_attn", "decoder.layers.0.self_attn.", heads);
  check_agrees_with_pytorch("transformer.decoder.cross_attn", "decoder.layers.0.cross_attn.", heads);
}

TEST_CASE("attend run: without --layer the parameters choose") {
  check_agrees_with_pytorch("recurrent.decoder.attention", "decoder.attention.",
                            {"--weights", data_path("dates/recurrent.safetensors")});
  const TempDir dir;
  const std::string q = save(dir, "q.npy", counting({2, 3, 4}));
  const Finished dot = run_attend({"run", "--queries", q, "--output", dir.path("o.npy")});
  CHECK(dot.exit_code == 0);
  CHECK(dot.out.starts_with("dot, path dot/"));
}

TEST_CASE("attend run: missing keys are the queries, missing values the keys") {
  const TempDir dir;
  const std::string q = save(dir, "q.npy", counting({2, 3, 4}));
  const std::string k = save(dir, "k.npy", counting({2, 5, 4}));
  const auto output_of = [&](std::vector<std::string> inputs) {
    std::vector<std::string> words = {"run", "--layer", "dot", "--output", dir.path("o.npy"), "--quiet"};
    words.insert(words.end(), inputs.begin(), inputs.end());
    const Finished finished = run_attend(words);
    CHECK(finished.exit_code == 0);
    CHECK(finished.out == "");  // --quiet
    CHECK(finished.err == "");
    return io::load_tensor(dir.path("o.npy"));
  };
  CHECK(output_of({"--queries", q}).data == output_of({"--queries", q, "--keys", q, "--values", q}).data);
  CHECK(output_of({"--queries", q, "--keys", k}).data == output_of({"--queries", q, "--keys", k, "--values", k}).data);
  CHECK(output_of({"--queries", q, "--values", q}).data == output_of({"--queries", q}).data);
}

TEST_CASE("attend run: inputs from .npz and .safetensors are those from .npy") {
  const TempDir dir;
  const Tensor queries = counting({1, 2, 3});
  const std::string q = save(dir, "q.npy", queries);
  io::save_npz(dir.path("q.npz"), {{"the:queries", queries.view()}});
  const std::string header = R"({"a.queries":{"dtype":"F32","shape":[1,2,3],"data_offsets":[0,24]}})";
  dir.write("q.safetensors", le64(header.size()) + header + f32_bytes(queries.data));
  std::string expected;
  for (const std::string& spec : {q, dir.path("q.npz:the:queries"), dir.path("q.safetensors:a.queries")}) {
    REQUIRE(run_attend({"run", "--queries", spec, "--output", dir.path("o.npy")}).exit_code == 0);
    if (expected.empty()) expected = dir.read("o.npy");
    CHECK(dir.read("o.npy") == expected);
  }
}

TEST_CASE("attend run: inputs with an axis of heads, one head too") {
  const TempDir dir;
  for (const std::int64_t heads : {1, 3}) {
    for (const char* layer : {"dot", "gaussian"}) {
      const std::string q = save(dir, "q.npy", counting({2, heads, 3, 4}));
      const Finished finished = run_attend({"run", "--layer", layer, "--queries", q, "--output", dir.path("o.npy"),
                                            "--attention-weights", dir.path("w.npy")});
      CHECK(finished.err == "");
      REQUIRE(finished.exit_code == 0);
      CHECK(io::load_sizes(dir.path("o.npy")) == std::vector<std::int64_t>{2, heads, 3, 4});
      CHECK(io::load_sizes(dir.path("w.npy")) == std::vector<std::int64_t>{2, heads, 3, 3});
    }
  }
}

TEST_CASE("attend run: masks, heads that share keys and skipped queries agree with PyTorch") {
  struct {
    std::string name;
    std::vector<std::string> more;
  } const cases[] = {
      {"dot_causal", {"--layer", "dot", "--causal", "bottom-right"}},
      {"dot_causal_top_left", {"--layer", "dot", "--causal", "top-left"}},
      {"dot_grouped", {"--layer", "dot"}},
      {"multi_head_grouped_causal",
       {"--layer", "multi-head", "--num-heads", "6", "--num-kv-heads", "2", "--causal", "bottom-right", "--weights",
        data_path("golden/multi_head_grouped_causal.safetensors")}},
  };
  for (const auto& c : cases) {
    INFO(c.name);
    const TempDir dir;
    const std::string file = data_path("golden/" + c.name + ".npz");
    std::vector<std::string> words = {"run",
                                      "--queries",
                                      file + ":queries",
                                      "--keys",
                                      file + ":keys",
                                      "--values",
                                      file + ":values",
                                      "--valid-lens",
                                      file + ":valid_lens",
                                      "--output",
                                      dir.path("o.npy"),
                                      "--attention-weights",
                                      dir.path("w.npy")};
    words.insert(words.end(), c.more.begin(), c.more.end());
    const Finished finished = run_attend(words);
    REQUIRE(finished.exit_code == 0);
    const NpzData expected("golden/" + c.name + ".npz");
    CHECK(max_difference(io::load_tensor(dir.path("o.npy")), expected.tensor("output")) < 1e-5);
    CHECK(max_difference(io::load_tensor(dir.path("w.npy")), expected.tensor("attention_weights")) < 5e-6);
  }
}

TEST_CASE("attend run: --skip-padded-queries gives 0 beyond an entry's length and changes no other row") {
  const TempDir dir;
  const std::string q = save(dir, "q.npy", counting({2, 5, 4}));
  const std::string lens =
      dir.write("l.npy", npy_file("{'descr': '<i4', 'fortran_order': False, 'shape': (2,), }\n", le32(5) + le32(2)));
  const std::vector<std::string> words = {
      "run", "--queries", q, "--valid-lens", lens, "--output", dir.path("o.npy"), "--concat-queries"};
  REQUIRE(run_attend(words).exit_code == 0);
  const Tensor all = io::load_tensor(dir.path("o.npy"));
  std::vector<std::string> skipping = words;
  skipping.emplace_back("--skip-padded-queries");
  REQUIRE(run_attend(skipping).exit_code == 0);
  const Tensor some = io::load_tensor(dir.path("o.npy"));
  REQUIRE(some.sizes == all.sizes);
  for (std::size_t row = 0; row < 10; ++row) {
    const bool skipped = row >= 7;
    for (std::size_t i = 0; i < 8; ++i) CHECK(some.data[row * 8 + i] == (skipped ? 0 : all.data[row * 8 + i]));
  }
}

TEST_CASE("attend run: --concat-queries appends the queries") {
  const TempDir dir;
  const Tensor queries = counting({2, 3, 4});
  const std::string q = save(dir, "q.npy", queries);
  const std::string k = save(dir, "k.npy", counting({2, 5, 4}));
  REQUIRE(run_attend(
              {"run", "--layer", "dot", "--queries", q, "--keys", k, "--concat-queries", "--output", dir.path("o.npy")})
              .exit_code == 0);
  const Tensor output = io::load_tensor(dir.path("o.npy"));
  REQUIRE(output.sizes == std::vector<std::int64_t>{2, 3, 8});
  for (std::size_t row = 0; row < 6; ++row) {
    for (std::size_t i = 0; i < 4; ++i) CHECK(output.data[row * 8 + 4 + i] == queries.data[row * 4 + i]);
  }
}

TEST_CASE("attend run: float64 inputs and int64 lengths are converted with a note each") {
  const TempDir dir;
  std::string f64, i64;
  // The one key that is seen consists of powers of two: multiplied and divided by any weight, they stay what they are.
  for (const double x : {0.5, -4.0, -1.0, 2.0}) f64 += le64(std::bit_cast<std::uint64_t>(x));
  i64 = le64(1);
  const std::string q =
      dir.write("q.npy", npy_file("{'descr': '<f8', 'fortran_order': False, 'shape': (1, 2, 2), }\n", f64));
  const std::string lens =
      dir.write("l.npy", npy_file("{'descr': '<i8', 'fortran_order': False, 'shape': (1,), }\n", i64));
  const Finished finished =
      run_attend({"run", "--layer", "dot", "--queries", q, "--valid-lens", lens, "--output", dir.path("o.npy")});
  REQUIRE(finished.exit_code == 0);
  const std::vector<std::string> notes = lines_of(finished.err);
  REQUIRE(notes.size() == 2);
  for (const std::string& note : notes) CHECK(note.starts_with("attend: note: "));
  CHECK(contains(notes[0], "float64"));
  CHECK(contains(notes[1], "int64"));
  CHECK(io::load_tensor(dir.path("o.npy")).data == std::vector<float>{0.5f, -4.0f, 0.5f, -4.0f});
}

TEST_CASE("attend run: --explain prints the plan, and how many tiles each tier of an additive score had") {
  const TempDir dir;
  std::vector<std::string> words = words_for("recurrent.decoder.attention", "decoder.attention.");
  words.insert(words.end(), {"--weights", data_path("dates/recurrent.safetensors"), "--output", dir.path("o.npy"),
                             "--quiet", "--explain"});
  const Finished additive = run_attend(words);
  CHECK(additive.exit_code == 0);
  CHECK(additive.out.starts_with("additive attention, path additive/factored"));
  CHECK(additive.out.find("\n  tiers ") != std::string::npos);
  const std::string q = save(dir, "q.npy", counting({2, 3, 4}));
  const Finished dot = run_attend({"run", "--queries", q, "--output", dir.path("o.npy"), "--quiet", "--explain"});
  CHECK(dot.out.starts_with("dot attention, path dot/"));
  CHECK(dot.out.find("tiers") == std::string::npos);
}

TEST_CASE("attend run: the same file for any number of threads, and the target that was asked for") {
  const TempDir dir;
  const std::string q = save(dir, "q.npy", counting({3, 40, 16}));
  const std::string last = Target::available().back().name();
  std::string first;
  for (const char* threads : {"1", "2", "3", "0"}) {
    const Finished finished = run_attend({"run", "--layer", "gaussian", "--sigma", "2", "--queries", q, "--threads",
                                          threads, "--target", last, "--output", dir.path("o.npy")});
    REQUIRE(finished.exit_code == 0);
    CHECK(contains(finished.out, "target " + last));
    if (first.empty()) first = dir.read("o.npy");
    CHECK(dir.read("o.npy") == first);
  }
}

TEST_CASE("attend softmax: the textbook's masks, in float32 and on request in threads") {
  const TempDir dir;
  const Tensor counted = counting({2, 2, 4});
  const std::vector<double> scores(counted.data.begin(), counted.data.end());
  const std::string input = save(dir, "s.npy", counted);
  const std::string lens = dir.write("l.npy", npy_file("{'descr': '<i4', 'fortran_order': False, 'shape': (2, 2), }\n",
                                                       le32(1) + le32(3) + le32(2) + le32(4)));
  const Finished finished =
      run_attend({"softmax", "--input", input, "--valid-lens", lens, "--output", dir.path("o.npy"), "--threads", "2"});
  CHECK(finished.err == "");
  REQUIRE(finished.exit_code == 0);
  const Tensor output = io::load_tensor(dir.path("o.npy"));
  REQUIRE(output.sizes == std::vector<std::int64_t>{2, 2, 4});
  const std::size_t valid[] = {1, 3, 2, 4};
  for (std::size_t row = 0; row < 4; ++row) {
    double sum = 0;
    for (std::size_t i = 0; i < valid[row]; ++i) sum += std::exp(scores[row * 4 + i]);
    for (std::size_t i = 0; i < 4; ++i) {
      const double truth = i < valid[row] ? std::exp(scores[row * 4 + i]) / sum : 0;
      CHECK(std::abs(output.data[row * 4 + i] - truth) < 2e-7);
    }
  }
}

}  // namespace attend::tests

#endif  // ATTEND_CLI_PATH
