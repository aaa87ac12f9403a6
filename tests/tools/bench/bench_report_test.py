#!/usr/bin/env python3
"""tools/bench_report.py: medians, spread, refusals of mixed machines and damaged files; drawings, given matplotlib."""
import csv
import importlib.util
import json
import math
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

TOOLS = pathlib.Path(__file__).resolve().parents[3] / "tools"
sys.path.insert(0, str(TOOLS))

from bench import facts, results, summary  # pylint: disable=wrong-import-position

CONTEXT = {"cpu": "A CPU", "cores": "2", "cpu_quota": "none", "cache_sizes": "L1d 32 KiB", "governor": "unreadable",
           "targets": "AVX2 SCALAR", "targets_compiled": "AVX2 SCALAR", "target_best": "AVX2", "compiler": "g++ 12",
           "build_type": "Release", "flags": "-O3", "commit": "abc", "highway": "1.0.3", "onednn": "2.6.3",
           "onednn_isa": "AVX2", "date": "2026-01-01"}


def entry(name: str, cpu: float, real: float = 1.0, unit: str = "us", **counters: object) -> dict:
    """One repetition as Google Benchmark writes it."""
    return {"name": name, "run_name": name, "run_type": "iteration", "repetitions": 3, "threads": 1, "iterations": 10,
            "cpu_time": cpu, "real_time": real, "time_unit": unit, **counters}


class Folder(unittest.TestCase):
    """A folder raw/ to be filled."""

    def setUp(self) -> None:
        self.folder = tempfile.TemporaryDirectory()  # pylint: disable=consider-using-with
        self.addCleanup(self.folder.cleanup)
        self.root = pathlib.Path(self.folder.name)
        self.raw = self.root / "raw"
        self.raw.mkdir()

    def put(self, name: str, benchmarks: list, **context: str) -> pathlib.Path:
        path = self.raw / name
        path.write_text(json.dumps({"context": {**CONTEXT, **context}, "benchmarks": benchmarks}))
        return path

    def load(self) -> results.Results:
        return results.load(self.raw.glob("*.json"))

    def run_report(self, *options: str) -> subprocess.CompletedProcess:
        """-S, without further options, leaves out what was installed, matplotlib too."""
        return subprocess.run([sys.executable, *(options or ("-S", "-B")), TOOLS / "bench_report.py", self.root],
                              capture_output=True, text=True, check=False)

    def refused(self, *words: str) -> None:
        with self.assertRaises(results.Error) as caught:
            self.load()
        for word in words:
            self.assertIn(word, str(caught.exception))


class Numbers(Folder):
    """What is made of the repetitions."""

    def test_median_and_quartiles(self) -> None:
        times = [50.0, 10.0, 40.0, 20.0, 30.0]
        self.put("a.json", [entry("dot/x/AVX2", t, GFLOPS=t / 10, max_error=1e-7) for t in times])
        row = self.load().find("dot", "x", "AVX2")
        self.assertEqual(row.n, 5)
        self.assertAlmostEqual(row.median, 30e-6)
        self.assertAlmostEqual(row.quartiles[0], 20e-6)
        self.assertAlmostEqual(row.quartiles[1], 40e-6)
        self.assertAlmostEqual(row.spread_percent, 100 * 20 / 30)
        self.assertAlmostEqual(row.counter("GFLOPS"), 3.0)
        self.assertIsNone(row.counter("GB"))

    def test_one_repetition_has_no_spread(self) -> None:
        self.put("a.json", [entry("dot/x/AVX2", 7)])
        self.assertEqual(self.load().find("dot", "x", "AVX2").spread_percent, 0)

    def test_median_of_an_even_number(self) -> None:
        self.put("a.json", [entry("dot/x/AVX2", t) for t in (1, 2, 4, 100)])
        self.assertAlmostEqual(self.load().find("dot", "x", "AVX2").median, 3e-6)

    def test_which_clock_counts(self) -> None:
        self.put("a.json", [entry("dot/x_threads2/AVX2/real_time", 5, 9), entry("dot/x/AVX2", 5, 9, "ms"),
                            entry("planner_map/y/AVX2/iterations:1/manual_time", 5, 9, "ns")])
        loaded = self.load()
        self.assertAlmostEqual(loaded.find("dot", "x_threads2", "AVX2").median, 9e-6)
        self.assertAlmostEqual(loaded.find("dot", "x", "AVX2").median, 5e-3)
        self.assertAlmostEqual(loaded.find("planner_map", "y", "AVX2").median, 9e-9)

    def test_aggregates_are_not_samples(self) -> None:
        aggregate = {**entry("dot/x/AVX2_mean", 1000), "run_name": "dot/x/AVX2", "run_type": "aggregate"}
        self.put("a.json", [entry("dot/x/AVX2", 1), aggregate])
        self.assertEqual(self.load().find("dot", "x", "AVX2").n, 1)

    def test_contender_belongs_to_the_target_it_was_held_to(self) -> None:
        self.put("a.json", [entry("linear/r1/oneDNN", 1)], bench_target="SCALAR", onednn_isa="SSE4.1")
        self.put("b.json", [entry("linear/r1/oneDNN", 2)], bench_target="AVX2")
        loaded = self.load()
        self.assertAlmostEqual(loaded.find("linear", "r1", "SCALAR").median, 1e-6)
        self.assertAlmostEqual(loaded.find("linear", "r1", "AVX2").median, 2e-6)
        self.assertEqual(loaded.find("linear", "r1", "SCALAR").contender, "oneDNN")

    def test_a_failed_case_is_told(self) -> None:
        failed = {**entry("dot/y/AVX2", 0), "error_occurred": True, "error_message": "out of luck"}
        self.put("a.json", [entry("dot/x/AVX2", 1), failed])
        self.assertEqual(self.load().failures, ["dot/y/AVX2: out of luck"])

    def test_targets_in_order(self) -> None:
        self.assertEqual(facts.in_order(["SCALAR", "compiler", "SSE4", "AVX3", "AVX2", "SCALAR"]),
                         ["AVX3", "AVX2", "SSE4", "SCALAR", "compiler"])

    def test_texts(self) -> None:
        for seconds, text in ((5.718e-3, "5.72 ms"), (1.5, "1.5 s"), (999.4e-6, "999 us"), (42e-9, "42 ns")):
            self.assertEqual(summary.time_text(seconds), text)
        for error, text in ((1.2e-7, "1e-7"), (math.nan, "nan"), (math.inf, "inf")):
            row = results.Row("f", "c", "AVX2", samples={"max_error": [error]})
            self.assertEqual(summary.error_text(row), text)


class Refusals(Folder):
    """What does not belong together, or is no result."""

    def test_each_fact_of_machine_and_build(self) -> None:
        for key in (*facts.MACHINE, *facts.BUILD):
            self.put("a.json", [entry("dot/x/AVX2", 1)])
            self.put("b.json", [entry("dot/x/SCALAR", 1)], **{key: "another"})
            self.refused("b.json", key, "another", CONTEXT[key])

    def test_what_may_differ(self) -> None:
        self.put("a.json", [entry("dot/x/AVX2", 1)])
        self.put("b.json", [entry("dot/x/SCALAR", 1)], date="2026-01-02", onednn_isa="SSE4.1", cores_usable="1")
        self.assertEqual(self.load().targets, ["AVX2", "SCALAR"])

    def test_cut_off(self) -> None:
        path = self.put("a.json", [entry("dot/x/AVX2", 1)])
        path.write_text(path.read_text()[:-20])
        self.refused("a.json", "not JSON")

    def test_json_beyond_reason(self) -> None:
        (self.raw / "a.json").write_text("[" * 100000)
        self.refused("a.json", "not JSON")

    def test_other_json(self) -> None:
        (self.raw / "a.json").write_text("[1, 2]")
        self.refused("a.json", "context")
        (self.raw / "a.json").write_text('{"context": {}}')
        self.refused("a.json", "benchmarks")

    def test_times_that_are_none(self) -> None:
        for time, unit in ((0, "us"), (-1, "us"), ("1", "us"), (1, "weeks"), (1, ["us"]), (math.nan, "us"),
                           (math.inf, "us"), (10**400, "us")):
            self.put("a.json", [entry("dot/x/AVX2", time, unit=unit)])
            self.refused("a.json", "dot/x/AVX2", "time is")

    def test_names_that_are_none(self) -> None:
        for name in ("dot", "", "real_time", "iterations:1/real_time"):
            self.put("a.json", [entry(name, 1)])
            self.refused("a.json", f"\"{name}\"", "family/case/target")
        self.put("a.json", [{"run_type": "iteration"}])
        self.refused("no name")

    def test_nothing(self) -> None:
        self.refused("no results")


class Command(Folder):
    """The script itself."""

    def test_without_matplotlib(self) -> None:
        self.put("a.json", [entry("dot/x/SCALAR", 4.0, label="dot/fused"), entry("dot/x/AVX2", 2.0, max_error=3e-8)])
        done = self.run_report()
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("python3-matplotlib", done.stderr)
        with open(self.root / "summary.csv", encoding="utf-8", newline="") as file:
            lines = list(csv.DictReader(file))
        self.assertEqual([line["target"] for line in lines], ["AVX2", "SCALAR"])
        self.assertEqual(lines[0]["median_s"], "2e-06")
        self.assertEqual(lines[0]["max_error"], "3e-08")
        self.assertEqual(lines[1]["label"], "dot/fused")
        self.assertEqual(lines[1]["max_error"], "")
        self.assertEqual(sorted(path.name for path in self.root.iterdir()), ["raw", "summary.csv"])

    def test_bad_results_leave_nothing(self) -> None:
        (self.raw / "a.json").write_text("{")
        done = self.run_report()
        self.assertEqual(done.returncode, 1)
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        self.assertEqual([path.name for path in self.root.iterdir()], ["raw"])

    def told_in_one_line(self, *words: str) -> None:
        """Exit code 2, and nothing beside what was there."""
        before = sorted(self.root.iterdir())
        done = self.run_report()
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        for word in ("bench_report.py: ", *words):
            self.assertIn(word, done.stderr)
        self.assertEqual(sorted(self.root.iterdir()), before)

    def test_what_cannot_be_read(self) -> None:
        (self.raw / "a.json").mkdir()
        self.told_in_one_line("a.json: Is a directory")

    def test_what_cannot_be_written(self) -> None:
        self.put("a.json", [entry("dot/x/SCALAR", 4.0)])
        (self.root / "summary.csv" / "in_the_way").mkdir(parents=True)
        self.told_in_one_line("summary.csv: cannot write: ")

    def test_names_that_are_no_text(self) -> None:
        self.put("a.json", [entry("dot/\ud800/SCALAR", 4.0)])
        done = self.run_report()
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("dot,?,SCALAR", (self.root / "summary.csv").read_text())

    def test_wrong_usage(self) -> None:
        self.raw.rmdir()
        done = self.run_report()
        self.assertEqual(done.returncode, 2)
        self.assertIn("raw/", done.stderr)


class Agreement(unittest.TestCase):
    """Python and C++ speak of the same things."""

    def test_facts_that_attend_bench_writes(self) -> None:
        source = (TOOLS.parent / "bench" / "facts.cc").read_text()
        written = set(re.findall(r'AddCustomContext\("(\w+)"', source))
        # "date" is Google Benchmark's own; what comes of the environment or of pinning tells no machine from another.
        self.assertEqual(written - {"cores_usable", "onednn_isa", "onednn_cap"},
                         {*facts.MACHINE, *facts.BUILD, *facts.RUN} - {"date"})


@unittest.skipUnless(importlib.util.find_spec("matplotlib"), "no matplotlib")
class Drawings(Folder):
    """What figures say."""

    def test_fitted_slope(self) -> None:
        from bench import speed  # pylint: disable=import-outside-toplevel
        bent = [(16, 1.0), (512, 3 * 512**1.5), (2048, 3 * 2048**1.5), (8192, 3 * 8192**1.5)]
        self.assertAlmostEqual(speed.fitted_slope(bent), 1.5)
        self.assertIsNone(speed.fitted_slope(bent[:2]))

    def test_cell_of_the_map(self) -> None:
        from bench import choices  # pylint: disable=import-outside-toplevel
        times = {"dot/lanes_us": 12.0, "dot/fused_us": 8.0}
        self.put("a.json", [entry("planner_map/b1_h4_m16_n64_d64/AVX2/iterations:1/manual_time", 1, 12,
                                  label="dot/lanes, best dot/fused", **times)])
        cell = choices.cell(self.load().rows[0])
        self.assertEqual((cell.queries, cell.keys, cell.rule, cell.winner), (16, 64, "lanes", "fused"))
        self.assertAlmostEqual(cell.lost, 1.5)

    def test_everything_in_one_file(self) -> None:
        roof = [entry(f"machine/{name}/AVX2", 1, **counter) for name, counter in
                (("fma_peak", {"GFLOPS": 90}), ("read_bandwidth_dram", {"GB": 9}), ("read_bandwidth_l1", {"GB": 99}))]
        self.put("a.json", [*roof, entry("dot/b1_m2_n3/AVX2", 1, GFLOPS=50, intensity=8, max_error=3e-8),
                            *(entry(f"length/dot_n{n}/AVX2", n * n) for n in (16, 1024, 4096)),
                            *(entry(f"threads/dot_t{t}/AVX2/real_time", 9, 8 / t) for t in (1, 2)),
                            entry("planner_map/b1_m1_n16_d64/AVX2", 1, label="dot/lanes", **{"dot/lanes_us": 1.0})])
        done = self.run_report("-B")
        self.assertEqual(done.returncode, 0, done.stderr)
        names = {path.name for path in (self.root / "plots").iterdir()}
        self.assertEqual(names, {f"{name}.{kind}" for kind in ("svg", "png")
                                 for name in ("speed_dot", "roofline", "length", "threads", "planner_map")})
        page = (self.root / "report.html").read_text()
        self.assertEqual(page.count("<svg"), 5)
        self.assertIn("1 us</b>, 3e-8", page)
        self.assertIn("N^2.00", page)
        self.assertNotRegex(page, r'(src|href)="(?!#|http://www.w3.org)')


if __name__ == "__main__":
    unittest.main()
