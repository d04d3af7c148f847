"""The log: the last lines that the daemon keeps, the newest first, by level, event and words. For administrators."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import htpy as h

from broker.http.console.elements import PageColumn, badge, cells, empty, instant_as, relative, shown, table
from broker.http.console.forms import text_input
from broker.http.console.page import ConsolePage, Content
from broker.presentation.moments import instant_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from htpy import Element, Node

    from broker.http.console.visit import Visit

PAGE_LINES: Final = 100
LEVELS: Final = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")
_LOOKS: Final = {"WARNING": "warn", "ERROR": "bad", "CRITICAL": "bad"}
_COLUMNS: Final = (PageColumn("When"), PageColumn("Level"), PageColumn("Event", wide=True), PageColumn("What"))
_FIELD: Final = re.compile(r'([^\s=]+)=("(?:[^"\\]|\\.)*"|\S*)')


class LogLine(NamedTuple):
    """A line of the log, taken apart. `number` counts from the oldest that is kept."""

    number: int
    level: str
    event: str
    message: str
    at: float
    text: str


async def _content(visit: Visit) -> Content:
    async with visit.connection() as connection:
        lines = await connection.recent_log()
    if not lines:
        body = empty("No lines are kept: the queue manager is embedded, or [logging] recent is 0.")
        return Content("Log", h.section[body])
    found = [*_matching(visit, lines)]
    page = found[:PAGE_LINES]
    return Content(
        "Log",
        [
            _filter(visit),
            h.section[
                h.p(".soft")[f"{len(lines):,} lines are kept, the newest first."],
                table("Log", _COLUMNS, h.tbody[(_row(visit, each) for each in page)])
                if page
                else empty("No line is like this."),
                _pager(visit, found, page),
            ],
        ],
    )


def _filter(visit: Visit) -> Element:
    level = visit.query("level")
    return h.form(".filter", method="get", action=visit.url("log"))[
        h.label[
            h.span["Level, and worse"],
            h.select(name="level")[
                h.option(value="")["all"],
                (h.option(value=each, selected=each == level)[each.lower()] for each in LEVELS),
            ],
        ],
        text_input("queue", "Queue", value=visit.query("queue")),
        text_input("event", "Event, as line_refused", value=visit.query("event")),
        text_input("q", "Has in it", value=visit.query("q")),
        h.button(".act", type="submit")["Show"],
    ]


def _matching(visit: Visit, lines: Sequence[str]) -> Iterator[LogLine]:
    """The lines that are meant, the newest first, from the number `before` on: one more than a page."""
    level, event = visit.query("level"), visit.query("event").strip()
    queue, words = visit.query("queue").strip(), visit.query("q").strip().lower()
    levels = frozenset(LEVELS[LEVELS.index(level) :]) if level in LEVELS else None
    before = visit.query("before")
    start = min(int(before), len(lines)) if before.isdecimal() else len(lines)
    count = 0
    for number in range(start - 1, -1, -1):
        text = lines[number]
        if (words and words not in text.lower()) or (queue and queue not in text) or (event and event not in text):
            continue
        fields = fields_of(text)
        if levels is not None and fields.get("level") not in levels:
            continue
        if (event and fields.get("event") != event) or (queue and not _about(fields, queue)):
            continue
        yield LogLine(
            number, str(fields.get("level", "")), str(fields.get("event", "")), str(fields.get("message", "")),
            instant_of(str(fields.get("time", ""))), text,
        )  # fmt: skip
        count += 1
        if count > PAGE_LINES:
            return


def _about(fields: dict[str, Any], queue: str) -> bool:
    """True if a line is about a queue, or names it in its text."""
    own = [str(fields.get(name, "")) for name in ("queue", "name", "q_name")]
    return (
        queue in own or re.search(rf"(?<![\w.]){re.escape(queue)}(?![\w.])", str(fields.get("message", ""))) is not None
    )


def fields_of(line: str) -> dict[str, Any]:
    """Return the fields of a line, which is logfmt or an object of JSON."""
    try:
        if line.startswith("{"):
            read = json.loads(line)
            return read if isinstance(read, dict) else {}
        return {name: json.loads(value) if value[:1] == '"' else value for name, value in _FIELD.findall(line)}
    except ValueError:
        return {"message": line}


def _row(visit: Visit, line: LogLine) -> Element:
    at: Node = instant_as(line.at, relative(line.at - visit.now)) if line.at else "–"
    values: list[Node] = [
        at,
        badge(line.level.lower() or "–", _LOOKS.get(line.level, "plain")),
        h.a(href=visit.url("log", event=line.event))[shown(line.event)] if line.event else "",
        h.details[h.summary[shown(line.message or line.text, 300)], h.pre(tabindex="0")[shown(line.text, 20_000)]],
    ]
    return h.tr({"data-key": str(line.number)})[cells(_COLUMNS, values)]


def _pager(visit: Visit, found: Sequence[LogLine], page: Sequence[LogLine]) -> Node:
    names = ("level", "queue", "event", "q")
    query = {name: visit.query(name) for name in names}
    if len(found) == len(page) and not visit.query("before"):
        return None
    return h.nav(".pager", aria_label="More")[
        h.a(href=visit.url("log", **query))["From the newest"] if visit.query("before") else None,
        h.a(href=visit.url("log", **query, before=page[-1].number))["Older"] if len(found) > len(page) else None,
    ]


LOG = ConsolePage(path="/log", name="Log", content=_content)
