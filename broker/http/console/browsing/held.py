"""Messages that no browse sees, since somebody holds them: read off the explanation of their queue, as rows.

The queue manager names the first messages of each holder; of all of them it says how many there are. So the list is
bounded, however many are held.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import quote

import htpy as h

from broker.http.console.elements import PageColumn, badge, cells, identifier, shown, table, when
from broker.mqi import Cause

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from htpy import Element, Node

    from broker.http.console.visit import Visit
    from broker.mqi import Explanation, Finding

HELD_SHOWN: Final = 100
HOLDERS: Final = (
    Cause.IN_DOUBT, Cause.UNCOMMITTED_PUT, Cause.UNCOMMITTED_GET, Cause.LOCKED, Cause.CLAIMED, Cause.PREPARED,
    Cause.DAMAGED,
)  # fmt: skip
"""The causes that keep a message from a browse."""

_COLUMNS: Final = (
    PageColumn("MsgId"),
    PageColumn("State"),
    PageColumn("Since", title="since when it is held; of a consumer, since when it has its oldest claim"),
    PageColumn("Held by"),
    PageColumn("User", wide=True),
    PageColumn("What became of it", wide=True, title="the answer of /jobs/QUEUE/MSGID, as JSON"),
)


class HeldRow(NamedTuple):
    """A message that somebody holds: its queue, its MsgId, how it is held (a `Cause`), since when (seconds since 1970,
    0 where that is not known), by whom in words and by which user, and the page that has more about the holder.
    """

    q_name: str
    msg_id: bytes
    cause: str
    since: float
    holder: str
    user: str
    page: str


class HeldRows(NamedTuple):
    """Held messages that are named, those held longest first, and how many there are in all."""

    named: Sequence[HeldRow]
    messages: int


def held_rows(explanations: Iterable[Explanation], causes: Collection[str] = HOLDERS) -> HeldRows:
    """Return the messages that explanations tell to be held for one of these causes."""
    found = [(told.q_name, each) for told in explanations for each in told.findings if each.code in causes]
    named = [row for q_name, each in found for row in _named(q_name, each)]
    named.sort(key=lambda row: (not row.since, row.since))
    return HeldRows(named, sum(each.figures.get("messages", 0) for _, each in found))


def _named(q_name: str, finding: Finding) -> Iterator[HeldRow]:
    figures = finding.figures
    one = figures.get("msg_id", "")
    holder, page = _holder(figures)
    for digits in figures.get("msg_ids", [one] if one else []):
        yield HeldRow(
            q_name, bytes.fromhex(digits), finding.code, float(figures.get("since") or 0.0), holder,
            figures.get("user", ""), page,
        )  # fmt: skip


def _holder(figures: Mapping[str, Any]) -> tuple[str, str]:
    """Name what holds messages, by the key that leads to it, and the page where it is found."""
    if "unit" in figures:
        return f"unit {figures['unit']}" + (f" of {figures['database']}" if figures["database"] else ""), "units"
    if "consumer" in figures:
        return f"consumer {figures['consumer']}, generation {figures['generation']}", "units"
    if "sink" in figures:
        return f"sink {figures['sink']}, batch {figures['batch']}", "units"
    if "appl_name" in figures:
        where = f" at {figures['connection']}" if figures["connection"] else ""
        return f"{figures['appl_name'] or 'a program without a name'}{where}", "units"
    return str(figures.get("why", "")), ""


def held_table(visit: Visit, label: str, held: HeldRows, *, running: bool = False) -> Element:
    """The first of these messages as a table, and how many more there are. Those that are `running` under handlers are
    of several queues, and all held alike.
    """
    columns = (PageColumn("Queue"), _COLUMNS[0], *_COLUMNS[2:]) if running else _COLUMNS
    rows = (h.tr(".held")[cells(columns, _cells(visit, each, running=running))] for each in held.named[:HELD_SHOWN])
    left = held.messages - min(len(held.named), HELD_SHOWN)
    more = h.p(".soft")[f"and {left:,} more; the explanation of the queue has all who hold some"] if left > 0 else None
    return h.div[table(label, columns, h.tbody[rows]), more]


def _cells(visit: Visit, each: HeldRow, *, running: bool) -> Sequence[Node]:
    url = visit.url("queues", each.q_name, "messages", each.msg_id.hex())
    holder = shown(each.holder, 120) if each.holder else h.span(".none")["–"]
    job = f"/jobs/{quote(each.q_name, safe='')}/{each.msg_id.hex()}"
    msg_id = h.a(href=url, title="why it waits")[identifier(each.msg_id)]
    others: list[Node] = [
        when(each.since, visit.now),
        h.a(href=visit.url(each.page))[holder] if each.page else holder,
        shown(each.user),
        h.a(href=job)["Job"],
    ]
    if running:
        return [h.a(href=visit.url("queues", each.q_name))[shown(each.q_name)], msg_id, *others]
    state = badge(each.cause.replace("_", " ").lower(), "bad" if each.cause == Cause.DAMAGED else "warn")
    return [msg_id, state, *others]
