#!/usr/bin/env python3
"""Write golden numbers for the statistics of `attend bench-compare`, computed by SciPy.

    python3 tools/make_golden_stats.py [--out FILE]

Samples are seeded random times. Each case of the file has `x` and `y` and what SciPy and NumPy find:

* `u`, `p`: two-sided Mann-Whitney test. Without ties scipy.stats.mannwhitneyu, exact up to 400 pairs, beyond them by
  the normal approximation with continuity correction. With ties and up to 400 pairs, where SciPy has no exact test, all
  ways to deal the numbers are gone through (scipy.stats.permutation_test, all permutations).
* `ratio`: exp of the median of all differences log y - log x.
* `low`, `high`: the test turned round: the least and the largest difference d among these for which SciPy's test of
  log x + s against log y has p > alpha, for s just beside d; null where every s has.

Needs SciPy >= 1.9 and NumPy.
"""

import argparse
import json
import pathlib

import numpy as np
import scipy
from scipy import stats

MOST_EXACT_PAIRS = 400
ALPHA = 0.05


def u_of(x: np.ndarray, y: np.ndarray) -> float:
    """Pairs with x > y, equal ones counted half."""
    return float((x[:, None] > y).sum() + 0.5 * (x[:, None] == y).sum())


def p_of(x: np.ndarray, y: np.ndarray) -> float:
    """Two-sided p-value."""
    is_small = x.size * y.size <= MOST_EXACT_PAIRS
    if is_small and np.unique(np.concatenate([x, y])).size < x.size + y.size:
        return float(stats.permutation_test((x, y), u_of, permutation_type="independent", n_resamples=np.inf).pvalue)
    return float(stats.mannwhitneyu(x, y, method="exact" if is_small else "asymptotic").pvalue)


def interval_of(x: np.ndarray, y: np.ndarray, alpha: float) -> tuple[float, float] | None:
    """Of the ratios for which the test does not reject. None if it never does. No ties among the differences."""
    differences = np.sort((np.log(y) - np.log(x)[:, None]).ravel())
    middles = 0.5 * (differences[1:] + differences[:-1])
    shifts = np.concatenate([[differences[0] - 1], middles, [differences[-1] + 1]])  # shifts[i]: below differences[i]
    kept = [i for i, shift in enumerate(shifts) if p_of(np.log(x) + shift, np.log(y)) > alpha]
    if len(kept) == len(shifts):
        return None
    return float(np.exp(differences[kept[0] - 1])), float(np.exp(differences[kept[-1]]))


def times(generator: np.random.Generator, count: int, center: float, digits: int | None = None) -> np.ndarray:
    """Times with a tail to the right, as those of benchmarks; rounded to make ties."""
    sample = center * (1 + 0.02 * generator.gamma(2.0, size=count))
    return sample if digits is None else np.round(sample, digits)


def case_of(name: str, x: np.ndarray, y: np.ndarray, alpha: float = ALPHA) -> dict:
    """One case of the file."""
    has_ties = np.unique(np.concatenate([x, y])).size < x.size + y.size
    interval = None if has_ties else interval_of(x, y, alpha)
    return {"name": name, "x": x.tolist(), "y": y.tolist(), "alpha": alpha, "has_ties": has_ties,
            "u": u_of(x, y), "p": p_of(x, y),
            "ratio": float(np.exp(np.median(np.log(y) - np.log(x)[:, None]))),
            "low": interval and interval[0], "high": interval and interval[1]}


def make_cases() -> list[dict]:
    """All cases, from small to large."""
    generator = np.random.default_rng(5)
    cases = []
    for m, n, ratio in ((2, 2, 1.0), (3, 3, 1.5), (4, 4, 1.5), (3, 5, 1.02), (5, 5, 1.0), (6, 9, 0.97), (10, 10, 1.0),
                        (10, 10, 1.02), (10, 10, 0.9), (10, 10, 1.2), (9, 30, 1.01), (20, 20, 1.01), (2, 200, 1.03)):
        x, y = times(generator, m, 3.7e-6), times(generator, n, ratio * 3.7e-6)
        cases.append(case_of(f"{m} and {n}, ratio {ratio}", x, y))
    cases.append(case_of("10 and 10, alpha 0.001", times(generator, 10, 1.0), times(generator, 10, 1.05), 0.001))
    for m, n, ratio in ((21, 20, 1.01), (25, 40, 1.0), (50, 50, 0.98)):
        cases.append(case_of(f"approximated: {m} and {n}, ratio {ratio}", times(generator, m, 5.0),
                             times(generator, n, 5 * ratio)))
    for m, n, ratio in ((3, 5, 1.02), (6, 6, 1.02), (5, 8, 1.0), (8, 4, 0.98)):
        cases.append(case_of(f"ties: {m} and {n}, ratio {ratio}", times(generator, m, 1.0, 2),
                             times(generator, n, ratio, 2)))
    cases.append(case_of("ties: two values", np.array([1.0, 1, 1]), np.array([2.0, 2, 2])))
    cases.append(case_of("ties: one value", np.full(4, 2.0), np.full(5, 2.0)))
    for m, n, ratio in ((21, 25, 1.01), (40, 30, 1.0)):
        cases.append(case_of(f"ties, approximated: {m} and {n}, ratio {ratio}", times(generator, m, 1.0, 2),
                             times(generator, n, ratio, 2)))
    return cases


def main() -> None:
    """Writes the file."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--out", type=pathlib.Path, metavar="FILE",
                        default=pathlib.Path(__file__).resolve().parent.parent / "tests/data/golden_stats.json",
                        help="default: tests/data/golden_stats.json")
    out = parser.parse_args().out
    made_by = f"tools/make_golden_stats.py with SciPy {scipy.__version__} and NumPy {np.__version__}"
    lines = ",\n".join(json.dumps(case) for case in make_cases())
    out.write_text(f'{{"made_by": "{made_by}",\n"cases": [\n{lines}\n]}}\n', encoding="utf-8")
    print(f"wrote {out.stat().st_size} bytes to {out}")


if __name__ == "__main__":
    main()
