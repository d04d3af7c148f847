"""The messages of a queue, a hundred at a time, in the order of the queue."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

import htpy as h

from broker.http.console.browsing.cursors import PAGE_MESSAGES, PAGES_KEPT
from broker.http.console.browsing.groups import bar, drawn_groups
from broker.http.console.browsing.held import held_rows, held_table
from broker.http.console.browsing.search import FIELDS, asked
from broker.http.console.elements import (
    PageColumn,
    badge,
    cells,
    count,
    empty,
    identifier,
    octets,
    section,
    shown,
    table,
    when,
)
from broker.http.console.forms import text_input
from broker.http.console.page import ConsolePage, Content
from broker.http.console.pages.queue import EXPLAINED_MAX, tabs
from broker.http.refusals import AWAY
from broker.mqi import MQPER, MQRC, MQError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from htpy import Element, Node

    from broker.http.console.browsing.cursors import BrowseCursor
    from broker.http.console.browsing.listed import ListedMessage
    from broker.http.console.browsing.search import MessageSearch
    from broker.http.console.visit import Visit

COLUMNS: Final = (
    PageColumn("#", figures=True),
    PageColumn("MsgId"),
    PageColumn("State"),
    PageColumn("Put"),
    PageColumn("Priority", figures=True, wide=True),
    PageColumn("CorrelId", wide=True),
    PageColumn("In group", wide=True, title="its place in its group, or its first byte in its message"),
    PageColumn("Attempts", figures=True, wide=True, title="BackoutCount: units of work that were backed out"),
    PageColumn("Size", figures=True),
    PageColumn("Data"),
)
_LINE: Final = 90
_GONE: Final = "The place in the queue was kept for five minutes and is gone: this is the beginning."


async def _content(visit: Visit) -> Content:
    name = visit.param("name")
    crumbs = (("Queues", "/queues"), (name, visit.url("queues", name).removeprefix(visit.base)))
    head = [tabs(visit, name, "messages"), _search(visit, name)]
    try:
        cursor, number, rows, again = await _page(visit, name, asked(visit))
    except MQError as error:
        if error.reason in (*AWAY, MQRC.NOT_AUTHORIZED, MQRC.UNKNOWN_OBJECT_NAME):
            raise
        return Content(name, [*head, h.p(".notice.bad", role="alert")[shown(str(error), 600)]], crumbs)
    found = table("Messages", COLUMNS, h.tbody[(_row(visit, name, each) for each in rows)]) if rows else _nothing(visit)
    note, held = await _held(visit, name)
    body = [
        *head,
        h.p(".notice.warn")[_GONE] if again else None,
        note,
        h.section[found, _pager(visit, name, cursor, number, len(rows))],
        held,
        await _groups(visit, name, rows),
    ]
    return Content(name, body, crumbs)


async def _page(
    visit: Visit, name: str, search: MessageSearch
) -> tuple[BrowseCursor, int, Sequence[ListedMessage], bool]:
    """The page that is asked for: its cursor, its number, its rows, and whether its cursor was gone."""
    cursors, word = visit.site.cursors, visit.query("cursor")
    number = int(visit.query("page")) if visit.query("page").isascii() and visit.query("page").isdigit() else 1
    cursor = cursors.find(visit.caller, word, name) if word else None
    if cursor is not None:
        try:
            rows = await cursor.page(number)
        except MQError as error:
            if error.reason not in _CURSOR_GONE:
                raise
            rows = None
        if rows is not None:
            return cursor, number, rows, False
    cursor = await cursors.open(visit.caller, name, search)
    rows = await cursor.page(1)
    assert rows is not None
    return cursor, 1, rows, bool(word)


_CURSOR_GONE: Final = frozenset({MQRC.CONNECTION_BROKEN, MQRC.HCONN_ERROR, MQRC.HOBJ_ERROR, MQRC.Q_DELETED})


def _search(visit: Visit, name: str) -> Element:
    return h.form(".filter", method="get", action=visit.url("queues", name, "messages"))[
        (
            text_input(key, word, value=visit.query(key), placeholder="hexadecimal digits")
            for key, word in FIELDS.items()
        ),
        h.div(".grow")[
            text_input(
                "selector", "Selector", value=visit.query("selector"), placeholder="kind = 'new' AND total > 100"
            )
        ],
        h.button(".act", type="submit")["Find"],
    ]


def _nothing(visit: Visit) -> Element:
    if any(visit.query(each) for each in (*FIELDS, "selector")):
        return empty("No message that a browse sees is like this.")
    return empty("A browse sees no message.")


async def _held(visit: Visit, name: str) -> tuple[Node, Node]:
    """The messages that no browse sees: a line that says so, and a table of them with those who hold them."""
    try:
        queue = (await visit.look()).queue(name)
    except MQError as error:
        if error.reason == MQRC.NOT_AUTHORIZED:
            return None, None
        raise
    if queue is None:
        return None, None
    if queue["depth"] > EXPLAINED_MAX and not visit.query("held"):
        held = [f"{queue[each]:,} {each}" for each in ("uncommitted", "claimed", "prepared", "damaged") if queue[each]]
        url = visit.url("queues", name, "messages", held=1) + "#held"
        return (_note(", ".join(held), h.a(href=url)["Which, by whom, since when"]) if held else None), None
    async with visit.connection() as connection:
        found = held_rows([await connection.explain(name)])
    if not found.messages:
        return None, None
    why = h.p[h.a(href=visit.url("queues", name, explain=1) + "#why")["Why messages wait"]]
    rows = section("Held by somebody", held_table(visit, "Held messages", found), why, id="held")
    return _note(f"{found.messages:,}", h.a(href="#held")["Which, by whom, since when"]), rows


def _note(number: str, way: Element) -> Element:
    return h.p(".notice.warn")["Held by somebody, so that no browse sees them: ", number, ". ", way]


def _row(visit: Visit, name: str, each: ListedMessage) -> Element:
    url = visit.url("queues", name, "messages", each.msg_id.hex())
    now = visit.now
    state: Node = badge("available", "good")
    if each.deliver_at > now:
        state = [badge("delayed", "warn"), " ", when(each.deliver_at, now)]
    priority = f"{each.priority}" if each.persistence == MQPER.PERSISTENT else f"{each.priority} np"
    values: list[Node] = [
        f"{each.position:,}", h.a(href=url)[identifier(each.msg_id)], state, when(each.put_at, now),
        priority, identifier(each.correl_id), _place(each), count(each.backout_count), octets(each.length),
        h.span(".first-line")[shown(each.first_line, _LINE)],
    ]  # fmt: skip
    return h.tr({"data-key": f"{each.position}"})[cells(COLUMNS, values)]


def _place(each: ListedMessage) -> Node:
    if not each.grouped:
        return ""
    return [identifier(each.group_id), f" {each.msg_seq_number:,}", f" +{each.offset:,}" if each.offset else ""]


def _pager(visit: Visit, name: str, cursor: BrowseCursor, number: int, rows: int) -> Element:
    to = partial(visit.url, "queues", name, "messages")
    kept: dict[str, Any] = {key: visit.query(key) for key in (*FIELDS, "selector")}
    more = rows == PAGE_MESSAGES and number < PAGES_KEPT
    first = (number - 1) * PAGE_MESSAGES + 1
    return h.nav(".pager", aria_label="More")[
        h.span[f"{first:,} to {first + rows - 1:,}"] if rows else None,
        h.a(href=to(**kept, cursor=cursor.word, page=number - 1))["Back"] if number > 1 else None,
        h.a(href=to(**kept, cursor=cursor.word, page=number + 1))["Next"] if more else None,
        h.a(href=to(**kept))["From the beginning"] if number > 1 or cursor.at < visit.now - 5 else None,
        h.span["as it was ", when(cursor.at, visit.now)],
    ]


async def _groups(visit: Visit, name: str, rows: Sequence[ListedMessage]) -> Node:
    if not any(each.grouped for each in rows):
        return None
    async with visit.connection() as connection:
        drawn = await drawn_groups(connection, name, rows)
    return h.section[
        h.h2["Groups and segmented messages of this page"],
        h.div(".groups")[(bar(each) for each in drawn)],
    ]


MESSAGES = ConsolePage(path="/queues/{name:segment}/messages", content=_content)
