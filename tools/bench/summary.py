"""summary.csv: one line per case and target."""
import csv
import io
import math

from bench import facts
from bench.results import Results, Row

# Columns that are counters of the same name; units and formulas are in bench/README.md.
_COUNTERS = ("GFLOPS", "peak_percent", "intensity", "GB", "read_percent", "per_element", "fma_issue_percent",
             "max_error", "workspace", "rule_to_best")
COLUMNS = ("family", "case", "target", "contender", "n", "median_s", "first_quartile_s", "third_quartile_s",
           "spread_percent", *_COUNTERS, "onednn_isa", "label")


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.6g}"


# What users run comes first, then what it is made of.
MAIN_FAMILIES = ("dot", "multi_head", "additive", "masked_softmax", "linear")


def _place(family: str) -> int:
    return MAIN_FAMILIES.index(family) if family in MAIN_FAMILIES else len(MAIN_FAMILIES)


def ordered(rows: list[Row]) -> list[Row]:
    """Main families first, else families and cases as they were registered; targets best first."""
    targets = facts.in_order(row.target for row in rows)
    cases = {key: i for i, key in enumerate(dict.fromkeys((row.family, row.case) for row in rows))}
    families = {family: i for i, family in enumerate(sorted(dict.fromkeys(row.family for row in rows), key=_place))}
    return sorted(rows, key=lambda row: (families[row.family], cases[row.family, row.case], targets.index(row.target)))


def as_csv(results: Results) -> str:
    """The text of summary.csv."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for row in ordered(results.rows):
        first, third = row.quartiles
        writer.writerow([row.family, row.case, row.target, row.contender, row.n, _number(row.median), _number(first),
                         _number(third), f"{row.spread_percent:.2f}",
                         *(_number(row.counter(name)) for name in _COUNTERS), row.onednn_isa, row.label])
    return text.getvalue()


def time_text(seconds: float) -> str:
    """Three digits and a unit: "5.72 ms"."""
    for factor, unit in ((1, "s"), (1e-3, "ms"), (1e-6, "us")):
        if seconds >= factor:
            return f"{seconds / factor:.3g} {unit}" if seconds < 999.5 * factor else f"{seconds / factor:.0f} {unit}"
    return f"{seconds * 1e9:.3g} ns"


def error_text(row: Row) -> str:
    """ "1e-7", or nothing where the case does not compare itself with the truth."""
    error = row.counter("max_error")
    if error is None:
        return ""
    if not math.isfinite(error):
        return str(error)
    mantissa, exponent = f"{error:.0e}".split("e")
    return f"{mantissa}e{int(exponent)}"
