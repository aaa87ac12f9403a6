// What goes wrong: exit code 1, one line on stderr, and files that stay as they were.
#include "tests/tools/attend/process.h"

#ifdef ATTEND_CLI_PATH

#include <fcntl.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "attend/planner.h"
#include "attend/target.h"
#include "tests/support/npz_data.h"
#include "tests/support/sanitized.h"
#include "tests/tools/io/build_files.h"

namespace attend::tests {

TEST_CASE("attend: errors are one line, exit code 1, and leave all files as they were") {
  const TempDir dir;
  dir.write("o.npy", "old");
  const std::string k = save(dir, "k.npy", counting({2, 5, 6}));
  const std::string lens =
      dir.write("l.npy", npy_file("{'descr': '<i4', 'fortran_order': False, 'shape': (2,), }\n", le32(1) + le32(9)));
  const std::string bad = dir.write("bad.npy", "\x93NUMPY nonsense");
  const auto run = [&](const std::vector<std::string>& more) { return run_attend(run_words(dir, more)); };
  CHECK(is_error(run({"--keys", dir.path("none.npy")}), "none.npy"));
  CHECK(is_error(run({"--keys", bad}), "--keys: " + bad + ": "));
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

TEST_CASE("attend: a file that cannot be read is named with the argument it was given to") {
  const TempDir dir;
  const std::string q = save(dir, "q.npy", counting({2, 3, 4})), none = dir.path("none.npy"), out = dir.path("o.npy");
  const auto refused = [&](const std::string& word, std::vector<std::string> words) {
    const Finished finished = run_attend(std::move(words));
    INFO(finished.err);
    CHECK(is_error(finished, "attend: error: " + word + ": " + none + ": cannot open: "));
  };
  refused("--queries", {"run", "--queries", none, "--keys", q, "--output", out});
  for (const char* word : {"--keys", "--values", "--valid-lens"}) {
    refused(word, {"run", "--layer", "dot", "--queries", q, word, none, "--output", out});
    refused(word, {"plan", "--layer", "dot", "--queries", q, word, none});
    refused(word, {"check", "--layer", "dot", "--queries", q, word, none});
  }
  refused("--profile", {"run", "--queries", q, "--profile", none, "--output", out});
  refused("--input", {"softmax", "--input", none, "--output", out});
  refused("--valid-lens", {"softmax", "--input", q, "--valid-lens", none, "--output", out});
  refused("--attention-weights", {"heatmap", "--attention-weights", none, "--output", dir.path("o.png")});
  for (const char* word : {"--row-labels", "--column-labels"}) {
    refused(word, {"heatmap", "--attention-weights", q, word, none, "--output", dir.path("o.png")});
  }
  refused("ACTUAL", {"compare", none, q});
  refused("EXPECTED", {"compare", q, none});
  refused("FILE_A", {"bench-compare", none, none});
  refused("FILE_B", {"bench-compare", data_path("bench_compare/before.json"), none});
  const std::string weights = dir.path("none.npz");
  CHECK(is_error(run_attend({"run", "--layer", "additive", "--weights", weights, "--queries", q, "--output", out}),
                 "attend: error: --weights: " + weights + ": cannot open: "));
  // What is read only once all sizes are known to fit.
  const std::string damaged = dir.write("d.npz", zip_file({stored_part("x.npy", "\x93NUMPY nonsense")}));
  CHECK(is_error(run_attend({"run", "--layer", "dot", "--queries", q, "--keys", damaged + ":x", "--output", out}),
                 "attend: error: --keys: " + damaged + ": tensor 'x': "));
  CHECK(dir.names() == std::vector<std::string>{"d.npz", "q.npy"});
}

TEST_CASE("attend: an output that cannot be written is refused before any input is read") {
  const TempDir dir;
  const std::string none = dir.path("none.npy");
  std::filesystem::create_directory(dir.path("d.npy"));
  const auto refused = [&](const std::string& out, const std::string& reason) {
    const std::string expected = "attend: error: " + out + ": cannot write: " + reason;
    CHECK(is_error(run_attend({"run", "--queries", none, "--output", out}), expected));
    CHECK(is_error(run_attend({"run", "--queries", none, "--output", dir.path("o.npy"), "--attention-weights", out}),
                   expected));
    CHECK(is_error(run_attend({"check", "--queries", none, "--output", out}), expected));
    CHECK(is_error(run_attend({"softmax", "--input", none, "--output", out}), expected));
  };
  refused(dir.path("d.npy"), "is a directory, expected a file");
  if (::geteuid() != 0) {  // root may write all
    std::filesystem::permissions(dir.write("kept.npy", "old"), std::filesystem::perms::owner_read);
    refused(dir.path("kept.npy"), "Permission denied");
    CHECK(dir.read("kept.npy") == "old");
  }
  CHECK_FALSE(std::filesystem::exists(dir.path("o.npy")));
}

// Sanitizers and emulators want more than the limit for themselves.
#if !ATTEND_IS_SANITIZED && !defined(ATTEND_EMULATOR)
TEST_CASE("attend: where memory is short the error says what it was for") {
  const TempDir dir;
  const std::vector<std::string> limited = {"/bin/sh", "-c", "ulimit -v 8000000 && exec \"$0\" \"$@\""};
  const auto refused = [&](const std::vector<std::string>& words, const std::string& what) {
    const Finished finished = run_attend(words, -1, limited);
    INFO(finished.err);
    CHECK(is_error(finished, "not enough memory for " + what));
  };
  refused({"check", "--layer", "dot", "--shape", "1,1,100000000"}, "keys (1, 100000000, 64): 25600000000 bytes");
  refused({"plan", "--layer", "dot", "--shape", "1,1,100000000", "--measure"}, "made-up data to measure with");
  refused({"plan", "--layer", "bilinear", "--shape", "1,1,1,80000,80000"},
          "W.weight (80000, 80000): 25600000000 bytes");
  const std::string q = save(dir, "q.npy", counting({1, 100000, 1}));
  std::vector<std::string> run = {"run", "--layer", "dot", "--queries", q, "--output", dir.path("o.npy")};
  const std::string large = dir.write("v.npy", npy_file(npy_dict("<f4", "(1, 100000, 100000)"), ""));
  std::error_code refused_by_system;  // files may not become so large, a hole or not
  std::filesystem::resize_file(large, std::filesystem::file_size(large) + 40000000000, refused_by_system);
  if (!refused_by_system) {
    run.insert(run.end(), {"--values", large});
    CHECK(
        is_error(run_attend(run, -1, limited), "v.npy: not enough memory for (1, 100000, 100000): 40000000000 bytes"));
    run.resize(run.size() - 2);
  }
  run.insert(run.end(), {"--attention-weights", dir.path("w.npy")});
  refused(run, "attention_weights (1, 100000, 100000): 40000000000 bytes");
  CHECK(dir.names() == std::vector<std::string>{"q.npy", "v.npy"});
}
#endif

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
    FullPipe pipe;
    Started run(words, pipe.writer());
    pipe.close_writer();
    wait_for_outputs(run, dir, before.size() + 2);
    std::filesystem::create_directories(dir.path("w.npy/in_the_way"));
    pipe.drain();
    const Finished finished = run.finish();
    CHECK(is_error(finished, "w.npy: cannot write: "));
    if (replaces) CHECK(dir.read("o.npy") == "old");
    std::vector<std::string> after = before;
    after.push_back("w.npy");
    CHECK(dir.names() == after);
  }
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
