"""Objects: definitions by kind, a hundred at a time; and the ways to what they may be asked and changed for."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

import htpy as h

from broker.http.console.elements import PageColumn, cells, empty, shown, table
from broker.http.console.forms import text_input
from broker.http.console.objects.attributes import KINDS, WITHOUT_PAGE, text
from broker.http.console.page import ConsolePage, Content
from broker.http.console.paging import paged

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from htpy import Element, Node

    from broker import Connection
    from broker.http.console.visit import Visit

PAGE_ROWS: Final = 100
_WORDS: Final = {
    "QLOCAL": "Local queues", "QALIAS": "Alias queues", "QREMOTE": "Remote queues", "QMODEL": "Model queues",
    "PROCESS": "Processes", "CHANNEL": "Channels", "USER": "Users", "AUTHINFO": "Authentication",
    "CHLAUTH": "Channel rules", "AUTHREC": "Authority records", "CFSTRUCT": "Structures", "QMGR": "Queue manager",
}  # fmt: skip
_SHOWN: Final = {
    "QLOCAL": ("CURDEPTH", "MAXDEPTH", "GET", "PUT", "TRIGGER", "DESCR"),
    "QALIAS": ("TARGET", "DESCR"),
    "QREMOTE": ("RNAME", "RQMNAME", "XMITQ", "DESCR"),
    "QMODEL": ("DEFTYPE", "DESCR"),
    "PROCESS": ("APPLICID", "DESCR"),
    "CHANNEL": ("CHLTYPE", "MCAUSER", "DESCR"),
    "AUTHINFO": ("AUTHTYPE", "DESCR"),
}
"""The attributes that the list has, by kind; all where there are none."""

_WIDE: Final = 3
"""Columns behind so many are left out on narrow screens."""


async def _content(visit: Visit) -> Content:
    kind = visit.query("kind") if visit.query("kind") in KINDS else KINDS[0]
    asked = visit.query("q").strip()
    line = _display(kind, asked)
    async with visit.connection() as connection:
        [reply] = await connection.mqsc(_display(kind, asked, named=True))
        rows = sorted(reply.attributes, key=lambda each: name_of(each).startswith("SYSTEM."))
        found = paged(visit, rows, name_of, PAGE_ROWS)
        page = await _with_attributes(connection, kind, found.page)
    refused = None if reply.ok or "not found" in reply.text else h.p(".notice.warn")[shown(reply.text.strip(), 600)]
    body = [
        _tabs(visit, kind),
        h.form(".filter", method="get", action=visit.url("objects"))[
            h.input(type="hidden", name="kind", value=kind),
            text_input("q", "Name, as ORDERS.*", value=asked),
            h.button(".act", type="submit")["Show"],
            h.a(".button", href=visit.url("commands", line=f"DEFINE {kind}('NAME') "))["Define another"]
            if kind not in (*WITHOUT_PAGE, "QMGR")
            else None,
            h.a(".button", href=visit.url("objects", "access"))["Who may do what"],
        ],
        refused,
        h.section[
            h.h2[_WORDS[kind]],
            h.p[h.code(".line")[line]],
            _table(visit, kind, page) if page else empty("There is none that you may display."),
            found.pager(partial(visit.url, "objects", kind=kind, q=visit.query("q"))),
        ],
    ]
    return Content("Objects", body)


def name_of(attributes: Mapping[str, Any]) -> str:
    """Return the name of an object, which is its first attribute."""
    return str(next(iter(attributes.values())))


async def _with_attributes(
    connection: Connection, kind: str, rows: Sequence[Mapping[str, Any]]
) -> Sequence[Mapping[str, Any]]:
    """The objects of a page with the attributes that the list has: of very many, those of the others are not asked."""
    if kind not in _SHOWN or not rows:
        return rows
    names = dict.fromkeys(map(name_of, rows))
    chosen = " ".join(_SHOWN[kind])
    replies = await connection.mqsc("\n".join(f"DISPLAY {kind}({text(name)}) {chosen}" for name in names))
    return [each for reply in replies for each in reply.attributes]


def _display(kind: str, asked: str, *, named: bool = False) -> str:
    """The command that lists objects of a kind; `named`: with as little of each as the list can be ordered by."""
    pattern = asked if asked.endswith("*") else f"{asked}*"
    chosen = "" if named and kind in _SHOWN else " ".join(_SHOWN.get(kind, ("ALL",)))
    match kind:
        case "QMGR":
            return "DISPLAY QMGR DESCR DEADQ MAXUMSGS"
        case "AUTHREC":
            return f"DISPLAY AUTHREC PROFILE({text(asked)})" if asked else "DISPLAY AUTHREC"
        case _:
            return f"DISPLAY {kind}({text(pattern)}) {chosen}".rstrip()


def _tabs(visit: Visit, kind: str) -> Element:
    return h.nav(".tabs", aria_label="Kinds of objects")[
        (
            h.a(href=visit.url("objects", kind=each), aria_current="page" if each == kind else None)[_WORDS[each]]
            for each in KINDS
        )
    ]


def _table(visit: Visit, kind: str, page: Sequence[Mapping[str, Any]]) -> Element:
    keywords = list(dict.fromkeys(keyword for each in page for keyword in each))[:10]
    if kind in _SHOWN:
        keywords = [keywords[0], *(each for each in _SHOWN[kind] if each in keywords)]
    columns = [
        PageColumn(
            each,
            figures=isinstance(page[0].get(each), int) and not isinstance(page[0][each], bool),
            wide=place >= _WIDE,
        )
        for place, each in enumerate(keywords)
    ]
    return table(_WORDS[kind], columns, h.tbody[(_row(visit, kind, columns, each) for each in page)])


def _row(visit: Visit, kind: str, columns: Sequence[PageColumn], attributes: Mapping[str, Any]) -> Element:
    name = name_of(attributes)
    first: Node = shown(name)
    if kind not in WITHOUT_PAGE:
        first = h.a(href=visit.url("objects", kind, name))[shown(name)]
    others = [value_of(attributes.get(each.head, "")) for each in columns[1:]]
    return h.tr({"data-key": name})[cells(columns, [first, *others])]


def value_of(value: Any) -> Node:
    """The value of an attribute as people read it."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    words = str(value)
    return shown(words) if words.strip() else h.span(".none")["–"]


OBJECTS = ConsolePage(path="/objects", name="Objects", content=_content)
