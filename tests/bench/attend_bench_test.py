#!/usr/bin/env python3
"""attend_bench, whose path is the argument: that what comments name exists, and what short runs report."""
import fnmatch
import json
import pathlib
import re
import subprocess
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]

# family/case or family/case/target, and no file.
NAME = r"(?<![\w/.<-])[a-z][a-z_]{2,}/[a-z0-9_*]+(?:/[A-Za-z0-9_]+)?(?![\w/*-]|\.\w)"
# What stands behind "bench:".
LISTED = rf"\bbench:? +({NAME}(?:(?:,| and| or| beside)+ +{NAME})*)"
# What a build without oneDNN does not register; files that it does build may name them too.
NEED_ONEDNN = {"additive_eager/*", "dot_materialised/*"}
# Nor one whose oneDNN has no Graph, as 2.x has not.
NEED_GRAPH = {"dot_graph/*"}
# What a CPU without tiles of bfloat16 numbers (AMX) does not register.
NEED_TILES = {"tile_parts/*"}


def attend_bench(*arguments: str) -> str:
    """What it writes to stdout."""
    command = [sys.argv[1], *arguments]
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=300, check=True).stdout


def registered(cases: str = "") -> list[str]:
    """Full names."""
    return attend_bench("--benchmark_list_tests", f"--benchmark_filter={cases}").split()


def comments(source: str) -> list[str]:
    """The text of each comment of C++; one that goes on over several lines is one."""
    found: list[str] = []
    goes_on = False
    for line in source.splitlines():
        code, slashes, text = line.partition("//")
        if slashes and goes_on and not code.strip():
            found[-1] += " " + text.strip()
        elif slashes:
            found.append(text.strip())
        goes_on = bool(slashes)
    return found


def names(comment: str) -> set[str]:
    """All that "bench:" lists, and elsewhere what has a number or a star in its case: dot/decode is a path of plans."""
    listed = {name for some in re.findall(LISTED, comment) for name in re.findall(NAME, some)}
    return listed | {name for name in re.findall(NAME, comment) if re.search(r"[0-9*]", name.split("/")[1])}


def known(name: str, cases: set[str]) -> bool:
    """A name may end before an underscore, for all that go on from there. Targets and numbers of threads are the
    machine's."""
    pattern = re.sub(r"^(threads/.*_t)\d+$", r"\g<1>1", "/".join(name.split("/")[:2]))
    return any(fnmatch.filter(cases, pattern + end) for end in ("", "_*"))


class Names(unittest.TestCase):
    """Comments that say which benchmark they rest on."""

    def test_what_comments_name_exists(self) -> None:
        cases = {"/".join(name.split("/")[:2]) for name in registered()}
        missing = {family for family in NEED_ONEDNN if not fnmatch.filter(cases, family)}
        self.assertIn(missing, (set(), NEED_ONEDNN))
        missing |= {family for family in NEED_GRAPH | NEED_TILES if not fnmatch.filter(cases, family)}
        count = 0
        for folder in ("engine", "bench"):
            for path in sorted((ROOT / folder).rglob("*")):
                if path.suffix not in (".h", ".cc"):
                    continue
                for comment in comments(path.read_text(encoding="utf-8")):
                    for name in sorted(names(comment)):
                        if any(fnmatch.fnmatch(name, family) for family in missing):
                            continue
                        count += 1
                        with self.subTest(path.relative_to(ROOT)):
                            self.assertTrue(known(name, cases), f"no benchmark {name}")
        self.assertGreater(count, 60)

    def test_how_names_are_found(self) -> None:
        for comment, found in (("sum. bench: pack/*.", {"pack/*"}), ("(bench: linear/*):", {"linear/*"}),
                               ("bench: additive/few, overhead/x beside it", {"additive/few", "overhead/x"}),
                               ("bench additive_score/m1_n100_u256, with dot/decode", {"additive_score/m1_n100_u256"}),
                               ("softmax_tile_step/r48_n512 and linear/*/oneDNN",
                                {"softmax_tile_step/r48_n512", "linear/*/oneDNN"}),
                               ("dot/fused, x/2, d01/d23, kernels/r2-inl.h, plan/r2.cc, a/few_rows/r2", set())):
            self.assertEqual(names(comment), found, comment)
        self.assertEqual(comments("// a\n// b\nint x;  // c\n// d\n\n// e"), ["a b", "c d", "e"])

    def test_which_names_are_known(self) -> None:
        cases = {"dot/b1_m2", "threads/dot_b1_t1"}
        for name in ("dot/b1_m2", "dot/b1_m2/AVX3", "dot/b1", "dot/*", "dot/*_m2", "threads/dot_b1_t2"):
            self.assertTrue(known(name, cases), name)
        for name in ("dot/b", "dot/b1_m", "dots/*", "dot/*_m3", "dot/b1_m2_lens"):
            self.assertFalse(known(name, cases), name)


class Results(unittest.TestCase):
    """Counters, and the head of the output."""

    def run_cases(self, cases: str) -> dict:
        return json.loads(attend_bench(f"--benchmark_filter={cases}", "--benchmark_format=json",
                                       "--benchmark_min_time=0.0001"))

    def counters(self, cases: str, count: int, least: set[str]) -> list[dict]:
        """`count` cases, all of which report `least`."""
        results = self.run_cases(cases)["benchmarks"]
        self.assertEqual(len(results), count, cases)
        for result in results:
            self.assertLessEqual(least, set(result), result["name"])
            self.assertLess(result["max_error"], 4e-6, result["name"])
        return results

    def setUp(self) -> None:
        self.targets = [name.split("/")[-1] for name in registered("^machine/fma_peak/")]

    def test_kernels_of_additive_report_limit_scratch_and_error(self) -> None:
        self.counters(f"^additive_(score|rational|hwy_tanh)/m1_n100_u256[a-z_]*/{self.targets[0]}$", 7,
                      {"per_element", "fma_issue_percent", "workspace", "max_error"})

    def test_what_memory_bounds_reports_its_share(self) -> None:
        self.counters(f"^(additive/b64_m1_n100_u256_prepared|masked_softmax/r4096_n128(_lens)?)/{self.targets[0]}$", 3,
                      {"GB", "read_percent", "max_error"})

    def test_contenders_mask_rightly(self) -> None:
        contenders = "^(dot_(materialised|graph)/b8_h12_m512_n512_d64_lens|additive_eager/b64_m1_n100_u256_lens)/"
        names = registered(contenders)
        if not names:
            self.skipTest("built without oneDNN")
        self.counters(contenders, 3 if any(name.startswith("dot_graph/") for name in names) else 2, {"max_error"})

    def test_other_cases_of_dot_are_measured_when_asked_for(self) -> None:
        names = ("b2_h4_kv2_m3_n50_d24_causal", "b1_h2_m300_n8_d5")
        asked, target = "--dot=" + ",".join(names), self.targets[0]
        listed = attend_bench("--benchmark_list_tests", asked, "--benchmark_filter=^dot/").split()
        for name in names:
            self.assertIn(f"dot/{name}/{target}", listed)
        report = json.loads(attend_bench(asked, "--benchmark_format=json", "--benchmark_min_time=0.001",
                                         f"--benchmark_filter=^dot/({'|'.join(names)})(_weights)?/{target}$"))
        self.assertEqual(len(report["benchmarks"]), 4)
        for case in report["benchmarks"]:
            self.assertLess(case["max_error"], 2e-6, case["name"])

    def test_what_is_no_case_of_dot_is_said(self) -> None:
        for name in ("b2_h16", "b0_h1_m1_n1_d1", "b1_h3_kv2_m1_n1_d1", "b1_h1_m1_n1_d1_lens", "b9_h999999999_m999999999_n1_d999999999"):
            run = subprocess.run([sys.argv[1], f"--dot=b1_h1_m1_n1_d1,{name}"], capture_output=True, text=True,
                                 timeout=60, check=False)
            self.assertEqual((run.returncode, run.stdout), (1, ""))
            self.assertIn(f'--dot is "{name}", expected a case such as b1_h32_kv8_m1_n4096_d128', run.stderr)

    def test_the_planner_is_measured_on_all_its_shapes(self) -> None:
        *cases, summary = self.run_cases("^planner/")["benchmarks"]
        self.assertTrue(summary["name"].startswith("planner/summary/"))
        self.assertEqual(summary["shapes"], len(cases))
        self.assertGreater(len(cases), 60)
        for case in cases:
            self.assertGreaterEqual(case["rule_to_best"], 1, case["name"])

    def test_the_head_has_the_bounds_of_what_runs(self) -> None:
        for target in (self.targets[0], self.targets[-1]):
            context = self.run_cases(f"^overhead/.*/{target}$")["context"]
            expected = {"fma_peak", "read_bandwidth"}
            if target != context["target_best"]:
                expected |= {f"fma_peak_{target}", f"read_bandwidth_{target}"}
            self.assertEqual({key for key in context if re.match("fma_peak|read_bandwidth", key)}, expected)


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit("usage: attend_bench_test.py ATTEND_BENCH [TEST...]")
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]])
