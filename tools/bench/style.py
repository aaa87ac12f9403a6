"""Colours, markers and saving, the same in every figure. Needs matplotlib."""
import pathlib

import matplotlib

matplotlib.use("Agg")  # files only, no display
# pylint: disable=wrong-import-position
from matplotlib import pyplot
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullFormatter

# Okabe and Ito's palette, which the colour-blind tell apart; markers differ too, for print in grey.
BLACK, ORANGE, SKY, GREEN = "#000000", "#E69F00", "#56B4E9", "#009E73"
YELLOW, BLUE, VERMILLION, PURPLE, GREY = "#F0E442", "#0072B2", "#D55E00", "#CC79A7", "#8C8C8C"
SERIES = ((BLUE, "o"), (VERMILLION, "s"), (GREEN, "^"), (ORANGE, "D"), (PURPLE, "v"), (SKY, "P"), (BLACK, "X"),
          (YELLOW, "*"))

_TARGETS = {"AVX3": (BLUE, "o"), "AVX2": (VERMILLION, "s"), "SSE4": (GREEN, "^"), "SSSE3": (ORANGE, "D"),
            "SSE2": (YELLOW, "p"), "AVX3_DL": (SKY, "P"), "AVX3_ZEN4": (PURPLE, "h"), "AVX3_SPR": (GREY, "*"),
            "SVE2": (BLUE, "o"), "SVE2_128": (SKY, "P"), "SVE_256": (GREEN, "^"), "SVE": (ORANGE, "D"),
            "NEON": (VERMILLION, "s"), "NEON_WITHOUT_AES": (PURPLE, "v"), "EMU128": (GREY, "X"), "SCALAR": (BLACK, "v")}

pyplot.rcParams.update({
    "font.family": "sans-serif",
    # Text stays text in .svg files: small, searchable, and any narrower font of the reader's fits too.
    "font.sans-serif": ["DejaVu Sans", "Verdana", "Arial"], "svg.fonttype": "none",
    "font.size": 9, "axes.titlesize": 10, "axes.labelsize": 9, "legend.fontsize": 8,
    "axes.grid": True, "grid.color": "#DDDDDD", "grid.linewidth": 0.6, "axes.axisbelow": True,
    "axes.spines.top": False, "axes.spines.right": False, "hatch.linewidth": 0.6})


def of_target(target: str) -> tuple[str, str]:
    """Colour and marker."""
    return _TARGETS.get(target, (GREY, "X"))


def plain_numbers(axis) -> None:
    """0.1, 1, 10 instead of powers, none between."""
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_formatter(NullFormatter())


def text_colour(background: str) -> str:
    """Black or white, whichever reads better on it."""
    red, green, blue = (int(background[i:i + 2], 16) for i in (1, 3, 5))
    return "black" if 0.299 * red + 0.587 * green + 0.114 * blue > 120 else "white"


def save(figure: Figure, folder: pathlib.Path, name: str) -> str:
    """Writes name.svg and name.png and returns the former's text; the same results give the same bytes."""
    folder.mkdir(parents=True, exist_ok=True)
    # The salt makes the names inside differ between figures that one HTML file holds.
    with pyplot.rc_context({"svg.hashsalt": name}):
        figure.savefig(folder / f"{name}.svg", bbox_inches="tight", metadata={"Date": None})
    figure.savefig(folder / f"{name}.png", bbox_inches="tight", dpi=110)
    pyplot.close(figure)
    return (folder / f"{name}.svg").read_text(encoding="utf-8")
