"""Writes the figures of `docs/explanation/performance.md`, the page of the measurements.

    python docs/scripts/performance_page.py --bench bench.json --security security.json --peers peers.json --syncs syncs

`--bench` is what `evermq bench --json` printed, `--security` the same of a run that has figures with users checked or
over TLS and those that they are compared with, `--peers` what the harness of the peers wrote (several files are taken
together), `--syncs` what its `durability_check.py` printed. What is not given stays as it is on the page.
"""

from __future__ import annotations

import argparse
import json
import re
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from broker.benchmarks.catalog import UNDER, WORKLOADS, compared
from broker.benchmarks.report import amount, figure_rows, limit_rows
from peers import comparison_rows, merged, sync_rows, target_rows

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

PAGE = Path(__file__).parents[1] / "explanation" / "performance.md"


def replaced(page: str, name: str, text: str) -> str:
    """The page with another text in its generated part of this name. Raises ValueError when it has none."""
    pattern = re.compile(rf"(<!-- {name} -->\n).*?(<!-- end of {name} -->)", re.DOTALL)
    if not pattern.search(page):
        raise ValueError(f"the page has no part {name}")
    return pattern.sub(lambda part: f"{part[1]}\n{text}\n{part[2]}", page)


def markdown(rows: Sequence[Sequence[str]]) -> str:
    """A table, its head first; columns of figures stand right."""
    head, *others = rows
    columns = zip(*others, strict=True)
    rules = ["---:" if all(cell[:1].isdigit() for cell in column if cell) else "---" for column in columns]
    return "".join(f"| {' | '.join(line)} |\n" for line in (head, rules, *others))


def security_rows(report: Mapping[str, Any]) -> list[list[str]]:
    """The table of what users and TLS cost, its head first. A ratio is the median of those of the runs, in each of
    which the two were measured next to each other.
    """
    figures = {(each["name"], each["size"]): each for each in report["figures"]}
    rows = [["", "bytes", "median", "min - max", "", "/ plain", "daemon, us", "/ plain", "beside it"]]
    for name in dict.fromkeys(each.name for those in UNDER.values() for each in those):
        plain = WORKLOADS[name]
        for size in plain.sizes:
            shown = [figures[each.name, size] for each in compared(plain) if (each.name, size) in figures]
            rows += [_security_row(each, shown[0]) for each in shown]
    return rows


def _security_row(figure: Mapping[str, Any], plain: Mapping[str, Any]) -> list[str]:
    costs, before = (each["details_values"].get("daemon_us", []) for each in (figure, plain))
    other = figure is not plain
    beside = ", ".join(f"{name} {amount(value)}" for name, value in figure["details"].items() if name != "daemon_us")
    return [
        figure["title"],
        str(figure["size"] or ""),
        amount(figure["median"]),
        f"{amount(figure['min'])} - {amount(figure['max'])}",
        figure["unit"],
        _ratio(figure["values"], plain["values"]) if other else "",
        f"{median(costs):.1f}" if costs else "",
        _ratio(costs, before) if other and costs else "",
        beside,
    ]


def _ratio(values: Sequence[float], before: Sequence[float]) -> str:
    return f"{median(value / other for value, other in zip(values, before, strict=True)):.2f}"


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Write the figures of docs/explanation/performance.md.")
    parser.add_argument("--bench", type=Path, metavar="FILE")
    parser.add_argument("--security", type=Path, metavar="FILE")
    parser.add_argument("--peers", type=Path, metavar="FILE", nargs="+", default=[])
    parser.add_argument("--syncs", type=Path, metavar="FILE")
    return parser.parse_args()


def _main() -> None:
    given = _arguments()
    page = PAGE.read_text("utf-8")
    if given.bench:
        reported = json.loads(given.bench.read_text("utf-8"))
        page = replaced(page, "machine", markdown([["", "this run"], *map(list, reported["machine"].items())]))
        page = replaced(page, "figures", markdown(figure_rows(reported)))
        page = replaced(page, "limits", markdown(limit_rows(reported)))
    if given.security:
        reported = json.loads(given.security.read_text("utf-8"))
        tables = [["", "this run"], *map(list, reported["machine"].items())], security_rows(reported)
        page = replaced(page, "security", "\n".join(map(markdown, tables)))
    if given.peers:
        cells = merged(file.read_text("utf-8") for file in given.peers)
        page = replaced(page, "targets", markdown(target_rows(cells)))
        page = replaced(page, "peers", markdown(comparison_rows(cells)))
    if given.syncs:
        page = replaced(page, "syncs", markdown(sync_rows(given.syncs.read_text("utf-8"))))
    PAGE.write_text(page, "utf-8")


if __name__ == "__main__":
    _main()
