"""All queues by name, a hundred at a time; and the search, which opens the queue at once where there is but one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import htpy as h

from broker.http.console.elements import empty, in_turns, live, shown, table
from broker.http.console.forms import text_input
from broker.http.console.page import ConsolePage, Content
from broker.http.console.rows import QUEUE_COLUMNS, queue_row
from broker.presentation.rates import named_like

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from broker.http.console.figures.look import StatusLook
    from broker.http.console.page import Parts
    from broker.http.console.visit import Visit

PAGE_ROWS: Final = 100
KINDS: Final = {
    "": "all",
    "messages": "with messages",
    "empty": "empty",
    "system": "of the system",
}


async def _content(visit: Visit) -> Content:
    look = await visit.look()
    found = _found(visit, look)
    start = _start(visit, found)
    parts = await _rows(visit, look, found[start : start + PAGE_ROWS])
    asked, kind = visit.query("q"), visit.query("show")
    body = [
        h.form(".filter", method="get", action=visit.url("queues"))[
            text_input("q", "Name has in it, or is like ORDERS.*", value=asked),
            h.label[
                h.span["Which"],
                h.select(name="show")[
                    (h.option(value=value, selected=value == kind)[word] for value, word in KINDS.items())
                ],
            ],
            h.button(".act", type="submit")["Show"],
        ],
        h.section[
            table("Queues", QUEUE_COLUMNS, live("queues", parts, h.tbody))
            if found
            else empty("No queue that you may display is like this: ", shown(asked or KINDS.get(kind, "")), "."),
            _pager(visit, found, start),
        ],
    ]
    return Content("Queues", body)


async def _parts(visit: Visit) -> Parts:
    look = await visit.look()
    found = _found(visit, look)
    start = _start(visit, found)
    return await _rows(visit, look, found[start : start + PAGE_ROWS])


async def _rows(visit: Visit, look: StatusLook, queues: Sequence[Mapping[str, Any]]) -> Parts:
    return {"queues": await in_turns(queues, lambda each: queue_row(visit, look, each))}


def _found(visit: Visit, look: StatusLook) -> list[Mapping[str, Any]]:
    """The queues that are asked for, by name. Without a word about which, those of the system come last."""
    asked, kind = visit.query("q").strip(), visit.query("show")

    def wanted(queue: Mapping[str, Any]) -> bool:
        system = queue["name"].startswith("SYSTEM.")
        if kind == "system":
            return bool(system)
        if kind in ("messages", "empty"):
            return not system and bool(queue["depth"]) == (kind == "messages")
        return True

    found = [
        each for each in look.queues if (not kind or wanted(each)) and (not asked or named_like(each["name"], asked))
    ]
    own = [each for each in found if not each["name"].startswith("SYSTEM.")]
    return own + [each for each in found if each["name"].startswith("SYSTEM.")]


def _start(visit: Visit, found: Sequence[Mapping[str, Any]]) -> int:
    """Return the place of the first row: behind the name that the page before ended with."""
    behind = visit.query("after")
    if not behind:
        return 0
    return next((number for number, each in enumerate(found, 1) if each["name"] == behind), 0)


def _pager(visit: Visit, found: Sequence[Mapping[str, Any]], start: int) -> h.Element | None:
    """The way to the next hundred, by the last name of this one: what is defined meanwhile moves nothing."""
    end = min(start + PAGE_ROWS, len(found))
    if not start and end == len(found):
        return None
    query = {"q": visit.query("q"), "show": visit.query("show")}
    return h.nav(".pager", aria_label="More")[
        h.span[f"{start + 1:,} to {end:,} of {len(found):,}"],
        h.a(href=visit.url("queues", **query))["From the first"] if start else None,
        h.a(href=visit.url("queues", **query, after=found[end - 1]["name"]))["Next"] if end < len(found) else None,
    ]


QUEUES = ConsolePage(path="/queues", name="Queues", content=_content, parts=_parts)
