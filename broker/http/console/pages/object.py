"""One object: its attributes in groups, and a change of them, which is shown as the ALTER line before it is sent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlencode

import htpy as h

from broker.http.console.elements import section, shown
from broker.http.console.forms import Action, action_form, hidden
from broker.http.console.objects.attributes import (
    KINDS,
    WITHOUT_PAGE,
    alter_line,
    changeable,
    changes_of,
    field_of,
    grouped,
    kind_of,
    text,
)
from broker.http.console.page import ConsolePage, Content, Notice
from broker.http.console.pages.objects import value_of
from broker.mqi import MQOT, MQRC, MQError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from htpy import Element, Node
    from starlette.datastructures import FormData

    from broker.http.console.visit import Visit

_TYPES: Final = {
    "PROCESS": MQOT.PROCESS, "CHANNEL": MQOT.CHANNEL, "AUTHINFO": MQOT.AUTH_INFO, "QMGR": MQOT.Q_MGR,
    **dict.fromkeys(("QUEUE", "QLOCAL", "QALIAS", "QREMOTE", "QMODEL"), MQOT.Q),
}  # fmt: skip
"""The types of objects whose rights can be asked about, by noun."""


async def _content(visit: Visit) -> Content:
    noun, name = visit.param("kind"), visit.param("name")
    attributes = await _displayed(visit, noun, name)
    kind = kind_of(attributes, str(attributes.get("TYPE", noun)) if noun in ("QUEUE", *_TYPES) else noun)
    missing = await _missing(visit, noun, name)
    changes = [
        (key.removeprefix("set-"), value)
        for key, value in visit.request.query_params.multi_items()
        if key[:4] == "set-"
    ]
    changes = [(keyword, value) for keyword, value in changes if changeable(kind, keyword)]
    edits = bool(visit.query("edit"))
    own = ("objects", noun, name)
    return Content(
        name,
        [
            _sending(visit, kind, name, attributes, changes, missing) if changes else None,
            h.p[
                h.span(".badge.plain")[kind], " ",
                h.a(href=visit.url(*own, edit="" if edits else 1))["Leave it as it is" if edits else "Change"],
                [" · ", h.a(href=visit.url("queues", name))["Figures and messages"]] if kind == "QLOCAL" else None,
                " · ",
                h.a(href=visit.url("commands", line=f"DELETE {noun}({text(name)})"))["Delete by a command"]
                if noun != "QMGR"
                else None,
            ],
            _editing(visit, kind, attributes, missing) if edits else _groups(kind, attributes),
        ],
        (("Objects", visit.url("objects", kind=noun if noun in KINDS else "QLOCAL").removeprefix(visit.base)),),
    )  # fmt: skip


async def _displayed(visit: Visit, noun: str, name: str) -> Mapping[str, Any]:
    if noun not in (*KINDS, "QUEUE") or noun in WITHOUT_PAGE:
        raise MQError(MQRC.UNKNOWN_OBJECT_NAME, f"there are no objects of kind {noun[:40]}")
    line = "DISPLAY QMGR ALL" if noun == "QMGR" else f"DISPLAY {noun}({text(name)}) ALL"
    async with visit.connection() as connection:
        [reply] = await connection.mqsc(line)
    found = [each for each in reply.attributes if str(next(iter(each.values()))) == name]
    if not found:
        raise MQError(MQRC.UNKNOWN_OBJECT_NAME, f"{noun} {name[:60]} is not there, or you may not display it")
    return found[0]


async def _missing(visit: Visit, noun: str, name: str) -> str:
    if noun not in _TYPES:
        return "" if visit.acts else await visit.missing(name, "chg")
    return await visit.missing(name, "chg", _TYPES[noun])


def _groups(kind: str, attributes: Mapping[str, Any]) -> Element:
    return h.div(".columns")[
        (
            section(title, h.dl[((h.dt[h.code[keyword]], h.dd[value_of(attributes[keyword])]) for keyword in keywords)])
            for title, keywords in grouped(kind, attributes)
        )
    ]


def _editing(visit: Visit, kind: str, attributes: Mapping[str, Any], missing: str) -> Element:
    """The form of the attributes that ALTER changes: it sends nothing to the queue manager, but shows the line."""
    groups = []
    for title, keywords in grouped(kind, attributes):
        rows = [(keyword, row) for keyword in keywords if (row := changeable(kind, keyword)) is not None]
        if rows:
            pairs = ((h.dt[h.code[keyword]], h.dd[field_of(row, attributes[keyword])]) for keyword, row in rows)
            groups.append(section(title, h.dl(".fields")[pairs]))
    return h.form(method="post", action=visit.here)[
        hidden("form_token", visit.form_token),
        hidden("action", "preview"),
        h.p[
            h.button(".act", type="submit", disabled=bool(missing))["Show the line"],
            h.span(".soft")[" Nothing is sent yet."],
            [" ", h.span(".missing")["needs ", shown(missing)]] if missing else None,
        ],
        h.div(".columns")[groups],
    ]


def _sending(
    visit: Visit,
    kind: str,
    name: str,
    attributes: Mapping[str, Any],
    changes: list[tuple[str, str]],
    missing: str,
) -> Node:
    line = alter_line(kind, name, changes, str(attributes.get("QSGDISP", "")))
    before = h.ul(".plain")[
        (
            h.li[h.code[keyword], ": ", value_of(attributes.get(keyword, "")), " → ", value_of(value)]
            for keyword, value in changes
        )
    ]
    action = Action(name="alter", label="Send", line=line, missing=missing, fields={"line": line})
    return section("This changes", before, action_form(visit, action))


async def _preview(visit: Visit, form: FormData) -> Notice:
    noun, name = visit.param("kind"), visit.param("name")
    attributes = await _displayed(visit, noun, name)
    kind = kind_of(attributes, str(attributes.get("TYPE", noun)) if noun in ("QUEUE", *_TYPES) else noun)
    changes = changes_of(kind, attributes, form)
    back = visit.url("objects", noun, name).removeprefix(visit.base)
    if not changes:
        return Notice("No field says anything else than the object has: nothing is to be sent.", back=back)
    query = urlencode([(f"set-{keyword}", value) for keyword, value in changes])
    return Notice("Nothing is sent yet: look at the line.", back=f"{back}?{query}")


async def _alter(visit: Visit, form: FormData) -> Notice:
    """Send the line that was shown; it is made again of what the page was asked for, and has to be the same."""
    noun, name = visit.param("kind"), visit.param("name")
    attributes = await _displayed(visit, noun, name)
    kind = kind_of(attributes, str(attributes.get("TYPE", noun)) if noun in ("QUEUE", *_TYPES) else noun)
    items = visit.request.query_params.multi_items()
    changes = [(key.removeprefix("set-"), value) for key, value in items if key[:4] == "set-"]
    line = alter_line(kind, name, changes, str(attributes.get("QSGDISP", "")))
    if line != form.get("line"):
        return Notice("The object is another one meanwhile: nothing was sent. Look at the line again.", good=False)
    async with visit.connection() as connection:
        [reply] = await connection.mqsc(line)
    back = visit.url("objects", noun, name).removeprefix(visit.base)
    return Notice(f"{line}: {reply.text.strip()}", good=reply.ok, back=back if reply.ok else "")


OBJECT = ConsolePage(
    path="/objects/{kind:segment}/{name:segment}", content=_content, actions={"preview": _preview, "alter": _alter}
)
