"""The roofline: what each case achieves against what this machine's units and memories allow."""
import dataclasses

from matplotlib import pyplot
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bench import facts, style
from bench.results import Results, Row

_LEVELS = (("read_bandwidth_l1", "L1"), ("read_bandwidth_l2", "L2"), ("read_bandwidth", "L3"),
           ("read_bandwidth_dram", "memory"))
_KERNELS = ("tile_product", "dot_tile", "query_lanes", "few_rows")
_COLUMNS = 3
# The same colour and marker for a kind in every report.
_KINDS = dict(zip(("dot", "dot, one query", "multi_head", "kernels alone", "contenders", "linear"), style.SERIES))


@dataclasses.dataclass(frozen=True)
class Roofs:
    """Of one core and target."""
    peak: float  # GFLOPS
    bandwidths: dict[str, float]  # GB/s by level


def roofs(results: Results, target: str) -> Roofs | None:
    """As machine/* measured them; None without the peak."""
    peak = results.find("machine", "fma_peak", target)
    if peak is None:
        return None
    found = ((level, results.find("machine", case, target)) for case, level in _LEVELS)
    return Roofs(peak.counter("GFLOPS") or 0, {level: row.counter("GB") or 0 for level, row in found if row})


def _kind(row: Row) -> str:
    """What a point is, in the legend's words."""
    if row.contender:
        return "contenders"
    if row.family in _KERNELS:
        return "kernels alone"
    if row.family == "dot":
        return "dot, one query" if "_m1_" in row.case else "dot"
    return row.family


def points(results: Results) -> dict[str, list[Row]]:
    """Cases of one thread with FLOPs and bytes, by what they are."""
    kinds: dict[str, list[Row]] = {}
    for row in results.rows:
        counted = row.counter("GFLOPS") is not None and row.counter("intensity") is not None
        if counted and "_threads" not in row.case and row.family not in ("threads", "length", "overhead"):
            kinds.setdefault(_kind(row), []).append(row)
    order = [*_KINDS, *kinds]
    return {kind: kinds[kind] for kind in sorted(kinds, key=order.index)}


def _draw_roofs(axes: Axes, roof: Roofs, span: tuple[float, float]) -> None:
    for i, (level, bandwidth) in enumerate(roof.bandwidths.items()):
        ridge = roof.peak / bandwidth
        axes.plot([span[0], ridge], [span[0] * bandwidth, roof.peak], color="#444444", linewidth=1,
                  linestyle=("-", "--", "-.", ":")[i % 4], zorder=1)
    axes.plot([roof.peak / max(roof.bandwidths.values(), default=roof.peak), span[1]], [roof.peak] * 2, color="#444444",
              linewidth=1.5, zorder=1)
    words = [f"FMA peak {roof.peak:.0f} GFLOPS"]
    lines = ("\u2014", "- -", "- \u00b7", "\u00b7\u00b7\u00b7")
    words += [f"{line}  {level} {bandwidth:.3g} GB/s"
              for line, (level, bandwidth) in zip(lines, roof.bandwidths.items())]
    axes.text(0.98, 0.03, "\n".join(words), transform=axes.transAxes, ha="right", va="bottom", fontsize=7,
              bbox={"facecolor": "white", "edgecolor": "#CCCCCC", "boxstyle": "round,pad=0.3"})


def draw(results: Results) -> Figure | None:
    """A panel per target, all on the same axes."""
    kinds = points(results)
    targets = [target for target in facts.in_order(row.target for rows in kinds.values() for row in rows)
               if roofs(results, target) is not None]
    if not targets:
        return None
    every = [row for rows in kinds.values() for row in rows if row.target in targets]
    intensities = [row.counter("intensity") for row in every]
    span = min(intensities) / 2, max(intensities) * 2
    peaks = [roofs(results, target).peak for target in targets]
    columns = min(_COLUMNS, len(targets))
    lines = -(-len(targets) // columns)
    figure, all_axes = pyplot.subplots(lines, columns, figsize=(4.2 * columns, 3.7 * lines), sharex=True, sharey=True,
                                       squeeze=False)
    flat = [axes for row in all_axes for axes in row]
    for axes, target in zip(flat, targets):
        _draw_roofs(axes, roofs(results, target), span)
        for kind, rows in kinds.items():
            colour, marker = _KINDS.get(kind, (style.GREY, "X"))
            mine = [row for row in rows if row.target == target]
            axes.scatter([row.counter("intensity") for row in mine], [row.counter("GFLOPS") for row in mine],
                         color=colour, marker=marker, s=22, linewidths=0.4, edgecolors="white", label=kind, zorder=3)
        axes.set_xscale("log")
        axes.set_yscale("log")
        style.plain_numbers(axes.xaxis)
        style.plain_numbers(axes.yaxis)
        axes.set_xlim(span)
        axes.set_ylim(min(row.counter("GFLOPS") for row in every) / 4, max(peaks) * 2)
        axes.set_title(target, loc="left")
        axes.tick_params(labelbottom=True)
    for axes in flat[len(targets):]:
        axes.axis("off")
    for axes in flat[max(0, len(targets) - columns):len(targets)]:
        axes.set_xlabel("arithmetic intensity, FLOP per compulsory byte (log)")
    for row in all_axes:
        row[0].set_ylabel("achieved, GFLOPS (log)")
    handles, labels = flat[0].get_legend_handles_labels()
    free = len(flat) > len(targets)
    if free:
        flat[len(targets)].legend(handles, labels, loc="center", frameon=False, title="cases, one thread")
    figure.tight_layout(rect=(0, 0, 1, 1 if free else 0.94))
    if not free:
        figure.legend(handles, labels, ncol=len(labels), loc="upper center", frameon=False)
    return figure
