"""Reads the JSON files of attend_bench and makes one row per case and target of them."""
import dataclasses
import json
import math
import pathlib
import statistics
from typing import Any, Iterable

from bench import facts

# Keys of Google Benchmark's own; every other number of an entry is a counter.
_OWN_KEYS = frozenset({"name", "run_name", "run_type", "family_index", "per_family_instance_index", "repetitions",
                       "repetition_index", "threads", "iterations", "real_time", "cpu_time", "time_unit", "label",
                       "aggregate_name", "aggregate_unit", "error_occurred", "error_message"})
_SECONDS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0}
# Parts that Google Benchmark appends to a name. The first two say which time counts.
_CLOCK_PARTS = ("real_time", "manual_time")
_APPENDED = ("iterations:", "repeats:", "min_time:", "process_time")


class Error(Exception):
    """A message for the user: which file, what is wrong, what was expected."""


@dataclasses.dataclass(frozen=True)
class Name:
    """family/case/target of a benchmark; the target of a contender is who solved the case ("oneDNN", "compiler")."""
    family: str
    case: str
    target: str
    real_time: bool


@dataclasses.dataclass
class Row:
    """All repetitions of one case on one target."""
    family: str
    case: str
    target: str
    contender: str = ""  # who solved it, if not attend
    onednn_isa: str = ""
    label: str = ""
    times: list[float] = dataclasses.field(default_factory=list)  # seconds
    samples: dict[str, list[float]] = dataclasses.field(default_factory=dict)  # counters

    @property
    def n(self) -> int:
        return len(self.times)

    @property
    def median(self) -> float:
        return statistics.median(self.times)

    @property
    def quartiles(self) -> tuple[float, float]:
        """First and third, interpolated between repetitions; both the only time where there is but one."""
        if self.n < 2:
            return self.times[0], self.times[0]
        first, _, third = statistics.quantiles(self.times, n=4, method="inclusive")
        return first, third

    @property
    def spread_percent(self) -> float:
        """100 * (third quartile - first) / median: what half of the repetitions lie within."""
        first, third = self.quartiles
        return 100 * (third - first) / self.median

    def counter(self, name: str) -> float | None:
        """The median over repetitions, or None."""
        return statistics.median(self.samples[name]) if name in self.samples else None


@dataclasses.dataclass
class Results:
    """Everything that one directory holds, of one machine and build."""
    facts: dict[str, str]
    rows: list[Row]
    failures: list[str]  # cases that could not run, with the reason

    def of(self, *families: str) -> list[Row]:
        return [row for row in self.rows if row.family in families]

    def find(self, family: str, case: str, target: str) -> Row | None:
        matches = (row for row in self.of(family) if row.case == case and row.target == target)
        return next(matches, None)

    @property
    def targets(self) -> list[str]:
        """Those that were measured, best first."""
        return facts.in_order(row.target for row in self.rows)


def _parse_name(path: pathlib.Path, run_name: str) -> Name:
    """Splits family/case/target[/what Google Benchmark appends]."""
    parts = run_name.split("/")
    real_time = parts[-1] in _CLOCK_PARTS
    while parts and (parts[-1] in _CLOCK_PARTS or parts[-1].startswith(_APPENDED)):
        parts.pop()
    if len(parts) < 2:
        raise Error(f"{path}: benchmark name is \"{run_name}\", expected family/case/target")
    return Name(parts[0], "/".join(parts[1:-1]) or parts[0], parts[-1], real_time)


def _as_text(content: Any) -> Any:
    """With a question mark for halves of surrogate pairs, which JSON may hold and no file of text."""
    return json.loads(json.dumps(content, ensure_ascii=False).encode("utf-8", "replace"))


def _read(path: pathlib.Path) -> dict[str, Any]:
    try:
        content = _as_text(json.loads(path.read_text(encoding="utf-8")))
    except (ValueError, RecursionError) as error:  # the latter for brackets within brackets by the thousand
        raise Error(f"{path}: not JSON ({error}), expected the output of attend_bench; was the run cut off?") from error
    for key, kind in (("context", dict), ("benchmarks", list)):
        if not isinstance(content, dict) or not isinstance(content.get(key), kind):
            raise Error(f"{path}: no \"{key}\", expected the output of attend_bench --benchmark_out_format=json")
    return content


def _number(value: Any) -> float | None:
    """None where it is none. Whole numbers of JSON have any size."""
    try:
        return float(value) if isinstance(value, (int, float)) else None
    except OverflowError:
        return math.inf


def _time(path: pathlib.Path, entry: dict[str, Any], name: Name) -> float:
    unit = entry.get("time_unit")
    value = entry.get("real_time" if name.real_time else "cpu_time")
    number = _number(value)
    if not isinstance(unit, str) or unit not in _SECONDS or number is None or not 0 < number < math.inf:
        raise Error(f"{path}: {entry.get('name')}: time is {value} {unit}, expected a number above 0 in "
                    f"{', '.join(_SECONDS)}")
    return number * _SECONDS[unit]


def _registered(entry: Any) -> int:
    """Place in the order of registration, which interleaving shuffles."""
    index = entry.get("family_index", 0) if isinstance(entry, dict) else 0
    return index if isinstance(index, int) else 0


def _add(path: pathlib.Path, entry: dict[str, Any], context: dict[str, str], rows: dict[tuple, Row],
         failures: list[str]) -> None:
    """One repetition of one benchmark."""
    if not isinstance(entry, dict) or not isinstance(entry.get("run_name", entry.get("name")), str):
        raise Error(f"{path}: an entry of \"benchmarks\" has no name, expected family/case/target")
    if entry.get("run_type", "iteration") != "iteration":
        return
    run_name = entry.get("run_name", entry.get("name"))
    if entry.get("error_occurred"):
        failures.append(f"{run_name}: {entry.get('error_message', 'no reason given')}")
        return
    name = _parse_name(path, run_name)
    known = name.target in facts.TARGETS
    # oneDNN's own products belong to the instruction set that it was held to.
    target = context.get("bench_target", name.target) if name.target == "oneDNN" else name.target
    contender = "" if known else name.target
    row = rows.setdefault((name.family, name.case, target, contender),
                          Row(name.family, name.case, target, contender, context.get("onednn_isa", "")))
    row.label = str(entry.get("label", row.label))
    row.times.append(_time(path, entry, name))
    for key, value in entry.items():
        number = _number(value)
        if key not in _OWN_KEYS and number is not None:
            row.samples.setdefault(key, []).append(number)


def load(paths: Iterable[pathlib.Path]) -> Results:
    """Reads the files, in order of their names. Errors: Error, also where they are not of one machine and build."""
    rows: dict[tuple, Row] = {}
    failures: list[str] = []
    first: tuple[pathlib.Path, dict[str, str]] | None = None
    for path in sorted(paths):
        content = _read(path)
        context = {key: str(value) for key, value in content["context"].items()}
        if first is None:
            first = (path, context)
        else:
            differs = facts.difference(first[1], context)
            if differs is not None:
                raise Error(f"{path}: {differs.key} is \"{differs.second}\", in {first[0]} it is \"{differs.first}\": "
                            "results of different machines or builds do not belong on one axis")
        for entry in sorted(content["benchmarks"], key=_registered):
            _add(path, entry, context, rows, failures)
    if first is None or not rows:
        raise Error("no results: expected JSON files that tools/bench.sh wrote, with one benchmark at least")
    return Results(first[1], list(rows.values()), failures)
