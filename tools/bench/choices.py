"""The map of the planner's choices: which path wins where, and what the written rules take."""
import dataclasses
import re

from matplotlib import patches, pyplot
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bench import facts, style
from bench.results import Results, Row

_COLOURS = {"decode": style.SKY, "lanes": style.ORANGE, "fused": style.GREEN, "materialised": style.PURPLE,
            "rational": style.YELLOW}
_LOST = 1.02  # below that, paths are as good as one another
_COLUMNS = 2


@dataclasses.dataclass(frozen=True)
class Cell:
    """One problem: seconds of each path, and the one that the rules take."""
    queries: int
    keys: int
    microseconds: dict[str, float]
    rule: str

    @property
    def winner(self) -> str:
        return min(self.microseconds, key=self.microseconds.__getitem__)

    @property
    def lost(self) -> float:
        """Time of the rules' choice over that of the winner."""
        return self.microseconds[self.rule] / self.microseconds[self.winner]


def cell(row: Row) -> Cell | None:
    """Of a planner_map/ row; None where the name has no queries and keys or the rules' path was not measured."""
    match = re.search(r"_m(\d+)_n(\d+)_", row.case + "_")
    times = {name.removesuffix("_us").split("/")[-1]: row.counter(name)
             for name in row.samples if "/" in name and name.endswith("_us")}
    rule = row.label.split(",")[0].split("/")[-1]
    if match is None or rule not in times:
        return None
    return Cell(int(match[1]), int(match[2]), times, rule)


def _draw(axes: Axes, cells: list[Cell], queries: list[int], keys: list[int]) -> None:
    for item in cells:
        x, y = queries.index(item.queries), keys.index(item.keys)
        colour = _COLOURS.get(item.winner, style.GREY)
        missed = item.lost > _LOST
        axes.add_patch(patches.Rectangle((x - 0.5, y - 0.5), 1, 1, facecolor=colour, edgecolor="white", linewidth=1.5,
                                         hatch="///" if missed else None))
        axes.text(x, y, item.rule[0].upper() + (f"\n{item.lost:.2f}x" if missed else ""), ha="center", va="center",
                  fontsize=7 if missed else 9, color=style.text_colour(colour),
                  bbox={"facecolor": colour, "edgecolor": "none", "pad": 0.8} if missed else None)
    axes.set_xlim(-0.5, len(queries) - 0.5)
    axes.set_ylim(-0.5, len(keys) - 0.5)
    axes.set_xticks(range(len(queries)), queries)
    axes.set_yticks(range(len(keys)), keys)
    axes.grid(visible=False)
    axes.tick_params(length=0)


def draw(results: Results) -> Figure | None:
    """A panel per target: colour is the measured winner, the letter what the rules take."""
    maps: dict[str, list[Cell]] = {}
    for row in results.of("planner_map"):
        item = cell(row)
        if item is not None:
            maps.setdefault(row.target, []).append(item)
    if not maps:
        return None
    every = [item for cells in maps.values() for item in cells]
    queries, keys = sorted({item.queries for item in every}), sorted({item.keys for item in every})
    columns = min(_COLUMNS, len(maps))
    lines = -(-len(maps) // columns)
    figure, all_axes = pyplot.subplots(lines, columns, figsize=(5.6 * columns, 3.3 * lines + 0.5), squeeze=False)
    flat = [axes for row in all_axes for axes in row]
    for axes, target in zip(flat, facts.in_order(maps)):
        _draw(axes, maps[target], queries, keys)
        best = sum(item.lost <= 1.1 for item in maps[target])
        axes.set_title(f"{target}: rules within 10 % of the best in {best} of {len(maps[target])}", loc="left")
        axes.set_xlabel("queries")
        axes.set_ylabel("keys")
    for axes in flat[len(maps):]:
        axes.axis("off")
    paths = [path for path in _COLOURS if any(path in item.microseconds for item in every)]
    handles = [patches.Patch(facecolor=_COLOURS[path], label=f"{path} ({path[0].upper()})") for path in paths]
    handles.append(patches.Patch(facecolor="white", edgecolor="black", hatch="///",
                                 label="rules take another path than the winner, as many times its time"))
    figure.tight_layout(rect=(0, 0, 1, 1 - 0.4 / (3.3 * lines + 0.5)))
    figure.legend(handles=handles, ncol=len(handles), loc="upper center", frameon=False)
    return figure
