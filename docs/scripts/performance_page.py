"""Writes the figures of `docs/explanation/performance.md`, the page of the measurements.

    python docs/scripts/performance_page.py --bench bench.json --peers peers.json --syncs syncs

`--bench` is what `evermq bench --json` printed, `--peers` what the harness of the peers wrote (several files are taken
together), `--syncs` what its `durability_check.py` printed. What is not given stays as it is on the page.
"""

from __future__ import annotations

import argparse
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING

from broker.benchmarks.report import figure_rows, limit_rows
from peers import comparison_rows, merged, sync_rows, target_rows

if TYPE_CHECKING:
    from collections.abc import Sequence

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


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Write the figures of docs/explanation/performance.md.")
    parser.add_argument("--bench", type=Path, metavar="FILE")
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
    if given.peers:
        cells = merged(file.read_text("utf-8") for file in given.peers)
        page = replaced(page, "targets", markdown(target_rows(cells)))
        page = replaced(page, "peers", markdown(comparison_rows(cells)))
    if given.syncs:
        page = replaced(page, "syncs", markdown(sync_rows(given.syncs.read_text("utf-8"))))
    PAGE.write_text(page, "utf-8")


if __name__ == "__main__":
    _main()
