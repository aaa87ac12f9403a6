#!/usr/bin/env python3
"""Makes summary.csv, report.html and plots (.svg, .png) of what tools/bench.sh measured.

    tools/bench_report.py DIR      reads DIR/raw/*.json and DIR/raw/commands.txt, writes into DIR

summary.csv needs Python alone; the rest needs matplotlib (Debian: python3-matplotlib), without which this says so and
leaves it at the summary. Files of different machines or builds are refused: their times do not belong on one axis.
"""
import argparse
import pathlib
import sys
import tempfile

from bench import results as bench_results
from bench import summary

_READING = {
    "roofline":
        "Points are cases, at the FLOPs they must do per byte they must move (inputs read once, outputs written "
        "once) and the GFLOPS they reach. The flat roof is the measured multiply-add peak of one core, the slanted "
        "ones what one core reads in order from each level. A point on the flat roof is bound by arithmetic; one "
        "left of the ridge by the memory that holds its data; its distance from the roof above it is what could "
        "still be won. Contenders are oneDNN's, which knows nothing below SSE4.1: on SCALAR they stand above the roof.",
    "length":
        "Both axes are logarithmic, so that time proportional to N^k is a straight line of slope k; the legend has "
        "the exponent fitted to each. Dashed: quadratic; dotted: linear. A step up in a linear line is where the data "
        "leaves a cache.",
    "threads":
        "Real time on 1 to N threads over that on one. Dashed: N threads are N times as fast. Decoding is bound by the "
        "memory that all cores share.",
    "planner_map":
        "Dot-product attention, four heads of 64, one thread. Colour: the path that was fastest when all that fit were "
        "measured in turns. Letter: the path that the planner's written rules take. Where the two differ by more than "
        "2 %, the cell is hatched and says how many times as long the rules' choice takes.",
}
_SPEED = ("Bars begin at the edge of a logarithmic axis: compare where they end. Beside each stand the median and the "
          "largest difference from double precision.")


def write(path: pathlib.Path, text: str) -> None:
    """All of it or nothing."""
    try:
        with tempfile.NamedTemporaryFile("w", encoding="utf-8", dir=path.parent, delete=False) as file:
            temporary = pathlib.Path(file.name)
            try:
                file.write(text)
                file.close()  # the last error of writing may come here
                temporary.chmod(0o644)
                temporary.replace(path)
            except BaseException:
                temporary.unlink()
                raise
    except OSError as error:
        raise OSError(error.errno, f"cannot write: {error.strerror}", str(path)) from error


def draw_all(results: bench_results.Results, folder: pathlib.Path) -> list:
    """Every figure that there are results for, as pictures of the page. Needs matplotlib."""
    from bench import choices, page, roofline, speed, style  # pylint: disable=import-outside-toplevel
    bars = [(f"speed_{group}", f"Speed: {group}", _SPEED, speed.bars(group, rows))
            for group, rows in speed.bar_groups(results).items()]
    main_bars = [bar for bar in bars if bar[0].removeprefix("speed_") in summary.MAIN_FAMILIES]
    figures = [*main_bars,
               ("roofline", "Roofline", _READING["roofline"], roofline.draw(results)),
               ("length", "Speed against sequence length", _READING["length"], speed.lengths(results)),
               ("threads", "Thread scaling", _READING["threads"], speed.threads(results)),
               ("planner_map", "Which path wins where", _READING["planner_map"], choices.draw(results)),
               *(bar for bar in bars if bar not in main_bars)]
    return [page.Picture(name, title, reading, style.save(figure, folder, name))
            for name, title, reading, figure in figures if figure is not None]


def report(folder: pathlib.Path) -> None:
    """Everything, or without matplotlib the summary alone. Errors: bench_results.Error and OSError."""
    raw = folder / "raw"
    results = bench_results.load(path for path in raw.iterdir() if path.suffix == ".json")
    write(folder / "summary.csv", summary.as_csv(results))
    print(f"wrote {folder / 'summary.csv'}: {len(results.rows)} cases")
    try:
        import matplotlib  # pylint: disable=import-outside-toplevel,unused-import
    except ImportError:
        print(f"bench_report.py: no matplotlib in {sys.executable} (Debian: apt-get install python3-matplotlib); "
              "report.html and plots left out", file=sys.stderr)
        return
    from bench import page  # pylint: disable=import-outside-toplevel
    pictures = draw_all(results, folder / "plots")
    commands = raw / "commands.txt"
    used = commands.read_text("utf-8", "replace") if commands.exists() else ""
    write(folder / "report.html", page.page(results, pictures, used))
    print(f"wrote {folder / 'report.html'} and {len(pictures)} plots in {folder / 'plots'}")


def main() -> int:
    """Exit status: 0, also without matplotlib; 1 for results that cannot be used; 2 for wrong usage and for what cannot
    be read or written."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", metavar="DIR", type=pathlib.Path, help="as given to tools/bench.sh --out")
    folder = parser.parse_args().folder
    try:
        if not (folder / "raw").is_dir():
            parser.error(f"DIR is \"{folder}\", without a folder raw/ of results; expected what tools/bench.sh --out "
                         "wrote")
        report(folder)
    except bench_results.Error as error:
        print(f"bench_report.py: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        print(f"bench_report.py: {error.filename}: {error.strerror}" if error.filename else f"bench_report.py: {error}",
              file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
