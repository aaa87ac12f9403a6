"""report.html: facts, commands, figures with how to read them, tables. One file without references to others."""
import dataclasses
import html

from bench import facts
from bench.results import Results, Row
from bench.summary import error_text, ordered, time_text

_STYLE = """
body { font: 15px/1.45 "DejaVu Sans", Verdana, Arial, sans-serif; max-width: 1320px; margin: 2em auto; padding: 0 1em;
       color: #111; background: #fff; }
h2 { margin-top: 2em; border-bottom: 1px solid #ccc; } p { max-width: 60em; }
table { border-collapse: collapse; margin: 0.7em 0; font-size: 13px; } caption { text-align: left; font-weight: bold; }
th, td { border: 1px solid #ccc; padding: 2px 8px; text-align: left; }
td.number { text-align: right; white-space: nowrap; } small { color: #555; }
pre { background: #f4f4f4; padding: 0.7em; white-space: pre-wrap; overflow-wrap: anywhere; font-size: 12px; }
figure { margin: 1em 0; } figure svg { max-width: 100%; height: auto; }
"""

_LONGEST = 500  # characters of a command


@dataclasses.dataclass(frozen=True)
class Picture:
    """A figure and what it says."""
    name: str
    title: str
    reading: str
    svg: str


def _row(cells: list[str], tag: str = "td") -> str:
    return "<tr>" + "".join(cell if cell.startswith("<t") else f"<{tag}>{html.escape(cell)}</{tag}>"
                            for cell in cells) + "</tr>\n"


def _cell(row: Row | None) -> str:
    """Speed and error together, and how sure the former is."""
    if row is None:
        return "<td></td>"
    error = error_text(row)
    rate = next((f"{row.counter(name):.3g} {unit}" for name, unit in (("GFLOPS", "GFLOPS"), ("GB", "GB/s"))
                 if row.counter(name) is not None), "")
    details = ", ".join(part for part in (f"&plusmn;{row.spread_percent / 2:.1f} %", rate) if part)
    return (f'<td class="number"><b>{time_text(row.median)}</b>{", " + error if error else ""}<br>'
            f"<small>{details}</small></td>")


def family_table(family: str, rows: list[Row]) -> str:
    """Cases down, targets across."""
    targets = facts.in_order(row.target for row in rows)
    cells = {(row.case, row.contender, row.target): row for row in rows}
    text = f"<table><caption>{html.escape(family)}</caption>\n" + _row(["case", *targets], "th")
    for case, contender in dict.fromkeys((row.case, row.contender) for row in rows):
        name = f"{case} [{contender}]" if contender else case
        text += _row([name, *(_cell(cells.get((case, contender, target))) for target in targets)])
    return text + "</table>\n"


def shortened(commands: str) -> str:
    """A filter that lists hundreds of names is for raw/commands.txt, not for readers."""
    return "\n".join(line if len(line) <= _LONGEST else f"{line[:_LONGEST]} ... (the rest: raw/commands.txt)"
                     for line in commands.splitlines())


def _svg(text: str) -> str:
    """Without what belongs into files only."""
    return text[text.index("<svg"):]


def page(results: Results, pictures: list[Picture], commands: str) -> str:
    """The whole document."""
    title = f"attend_bench on {results.facts.get('cpu', 'an unknown CPU')}"
    parts = [f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>{html.escape(title)}</title>'
             f"<style>{_STYLE}</style></head><body>\n<h1>{html.escape(title)}</h1>\n",
             "<p>Times are medians over repetitions, of CPU time where one thread works, else of real time. "
             "Beside each stands the largest difference from double precision (absolute; values lie within 1.74 of 0). "
             "Compare within this report only: another machine has another peak.</p>\n",
             "<h2>Machine and build</h2>\n<table>\n",
             *(_row([words, value]) for words, value in facts.table(results.facts)), "</table>\n"]
    isas = facts.in_order(row.target for row in results.rows if row.onednn_isa)
    through_onednn = [row for row in results.rows
                      if row.contender == "oneDNN" or row.family == "additive"]
    held = {target: sorted({row.onednn_isa for row in through_onednn if row.target == target}) for target in isas}
    if through_onednn:
        words = "; ".join(f"{target}: {', '.join(names)}" for target, names in held.items() if names)
        parts.append("<p>oneDNN, where it takes part, ran in a process of its own per target, on: "
                     f"{html.escape(words)}. It has no kernels below SSE4.1.</p>\n")
    if commands:
        parts.append(f"<h2>Commands</h2>\n<pre>{html.escape(shortened(commands))}</pre>\n")
    if results.failures:
        lines = "".join(f"<li>{html.escape(line)}</li>" for line in results.failures)
        parts.append(f"<h2>Could not run</h2>\n<ul>{lines}</ul>\n")
    for picture in pictures:
        parts.append(f"<h2>{html.escape(picture.title)}</h2>\n<p>{html.escape(picture.reading)}</p>\n"
                     f'<figure id="{picture.name}">{_svg(picture.svg)}</figure>\n')
    parts.append("<h2>Tables</h2>\n<p>Each cell: median time, largest error; below, half the distance of the quartiles "
                 "in percent of the median, and the rate. Names and counters: bench/README.md.</p>\n")
    rows = ordered(results.rows)
    for family in dict.fromkeys(row.family for row in rows):
        parts.append(family_table(family, [row for row in rows if row.family == family]))
    return "".join(parts) + "</body></html>\n"
