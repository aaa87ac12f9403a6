// `attend compare`: the numbers it prints, and when it fails.
#include <cmath>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "attend/io.h"
#include "tests/support/temp_dir.h"
#include "tests/tools/attend/process.h"

namespace attend::tests {
namespace {

void save(const std::string& path, const std::vector<float>& data) {
  io::save_npy(path, TensorView<const float>(data.data(), {1, static_cast<std::int64_t>(data.size())}));
}

}  // namespace

#ifdef ATTEND_CLI_PATH
TEST_CASE("attend compare: prints the largest difference and its place, exits 1 beyond the tolerance") {
  const TempDir dir;
  const std::string a = dir.path("a.npy"), b = dir.path("b.npy"), c = dir.path("c.npy");
  save(a, {1.0f, 2.0f, -8.0f, NAN});
  save(b, {1.0f, 2.5f, -8.25f, NAN});
  save(c, {1.0f, 2.0f, -8.0f, 0.0f});

  const Finished same = run_attend({"compare", a, a, "--tolerance", "0"});
  CHECK(same.exit_code == 0);
  CHECK(same.out == "largest difference 0.0e+00, of values up to 8, in 4 elements\n");
  const Finished apart = run_attend({"compare", a, b, "--tolerance", "0.5"});
  CHECK(apart.exit_code == 0);
  CHECK(apart.out == "largest difference 5.0e-01 at [0, 1], of values up to 8.25, in 4 elements\n");
  const Finished beyond = run_attend({"compare", a, b, "--tolerance", "0.4"});
  CHECK(beyond.exit_code == 1);
  CHECK(beyond.err == "attend: error: largest difference is 0.5, expected at most 0.4\n");
  CHECK(run_attend({"compare", a, c, "--tolerance", "1e9"}).exit_code == 1);  // NaN against a number

  save(c, {1.0f});
  const Finished sizes = run_attend({"compare", a, c});
  CHECK(sizes.exit_code == 1);
  CHECK(sizes.err.find("(1, 4)") != std::string::npos);
  CHECK(sizes.err.find("(1, 1)") != std::string::npos);
  CHECK(is_wrong_usage(run_attend({"compare", a}), "attend: error: EXPECTED is required"));
  CHECK(is_wrong_usage(run_attend({"compare"}), "attend: error: ACTUAL is required"));
}

TEST_CASE("attend compare: a tolerance that no difference can be held to is wrong usage") {
  const TempDir dir;
  const std::string a = dir.path("a.npy"), b = dir.path("b.npy");
  save(a, {1.0f, 2.0f});
  save(b, {1.0f, 200.0f});
  for (const char* text : {"nan", "-nan", "inf", "-1", "1e400", "", "small"}) {
    CHECK(is_wrong_usage(run_attend({"compare", a, b, std::string("--tolerance=") + text}), "--tolerance"));
  }
  for (const char* text : {"nan", "-1", "1e400", "small"}) {
    CHECK(is_wrong_usage(run_attend({"compare", a, b, "--tolerance", text}),
                         std::string("--tolerance: '") + text + "', expected a finite number from 0 on"));
  }
}
#endif

}  // namespace attend::tests
