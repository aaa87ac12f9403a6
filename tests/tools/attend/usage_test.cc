// Wrong usage: exit code 2, help and what is wrong on stderr; and help itself.
#include "tests/tools/attend/process.h"

#ifdef ATTEND_CLI_PATH

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "attend/version.h"
#include "tests/support/npz_data.h"
#include "tests/tools/io/build_files.h"

namespace attend::tests {

TEST_CASE("attend: help and version are no errors") {
  for (const std::vector<std::string>& words : std::vector<std::vector<std::string>>{{"--help"},
                                                                                     {"-h"},
                                                                                     {"run", "--help"},
                                                                                     {"softmax", "--help"},
                                                                                     {"plan", "--help"},
                                                                                     {"targets", "--help"},
                                                                                     {"check", "--help"},
                                                                                     {"heatmap", "--help"},
                                                                                     {"compare", "--help"},
                                                                                     {"bench-compare", "--help"},
                                                                                     {"turns", "--help"}}) {
    const Finished help = run_attend(words);
    CHECK(help.exit_code == 0);
    CHECK(help.err == "");
    CHECK(contains(help.out, "Usage: attend"));
    CHECK(contains(help.out, "Example:"));
    CHECK_FALSE(contains(help.out, "\n\n\n"));
    for (const std::string& line : lines_of(help.out)) CHECK(line.size() <= 120);
  }
  const Finished version = run_attend({"--version"});
  CHECK(version.exit_code == 0);
  CHECK(version.out == std::string("attend ") + attend::version() + "\n");
}

TEST_CASE("attend: help speaks of no option that the subcommand does not have") {
  for (const char* subcommand :
       {"run", "softmax", "plan", "targets", "check", "heatmap", "compare", "bench-compare", "turns"}) {
    const std::string help = run_attend({subcommand, "--help"}).out;
    REQUIRE(contains(help, "Options:"));
    for (std::size_t at = help.find("--"); at != std::string::npos; at = help.find("--", at)) {
      const std::size_t end = help.find_first_not_of("abcdefghijklmnopqrstuvwxyz_-", at);
      const std::string word = help.substr(at, end - at);
      const bool is_of_another =  // command: attend plan, and programs of Google Benchmark
          help.substr(0, at).ends_with("attend plan ") || word.starts_with("--benchmark_");
      INFO(subcommand, " --help: ", word);
      CHECK((is_of_another || word == "--help" || contains(help, "\n  " + word + " ")));
      at = end;
    }
  }
}

TEST_CASE("attend: help says which words must be given, and what pairs, parts and layouts are by default") {
  const std::string run = run_attend({"run", "--help"}).out, plan = run_attend({"plan", "--help"}).out;
  CHECK(contains(run, "\n  --queries FILE REQUIRED "));
  CHECK(contains(run, "\n  --output FILE REQUIRED "));
  CHECK(contains(run, "\n  --keys FILE  "));
  CHECK(contains(plan, "\n  --queries FILE  "));
  CHECK(contains(run_attend({"heatmap", "--help"}).out, "\n  --output FILE REQUIRED "));
  for (const char* word : {"--pairs", "--parts", "--head-layout", "--tune", "--skip-padded-queries", "--profile"}) {
    INFO(word);
    const std::size_t at = plan.find(std::string("\n  ") + word + " ");
    REQUIRE(at != std::string::npos);
    CHECK(contains(plan.substr(at, plan.find("\n  --", at + 1) - at), "Default: "));
  }
}

TEST_CASE("attend: help has the same words and lines whatever CLI11 makes of them") {
  CHECK(run_attend({"compare", "--help"}).out ==
        R"(Prints the largest difference of two equal-sized tensors, as float32.
Usage: attend compare [OPTIONS] ACTUAL EXPECTED

Positionals:
  ACTUAL REQUIRED            A tensor: file.npy, file.npz:name or file.safetensors:name.
  EXPECTED REQUIRED          The tensor it should equal.

Options:
  -h,--help                  Prints this help.
  --tolerance X              Exit 1 when the largest difference is beyond this. Default: it is only printed.

Example:
  attend compare out.npy pytorch.npz:output --tolerance 1e-5
)");
}

TEST_CASE("attend: wrong usage is told with help, exit code 2") {
  const TempDir dir;
  CHECK(is_wrong_usage(run_attend({}), "subcommand"));
  CHECK(is_wrong_usage(run_attend({"dance"}), "dance"));
  CHECK(is_wrong_usage(run_attend({"run", "--quereis", "q.npy", "--output", "o.npy"}), "--quereis"));
  CHECK(is_wrong_usage(run_attend({"run", "--output", dir.path("o.npy")}), "--queries"));
  CHECK(is_wrong_usage(run_attend({"run", "--queries", "q.npy"}), "--output"));
  CHECK(is_wrong_usage(run_attend({"softmax", "--output", dir.path("o.npy")}), "--input"));
  CHECK(is_wrong_usage(run_attend({"targets", "all"}), "all"));
  CHECK(is_wrong_usage(run_attend({"plan", "--layer", "dot"}), "--shape"));
  CHECK(is_wrong_usage(run_attend({"plan", "--shape", "2,3"}), "--shape"));
  CHECK(is_wrong_usage(run_attend({"plan", "--shape", "2,3,-4"}), "'-4'"));
  CHECK(is_wrong_usage(run_attend({"plan", "--shape", "2,3,4", "--queries", "q.npy"}), "--queries"));
  CHECK(is_wrong_usage(run_attend({"plan", "--shape", "2,3,4", "--prefix", "p."}), "--prefix"));
  CHECK(is_wrong_usage(run_attend({"run", "--shape", "2,3,4"}), "--shape"));
  const auto run = [&](const std::vector<std::string>& more) { return run_attend(run_words(dir, more)); };
  CHECK(is_wrong_usage(run({"--layer", "cubic"}), "cubic"));
  CHECK(is_wrong_usage(run({"--layer", "multi-head", "--scoring", "cubic"}), "cubic"));
  CHECK(is_wrong_usage(run({"--causal", "up"}), "--causal: 'up', expected bottom-right or top-left"));
  CHECK(is_wrong_usage(run({"--pairs", "often"}), "--pairs: 'often', expected where-faster, never or always"));
  CHECK(is_wrong_usage(run({"--parts", "some"}), "--parts: 'some', expected where-faster, never or always"));
  CHECK(is_wrong_usage(run({"--skip-padded-queries"}), "--skip-padded-queries is of no use without --valid-lens"));
  CHECK(is_wrong_usage(run({"--layer", "dot", "--keys", ""}), "--keys"));
  CHECK(dir.names() == std::vector<std::string>{"q.npy"});
}

TEST_CASE("attend: wrong usage is told in the command's own words") {
  const TempDir dir;
  const std::string q = save(dir, "q.npy", counting({2, 3, 4})), out = dir.path("o.npy");
  const struct {
    std::vector<std::string> words;
    std::string message;
  } kFaults[] = {
      {{}, "a subcommand is required, expected one of run, softmax, plan, "},
      {{"dance"}, "unknown word 'dance', expected one of run, softmax, plan, "},
      {{"--queries", q, "run"}, "unknown word '--queries', expected one of run, softmax, plan, "},
      {{"targets", "all", "more"}, "unknown word 'all', which attend targets does not take"},
      {{"targets", "--all"}, "unknown word '--all', which attend targets does not take"},
      {{"run", "--queries", q}, "--output is required"},
      {{"compare", q}, "EXPECTED is required"},
      {{"compare", q, q, q}, "unknown word '" + q + "'"},
      {{"run", "--queries", q, "--output"}, "--output is without its value, expected --output FILE"},
      {{"run", "--queries", q, "--output", out, "--threads"}, "--threads is without its value, expected --threads N"},
      {{"run", "--queries", q, "--output", out, "--threads", "1", "--threads", "2"},
       "--threads is given 2 times, expected once"},
      {{"run", "--queries", q, "--output", out, "--output", out, "--output", out},
       "--output is given 3 times, expected once"},
      {{"run", "--queries", q, "--output", out, "--quiet=perhaps"}, "--quiet takes no value"},
      {{"plan", "--shape", "1,2,3", "--attention-weights", "a.npy", "--attention-weights", "b.npy"},
       "--attention-weights is given more than once, expected once"},
      {{"bench-compare", q, q, "--time", "cpu", "--across-machines"},
       "--time and --across-machines exclude each other: across machines no times are compared"}};
  for (const auto& fault : kFaults) {
    INFO(fault.message);
    const Finished finished = run_attend(fault.words);
    INFO(finished.err);
    REQUIRE(is_wrong_usage(finished, ""));
    CHECK(lines_of(finished.err).back().starts_with("attend: error: " + fault.message));
    CHECK(lines_of(finished.err).back().size() < fault.message.size() + 100);
  }
  CHECK(dir.names() == std::vector<std::string>{"q.npy"});
}

TEST_CASE("attend: an option whose value is missing does not take the next option for it") {
  const TempDir dir;
  const std::string q = save(dir, "q.npy", counting({2, 3, 4})), out = dir.path("o.npy");
  const auto refused = [](std::vector<std::string> words, const std::string& word, const std::string& value,
                          const std::vector<std::string>& rest) {
    words.push_back(word);
    words.insert(words.end(), rest.begin(), rest.end());
    const Finished finished = run_attend(words);
    INFO(word, ": ", finished.err);
    const std::string found = rest.empty() ? "" : ", found '" + rest.front() + "'";
    CHECK(is_wrong_usage(finished, ""));
    CHECK(finished.err.ends_with("\nattend: error: " + word + " is without its value, expected " + word + " " + value +
                                 found + "\n"));
  };
  refused({"run"}, "--queries", "FILE", {"--keys", "k.npy"});
  for (const char* word : {"--keys", "--values", "--valid-lens", "--weights", "--attention-weights", "--profile"}) {
    for (const std::vector<std::string>& rest : {std::vector<std::string>{"--output", out},
                                                 {"--output=" + out},
                                                 {"--causal"},
                                                 {"--typo"},
                                                 {"--help"},
                                                 {"--"}}) {
      refused({"run", "--queries", q}, word, "FILE", rest);
    }
    refused({"run", "--queries", q, "--output", out}, word, "FILE", {});
  }
  refused({"run", "--queries", q}, "--output", "FILE", {"--quiet"});
  refused({"run", "--queries", q}, "--threads", "N", {"--output", out});
  refused({"run", "--queries", q}, "--prefix", "P", {"--output", out});
  refused({"plan", "--layer", "dot"}, "--shape", "SIZES", {"--threads", "2"});
  refused({"plan", "--layer", "dot", "--shape", "1,2,3", "--tune"}, "--profile", "FILE", {"--measure"});
  refused({"softmax"}, "--input", "FILE", {"--output", out});
  refused({"softmax", "--input", q}, "--valid-lens", "FILE", {"--output", out});
  refused({"check", "--layer", "dot"}, "--queries", "FILE", {"--output", out});
  refused({"heatmap"}, "--attention-weights", "FILE", {"--output", dir.path("o.png")});
  refused({"heatmap", "--attention-weights", q}, "--row-labels", "FILE", {"--output", dir.path("o.png")});
  refused({"heatmap", "--attention-weights", q}, "--title", "TEXT", {"--output", dir.path("o.png")});
  refused({"compare", q, q}, "--tolerance", "X", {"--help"});
  refused({"bench-compare", q, q}, "--filter", "REGEX", {"--output", dir.path("o.csv")});
  refused({"turns", q, q, "--layer", "dot"}, "--queries", "FILE", {"--seconds", "1"});
  // Values that look like options, written so that they are none; and one that may be left out.
  CHECK(
      run_attend({"heatmap", "--attention-weights", q, "--title=--output", "--output", dir.path("o.svg")}).exit_code ==
      0);
  CHECK(is_error(run_attend({"run", "--queries=--keys", "--output", out}), "--queries: --keys: unknown file type"));
  CHECK(run_attend({"plan", "--layer", "dot", "--attention-weights", "--shape", "1,2,3"}).exit_code == 0);
  CHECK(run_attend({"run", "--layer", "dot", "--queries", q, "--scale", "-1", "--output", out}).exit_code == 0);
  CHECK(dir.names() == std::vector<std::string>{"o.npy", "o.svg", "q.npy"});
}

TEST_CASE("attend: a number that is none, out of range or too large is wrong usage, never another number") {
  const TempDir dir;
  const auto refused = [&](const std::vector<std::string>& words, const std::string& word, const std::string& text,
                           const std::string& expected) {
    std::vector<std::string> all = words;
    all.insert(all.end(), {word, text});
    const Finished finished = run_attend(all);
    INFO(word, " ", text, ": ", finished.err);
    CHECK(is_wrong_usage(finished, "attend: error: " + word + ": '" + text + "', expected " + expected));
    CHECK(finished.err.ends_with(expected + "\n"));
  };
  const std::vector<std::string> plan = {"plan", "--layer", "multi-head", "--shape", "1,2,3"};
  for (const char* word : {"--num-heads", "--num-kv-heads", "--num-hiddens"}) {
    for (const char* text : {"0", "-2", "two", "", "2.5", "4x", "0x4", " 4", "+4"}) {
      refused(plan, word, text, "a whole number from 1 on");
    }
    refused(plan, word, "4000000000000000000000", "a whole number from 1 to 9223372036854775807");
  }
  for (const char* text : {"two", "-1", "1025", "4000000000000000000000"}) {
    refused(plan, "--threads", text, "a whole number from 0 to 1024");
    refused({"softmax", "--input", "s.npy", "--output", dir.path("o.npy")}, "--threads", text,
            "a whole number from 0 to 1024");
  }
  for (const char* text : {"1e39", "-1e39", "1e-60", "inf", "nan", "wide", "", "1,5", "2x"}) {
    refused(plan, "--scale", text, "a finite number in the range of float32");
    refused({"plan", "--layer", "gaussian", "--shape", "1,2,3"}, "--sigma", text,
            "a finite number in the range of float32");
  }
  const std::vector<std::string> heatmap = {"heatmap", "--attention-weights", "w.npy", "--output", dir.path("o.png")};
  for (const char* text : {"-1", "x", "1.5"}) {
    refused(heatmap, "--batch", text, "a whole number from 0 on");
    refused(heatmap, "--head", text, "a whole number from 0 on, or all");
  }
  refused(heatmap, "--batch", "99999999999999999999", "a whole number from 0 to 9223372036854775807");
  refused(heatmap, "--head", "99999999999999999999", "a whole number from 0 to 9223372036854775807, or all");
  CHECK(run_attend({"plan", "--layer", "dot", "--shape", "1,2,3", "--scale", "-2.5e-3"}).exit_code == 0);
  CHECK(run_attend({"plan", "--layer", "dot", "--shape", "1,2,3", "--num-heads", "007"}).exit_code == 0);
  CHECK(dir.names().empty());
}

TEST_CASE("attend: words of another layer are wrong usage") {
  const TempDir dir;
  const std::string weights = data_path("dates/recurrent.safetensors");
  const auto run = [&](const std::vector<std::string>& more) { return run_attend(run_words(dir, more)); };
  CHECK(is_wrong_usage(run({"--layer", "dot", "--sigma", "2"}), "--sigma"));
  CHECK(is_wrong_usage(run({"--layer", "gaussian", "--scale", "2"}), "--scale"));
  CHECK(is_wrong_usage(run({"--layer", "dot", "--num-heads", "2"}), "--num-heads"));
  CHECK(is_wrong_usage(run({"--layer", "additive", "--weights", weights, "--num-heads", "2"}), "--num-heads"));
  CHECK(is_wrong_usage(run({"--num-kv-heads", "1"}), "--num-kv-heads belongs to multi-head: say which with --layer"));
  CHECK(is_wrong_usage(run({"--layer", "dot", "--num-kv-heads", "1"}), "--num-kv-heads"));
  CHECK(is_wrong_usage(run({"--layer", "bilinear", "--weights", weights, "--num-kv-heads", "1"}), "--num-kv-heads"));
  CHECK(is_wrong_usage(run({"--layer", "multi-head", "--weights", weights, "--num-heads", "6", "--num-kv-heads", "4"}),
                       "--num-kv-heads: 4, expected a divisor of --num-heads, 6"));
  CHECK(is_wrong_usage(run({"--layer", "multi-head", "--weights", weights, "--num-heads", "6", "--num-kv-heads", "0"}),
                       "--num-kv-heads"));
  CHECK(is_wrong_usage(run({"--layer", "multi-head", "--weights", weights, "--num-heads", "6", "--num-kv-heads", "2",
                            "--scoring", "additive"}),
                       "--num-kv-heads belongs to dot scoring"));
  CHECK(is_wrong_usage(
      run_attend({"plan", "--layer", "dot", "--shape", "2,3,4", "--num-heads", "3", "--num-kv-heads", "2"}),
      "--num-kv-heads: 2, expected a divisor of --num-heads, 3"));
  CHECK(is_wrong_usage(run({"--layer", "additive", "--weights", weights, "--scale", "2"}), "--scale"));
  CHECK(is_wrong_usage(run({"--layer", "bilinear", "--weights", weights, "--scoring", "dot"}), "--scoring"));
  CHECK(is_wrong_usage(run({"--layer", "dot", "--weights", weights}), "--weights"));
  CHECK(is_wrong_usage(run({"--layer", "additive"}), "--weights"));
  CHECK(is_wrong_usage(run({"--sigma", "2"}), "--layer"));
  CHECK(is_wrong_usage(run({"--layer", "multi-head", "--weights", weights, "--scoring", "additive", "--scale", "2"}),
                       "--scale"));
}

TEST_CASE("attend: outputs must be two .npy files") {
  const TempDir dir;
  const std::string q = save(dir, "q.npy", counting({2, 3, 4}));
  for (const char* name : {"o.npz:output", "o.safetensors", "o", ".npy/"}) {
    CHECK(is_wrong_usage(run_attend({"run", "--queries", q, "--output", dir.path(name)}), "--output"));
  }
  CHECK(is_wrong_usage(run_attend(run_words(dir, {"--attention-weights", dir.path("w.txt")})), "--attention-weights"));
  // A file of such a name could not be read again.
  const std::string spec = dir.path("x.npz:y.npy"),
                    expected = "'" + spec + "', expected a file name, but this names tensor 'y.npy' of '";
  CHECK(is_wrong_usage(run_attend({"run", "--queries", q, "--output", spec}), "--output: " + expected));
  CHECK(is_wrong_usage(run_attend({"softmax", "--input", q, "--output", spec}), "--output: " + expected));
  CHECK(is_wrong_usage(run_attend(run_words(dir, {"--attention-weights", spec})), "--attention-weights: " + expected));
  CHECK(dir.names() == std::vector<std::string>{"q.npy"});
  CHECK(is_wrong_usage(run_attend(run_words(dir, {"--attention-weights", dir.path() + "/./o.npy"})), "same file"));
}

TEST_CASE("attend: two outputs are one file whatever it is called, and before it is there") {
  namespace fs = std::filesystem;
  const TempDir dir;
  const std::string q = save(dir, "q.npy", counting({2, 3, 4}));
  fs::create_symlink("x.npy", dir.path("link.npy"));
  fs::create_directory(dir.path("d"));
  const fs::path old_directory = fs::current_path();
  fs::current_path(dir.path());
  for (const std::string& name :
       {std::string("x.npy"), std::string("./x.npy"), std::string("d/../x.npy"), std::string("none/../x.npy"),
        std::string("link.npy"), dir.path("x.npy"), dir.path("d/../x.npy"), dir.path("link.npy")}) {
    INFO(name);
    for (const std::string& other : {std::string("x.npy"), std::string("./x.npy"), dir.path("x.npy")}) {
      const std::vector<std::string> outputs = {"--output", name, "--attention-weights", other};
      for (std::vector<std::string> words : {std::vector<std::string>{"run", "--queries", q},
                                             std::vector<std::string>{"check", "--layer", "dot", "--queries", q}}) {
        words.insert(words.end(), outputs.begin(), outputs.end());
        CHECK(is_wrong_usage(run_attend(words), "--output and --attention-weights are the same file, '" + name + "'"));
      }
    }
  }
  fs::current_path(old_directory);
  CHECK(dir.names() == std::vector<std::string>{"d", "link.npy", "q.npy"});
}

TEST_CASE("attend: an output that would replace an input is wrong usage, and the input stays") {
  namespace fs = std::filesystem;
  const TempDir dir;
  const std::string q = save(dir, "q.npy", counting({2, 3, 4})), k = save(dir, "k.npy", counting({2, 3, 4})),
                    lens = dir.write("l.npy", npy_file("{'descr': '<i4', 'fortran_order': False, 'shape': (2,), }\n",
                                                       le32(1) + le32(3)));
  const std::string queries = dir.read("q.npy"), lengths = dir.read("l.npy");
  fs::create_symlink("q.npy", dir.path("link.npy"));
  for (const char* subcommand : {"run", "check"}) {
    INFO(subcommand);
    const auto refused = [&](const std::vector<std::string>& more, const std::string& words) {
      std::vector<std::string> all = {subcommand, "--layer", "dot", "--queries", q};
      all.insert(all.end(), more.begin(), more.end());
      return is_wrong_usage(run_attend(all), words + " are the same file");
    };
    CHECK(refused({"--output", q}, "--output and --queries"));
    CHECK(refused({"--output", dir.path("link.npy")}, "--output and --queries"));
    CHECK(refused({"--keys", k, "--output", dir.path("./k.npy")}, "--output and --keys"));
    CHECK(refused({"--values", k, "--output", k}, "--output and --values"));
    CHECK(refused({"--valid-lens", lens, "--output", lens}, "--output and --valid-lens"));
    CHECK(refused({"--output", dir.path("o.npy"), "--attention-weights", q}, "--attention-weights and --queries"));
  }
  CHECK(is_wrong_usage(run_attend({"run", "--queries", q, "--profile", k, "--output", k}), "--output and --profile"));
  CHECK(is_wrong_usage(run_attend({"run", "--layer", "bilinear", "--queries", q, "--weights", k, "--output", k}),
                       "--output and --weights"));
  CHECK(is_wrong_usage(run_attend({"softmax", "--input", q, "--output", q}), "--output and --input"));
  CHECK(is_wrong_usage(run_attend({"softmax", "--input", q, "--valid-lens", lens, "--output", lens}),
                       "--output and --valid-lens"));
  // Through a link, since the name of an output has another ending.
  const std::string npz = dir.path("z.npz");
  io::save_npz(npz, {{"x", counting({2, 3, 4}).view()}});
  const std::string zipped = dir.read("z.npz");
  fs::create_symlink("z.npz", dir.path("to_npz.npy"));
  fs::create_symlink("z.npz", dir.path("to_npz.png"));
  const std::string link = dir.path("to_npz.npy"), tensor = npz + ":x";
  CHECK(is_wrong_usage(run_attend({"run", "--layer", "dot", "--queries", tensor, "--output", link}),
                       "--output and --queries are the same file"));
  CHECK(is_wrong_usage(run_attend({"softmax", "--input", tensor, "--output", link}),
                       "--output and --input are the same file"));
  CHECK(is_wrong_usage(run_attend({"heatmap", "--attention-weights", tensor, "--output", dir.path("to_npz.png")}),
                       "--output and --attention-weights are the same file"));
  CHECK(dir.read("z.npz") == zipped);
  for (const char* name : {"z.npz", "to_npz.npy", "to_npz.png"}) fs::remove(dir.path(name));
  CHECK(dir.read("q.npy") == queries);
  CHECK(dir.read("k.npy") == queries);
  CHECK(dir.read("l.npy") == lengths);
  // What plan takes as the words of run is not written.
  CHECK(run_attend({"plan", "--layer", "dot", "--queries", q, "--output", q}).exit_code == 0);
  CHECK(dir.names() == std::vector<std::string>{"k.npy", "l.npy", "link.npy", "q.npy"});
}

TEST_CASE("attend: a word that is empty is wrong usage, not a word that was not given") {
  const TempDir dir;
  const std::string q = save(dir, "q.npy", counting({2, 3, 4})), out = dir.path("o.npy");
  for (const char* word : {"--valid-lens", "--target"}) {
    CHECK(is_wrong_usage(run_attend({"softmax", "--input", q, word, "", "--output", out}),
                         std::string(word) + " is empty"));
    CHECK(is_wrong_usage(run_attend({"run", "--queries", q, word, "", "--output", out}),
                         std::string(word) + " is empty"));
  }
  CHECK(is_wrong_usage(run_attend({"softmax", "--input", "", "--output", out}), "--input is empty"));
  // Written with =, and an option where a value is missing: neither takes the next option for its value.
  const std::string lens = "--valid-lens=" + dir.path("none.npy");
  CHECK(is_wrong_usage(run_attend({"softmax", "--input=" + q, "--output=", lens}), "--output"));
  CHECK(is_wrong_usage(run_attend({"run", "--layer", "dot", "--queries", q, "--output=", lens}), "--output"));
  CHECK(is_wrong_usage(run_attend({"run", "--layer", "dot", "--queries", q, "--output", lens}),
                       "--output is without its value, expected --output FILE, found '" + lens + "'"));
  CHECK(is_wrong_usage(run_attend({"plan", "--layer", "dot", "--shape", "1,2,3", "--profile=", "--tune"}),
                       "--profile is empty"));
  CHECK(is_wrong_usage(run_attend({"compare", q, ""}), "EXPECTED is empty"));
  CHECK(dir.names() == std::vector<std::string>{"q.npy"});
}

TEST_CASE("attend: a shape that is none is told as it was given, with what is wrong in it") {
  const auto refused = [](const std::string& shape, const std::string& message) {
    const Finished finished = run_attend({"plan", "--layer", "dot", "--shape", shape});
    INFO(finished.err);
    CHECK(is_wrong_usage(finished, "attend: error: --shape" + message));
  };
  refused("", " is empty");
  for (const char* shape : {"1", "1,2", "1,2,3,4,5,6,7"}) {
    refused(shape, std::string(": '") + shape + "', expected 3 to 6 sizes, B,M,N[,Dq[,Dk[,Dv]]]");
  }
  const std::string whole = " is not a size, expected whole numbers like 8,128,128,64";
  for (const char* entry : {"", "x", "-4", "-99999999999999999999", "+4", " 4", "4.", "1e3", "0x4"}) {
    const std::string shape = std::string("2,") + entry + ",3";
    refused(shape, ": '" + shape + "': '" + entry + "'" + whole);
  }
  refused("99999999999999999999,1,1",
          ": '99999999999999999999,1,1': size 99999999999999999999, expected at most "
          "9223372036854775807");
}

TEST_CASE("attend: sizes of elements are 1 or more where they are given, and heads divide the hidden units") {
  for (const char* shape : {"1,2,3,0", "1,2,3,4,0", "1,2,3,4,4,0"}) {
    CHECK(is_wrong_usage(run_attend({"plan", "--layer", "dot", "--shape", shape}), "size 0, expected 1 or more"));
  }
  CHECK(run_attend({"plan", "--layer", "dot", "--shape", "0,0,0,4"}).exit_code == 0);
  CHECK(is_wrong_usage(run_attend({"check", "--layer", "multi-head", "--shape", "1,1,1,64", "--num-heads", "4",
                                   "--num-kv-heads", "2", "--num-hiddens", "1"}),
                       "--num-hiddens: 1, expected a multiple of --num-heads, 4"));
}

}  // namespace attend::tests

#endif  // ATTEND_CLI_PATH
