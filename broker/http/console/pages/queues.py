"""All queues by name, a hundred at a time; and the search, which opens the queue at once where there is but one."""

from __future__ import annotations

from functools import partial
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final

import anyio
import htpy as h

from broker.http.console.elements import empty, in_turns, live, shown, table
from broker.http.console.forms import text_input
from broker.http.console.page import ConsolePage, Content
from broker.http.console.paging import PagedRows, paged
from broker.http.console.rows import QUEUE_COLUMNS, queue_row
from broker.presentation.rates import named_like

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from broker.http.console.figures.look import StatusLook
    from broker.http.console.page import Parts
    from broker.http.console.visit import Visit

PAGE_ROWS: Final = 100
_STEP: Final = 500
KINDS: Final = {
    "": "all",
    "messages": "with messages",
    "empty": "empty",
    "system": "of the system",
}


async def _content(visit: Visit) -> Content:
    look = await visit.look()
    found = await _found(visit, look)
    parts = await _rows(visit, look, found)
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
            if found.rows
            else empty("No queue that you may display is like this: ", shown(asked or KINDS.get(kind, "")), "."),
            found.pager(partial(visit.url, "queues", q=asked, show=kind)),
        ],
    ]
    return Content("Queues", body)


async def _parts(visit: Visit) -> Parts:
    look = await visit.look()
    return await _rows(visit, look, await _found(visit, look))


async def _rows(visit: Visit, look: StatusLook, found: PagedRows) -> Parts:
    return {"queues": await in_turns(found.page, lambda each: queue_row(visit, look, each))}


async def _found(visit: Visit, look: StatusLook) -> PagedRows:
    return paged(visit, await _asked_for(visit, look), itemgetter("name"), PAGE_ROWS)


async def _asked_for(visit: Visit, look: StatusLook) -> Sequence[Mapping[str, Any]]:
    """The queues that are asked for, by name. Without a word about which, those of the system come last. They are
    looked for once in a look, in steps.
    """
    asked, kind = visit.query("q").strip(), visit.query("show")
    key = f"queues {kind} {asked}"
    known: list[Mapping[str, Any]] | None = look.made.get(key)
    if known is not None:
        return known
    found: list[Mapping[str, Any]] = []
    system: list[Mapping[str, Any]] = []
    for number, queue in enumerate(look.queues, 1):
        own = queue["name"].startswith("SYSTEM.")
        if _is_of_kind(queue, kind, system=own) and named_like(queue["name"], asked):
            (system if own else found).append(queue)
        if number % _STEP == 0:
            await anyio.lowlevel.checkpoint()
    found += system
    look.made[key] = found
    return found


def _is_of_kind(queue: Mapping[str, Any], kind: str, *, system: bool) -> bool:
    if kind == "system":
        return system
    if kind in ("messages", "empty"):
        return not system and bool(queue["depth"]) == (kind == "messages")
    return True


QUEUES = ConsolePage(path="/queues", name="Queues", content=_content, parts=_parts)
