"""Figures of speed: bars per case and target, time against sequence length, scaling with threads."""
import math
import re

from matplotlib import pyplot
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullFormatter

from bench import facts, style
from bench.results import Results, Row
from bench.summary import error_text, ordered, time_text

# Families that have figures of their own, or none.
_ELSEWHERE = ("machine", "length", "threads", "planner", "planner_map")
# Contenders stand beside what they contend with.
_TOGETHER = {"dot_naive": "dot", "dot_materialised": "dot", "dot_graph": "dot", "overhead": "dot",
             "additive_rational": "additive", "additive_eager": "additive", "additive_hwy_tanh": "additive_score"}
_BAR, _GAP = 0.19, 0.12  # inches: of a bar, between cases
_LENGTHS = {"dot": "dot product: N queries, N keys,\none head of 64", "decode": "decoding: one query, N keys,\n"
            "8 heads of 128", "additive": "additive: 64 queries, N keys,\n128 hidden units",
            "masked_softmax": "masked softmax:\n64 rows of N scores"}
FIT_FROM = 512  # keys: below that, what a run costs anyway bends the line


def _time_axis(axis) -> None:
    axis.set_major_formatter(FuncFormatter(lambda value, _: time_text(value)))
    axis.set_minor_formatter(NullFormatter())


def bar_groups(results: Results) -> dict[str, list[Row]]:
    """Rows of each bar figure, by the name of its main family."""
    groups: dict[str, list[Row]] = {}
    for row in ordered(results.rows):
        if row.family not in _ELSEWHERE:
            groups.setdefault(_TOGETHER.get(row.family, row.family), []).append(row)
    return groups


def case_name(row: Row, group: str) -> str:
    """With its family where that is not the group's, and with who solved it."""
    name = row.case if row.family == group else row.family if row.family == row.case else f"{row.family}/{row.case}"
    return f"{name} [{row.contender}]" if row.contender else name


def bars(group: str, rows: list[Row]) -> Figure:
    """Time of each case on each target, with quartiles, time and error as text."""
    cases = list(dict.fromkeys(case_name(row, group) for row in rows))
    targets = facts.in_order(row.target for row in rows)
    height = len(rows) * _BAR + len(cases) * _GAP
    figure, axes = pyplot.subplots(figsize=(9.5, height + 1.1))
    at, ticks = 0.0, []
    for case in cases:
        members = [row for row in rows if case_name(row, group) == case]
        ticks.append(at + (len(members) - 1) * _BAR / 2)
        for row in members:
            first, third = row.quartiles
            axes.barh(at, row.median, height=_BAR * 0.85, color=style.of_target(row.target)[0],
                      xerr=[[max(0.0, row.median - first)], [max(0.0, third - row.median)]],
                      error_kw={"ecolor": "#555555", "elinewidth": 1, "capsize": 2})
            error = error_text(row)
            axes.text(max(third, row.median) * 1.08, at, time_text(row.median) + (f", err {error}" if error else ""),
                      va="center", fontsize=7)
            at += _BAR
        at += _GAP
    axes.set_yticks(ticks, cases, fontsize=8)
    axes.set_ylim(at - _GAP / 2, -_BAR)
    axes.set_xscale("log")
    times = [row.median for row in rows]
    axes.set_xlim(min(times) / 2, max(times) * 1.4 * (2 * max(times) / min(times)) ** 0.28)
    axes.grid(axis="y", visible=False)
    _time_axis(axes.xaxis)
    axes.set_xlabel("time of a run, median (log scale; shorter is faster); line: quartiles of the repetitions")
    handles = [pyplot.Rectangle((0, 0), 1, 1, color=style.of_target(target)[0]) for target in targets]
    figure.legend(handles, targets, ncol=len(targets), loc="lower center", frameon=False,
                  bbox_to_anchor=(0.5, axes.get_position().y1 + 0.32 / (height + 1.1)))
    axes.set_title(f"{group}: time" + (" and largest error" if any(map(error_text, rows)) else ""), loc="left", pad=6)
    return figure


def fitted_slope(points: list[tuple[float, float]]) -> float | None:
    """The exponent of time = a N^b: least squares of logarithms over N >= FIT_FROM; None for fewer than 2 points."""
    logs = [(math.log(n), math.log(seconds)) for n, seconds in points if n >= FIT_FROM]
    if len(logs) < 2:
        return None
    mean_x, mean_y = (sum(values) / len(logs) for values in zip(*logs))
    return sum((x - mean_x) * (y - mean_y) for x, y in logs) / sum((x - mean_x) ** 2 for x, _ in logs)


def _reference(axes: Axes, every: list[tuple[int, float]], anchor: int, slope: int) -> None:
    """A line of a slope over all N, below the fastest series at the N anchor."""
    ends = min(n for n, _ in every), max(n for n, _ in every)
    below = 0.4 * min(seconds for n, seconds in every if n == anchor)
    linestyle, label = ("--", "N^2, quadratic") if slope == 2 else (":", "N, linear")
    axes.plot(ends, [below * (n / anchor) ** slope for n in ends], linestyle=linestyle, color=style.GREY, linewidth=1.2,
              zorder=1, label=label)


def lengths(results: Results) -> Figure | None:
    """Time against the number of keys, a panel per operation."""
    series: dict[str, dict[str, list[tuple[float, float]]]] = {}
    for row in ordered(results.of("length")):
        match = re.fullmatch(r"(\w+)_n(\d+)", row.case)
        if match and match[1] in _LENGTHS:
            series.setdefault(match[1], {}).setdefault(row.target, []).append((int(match[2]), row.median))
    if not series:
        return None
    figure, all_axes = pyplot.subplots(1, len(series), figsize=(4.1 * len(series), 5.0), squeeze=False)
    for axes, (what, targets) in zip(all_axes[0], series.items()):
        for target in facts.in_order(targets):
            points = sorted(targets[target])
            slope = fitted_slope(points)
            colour, marker = style.of_target(target)
            axes.plot(*zip(*points), color=colour, marker=marker, markersize=4, linewidth=1.2,
                      label=target + ("" if slope is None else f": N^{slope:.2f}"))
        every = [point for points in targets.values() for point in points]
        ends = min(n for n, _ in every), max(n for n, _ in every)
        for slope in (1, 2) if what == "dot" else (1,):
            _reference(axes, every, ends[0] if what == "dot" else ends[1], slope)
        axes.set_xscale("log", base=2)
        axes.set_xticks([n for n in (16, 64, 256, 1024, 4096, 16384) if ends[0] <= n <= ends[1]])
        style.plain_numbers(axes.xaxis)
        axes.set_yscale("log")
        _time_axis(axes.yaxis)
        axes.set_xlabel("N, keys (log scale)")
        axes.set_title(_LENGTHS[what], loc="left")
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.14), ncol=2, frameon=False,
                    title=f"growth fitted from N = {FIT_FROM}", title_fontsize=8)
    all_axes[0][0].set_ylabel("time of a run, median (log scale)")
    figure.tight_layout()
    return figure


def threads(results: Results) -> Figure | None:
    """Speed-up and efficiency over one thread."""
    series: dict[str, list[tuple[int, float]]] = {}
    for row in results.of("threads"):
        match = re.fullmatch(r"(\w+)_t(\d+)", row.case)
        if match:
            series.setdefault(match[1], []).append((int(match[2]), row.median))
    series = {case: sorted(points) for case, points in series.items() if min(points)[0] == 1}
    if not series:
        return None
    most = max(points[-1][0] for points in series.values())
    figure, (speed, share) = pyplot.subplots(1, 2, figsize=(10.5, 4.6))
    speed.plot([1, most], [1, most], linestyle="--", color=style.GREY, label="ideal")
    share.axhline(100, linestyle="--", color=style.GREY, label="ideal")
    for (colour, marker), (case, points) in zip(style.SERIES, series.items()):
        counts = [count for count, _ in points]
        ups = [points[0][1] / seconds for _, seconds in points]
        speed.plot(counts, ups, color=colour, marker=marker, label=case)
        share.plot(counts, [100 * up / count for up, count in zip(ups, counts)], color=colour, marker=marker,
                   label=f"{case}: {100 * ups[-1] / counts[-1]:.0f} %")
    for axes in (speed, share):
        axes.set_xlabel("threads")
        axes.set_xticks(range(1, most + 1) if most <= 16 else sorted({c for p in series.values() for c, _ in p}))
        axes.set_xlim(0.8, most + 0.2)
    speed.set_ylabel("speed-up over one thread (real time)")
    speed.set_ylim(0, most * 1.1)
    speed.legend(loc="lower right", frameon=False)
    share.set_ylabel("efficiency: speed-up / threads, %")
    share.set_ylim(0, max(115, 1.1 * share.get_ylim()[1]))
    share.legend(loc="lower left", frameon=False, title=f"at {most} threads", title_fontsize=8)
    figure.tight_layout()
    return figure
