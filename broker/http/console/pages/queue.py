"""One queue: its figures over the last minutes, who has it open, what holds its messages, and why they wait."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import htpy as h
from markupsafe import Markup

from broker.http.console.elements import (
    PageColumn,
    badge,
    cells,
    empty,
    fields,
    live,
    octets,
    rate,
    section,
    shown,
    table,
    when,
)
from broker.http.console.figures.series import SECONDS
from broker.http.console.figures.sparkline import sparkline
from broker.http.console.forms import Action, action_form
from broker.http.console.page import ConsolePage, Content, Keyed, Notice
from broker.http.console.rows import HANDLER_COLUMNS, handler_row
from broker.mqi import MQRC, MQError
from broker.presentation.ages import coarse_age

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from htpy import Element, Node
    from starlette.datastructures import FormData

    from broker import Connection
    from broker.http.console.figures.look import StatusLook
    from broker.http.console.page import Parts
    from broker.http.console.visit import Visit
    from broker.mqi import Explanation

EXPLAINED_MAX: Final = 10_000
"""A queue with more messages is explained when somebody asks for it: all of them are looked at."""

HANDLES_SHOWN: Final = 100
_HANDLES: Final = (
    PageColumn("Program"),
    PageColumn("User"),
    PageColumn("Channel", wide=True),
    PageColumn("For"),
    PageColumn("Since", title="when it was opened"),
)


def tabs(visit: Visit, name: str, current: str) -> Element:
    """The ways between the pages of a queue."""
    pages = {"figures": visit.url("queues", name), "messages": visit.url("queues", name, "messages")}
    words = {"figures": "Figures", "messages": "Messages"}
    return h.nav(".tabs", aria_label="Of this queue")[
        (h.a(href=url, aria_current="page" if key == current else None)[words[key]] for key, url in pages.items())
    ]


async def _content(visit: Visit) -> Content:
    name = visit.param("name")
    visit.site.observatory.series.open(name)
    parts = await _parts(visit)
    queue = await _displayed(visit, name)
    return Content(
        name,
        [
            tabs(visit, name, "figures"),
            h.section[h.h2["Now"], live("now", parts, look="tiles")],
            h.div(".columns")[
                section("The last 15 minutes", live("lines", parts)),
                section("Why messages wait", await _explained(visit, name), id="why"),
            ],
            h.div(".columns")[
                section(
                    "Handlers",
                    table("Handlers", HANDLER_COLUMNS, live("handlers", parts, h.tbody)),
                    live("none", parts),
                ),
                section("Trigger", _trigger(queue)),
            ],
            section("Handles", await _handles(visit, name)),
            section("Actions", await _actions(visit, name, queue)),
        ],
        (("Queues", "/queues"),),
    )


async def _parts(visit: Visit) -> Parts:
    name = visit.param("name")
    look = await visit.look()
    queue = look.queue(name)
    if queue is None:
        raise MQError(MQRC.UNKNOWN_OBJECT_NAME, f"{name} is no local queue that you may display")
    handlers = [each for each in look.handlers if each["queue"] == name]
    return {
        "now": [*_now(visit, look, queue)],
        "lines": [*_lines(look, name)],
        "handlers": [handler_row(visit, look, each) for each in handlers],
        "none": []
        if handlers
        else [Keyed("none", Markup(h.div({"data-key": "none"})[empty("No handler serves it.")]))],
    }


def _now(visit: Visit, look: StatusLook, queue: Mapping[str, Any]) -> Iterator[Keyed]:
    oldest = look.oldest.get(queue["name"], 0.0)
    values: dict[str, Node] = {
        "Oldest message": when(oldest, visit.now),
        "Depth": f"{queue['depth']:,}",
        "Available": f"{queue['available']:,}",
        "Delayed": f"{queue['delayed']:,}",
        "Uncommitted": f"{queue['uncommitted']:,}",
        "Claimed": f"{queue['claimed']:,}",
        "Prepared": f"{queue['prepared']:,}",
        "In a second": rate(look.rates.of_queue(queue, "puts")) or "0",
        "Out a second": rate(look.rates.of_queue(queue, "gets")) or "0",
        "Bytes": octets(queue["bytes"]),
        "Handles for input": f"{queue['ipprocs']:,}",
        "Handles for output": f"{queue['opprocs']:,}",
        "Gets that wait": f"{queue['getters']:,}",
    }
    for name, value in values.items():
        yield Keyed(name, Markup(h.div({"data-key": name})[h.span(".name")[name], h.span(".value")[value]]))


def _lines(look: StatusLook, q_name: str) -> Iterator[Keyed]:
    series = look.series(q_name)
    words = {"depth": "Depth", "in": "In a second", "out": "Out a second", "age": "Age of the oldest message"}
    for name, word in words.items():
        values = [] if series is None else series.last(name)
        most = max(values, default=0.0)
        top = f"at most {coarse_age(most)}" if name == "age" else f"at most {most:,.0f}"
        line = h.div({"data-key": name})[
            h.h3[word, " · ", top], sparkline(values, f"{word} of {q_name}, {top}", SECONDS)
        ]
        yield Keyed(name, Markup(line))


async def _displayed(visit: Visit, name: str) -> Mapping[str, Any]:
    """The definition of a queue, as DISPLAY has it."""
    async with visit.connection() as connection:
        return await displayed_queue(connection, name)


async def displayed_queue(connection: Connection, name: str) -> Mapping[str, Any]:
    """Return the attributes of a local queue by their MQSC keywords. Raises UNKNOWN_OBJECT_NAME (2085)."""
    [reply] = await connection.mqsc(f"DISPLAY QLOCAL({quoted(name)}) ALL")
    if not reply.attributes:
        raise MQError(MQRC.UNKNOWN_OBJECT_NAME, f"{name} is no local queue that you may display")
    return reply.attributes[0]


def quoted(name: str) -> str:
    """A name as MQSC has it between apostrophes."""
    return "'" + name.replace("'", "''") + "'"


async def _explained(visit: Visit, name: str) -> Node:
    look = await visit.look()
    queue = look.queue(name)
    if queue is not None and queue["depth"] > EXPLAINED_MAX and not visit.query("explain"):
        return h.p[
            f"To tell, all of its {queue['depth']:,} messages are looked at. ",
            h.a(href=visit.url("queues", name, explain=1))["Explain"],
        ]
    async with visit.connection() as connection:
        return findings(await connection.explain(name))


def findings(explanation: Explanation) -> Node:
    """The findings of an explanation, in words."""
    causes = {id(each) for each in explanation.causes}
    if not explanation.findings:
        return empty("Nothing keeps them.")
    return h.ul(".findings")[
        (
            h.li[
                badge(each.code.replace("_", " ").lower(), "warn" if id(each) in causes else "good"),
                " ",
                shown(each.text, 600),
            ]
            for each in explanation.findings
        )
    ]


def _trigger(queue: Mapping[str, Any]) -> Node:
    names = ("TRIGGER", "TRIGTYPE", "TRIGDPTH", "TRIGMPRI", "PROCESS", "INITQ", "TRIGDATA")
    shown_fields = [(h.code[name], _value(queue[name])) for name in names if name in queue]
    return fields(shown_fields)


def _value(value: Any) -> Node:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return shown(str(value)) if str(value).strip() else h.span(".none")["–"]


async def _handles(visit: Visit, name: str) -> Node:
    async with visit.connection() as connection:
        [reply] = await connection.mqsc(f"DISPLAY QSTATUS({quoted(name)}) TYPE(HANDLE) ALL")
    rows = reply.attributes
    if not rows:
        return empty("Nobody has it open.")
    oldest = sorted(rows, key=lambda each: -int(each["AGE"]))[:HANDLES_SHOWN]
    body = h.tbody[(h.tr[cells(_HANDLES, _handle(visit, each))] for each in oldest)]
    more = h.p(".soft")[f"and {len(rows) - HANDLES_SHOWN:,} more"] if len(rows) > HANDLES_SHOWN else None
    return [table("Handles", _HANDLES, body), more]


def _handle(visit: Visit, each: Mapping[str, Any]) -> Sequence[Node]:
    opened = [word.lower() for word in ("INPUT", "BROWSE", "OUTPUT", "INQUIRE", "SET") if each[word] != "NO"]
    who = [shown(str(each[keyword])) for keyword in ("APPLTAG", "USERID", "CHANNEL")]
    return [*who, ", ".join(opened), when(visit.now - int(each["AGE"]), visit.now)]


async def _actions(visit: Visit, name: str, queue: Mapping[str, Any]) -> Node:
    missing = await visit.missing(name, "chg")
    forms = []
    for keyword, word, on in (("GET", "gets", "ENABLED"), ("PUT", "puts", "ENABLED")):
        enabled = str(queue.get(keyword, on)) == on
        value = "DISABLED" if enabled else "ENABLED"
        line = f"ALTER QLOCAL({quoted(name)}) {keyword}({value})"
        label = f"{'Pause' if enabled else 'Resume'} {word}"
        forms.append(
            action_form(
                visit, Action(name=keyword.lower(), label=label, line=line, missing=missing, fields={"value": value})
            )
        )
    release = Action(
        name="release", label="Release all delayed", line=f"release_delayed({name!r})",
        missing=await visit.missing(name, "get"),
        confirm=f"Let all delayed messages of {name} be available now?",
    )  # fmt: skip
    return h.div(".actions")[forms, action_form(visit, release)]


async def _switch(visit: Visit, form: FormData) -> Notice:
    name, keyword, value = visit.param("name"), str(form["action"]).upper(), str(form.get("value", ""))
    if value not in ("ENABLED", "DISABLED"):
        return Notice(f"{keyword} is ENABLED or DISABLED", good=False)
    async with visit.connection() as connection:
        [reply] = await connection.mqsc(f"ALTER QLOCAL({quoted(name)}) {keyword}({value})")
    return Notice(f"{keyword}({value}): {reply.text.strip()}", good=reply.ok)


async def _release(visit: Visit, form: FormData) -> Notice:
    async with visit.connection() as connection:
        released = await connection.release_delayed(visit.param("name"))
    return Notice(f"{released:,} messages are available now." if released else "No message was delayed.")


QUEUE = ConsolePage(
    path="/queues/{name:segment}",
    content=_content,
    parts=_parts,
    actions={"get": _switch, "put": _switch, "release": _release},
)
