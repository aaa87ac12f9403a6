// attend plan, targets and check.
#include "tests/tools/attend/process.h"

#ifdef ATTEND_CLI_PATH

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "attend/attend.h"
#include "attend/io.h"
#include "tests/support/compare.h"
#include "tests/support/npz_data.h"
#include "tests/support/random.h"
#include "tests/support/run.h"
#include "tests/tools/io/build_files.h"

namespace attend::tests {

TEST_CASE("attend targets: names first, best first") {
  const Finished finished = run_attend({"targets"});
  CHECK(finished.exit_code == 0);
  CHECK(finished.err == "");
  const std::vector<std::string> lines = lines_of(finished.out);
  const std::vector<Target> targets = Target::available();
  REQUIRE(lines.size() == targets.size());
  for (std::size_t i = 0; i < lines.size(); ++i) CHECK(lines[i].substr(0, lines[i].find(' ')) == targets[i].name());
  CHECK(contains(lines[0], "default"));
}

TEST_CASE("attend plan: prints what explain() says, and the time behind it") {
  const Shape shape{.batch = 4, .num_queries = 5, .num_keys = 60, .query_size = 16, .key_size = 16, .value_size = 8};
  for (const bool weights : {false, true}) {
    const PlanOptions options{.threads = 3, .target = Target::available().back(), .attention_weights = weights};
    std::vector<std::string> words = {"plan",    "--layer",        "dot",
                                      "--shape", "4,5,60,16,16,8", "--threads",
                                      "3",       "--target",       Target::available().back().name()};
    if (weights) words.emplace_back("--attention-weights");
    const Finished finished = run_attend(words);
    CHECK(finished.exit_code == 0);
    CHECK(finished.err == "");
    CHECK(finished.out.starts_with(DotAttention().plan(shape, options).explain()));
  }
}

TEST_CASE("attend plan: takes the words of run, reads sizes and writes nothing") {
  const TempDir dir;
  const std::string layer = data_path("dates/transformer.decoder.cross_attn.npz");
  const std::vector<std::string> inputs = {"--layer",
                                           "multi-head",
                                           "--num-heads",
                                           "4",
                                           "--weights",
                                           data_path("dates/transformer.safetensors"),
                                           "--prefix",
                                           "decoder.layers.0.cross_attn.",
                                           "--queries",
                                           layer + ":queries",
                                           "--keys",
                                           layer + ":keys",
                                           "--valid-lens",
                                           layer + ":valid_lens",
                                           "--output",
                                           dir.path("o.npy"),
                                           "--attention-weights",
                                           dir.path("w.npy")};
  std::vector<std::string> words = {"plan"};
  words.insert(words.end(), inputs.begin(), inputs.end());
  const Finished plan = run_attend(words);
  CHECK(plan.err == "");
  REQUIRE(plan.exit_code == 0);
  CHECK(contains(plan.out, "B 12, M 10, N 31, H 4, Dq 64"));
  CHECK(dir.names().empty());
  // The path of the run is the path of the plan.
  words[0] = "run";
  const Finished run = run_attend(words);
  REQUIRE(run.exit_code == 0);
  const std::string path = run.out.substr(run.out.find("path "), run.out.find(", target") - run.out.find("path "));
  CHECK(contains(plan.out, path));
}

TEST_CASE("attend plan: layers with parameters need no weights") {
  for (const char* layer : {"additive", "bilinear", "multi-head"}) {
    const Finished finished = run_attend({"plan", "--layer", layer, "--shape", "2,3,4,8,12,16"});
    CHECK(finished.exit_code == 0);
    CHECK(contains(finished.out, "Dq 8, Dk 12, Dv 16"));
  }
  const Finished hiddens = run_attend({"plan", "--layer", "additive", "--shape", "2,3,4", "--num-hiddens", "48"});
  CHECK(contains(hiddens.out, "U 48"));
}

TEST_CASE("attend check: every layer is within contract on every target") {
  const std::vector<std::vector<std::string>> layers = {
      {"additive"},
      {"dot"},
      {"dot", "--num-heads", "3"},
      {"dot", "--concat-queries"},
      {"dot", "--scale", "0.5"},
      {"bilinear"},
      {"bilinear", "--scale", "2"},
      {"gaussian", "--sigma", "3"},
      {"gaussian", "--num-heads", "2"},
      {"multi-head", "--num-heads", "4"},
      {"multi-head", "--num-heads", "4", "--scoring", "additive"},
      {"multi-head", "--num-heads", "2", "--concat-queries", "--threads", "3"},
      {"auto"}};
  for (const std::vector<std::string>& layer : layers) {
    std::vector<std::string> words = {"check", "--shape", "3,7,29,12", "--layer"};
    words.insert(words.end(), layer.begin(), layer.end());
    const Finished finished = run_attend(words);
    INFO(layer.front(), "\n", finished.out);
    CHECK(finished.err == "");
    CHECK(finished.exit_code == 0);
    std::size_t good = 0;
    for (const std::string& line : lines_of(finished.out)) good += contains(line, "  OK  ");
    CHECK(good == Target::available().size());
    CHECK(contains(finished.out, "bound of output"));
  }
}

TEST_CASE("attend check: masks, heads that share keys and skipped queries are within contract on every target") {
  const std::vector<std::vector<std::string>> layers = {
      {"additive"},
      {"dot"},
      {"dot", "--concat-queries"},
      {"dot", "--num-heads", "6", "--num-kv-heads", "2"},
      {"bilinear"},
      {"gaussian", "--num-heads", "4", "--num-kv-heads", "1", "--threads", "3"},
      {"multi-head", "--num-heads", "6", "--num-kv-heads", "3"},
      {"multi-head", "--num-heads", "6", "--num-kv-heads", "2", "--num-hiddens", "24", "--concat-queries"},
      {"multi-head", "--num-heads", "4", "--scoring", "additive"}};
  const std::vector<std::vector<std::string>> masks = {{},
                                                       {"--causal", "bottom-right"},
                                                       {"--causal", "top-left"},
                                                       {"--skip-padded-queries"},
                                                       {"--causal", "bottom-right", "--skip-padded-queries"}};
  for (const std::vector<std::string>& layer : layers) {
    for (const std::vector<std::string>& mask : masks) {
      for (const char* shape : {"3,7,29,12", "3,29,13,12"}) {
        std::vector<std::string> words = {"check", "--shape", shape};
        words.insert(words.end(), mask.begin(), mask.end());
        words.emplace_back("--layer");
        words.insert(words.end(), layer.begin(), layer.end());
        const Finished finished = run_attend(words);
        INFO(layer.front(), " ", mask.empty() ? "" : mask.front(), " ", std::string(shape), "\n", finished.out);
        CHECK(finished.err == "");
        CHECK(finished.exit_code == 0);
        std::size_t good = 0;
        for (const std::string& line : lines_of(finished.out)) good += contains(line, "  OK  ");
        CHECK(good == Target::available().size());
      }
    }
  }
}

TEST_CASE("attend check: garbage that masks hide changes nothing, not even the bound") {
  const TempDir dir;
  Tensor clean = counting({1, 6, 4}), spoiled = clean;
  for (std::size_t i = 12; i < 24; ++i) spoiled.data[i] = i >= 20 || i % 3 == 2 ? 1e30f : i % 3 == 0 ? NAN : INFINITY;
  const std::string q = save(dir, "q.npy", counting({1, 3, 4}));
  const std::string k = save(dir, "k.npy", clean), bad = save(dir, "bad.npy", spoiled);
  dir.write("l.npy", std::string("\x93NUMPY\x01\x00\x46\x00", 10) +
                         "{'descr': '<i4', 'fortran_order': False, 'shape': (1,), }            \n" +
                         std::string("\x03\x00\x00\x00", 4));
  // Keys 3 to 5 are hidden from three queries top left; as queries, rows 3 to 5 are skipped.
  const std::vector<std::vector<std::string>> problems = {
      {"--queries", q, "--causal", "top-left", "--keys"},
      {"--valid-lens", dir.path("l.npy"), "--skip-padded-queries", "--queries"}};
  for (const std::string layer : {"dot", "additive"}) {
    for (const std::vector<std::string>& problem : problems) {
      std::string first;
      for (const std::string& file : {k, bad}) {
        std::vector<std::string> words = {"check", "--layer", layer};
        words.insert(words.end(), problem.begin(), problem.end());
        words.push_back(file);
        const Finished finished = run_attend(words);
        INFO(finished.out, finished.err);
        CHECK(finished.exit_code == 0);
        if (first.empty()) first = finished.out;
        CHECK(finished.out == first);
      }
    }
  }
}

TEST_CASE("attend plan: masks and shared heads are those of the library") {
  const Shape shape{.batch = 4,
                    .num_queries = 5,
                    .num_keys = 60,
                    .query_size = 16,
                    .key_size = 16,
                    .value_size = 8,
                    .num_heads = 6,
                    .num_kv_heads = 2};
  for (const Causal causal : {Causal::kBottomRight, Causal::kTopLeft}) {
    const Finished finished =
        run_attend({"plan", "--layer", "dot", "--shape", "4,5,60,16,16,8", "--num-heads", "6", "--num-kv-heads", "2",
                    "--causal", causal == Causal::kTopLeft ? "top-left" : "bottom-right", "--skip-padded-queries"});
    CHECK(finished.err == "");
    CHECK(finished.exit_code == 0);
    CHECK(finished.out.starts_with(
        DotAttention().plan(shape, {.causal = causal, .padding = Padding::kSkipQueries}).explain()));
  }
}

TEST_CASE("attend check: files, one target, and outputs on request") {
  const TempDir dir;
  const std::string layer = data_path("dates/recurrent.decoder.attention.npz");
  const Finished finished =
      run_attend({"check", "--layer", "additive", "--weights", data_path("dates/recurrent.safetensors"), "--prefix",
                  "decoder.attention.", "--queries", layer + ":queries", "--keys", layer + ":keys", "--valid-lens",
                  layer + ":valid_lens", "--target", Target::available().back().name(), "--output", dir.path("o.npy")});
  CHECK(finished.err == "");
  REQUIRE(finished.exit_code == 0);
  CHECK(lines_of(finished.out).back().starts_with(Target::available().back().name()));
  CHECK(dir.names() == std::vector<std::string>{"o.npy"});
}

namespace {

// What attend check keeps of the best target, or of the only one.
RunResult checked(const TempDir& dir, std::vector<std::string> words) {
  words.insert(words.begin(), "check");
  words.insert(words.end(), {"--output", dir.path("o.npy"), "--attention-weights", dir.path("w.npy")});
  const Finished finished = run_attend(words);
  INFO(finished.out, finished.err);
  REQUIRE(finished.exit_code == 0);
  return {io::load_tensor(dir.path("o.npy")).data, io::load_tensor(dir.path("w.npy")).data};
}

}  // namespace

TEST_CASE("attend check: what its words say is what is checked, to the last bit of the library's own results") {
  const TempDir dir;
  Random random(60);
  const Tensor queries = random.normal({2, 300, 16}), keys = random.normal({2, 80, 16}),
               values = random.normal({2, 80, 12});
  const std::vector<std::int32_t> lens = {25, 7};
  const std::vector<std::string> files = {"--queries", save(dir, "q.npy", queries), "--keys", save(dir, "k.npy", keys),
                                          "--values",  save(dir, "v.npy", values)};
  dir.write("l.npy", npy_file(npy_dict("<i4", "(2,)"), le32(25) + le32(7)));
  const Shape shape{.batch = 2, .num_queries = 300, .num_keys = 80, .query_size = 16, .key_size = 16, .value_size = 12};
  const DotAttention dot;
  const std::string last = Target::available().back().name();
  const struct {
    std::vector<std::string> words;
    Attention layer;
    PlanOptions options;
    bool has_lens, changes_bits;
  } kCases[] = {
      {.words = {}, .layer = dot, .options = {}, .has_lens = false, .changes_bits = false},
      {{"--layer", "dot", "--scale", "0.5"}, DotAttention({.scale = 0.5f}), {}, false, true},
      {{"--layer", "gaussian"}, GaussianAttention(), {}, false, true},
      {{"--layer", "gaussian", "--sigma", "3"}, GaussianAttention({.sigma = 3}), {}, false, true},
      {{"--causal", "top-left"}, dot, {.causal = Causal::kTopLeft}, false, true},
      {{"--causal", "bottom-right"}, dot, {.causal = Causal::kBottomRight}, false, true},
      {{"--valid-lens", dir.path("l.npy")}, dot, {}, true, true},
      {{"--valid-lens", dir.path("l.npy"), "--skip-padded-queries"},
       dot,
       {.padding = Padding::kSkipQueries},
       true,
       true},
      {{"--concat-queries"}, dot, {.concat_queries = true}, false, true},
      {{"--pairs", "always"}, dot, {.pairs = Pairs::kAlways}, false, true},
      {{"--parts", "always"}, dot, {.parts = Parts::kAlways}, false, true},
      // Not everywhere other than where faster, and than the best target.
      {{"--pairs", "never"}, dot, {.pairs = Pairs::kNever}, false, false},
      {{"--target", last}, dot, {.target = Target::from_name(last)}, false, false},
  };
  const RunResult plain = checked(dir, files);
  for (const auto& c : kCases) {
    std::string said;
    for (const std::string& word : c.words) said += word + " ";
    INFO(said);
    std::vector<std::string> words = files;
    words.insert(words.end(), c.words.begin(), c.words.end());
    const RunResult found = checked(dir, words);
    PlanOptions options = c.options;
    options.attention_weights = true;
    Inputs in{.queries = queries.view(), .keys = keys.view(), .values = values.view()};
    if (c.has_lens) in.valid_lens = {lens.data(), {2}};
    CHECK(same_bits(found, run_plan(c.layer.plan(shape, options), in, true)));
    if (c.changes_bits) CHECK_FALSE(same_bits(found.output, plain.output));
  }
}

TEST_CASE("attend check: words that plan and reference must both follow change what is checked") {
  const TempDir dir;
  const std::vector<std::string> multi_head = {"--layer", "multi-head", "--num-heads", "2", "--shape", "2,5,9,8"};
  const std::vector<std::string> bilinear = {"--layer", "bilinear", "--shape", "2,5,9,8"};
  const auto changes = [&](std::vector<std::string> words, const std::string& word, const std::string& value) {
    const RunResult without = checked(dir, words);
    words.insert(words.end(), {word, value});
    return !same_bits(checked(dir, words).output, without.output);
  };
  CHECK(changes(bilinear, "--scale", "3"));
  CHECK(changes(multi_head, "--scale", "3"));
  CHECK(changes(multi_head, "--scoring", "additive"));
}

TEST_CASE("attend check: each target is checked itself, on two threads unless told otherwise") {
  const std::vector<std::string> words = {"check", "--layer", "dot", "--shape", "2,20,50,40"};
  const std::vector<Target> targets = Target::available();
  const std::vector<std::string> all = lines_of(run_attend(words).out);
  REQUIRE(all.size() > targets.size());
  for (std::size_t i = 0; i < targets.size(); ++i) {
    std::vector<std::string> one = words;
    one.insert(one.end(), {"--target", targets[i].name()});
    const std::string& line = all[all.size() - targets.size() + i];
    CHECK(lines_of(run_attend(one).out).back() == line);
    CHECK(contains(line, "same bits on 1 and 2 threads"));
  }
}

TEST_CASE("attend check: made-up lengths are 0 to N, the first of them N") {
  const TempDir dir;
  const RunResult result = checked(dir, {"--layer", "dot", "--shape", "60,1,4"});
  REQUIRE(result.attention_weights.size() == 240);
  std::vector<std::size_t> times(5, 0);
  for (std::size_t b = 0; b < 60; ++b) {
    const auto row = result.attention_weights.begin() + static_cast<std::ptrdiff_t>(4 * b);
    const auto len = static_cast<std::size_t>(std::count_if(row, row + 4, [](float w) { return w != 0; }));
    if (b == 0) CHECK(len == 4);
    ++times[len];
  }
  for (const std::size_t count : times) CHECK(count >= 4);  // of 12 expected
}

TEST_CASE("attend check: out of contract is exit code 1, and nothing is written") {
  // Values overflow on their way, beyond what Plan::run promises: they are added up before they are divided.
  const TempDir dir;
  const std::string q = save(dir, "q.npy", Tensor{{1, 1, 1}, {1}});
  const std::string k = save(dir, "k.npy", Tensor{{1, 3, 1}, {1, 1, 1}});
  const std::string v = save(dir, "v.npy", Tensor{{1, 3, 1}, {3e38f, 3e38f, 3e38f}});
  const Finished finished = run_attend(
      {"check", "--layer", "dot", "--queries", q, "--keys", k, "--values", v, "--output", dir.path("o.npy")});
  INFO(finished.out, finished.err);
  CHECK(finished.exit_code == 1);
  CHECK(contains(finished.out, "OUT OF CONTRACT"));
  REQUIRE(lines_of(finished.err).size() == 1);
  CHECK(finished.err.starts_with("attend: error: out of contract on "));
  CHECK(dir.names() == std::vector<std::string>{"k.npy", "q.npy", "v.npy"});
}

TEST_CASE("attend check: terms that cancel are within contract, which counts their sizes, until it proves nothing") {
  // Products of 10^7: f32 cannot hold what is left of them, whoever adds them up.
  const TempDir dir;
  const std::string q = save(dir, "q.npy", Tensor{{1, 1, 3}, {3000.1f, -3000.7f, 1.3f}});
  const std::string k =
      save(dir, "k.npy", Tensor{{1, 3, 3}, {3333.7f, 3333.1f, 1, 3333.3f, 3332.7f, 7, 3331.9f, 3331.3f, 3}});
  const Finished finished = run_attend({"check", "--layer", "dot", "--queries", q, "--keys", k});
  INFO(finished.out, finished.err);
  CHECK(finished.exit_code == 0);
  CHECK(contains(finished.out, "(4 + S 1.15488e+07)"));
  CHECK(contains(finished.out, "bound of attention_weights: 2.3e+00"));
  CHECK_FALSE(contains(finished.out, "  OK  "));
  CHECK(contains(finished.out, "  NO PROOF  "));
  CHECK(finished.err.starts_with("attend: note: attention weights are 0 to 1, the bound of their errors is 2.3e+00"));
  const Finished smaller = run_attend({"check", "--layer", "dot", "--scale", "0.2", "--queries", q, "--keys", k});
  INFO(smaller.out);
  CHECK(contains(smaller.out, "bound of attention_weights: 8.0e-01"));
  CHECK(contains(smaller.out, "  OK  "));
  CHECK(smaller.err == "");
}

TEST_CASE("attend check: garbage behind the valid lengths changes nothing") {
  const TempDir dir;
  Tensor keys = counting({1, 4, 4});
  for (std::size_t i = 8; i < 16; ++i) keys.data[i] = i % 2 == 0 ? NAN : INFINITY;
  const std::string q = save(dir, "q.npy", counting({1, 3, 4}));
  const std::string k = save(dir, "k.npy", keys);
  const std::string lens = dir.path("l.npy");
  dir.write("l.npy", std::string("\x93NUMPY\x01\x00\x46\x00", 10) +
                         "{'descr': '<i4', 'fortran_order': False, 'shape': (1,), }            \n" +
                         std::string("\x02\x00\x00\x00", 4));
  const Finished finished = run_attend({"check", "--layer", "dot", "--queries", q, "--keys", k, "--valid-lens", lens});
  INFO(finished.out, finished.err);
  CHECK(finished.exit_code == 0);
}

}  // namespace attend::tests

#endif  // ATTEND_CLI_PATH
