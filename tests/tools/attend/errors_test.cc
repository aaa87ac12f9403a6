// What goes wrong: exit codes 1 and 2, one line on stderr, and files that stay as they were.
#include "tests/tools/attend/process.h"

#ifdef ATTEND_CLI_PATH

#include <fcntl.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include "attend/planner.h"
#include "attend/target.h"
#include "tests/support/npz_data.h"
#include "tests/tools/io/build_files.h"

namespace attend::tests {
namespace {

// Words for a run that would succeed, and more.
std::vector<std::string> run_words(const TempDir& dir, const std::vector<std::string>& more) {
  std::vector<std::string> words = {"run", "--queries", save(dir, "q.npy", counting({2, 3, 4})), "--output",
                                    dir.path("o.npy")};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

}  // namespace

TEST_CASE("attend: help and version are no errors") {
  for (const std::vector<std::string>& words : std::vector<std::vector<std::string>>{{"--help"},
                                                                                     {"-h"},
                                                                                     {"run", "--help"},
                                                                                     {"softmax", "--help"},
                                                                                     {"plan", "--help"},
                                                                                     {"targets", "--help"},
                                                                                     {"check", "--help"},
                                                                                     {"heatmap", "--help"},
                                                                                     {"bench-compare", "--help"}}) {
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
  CHECK(version.out.starts_with("attend "));
}

TEST_CASE("attend: help has the same words and lines whatever CLI11 makes of them") {
  CHECK(run_attend({"compare", "--help"}).out ==
        R"(Prints the largest difference of two equal-sized tensors, as float32.
Usage: attend compare [OPTIONS] ACTUAL EXPECTED

Positionals:
  ACTUAL TEXT REQUIRED       A tensor: file.npy, file.npz:name or file.safetensors:name.
  EXPECTED TEXT REQUIRED     The tensor it should equal.

Options:
  -h,--help                  Prints this help.
  --tolerance X              Exit 1 when the largest difference is beyond this.

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

TEST_CASE("attend: errors are one line, exit code 1, and leave all files as they were") {
  const TempDir dir;
  dir.write("o.npy", "old");
  const std::string k = save(dir, "k.npy", counting({2, 5, 6}));
  const std::string lens =
      dir.write("l.npy", npy_file("{'descr': '<i4', 'fortran_order': False, 'shape': (2,), }\n", le32(1) + le32(9)));
  const std::string bad = dir.write("bad.npy", "\x93NUMPY nonsense");
  const auto run = [&](const std::vector<std::string>& more) { return run_attend(run_words(dir, more)); };
  CHECK(is_error(run({"--keys", dir.path("none.npy")}), "none.npy"));
  CHECK(is_error(run({"--keys", bad}), "bad.npy"));
  CHECK(is_error(run({"--layer", "dot", "--keys", k}), "queries have size 4, keys have 6"));
  CHECK(is_error(run({"--keys", k}), "queries have size 4, keys have 6"));
  CHECK(is_error(run({"--valid-lens", lens}), "valid_lens"));
  CHECK(is_error(run({"--valid-lens", k}), "valid lens have sizes (2, 5, 6)"));
  const std::string per_query =
      dir.write("m.npy", npy_file("{'descr': '<i4', 'fortran_order': False, 'shape': (2, 3), }\n",
                                  le32(1) + le32(2) + le32(3) + le32(3) + le32(2) + le32(1)));
  CHECK(is_error(run({"--valid-lens", per_query, "--skip-padded-queries"}),
                 "m.npy: valid lens have sizes (2, 3), expected (2): --skip-padded-queries"));
  const std::string heads = save(dir, "h.npy", counting({2, 6, 3, 4})),
                    four = save(dir, "h4.npy", counting({2, 4, 3, 4})),
                    two = save(dir, "h2.npy", counting({2, 2, 3, 4}));
  const auto on_heads = [&](const std::vector<std::string>& more) {
    std::vector<std::string> words = {"run", "--queries", heads, "--output", dir.path("o.npy")};
    words.insert(words.end(), more.begin(), more.end());
    return run_attend(words);
  };
  CHECK(
      is_error(on_heads({"--keys", four}), "h4.npy: keys have sizes (2, 4, 3, 4), expected (2, 6 or a divisor, N, D)"));
  CHECK(is_error(on_heads({"--keys", two, "--values", heads}),
                 "h.npy: values have sizes (2, 6, 3, 4), expected 2 heads"));
  CHECK(is_error(on_heads({"--values", two}), "h2.npy: values have sizes (2, 2, 3, 4), expected 6 heads"));
  CHECK(is_error(run({"--layer", "gaussian", "--sigma", "0"}), "sigma"));
  CHECK(is_error(run({"--attention-weights", dir.path("none/w.npy")}), "none/w.npy"));
  CHECK(is_error(run({"--attention-weights", dir.path("l.npy/w.npy")}), "l.npy/w.npy: cannot write: "));
  const std::string long_name = std::string(300, 'w') + ".npy";
  CHECK(is_error(run({"--attention-weights", dir.path(long_name)}), long_name + ": cannot write: "));
  const std::string no_elements =
      dir.write("n.npy", npy_file("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3, 0), }\n", ""));
  for (const char* word : {"--keys", "--values"}) {
    CHECK(is_error(run({"--layer", "dot", word, no_elements}),
                   std::string("n.npy: ") + (word + 2) + " have sizes (2, 3, 0), expected at least one element each"));
  }
  std::filesystem::create_directory(dir.path("d.npy"));
  CHECK(is_error(run({"--attention-weights", dir.path("d.npy")}), "directory"));
  CHECK(is_error(
      run({"--layer", "additive", "--weights", data_path("dates/recurrent.safetensors"), "--prefix", "nothing."}),
      "nothing."));
  CHECK(is_error(
      run({"--weights", data_path("dates/transformer.safetensors"), "--prefix", "encoder.layers.0.self_attn."}),
      "--layer multi-head"));
  CHECK(is_error(run({"--keys", dir.path("a\nb.npy")}), "b.npy"));
  const std::string rank2 = save(dir, "r.npy", counting({3, 4}));
  CHECK(is_error(run_attend({"run", "--queries", rank2, "--output", dir.path("o.npy")}), "(B, M, Dq)"));
  const auto softmax = [&](const std::vector<std::string>& inputs) {
    std::vector<std::string> words = {"softmax", "--output", dir.path("o.npy"), "--input"};
    words.insert(words.end(), inputs.begin(), inputs.end());
    return run_attend(words);
  };
  CHECK(is_error(softmax({rank2}), "r.npy: scores have sizes (3, 4), expected (B, M, N) or (B, H, M, N)"));
  CHECK(
      is_error(softmax({k, "--valid-lens", per_query}), "m.npy: valid lens have sizes (2, 3), expected (2) or (2, 5)"));
  CHECK(is_error(run_attend({"check", "--shape", "4000000000,4000000000,4,8"}), ""));
  CHECK(
      is_error(run_attend({"plan", "--layer", "multi-head", "--shape", "1,2,3", "--num-heads", "9223372036854775807"}),
               "(16, 9223372036854775807) is larger than memory can be"));
  CHECK(dir.read("o.npy") == "old");
  CHECK(dir.names() == std::vector<std::string>{"bad.npy", "d.npy", "h.npy", "h2.npy", "h4.npy", "k.npy", "l.npy",
                                                "m.npy", "n.npy", "o.npy", "q.npy", "r.npy"});
}

TEST_CASE("attend: what cannot be printed is an error, and no output file has changed") {
  const TempDir dir;
  const std::string q = save(dir, "q.npy", counting({2, 3, 4})), a = data_path("bench_compare/before.json");
  for (const char* name : {"old.npy", "old.csv"}) dir.write(name, "old");
  const std::string profile = dir.write("old.txt", Profile().text());
  const std::string old_profile = dir.read("old.txt");
  const std::vector<std::vector<std::string>> commands = {
      {"run", "--queries", q, "--output", dir.path("old.npy"), "--attention-weights", dir.path("new.npy")},
      {"run", "--queries", q, "--output", dir.path("old.npy"), "--quiet", "--explain"},
      {"check", "--layer", "dot", "--queries", q, "--output", dir.path("old.npy")},
      {"plan", "--layer", "dot", "--shape", "1,2,3", "--tune", "--profile", profile},
      {"plan", "--layer", "dot", "--shape", "1,2,3", "--tune", "--profile", dir.path("new.txt")},
      {"bench-compare", a, a, "--output", dir.path("old.csv")}};
  const int full = ::open("/dev/full", O_WRONLY | O_CLOEXEC);
  int gone[2];
  REQUIRE(::pipe2(gone, O_CLOEXEC) == 0);
  ::close(gone[0]);
  for (const std::vector<std::string>& command : commands) {
    INFO(command.front());
    for (const int descriptor : {full, gone[1]}) {
      if (descriptor < 0) continue;  // systems without /dev/full
      CHECK(is_error(run_attend(command, descriptor), "cannot write to standard output"));
    }
  }
  ::close(gone[1]);
  if (full >= 0) ::close(full);
  CHECK(dir.read("old.npy") == "old");
  CHECK(dir.read("old.csv") == "old");
  CHECK(dir.read("old.txt") == old_profile);
  CHECK(dir.names() == std::vector<std::string>{"old.csv", "old.npy", "old.txt", "q.npy"});
}

TEST_CASE("attend: a file that may not grow so large is an error, and nothing of it stays") {
  const TempDir dir;
  const std::string q = save(dir, "q.npy", counting({2, 300, 64}));
  dir.write("old.npy", "old");
  const std::vector<std::string> limited = {"/bin/sh", "-c", "ulimit -f 16 && exec \"$0\" \"$@\""};
  const Finished finished =
      run_attend({"run", "--layer", "dot", "--queries", q, "--output", dir.path("old.npy")}, -1, limited);
  CHECK(is_error(finished, "old.npy: cannot write: "));
  CHECK(dir.read("old.npy") == "old");
  CHECK(dir.names() == std::vector<std::string>{"old.npy", "q.npy"});
}

TEST_CASE("attend: where one of two outputs cannot be put in place, the other is what it was") {
  for (const bool replaces : {true, false}) {
    const TempDir dir;
    if (replaces) dir.write("o.npy", "old");
    const std::vector<std::string> words = run_words(dir, {"--attention-weights", dir.path("w.npy")});
    const std::vector<std::string> before = dir.names();
    // Both lie ready when the summary is printed. A pipe that is full holds that up until a directory has taken the
    // place of the second.
    int stdout_pipe[2];
    REQUIRE(::pipe2(stdout_pipe, O_CLOEXEC) == 0);
    REQUIRE(::fcntl(stdout_pipe[1], F_SETFL, O_NONBLOCK) == 0);
    const std::vector<char> filling(1 << 16, '.');
    while (::write(stdout_pipe[1], filling.data(), filling.size()) > 0) {
    }
    while (::write(stdout_pipe[1], filling.data(), 1) > 0) {
    }
    REQUIRE(::fcntl(stdout_pipe[1], F_SETFL, 0) == 0);
    std::thread reader([&] {
      while (dir.names().size() < before.size() + 2) std::this_thread::yield();
      std::this_thread::sleep_for(std::chrono::milliseconds(200));  // the second may be being written
      std::filesystem::create_directories(dir.path("w.npy/in_the_way"));
      std::vector<char> buffer(1 << 16);
      while (::read(stdout_pipe[0], buffer.data(), buffer.size()) > 0) {
      }
    });
    const Finished finished = run_attend(words, stdout_pipe[1]);
    ::close(stdout_pipe[1]);
    reader.join();
    ::close(stdout_pipe[0]);
    CHECK(is_error(finished, "w.npy: cannot write: "));
    if (replaces) CHECK(dir.read("o.npy") == "old");
    std::vector<std::string> after = before;
    after.push_back("w.npy");
    CHECK(dir.names() == after);
  }
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
                       "--output: '" + lens + "', expected a file name and not an option"));
  CHECK(is_wrong_usage(run_attend({"plan", "--layer", "dot", "--shape", "1,2,3", "--profile=", "--tune"}),
                       "--profile is empty"));
  CHECK(is_wrong_usage(run_attend({"compare", q, ""}), "EXPECTED is empty"));
  CHECK(dir.names() == std::vector<std::string>{"q.npy"});
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

TEST_CASE("attend: an unknown target is an error that lists the available ones") {
  const TempDir dir;
  const Finished finished = run_attend(run_words(dir, {"--target", "AVX99"}));
  CHECK(is_error(finished, "AVX99"));
  for (const Target& target : Target::available()) CHECK(contains(finished.err, target.name()));
  CHECK(is_error(run_attend({"plan", "--shape", "1,2,3", "--target", "AVX99"}), "AVX99"));
  CHECK(is_error(run_attend({"check", "--shape", "1,2,3", "--target", "AVX99"}), "AVX99"));
}

TEST_CASE("attend run: a replaced file keeps its permissions, a link stays a link") {
  namespace fs = std::filesystem;
  const TempDir dir;
  dir.write("real.npy", "old");
  fs::permissions(dir.path("real.npy"), fs::perms::owner_read | fs::perms::owner_write);
  fs::create_symlink("real.npy", dir.path("o.npy"));
  REQUIRE(run_attend(run_words(dir, {})).exit_code == 0);
  CHECK(fs::is_symlink(dir.path("o.npy")));
  CHECK(io::load_sizes(dir.path("real.npy")) == std::vector<std::int64_t>{2, 3, 4});
  CHECK(fs::status(dir.path("real.npy")).permissions() == (fs::perms::owner_read | fs::perms::owner_write));
  CHECK(dir.names() == std::vector<std::string>{"o.npy", "q.npy", "real.npy"});
}

TEST_CASE("attend run: a link to a file that is not there yet stays, and the file is made") {
  namespace fs = std::filesystem;
  const TempDir dir;
  fs::create_directory(dir.path("data"));
  fs::create_symlink("data/real.npy", dir.path("link.npy"));
  fs::create_symlink(dir.path("link.npy"), dir.path("o.npy"));
  REQUIRE(run_attend(run_words(dir, {})).exit_code == 0);
  CHECK(fs::is_symlink(dir.path("o.npy")));
  CHECK(fs::is_symlink(dir.path("link.npy")));
  CHECK(io::load_sizes(dir.path("data/real.npy")) == std::vector<std::int64_t>{2, 3, 4});
  fs::create_symlink("circle.npy", dir.path("circle.npy"));
  CHECK(is_error(run_attend({"run", "--queries", dir.path("q.npy"), "--output", dir.path("circle.npy")}),
                 "circle.npy: cannot write: Too many levels of symbolic links"));
  fs::create_symlink("none/w.npy", dir.path("lost.npy"));
  CHECK(is_error(run_attend({"run", "--queries", dir.path("q.npy"), "--output", dir.path("lost.npy")}),
                 "lost.npy: cannot write: no such directory"));
  CHECK(dir.names() == std::vector<std::string>{"circle.npy", "data", "link.npy", "lost.npy", "o.npy", "q.npy"});
}

}  // namespace attend::tests

#endif  // ATTEND_CLI_PATH
