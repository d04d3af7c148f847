"""Units of work that are open, prepared units and units in doubt, consumers; and what is decided of them by hand."""

from __future__ import annotations

from bisect import bisect_right
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import htpy as h
from markupsafe import Markup

from broker.http.console.elements import (
    PageColumn,
    badge,
    cells,
    count,
    empty,
    in_turns,
    live,
    octets,
    section,
    shown,
    table,
)
from broker.http.console.forms import Action, action_form
from broker.http.console.page import ConsolePage, Content, Keyed, Notice
from broker.http.console.pages.queue import quoted
from broker.http.console.paging import paged
from broker.presentation.ages import coarse_age

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from htpy import Node
    from starlette.datastructures import FormData

    from broker import Connection
    from broker.http.console.figures.look import StatusLook
    from broker.http.console.page import Parts
    from broker.http.console.visit import Visit

ROWS_SHOWN: Final = 100
_OLD_SECONDS: Final = 300.0

_OPEN: Final = (
    PageColumn("Program"),
    PageColumn("User"),
    PageColumn("Open for", figures=True),
    PageColumn("Puts", figures=True),
    PageColumn("Gets", figures=True),
    PageColumn("State", wide=True),
    PageColumn("Channel", wide=True),
)
_PREPARED: Final = (
    PageColumn("Unit"),
    PageColumn("State"),
    PageColumn("Age", figures=True),
    PageColumn("Messages", figures=True),
    PageColumn("Bytes", figures=True, wide=True),
    PageColumn("Queues", wide=True),
    PageColumn("Decided by", wide=True),
)
_CONSUMERS: Final = (
    PageColumn("Consumer"),
    PageColumn("Queues", wide=True),
    PageColumn("Claims", figures=True, title="claimed and not acknowledged"),
    PageColumn("Pinned", figures=True, wide=True, title="of them, those that a batch has been given"),
    PageColumn("Age", figures=True, title="of its oldest claim"),
    PageColumn("Lag", figures=True, title="messages that are available on its queues"),
    PageColumn("Oldest", figures=True, wide=True, title="how long the oldest of them has been there"),
)

COMMIT_SAID: Final = "its puts become visible, what it has got is gone for good"
BACKOUT_SAID: Final = "its puts are gone for good, what it has got is back on its queue"


async def _content(visit: Visit) -> Content:
    parts = await _parts(visit)
    async with visit.connection() as connection:
        threads = await _threads(connection)
    look = await visit.look()
    return Content(
        "Units of work",
        [
            section(
                "Open, the oldest first",
                table("Open units of work", _OPEN, live("open", parts, h.tbody)),
                live("no-open", parts),
            ),
            section("Prepared, and in doubt", await _prepared(visit, threads)),
            section(
                "Consumers",
                table("Consumers", _CONSUMERS, live("consumers", parts, h.tbody)),
                live("no-consumers", parts),
                _consumer_pager(visit, look),
                await _consumer_forms(visit, _some_consumers(visit, look)),
            ),
        ],
    )


async def _parts(visit: Visit) -> Parts:
    look = await visit.look()
    units, consumers = look.units_of_work[:ROWS_SHOWN], _some_consumers(visit, look)
    return {
        "open": await in_turns(_numbered(units), _open),
        "no-open": [] if units else [_said("No unit of work is open.")],
        "consumers": await in_turns(consumers, _consumer),
        "no-consumers": [] if consumers else [_said("No consumer claims messages.")],
    }


def _said(text: str) -> Keyed:
    return Keyed("none", Markup(h.div({"data-key": "none"})[empty(text)]))


def _numbered(units: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Units of work with a key each. One has no name: its key is its place among those of its program."""
    seen: dict[str, int] = {}
    for unit in units:
        who = f"{unit['name']} {unit['user']} {unit['channel']}"
        seen[who] = seen.get(who, 0) + 1
        yield f"{who} {seen[who]}", unit


def _open(keyed_unit: tuple[str, Mapping[str, Any]]) -> Keyed:
    key, unit = keyed_unit
    age = coarse_age(unit["age"])
    values: list[Node] = [
        shown(unit["name"]),
        shown(unit["user"]),
        badge(age, "warn") if unit["age"] > _OLD_SECONDS else age,
        count(unit["puts"]),
        count(unit["gets"]),
        unit["state"].replace("_", " ").lower(),
        shown(unit["channel"]),
    ]
    return Keyed(key, Markup(h.tr({"data-key": key})[cells(_OPEN, values)]))


def _consumer(consumer: Mapping[str, Any]) -> Keyed:
    name = consumer["name"]
    age = coarse_age(consumer["age"]) if consumer["claims"] else ""
    values: list[Node] = [
        shown(name),
        shown(consumer["queues"]),
        count(consumer["claims"]),
        count(consumer["pinned"]),
        badge(age, "warn") if consumer["overdue"] else age,
        count(consumer["lag"]),
        coarse_age(consumer["lag_age"]) if consumer["lag"] else "",
    ]
    return Keyed(name, Markup(h.tr({"data-key": name})[cells(_CONSUMERS, values)]))


def _some_consumers(visit: Visit, look: StatusLook) -> Sequence[Mapping[str, Any]]:
    """A hundred consumers, by name."""
    start = bisect_right(look.consumers, visit.query("consumer"), key=_name)
    return look.consumers[start : start + ROWS_SHOWN]


def _name(consumer: Mapping[str, Any]) -> str:
    return str(consumer["name"])


def _consumer_pager(visit: Visit, look: StatusLook) -> Node:
    some = _some_consumers(visit, look)
    if len(look.consumers) <= ROWS_SHOWN:
        return None
    more = bool(some) and some[-1] is not look.consumers[-1]
    return h.nav(".pager", aria_label="More consumers")[
        h.span[f"{len(some):,} of {len(look.consumers):,}"],
        h.a(href=visit.url("units"))["From the first"] if visit.query("consumer") else None,
        h.a(href=visit.url("units", consumer=_name(some[-1])))["Next"] if more else None,
    ]


async def _threads(connection: Connection) -> Sequence[Mapping[str, Any]]:
    [reply] = await connection.mqsc("DISPLAY THREAD(*) TYPE(INDOUBT) ALL")
    return reply.attributes


async def _prepared(visit: Visit, threads: Sequence[Mapping[str, Any]]) -> Node:
    if not threads:
        return empty("No unit waits for a decision.")
    missing = await visit.missing_on_manager("ctrl")
    found = paged(visit, threads, lambda each: str(each["THREAD"]), ROWS_SHOWN)
    rows = await in_turns(
        found.page, lambda each: h.tr({"data-key": str(each["THREAD"])})[cells(_PREPARED, _thread(each))]
    )
    actions = [action for each in found.page for action in _decisions(each, missing)]
    forms = await in_turns(actions, partial(action_form, visit))
    return [
        table("Prepared units and units in doubt", _PREPARED, h.tbody[rows]),
        found.pager(partial(visit.url, "units")),
        h.details[
            h.summary["Decide for the program that has prepared it, when it is gone for good"], h.div(".actions")[forms]
        ],
    ]


def _thread(unit: Mapping[str, Any]) -> list[Node]:
    decider = " ".join(filter(None, (str(unit["DATABASE"]), str(unit["RESOLVER"]))))
    return [
        h.code[shown(str(unit["THREAD"]), 140)],
        badge(str(unit["UOWSTATE"]).replace("_", " ").lower(), "warn"),
        coarse_age(float(unit["AGE"])),
        count(int(unit["MSGS"])),
        octets(int(unit["BYTES"])),
        shown(str(unit["QUEUES"])),
        shown(decider or ("its sink" if unit["SINK"] else "")),
    ]  # fmt: skip


def _decisions(unit: Mapping[str, Any], missing: str) -> Iterator[Action]:
    """The two buttons of a unit. A prepared unit of a sink can be discarded; its publication is its sink's matter."""
    name = str(unit["THREAD"])
    for word, said in (("COMMIT", COMMIT_SAID), ("BACKOUT", BACKOUT_SAID)):
        if word == "COMMIT" and unit["SINK"]:
            continue
        decided = f" {unit['DATABASE']} is not asked: decide as it has." if unit["DATABASE"] else ""
        yield Action(
            name=word.lower(),
            label=f"{word.title()} {name if len(name) < 40 else '…' + name[-36:]}",
            line=f"RESOLVE INDOUBT({quoted(name)}) ACTION({word})",
            missing=missing,
            danger=True,
            fields={"unit": name},
            confirm=f"{word} unit {name}: {said}.{decided}",
            inputs=h.p(".soft")[f"{said.capitalize()}.{decided}"],
        )


async def _consumer_forms(visit: Visit, consumers: Sequence[Mapping[str, Any]]) -> Node:
    forms = []
    for each in consumers:
        if not each["claims"]:
            continue
        name = each["name"]
        missing = ""
        for q_name in each["queues"].split(", "):
            if "*" not in q_name:
                missing = missing or await visit.missing(q_name, "clr")
        for word, said in (
            ("BACKOUT", "what it has claimed is offered to others again; pinned messages may be in its output already"),
            ("COMMIT", "what a batch was given is gone for good, the rest is offered to others again"),
        ):
            pinned = " PINNED(YES)" if word == "BACKOUT" and each["pinned"] else ""
            forms.append(
                Action(
                    name=f"consumer-{word.lower()}", label=f"{word.title()} claims of {name}"[:70],
                    line=f"RESOLVE CONSUMER({quoted(name)}) ACTION({word}){pinned}", missing=missing, danger=True,
                    fields={"consumer": name, "pinned": "yes" if pinned else ""},
                    confirm=f"{word} {each['claims']:,} claims of {name}: {said}. Is its program dead?",
                    inputs=h.p(".soft")[f"{said.capitalize()}. Its checkpoint cannot be gone on with."],
                )
            )  # fmt: skip
    if not forms:
        return None
    return h.details[
        h.summary["Decide for a consumer whose program is gone for good"],
        h.div(".actions")[await in_turns(forms, partial(action_form, visit))],
    ]


async def _resolve(visit: Visit, form: FormData) -> Notice:
    return await _sent(
        visit, f"RESOLVE INDOUBT({quoted(str(form.get('unit', '')))}) ACTION({str(form['action']).upper()})"
    )


async def _resolve_consumer(visit: Visit, form: FormData) -> Notice:
    word = str(form["action"]).rpartition("-")[2].upper()
    pinned = " PINNED(YES)" if form.get("pinned") == "yes" else ""
    return await _sent(visit, f"RESOLVE CONSUMER({quoted(str(form.get('consumer', '')))}) ACTION({word}){pinned}")


async def _sent(visit: Visit, line: str) -> Notice:
    async with visit.connection() as connection:
        [reply] = await connection.mqsc(line)
    return Notice(reply.text.strip(), good=reply.ok)


UNITS = ConsolePage(
    path="/units",
    name="Units",
    content=_content,
    parts=_parts,
    actions={
        "commit": _resolve,
        "backout": _resolve,
        "consumer-commit": _resolve_consumer,
        "consumer-backout": _resolve_consumer,
    },
)
