#!/usr/bin/env python3
"""bench/contest/*.py as far as it goes without the libraries: cases, counters, skipping, wrong arguments, refusals."""
import contextlib
import io
import pathlib
import re
import subprocess
import sys
import unittest
from unittest import mock

ROOT = pathlib.Path(__file__).resolve().parents[2]
CONTEST = ROOT / "bench" / "contest"
sys.path.insert(0, str(CONTEST))

import peer  # pylint: disable=wrong-import-position

SCRIPTS = sorted([*CONTEST.glob("torch_*.py"), *CONTEST.glob("onnxruntime_*.py")])


class Scripts(unittest.TestCase):
    """What a reader without the libraries sees."""

    def test_a_missing_library_is_said_and_no_error(self) -> None:
        self.assertEqual(len(SCRIPTS), 8)
        for script in SCRIPTS:
            with self.subTest(script.name):
                command = [sys.executable, "-E", "-S", "-B", str(script)]  # -S: without installed packages
                run = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
                self.assertEqual((run.returncode, run.stdout), (0, ""), run.stderr)
                self.assertRegex(run.stderr, rf"^skipped: {script.name}: no \w+ in .*, nothing measured\n$")

    def test_wrong_arguments_end_with_2_and_say_what_is_expected(self) -> None:
        for arguments, message in ((["--threads", "0"], "--threads is 0, expected at least 1"),
                                   (["b1"], "no case b1, expected some of: r4096_n1024 "),
                                   (["--compile"], "unrecognized arguments: --compile")):
            with self.subTest(arguments), mock.patch("sys.argv", ["x.py", *arguments]):
                errors = io.StringIO()
                with contextlib.redirect_stderr(errors), self.assertRaises(SystemExit) as ended:
                    peer.arguments("", peer.SOFTMAX_CASES)
                self.assertEqual(ended.exception.code, 2)
                self.assertIn(message, errors.getvalue())


class Cases(unittest.TestCase):
    """The cases and counters of attend_bench."""

    def test_cases_are_those_of_attend_bench(self) -> None:
        """Numbers too: every list of them that C++ has stands in Python."""
        layers = (ROOT / "bench/layers/layers_bench.cc").read_text(encoding="utf-8")
        additive = (ROOT / "bench/additive.h").read_text(encoding="utf-8")
        problem = "".join((ROOT / "bench" / name).read_text(encoding="utf-8") for name in ("dot_cases.h", "dot_cases.cc"))
        names = set(re.findall(r'\{"(b[^"]*)", ', layers + additive + problem))
        bases = {name: case for table in (peer.DOT_CASES, peer.MULTI_HEAD_CASES, peer.ADDITIVE_CASES)
                 for name, case in table.items() if name in names}
        self.assertEqual(set(bases), names)
        lens = {tuple(map(int, re.findall(r"\d+", body)))
                for body in re.findall(r"kLens\w+ = \{([^}]*)\}", layers + problem)}
        padded = (case.lens for table in (peer.DOT_CASES, peer.MULTI_HEAD_CASES) for case in table.values())
        self.assertEqual({x for x in padded if x}, lens)

    def test_other_cases_of_dot_are_named_like_its_own(self) -> None:
        """As attend_bench --dot takes them."""
        for name, case in peer.DOT_CASES.items():
            if not case.lens:
                self.assertEqual(peer.DotCase.named(name), case)
        for name in ("b1_h8_m4096_n77", "b0_h8_m1_n1_d1", "b1_h8_kv3_m1_n1_d1", "b1_h8_m1_n1_d1_lens", "r4096_n128"):
            self.assertIsNone(peer.DotCase.named(name))
        with mock.patch("sys.argv", ["x.py", "b1_h8_kv2_m4_n77_d40_causal"]):
            asked = peer.arguments("", peer.DOT_CASES).cases
        self.assertEqual(asked, {"b1_h8_kv2_m4_n77_d40_causal": peer.DotCase(1, 8, 2, 4, 77, 40, causal=True)})
        with mock.patch("sys.argv", ["x.py"]):
            self.assertEqual(list(peer.arguments("", peer.DOT_CASES).cases), list(peer.DOT_CASES))

    def test_rates_count_as_attend_bench_does(self) -> None:
        """4 H D sum(M len), half if causal; 4 E^2 (rows + valid keys) + 4 E S valid keys; time per valid score."""
        dots, layers = peer.DOT_CASES, peer.MULTI_HEAD_CASES
        self.assertEqual(dots["b1_h12_m512_n512_d64"].rate(1e-3), peer.gflops(4 * 12 * 64 * 512 * 512, 1e-3))
        causal = dots["b1_h32_kv8_m2048_n2048_d128_causal"].rate(1)
        self.assertEqual(causal, peer.gflops(2 * 32 * 128 * 2048 * 2048, 1))
        self.assertEqual(dots["b8_h12_m512_n512_d64_lens"].rate(1), peer.gflops(4 * 12 * 64 * 512 * 2088, 1))
        self.assertEqual(layers["b1_s512_e768_h12_lens"].rate(1),
                         peer.gflops(4 * 768**2 * (512 + 387) + 4 * 768 * 512 * 387, 1))
        self.assertEqual(peer.SOFTMAX_CASES["r4096_n1024_lens"].lens[:3], (1012, 739, 466))
        valid = sum(1 + (i * 7919 + 6131) % 128 for i in range(4096))
        self.assertEqual(peer.SOFTMAX_CASES["r4096_n128_lens"].rate(1e-3).strip(), f"{1e6 / valid:.3f} ns per_element")

    def test_what_refuses_says_why_and_the_others_go_on(self) -> None:
        def refuses() -> None:
            raise RuntimeError("too\nold")
        problem = mock.Mock(max_error=lambda output: output)
        forms = {"new": refuses, "old": lambda: 2e-7}
        printed = io.StringIO()
        with mock.patch("sys.argv", ["x.py", "--seconds", "0", "r4096_n128"]), contextlib.redirect_stdout(printed):
            args = peer.arguments("", peer.SOFTMAX_CASES)
            peer.contend("library 1", "masked_softmax", args, lambda case, _: (problem, forms))
        first, new, old = printed.getvalue().splitlines()
        self.assertEqual(first, "library 1, 1 thread(s), seed 0")
        self.assertEqual(new, "masked_softmax/r4096_n128/new: library 1 refuses: RuntimeError: too old")
        self.assertRegex(old, r"^masked_softmax/r4096_n128/old +[\d.]+ ms +[\d.]+ ns per_element  max_error 2.0e-07$")


if __name__ == "__main__":
    unittest.main()
