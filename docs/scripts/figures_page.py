"""Writes `docs/reference/figures.md`, the figures for Prometheus: `python docs/scripts/figures_page.py`."""

from __future__ import annotations

from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from broker.engine.figures.table import EVERMQ, IBMMQ

if TYPE_CHECKING:
    from collections.abc import Iterable

    from broker.engine.figures.families import Family, Section

PAGE: Final = Path(__file__).parents[1] / "reference" / "figures.md"

_HEAD: Final = """\
# Figures for Prometheus

The daemon has them at `/metrics`, programs by `connection.figures()`. How to have them scraped, and the alerts, are
in [Run in production](../how-to/run-in-production.md#figures-and-alerts).

Each figure is counted where it happens, from the start of the queue manager on. A counter does not fall while that
runs, over ALTER, CLEAR, DELETE and another DEFINE of a queue neither: a queue that is deleted has no series, and goes
on from its counts when one of its name is defined again (of the last 10,000 that were deleted). Seconds and bytes are
the units. The buckets of durations go from 0.1 ms to 100 s, three a decade. A histogram appears with its first
observation, and so does each value of `reason` and `verb`.

Each queue has series of its own, but for temporary dynamic ones and `SYSTEM.*`, and at most `queues_max` have, 2,000
unless you say otherwise: `evermq_queues_left_out` counts the others. `?queue=ORDERS.*` shows the queues of these
names, `?per=none` none. A user sees the queues that it may display.

A put or a get counts when it is made, under syncpoint too; what comes back counts besides, as in the statistics of
IBM MQ. Ages and the time on a queue go by the PutTime of the message, which has hundredths of a second, and which a
program that passes or sets the context has chosen. Of a shared queue a member counts what it does itself; its depth
is that of the group.
"""

_IBM: Final = """
## The names of IBM's exporter

`?names=ibmmq` gives these instead, for dashboards that were made for `mq-metric-samples`.
"""

_TABLE: Final = "\n| figure | type | labels | |\n| --- | --- | --- | --- |\n"


def page() -> str:
    """The whole page, in Markdown."""
    return f"{_HEAD}{_sections(EVERMQ, '##')}{_IBM}{_sections(IBMMQ, '###')}"


def _sections(sections: Iterable[Section[Any]], level: str) -> str:
    text = ""
    for title, same in groupby(sections, key=lambda section: section.title):
        rows = "".join([_row(section, family) for section in same for family in section.families])
        text += f"\n{level} {title}\n{_TABLE}{rows}"
    return text


def _row(section: Section[Any], family: Family[Any]) -> str:
    labels = ", ".join(f"`{label}`" for label in (*section.labels, family.label) if label)
    return f"| `{family.name}` | {family.kind.value} | {labels} | {family.help} |\n"


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
