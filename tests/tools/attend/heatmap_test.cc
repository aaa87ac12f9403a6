// attend heatmap: files, labels, crops, batch entries and heads. What pictures look like is tested with tools/heatmap.
#include "tests/tools/attend/process.h"

#ifdef ATTEND_CLI_PATH

#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "tests/support/npz_data.h"

namespace attend::tests {
namespace {

const char* const kCross = "dates/transformer.decoder.cross_attn.npz";

// Words for the cross attention of the dates, and more.
Finished draw(const std::vector<std::string>& more) {
  std::vector<std::string> words = {"heatmap", "--attention-weights", data_path(kCross) + ":attention_weights"};
  words.insert(words.end(), more.begin(), more.end());
  return run_attend(words);
}

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

}  // namespace

TEST_CASE("attend heatmap: PNG and SVG appear") {
  const TempDir dir;
  for (const char* name : {"a.png", "a.svg"}) {
    const Finished finished = draw({"--row-labels", data_path("dates/target.labels.txt"), "--column-labels",
                                    data_path("dates/source.labels.txt"), "--batch", "3", "--output", dir.path(name)});
    CHECK(finished.err == "");
    CHECK(finished.out == "");
    CHECK(finished.exit_code == 0);
  }
  CHECK(dir.read("a.png").starts_with("\x89PNG\r\n"));
  CHECK(contains(dir.read("a.svg"), "<svg"));
  for (const char* title : {"head 0", "head 1", "head 2", "head 3"}) CHECK(contains(dir.read("a.svg"), title));
  CHECK(dir.names() == std::vector<std::string>{"a.png", "a.svg"});
}

TEST_CASE("attend heatmap: one head, a title, weights without heads") {
  const TempDir dir;
  REQUIRE(draw({"--head", "2", "--title", "who & whom", "--output", dir.path("a.svg")}).exit_code == 0);
  CHECK(contains(dir.read("a.svg"), "head 2"));
  CHECK_FALSE(contains(dir.read("a.svg"), "head 1"));
  CHECK(contains(dir.read("a.svg"), "who &amp; whom"));
  for (const std::vector<std::int64_t>& sizes :
       std::vector<std::vector<std::int64_t>>{{3, 4}, {2, 3, 4}, {2, 1, 3, 4}}) {
    const std::string weights = save(dir, "w.npy", counting(sizes));
    CHECK(run_attend({"heatmap", "--attention-weights", weights, "--head", "all", "--output", dir.path("b.png")})
              .exit_code == 0);
  }
}

TEST_CASE("attend heatmap: labels cut the picture to what is not padding") {
  const TempDir dir;
  const std::string weights = save(dir, "w.npy", Tensor{{1, 2, 3}, {0.1f, 0.2f, 0.3f, 0.4f, 0.5f, 0.6f}});
  const std::string labels = dir.write("l.txt", "one\ntwo\n");
  REQUIRE(run_attend({"heatmap", "--attention-weights", weights, "--output", dir.path("all.svg")}).exit_code == 0);
  REQUIRE(run_attend(
              {"heatmap", "--attention-weights", weights, "--column-labels", labels, "--output", dir.path("cut.svg")})
              .exit_code == 0);
  // A tooltip for each cell.
  CHECK(count(dir.read("all.svg"), "<title>") - count(dir.read("cut.svg"), "<title>") == 2);
  CHECK(contains(dir.read("cut.svg"), "two"));
}

TEST_CASE("attend heatmap: labels are not drawn over") {
  const TempDir dir;
  const std::string weights = save(dir, "w.npy", counting({3, 2})), labels = dir.write("l.svg", "one\ntwo\n");
  for (const char* word : {"--row-labels", "--column-labels"}) {
    CHECK(is_wrong_usage(run_attend({"heatmap", "--attention-weights", weights, word, labels, "--output", labels}),
                         std::string("--output and ") + word + " are the same file"));
  }
  CHECK(dir.read("l.svg") == "one\ntwo\n");
}

TEST_CASE("attend heatmap: what does not fit is an error") {
  const TempDir dir;
  const std::string out = dir.path("a.png");
  CHECK(is_error(draw({"--batch", "12", "--output", out}),
                 "--batch is 12, expected 0 to 11: the attention weights have 12 batch entries"));
  CHECK(is_error(draw({"--head", "4", "--output", out}),
                 "--head is 4, expected 0 to 3: the attention weights have 4 heads"));
  const std::string one = save(dir, "matrix.npy", counting({2, 2})), row = save(dir, "row.npy", counting({2}));
  CHECK(is_error(run_attend({"heatmap", "--attention-weights", one, "--head", "1", "--output", out}),
                 "--head is 1, expected 0: the attention weights have 1 head"));
  CHECK(is_error(run_attend({"heatmap", "--attention-weights", row, "--output", out}),
                 "row.npy: attention weights have sizes (2), expected (M, N), (B, M, N) or (B, H, M, N)"));
  io::save_npy(dir.path("no_entries.npy"), TensorView<const float>(nullptr, {0, 2, 2}));
  CHECK(is_error(run_attend({"heatmap", "--attention-weights", dir.path("no_entries.npy"), "--output", out}),
                 "no_entries.npy: attention weights have sizes (0, 2, 2): nothing to draw"));
  io::save_npy(dir.path("none.npy"), TensorView<const float>(nullptr, {1, 0, 2, 2}));
  CHECK(is_error(run_attend({"heatmap", "--attention-weights", dir.path("none.npy"), "--output", out}),
                 "none.npy: attention weights have sizes (1, 0, 2, 2): nothing to draw"));
  const std::string many = save(dir, "many.npy", counting({1, 5000, 2, 2}));
  CHECK(is_error(
      run_attend({"heatmap", "--attention-weights", many, "--output", out}),
      "many.npy: attention weights have 5000 heads, expected at most 1024 in one picture; --head J draws one"));
  CHECK(run_attend({"heatmap", "--attention-weights", many, "--head", "4999", "--output", dir.path("one.svg")})
            .exit_code == 0);
  CHECK(is_error(draw({"--row-labels", data_path("dates/source.labels.txt"), "--output", out}), "rows"));
  CHECK(is_error(draw({"--row-labels", dir.write("two.txt", "a\n\nb\n"), "--output", out}), "2 blocks"));
  CHECK(is_error(draw({"--row-labels", dir.write("none.txt", ""), "--output", out}), "none.txt"));
  CHECK(is_error(draw({"--output", dir.path("none/a.png")}), "none/a.png"));
  CHECK(is_wrong_usage(draw({"--output", dir.path("a.jpg")}), ".png or .svg"));
  for (const char* word : {"--row-labels", "--column-labels"}) {
    CHECK(is_wrong_usage(draw({word, "", "--output", out}), std::string(word) + " is empty"));
  }
  CHECK(is_wrong_usage(draw({"--head", "first", "--output", out}), "--head"));
  CHECK(is_wrong_usage(draw({"--head", "-1", "--output", out}), "--head"));
  CHECK(is_wrong_usage(draw({"--batch", "-1", "--output", out}), "--batch"));
  CHECK(dir.names() == std::vector<std::string>{"many.npy", "matrix.npy", "no_entries.npy", "none.npy", "none.txt",
                                                "one.svg", "row.npy", "two.txt"});
}

}  // namespace attend::tests

#endif  // ATTEND_CLI_PATH
