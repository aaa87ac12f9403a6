// attend plan --measure, --tune, --profile and attend run --profile.
#include "tests/tools/attend/process.h"

#ifdef ATTEND_CLI_PATH

#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "attend/attend.h"

namespace attend::tests {
namespace {

const std::vector<std::string> kPlan = {"plan", "--layer", "dot", "--shape", "2,20,50,16"};

Finished plan_of(std::vector<std::string> words, const std::vector<std::string>& more) {
  words.insert(words.end(), more.begin(), more.end());
  return run_attend(words);
}

Finished plan(const std::vector<std::string>& more) { return plan_of(kPlan, more); }

// The entry in a profile's text for kPlan or the run of such files, with another path.
Profile with_path(const std::string& text, const std::string& path) {
  ProfileEntry entry = Profile::parse(text).entries().at(0);
  entry.path = path;
  entry.tile_queries = entry.tile_keys = 0;
  Profile profile;
  profile.add(entry);
  return profile;
}

}  // namespace

TEST_CASE("attend plan: the estimate always, the measured time with --measure") {
  const Finished estimated = plan({}), measured = plan({"--measure"});
  CHECK(estimated.exit_code == 0);
  CHECK(contains(estimated.out, "\n  estimate    "));
  CHECK(contains(estimated.out, ", bound by "));
  CHECK(contains(estimated.out, "GFLOPS a core"));
  CHECK(!contains(estimated.out, "\n  measured"));
  CHECK(measured.exit_code == 0);
  CHECK(contains(measured.out, "\n  measured    "));
  CHECK(contains(measured.out, " % of it"));
}

TEST_CASE("attend plan --measure and --tune: heads of made-up data lie as asked for or as in files, and it is said") {
  const auto heads = [](const std::vector<std::string>& more) {
    return plan_of({"plan", "--layer", "dot", "--shape", "2,20,50,16", "--num-heads", "4"}, more).out;
  };
  CHECK(contains(heads({"--measure"}), " on made-up data, heads side by side; the estimate is "));
  CHECK(contains(heads({"--measure", "--head-layout", "apart"}), " on made-up data, heads apart; the estimate is "));
  CHECK(heads({"--tune"}).starts_with("candidates on made-up data, heads side by side, the least time first:\n"));
  CHECK(heads({"--tune", "--head-layout", "apart"}).starts_with("candidates on made-up data, heads apart, the least"));
  const TempDir dir;
  const std::vector<std::string> files = {"plan", "--layer", "dot", "--queries",
                                          save(dir, "q.npy", counting({2, 4, 20, 16}))};
  CHECK(contains(plan_of(files, {"--measure"}).out, "made-up data, heads apart; "));
  CHECK(contains(plan_of(files, {"--measure", "--head-layout", "side-by-side"}).out, "data, heads side by side; "));
  CHECK(contains(plan({"--measure"}).out, " on made-up data; the estimate is "));  // one head
  CHECK(is_wrong_usage(plan({"--head-layout", "bhsd"}), "--head-layout: 'bhsd', expected side-by-side or apart"));
  CHECK(is_wrong_usage(plan({"--head-layout", "apart"}), "--head-layout is of no use without --measure or --tune"));
  const std::vector<std::string> multi_head = {"plan", "--layer", "multi-head", "--shape", "2,20,50,16"};
  CHECK(is_wrong_usage(plan_of(multi_head, {"--measure", "--head-layout", "apart"}),
                       "--head-layout belongs to dot and gaussian, not to this --layer"));
}

TEST_CASE("attend plan --tune: prints the candidates, and makes or extends the profile") {
  const TempDir dir;
  const Finished without = plan({"--tune"});
  CHECK(without.exit_code == 0);
  CHECK(without.out.starts_with("candidates on made-up data, the least time first:\n  dot/"));
  CHECK(contains(without.out, "(by the rules)"));
  CHECK(contains(without.out, "by the profile"));
  CHECK(!contains(without.out, "no pairs"));  // which no rule has for so few queries
  const Finished plainly = plan({"--tune", "--pairs", "never"});
  CHECK(plainly.exit_code == 0);
  CHECK(contains(plainly.out, ", no pairs "));

  const std::string file = dir.path("tuned.txt");
  REQUIRE(plan({"--tune", "--profile", file}).exit_code == 0);
  CHECK(dir.names() == std::vector<std::string>{"tuned.txt"});
  CHECK(Profile::parse(dir.read("tuned.txt")).entries().size() == 1);
  REQUIRE(plan({"--tune", "--profile", file, "--threads", "2"}).exit_code == 0);
  const Profile two = Profile::parse(dir.read("tuned.txt"));
  REQUIRE(two.entries().size() == 2);
  CHECK(contains(two.entries()[0].problem, "threads=1"));
  CHECK(contains(two.entries()[1].problem, "threads=2"));

  const std::string empty = dir.write("empty.txt", "");  // as mktemp leaves it
  REQUIRE(plan({"--tune", "--profile", empty}).exit_code == 0);
  CHECK(Profile::parse(dir.read("empty.txt")).entries().size() == 1);
}

TEST_CASE("attend plan --profile: plans with the entry of exactly this problem") {
  const TempDir dir;
  const std::string file = dir.path("tuned.txt");
  REQUIRE(plan({"--tune", "--profile", file}).exit_code == 0);
  dir.write("tuned.txt", with_path(dir.read("tuned.txt"), "dot/materialised").text());
  const Finished used = plan({"--profile", file});
  CHECK(used.exit_code == 0);
  CHECK(used.err == "");
  CHECK(contains(used.out, "dot/materialised: by the profile"));
  CHECK(!contains(plan({"--profile", file, "--attention-weights"}).out, "by the profile"));
}

TEST_CASE("attend run --profile: runs the path of the profile") {
  const TempDir dir;
  const std::string q = save(dir, "q.npy", counting({2, 20, 16})), k = save(dir, "k.npy", counting({2, 50, 16}));
  const std::string file = dir.path("tuned.txt");
  const std::vector<std::string> inputs = {"--layer", "dot", "--queries", q, "--keys", k, "--profile", file};
  const auto with = [&](std::vector<std::string> words) {
    words.insert(words.end(), inputs.begin(), inputs.end());
    return run_attend(words);
  };
  REQUIRE(with({"plan", "--tune"}).exit_code == 0);
  dir.write("tuned.txt", with_path(dir.read("tuned.txt"), "dot/materialised").text());
  const Finished run = with({"run", "--output", dir.path("o.npy"), "--explain"});
  CHECK(run.exit_code == 0);
  CHECK(contains(run.out, "path dot/materialised, target"));
  CHECK(contains(run.out, "by the profile"));
}

TEST_CASE("attend --profile: errors name the file, and its line; notes say where else it was measured") {
  const TempDir dir;
  CHECK(is_error(plan({"--profile", dir.path("none.txt")}), "--profile: " + dir.path("none.txt") + ": cannot open: "));
  CHECK(is_error(plan({"--profile", dir.write("raw.txt", "\x93NUMPY\x01")}), "found \"\\x93NUMPY"));
  const std::string broken = dir.write("broken.txt", "attend profile 3, library 0.1.0, cpu X\nlayer=dot\n");
  CHECK(is_error(plan({"--profile", broken}), "broken.txt: profile, line 2: "));
  CHECK(is_error(plan({"--tune", "--profile", broken}), "broken.txt: profile, line 2: "));
  CHECK(dir.read("broken.txt").ends_with("layer=dot\n"));
  CHECK(is_error(plan({"--tune", "--profile", dir.path()}), "directory"));
  CHECK(is_error(plan({"--tune", "--profile", dir.path("none/tuned.txt")}), "none/tuned.txt: cannot write: "));
  CHECK(is_wrong_usage(plan({"--profile", ""}), "--profile is empty"));
  CHECK(is_wrong_usage(plan({"--tune", "--profile", "--measure"}),
                       "--profile is without its value, expected --profile FILE, found '--measure'"));
  CHECK(is_wrong_usage(run_attend({"check", "--layer", "dot", "--shape", "1,2,3", "--tune"}), "--tune"));
  REQUIRE(plan({"--tune", "--profile", dir.path("here.txt")}).exit_code == 0);
  std::string text = dir.read("here.txt");
  text.replace(0, text.find('\n'), "attend profile 3, library 0.0.0, cpu Another");
  const std::string elsewhere = dir.write("elsewhere.txt", text);
  CHECK(is_error(plan({"--tune", "--profile", elsewhere}), "elsewhere.txt: measured on cpu 'Another', this is '"));
  const std::string other = dir.write("other.txt", "attend profile 3, library 0.0.0, cpu Another\n");
  const Finished noted = plan({"--profile", other});
  CHECK(noted.exit_code == 0);
  CHECK(contains(noted.err, "attend: note: "));
  CHECK(contains(noted.err, "\"Another\""));
  CHECK(contains(noted.err, "\"0.0.0\""));
}

}  // namespace attend::tests

#endif  // ATTEND_CLI_PATH
