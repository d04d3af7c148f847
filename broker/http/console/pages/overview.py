"""The first page: is anything wrong? The queues whose messages have waited longest, the handlers, what happened."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import htpy as h
from markupsafe import Markup

from broker.http.console.elements import count, empty, keyed, live, octets, section, shown, table, when
from broker.http.console.page import ConsolePage, Content, Keyed
from broker.http.console.rows import (
    HANDLER_COLUMNS,
    QUEUE_COLUMNS,
    handler_row,
    queue_row,
)
from broker.presentation.ages import coarse_age

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from htpy import Node

    from broker.http.console.figures.lately import HappenedEvent
    from broker.http.console.figures.look import StatusLook
    from broker.http.console.page import Parts
    from broker.http.console.visit import Visit

QUEUES_SHOWN: Final = 50
HANDLERS_SHOWN: Final = 30
EVENTS_SHOWN: Final = 12
_OLD_SECONDS: Final = 300.0
_DISK: Final = 0.1


async def _content(visit: Visit) -> Content:
    parts = await _parts(visit)
    return Content(
        "Overview",
        [
            live("health", parts, look="health"),
            h.section[
                h.h2["Queues, the oldest message first"],
                table("Queues by the age of their oldest message", QUEUE_COLUMNS, live("queues", parts, h.tbody)),
                live("folded", parts),
            ],
            h.div(".columns")[
                h.section[
                    h.h2["Handlers"],
                    table("Handlers", HANDLER_COLUMNS, live("handlers", parts, h.tbody)),
                    live("no-handlers", parts),
                ],
                section("Lately", live("lately", parts, h.ul, "events"), live("no-events", parts)),
            ],
        ],
    )


async def _parts(visit: Visit) -> Parts:
    look = await visit.look()
    shown_queues = sorted((each for each in look.queues if each["depth"] and not _system(each)), key=_place(look))
    handlers = sorted(look.handlers, key=lambda each: (-look.rates.of_handler(each, "failed"), each["queue"]))
    return {
        "health": [*_health(visit, look)],
        "queues": [queue_row(visit, look, each) for each in shown_queues[:QUEUES_SHOWN]],
        "folded": [_folded(visit, look, len(shown_queues))],
        "handlers": [handler_row(visit, look, each) for each in handlers[:HANDLERS_SHOWN]],
        "no-handlers": [] if handlers else [_said("none", "No handler has served a queue since the start.")],
        "lately": [_event(visit, each) for each in list(look.events)[:EVENTS_SHOWN]],
        "no-events": [] if look.events else [_said("none", "Nothing: no dead letter, no refused put.")],
    }


def _place(look: StatusLook) -> Any:
    """The order of queues: the oldest message first, then the deepest; queues whose messages wait for their instant,
    and so have no age, come behind.
    """
    far = look.at + 1
    return lambda queue: (look.oldest.get(queue["name"], far), -queue["depth"], queue["name"])


def _system(queue: Mapping[str, Any]) -> bool:
    return bool(queue["name"].startswith("SYSTEM."))


def _folded(visit: Visit, look: StatusLook, filled: int) -> Keyed:
    """The queues that are not among the rows, in a line, with a way there."""
    system = sum(map(_system, look.queues))
    left = [
        (filled - QUEUES_SHOWN, "more with messages", {"show": "messages"}),
        (len(look.queues) - filled - system, "empty", {"show": "empty"}),
        (system, "of the system", {"show": "system"}),
    ]
    links = [h.a(href=visit.url("queues", **query))[f"{number:,} {word}"] for number, word, query in left if number > 0]
    words = [(" · " if number else None, link) for number, link in enumerate(links)]
    nothing = None if filled else h.p(".empty")["No queue holds a message."]
    return keyed("folded", nothing, h.p(".soft")[words] if words else None)


def _said(key: str, text: str) -> Keyed:
    return keyed(key, empty(text))


def _event(visit: Visit, event: HappenedEvent) -> Keyed:
    key = f"{event.at:.3f} {event.text}"
    where = h.a(href=visit.url("queues", event.q_name))[shown(event.q_name)] if event.q_name else None
    what = h.span(class_=event.kind)[shown(event.text, 300)]
    item = h.li({"data-key": key})[when(event.at, visit.now), h.span[what, " " if where else None, where]]
    return Keyed(key, Markup(item))


def _health(visit: Visit, look: StatusLook) -> Iterator[Keyed]:
    """The line that answers the question: a verdict, then a figure for each part of the queue manager."""
    problems = list(_problems(look))
    words = "; ".join(problems[:3]) if problems else "All is well"
    kind = "bad" if look.failing else "warn" if problems else "good"
    yield _tile("verdict", "Verdict", shown(words, 200), f"verdict {kind}")
    figures = look.figures
    held = sum(each["depth"] for each in look.queues)
    yield _tile("messages", "Messages", f"{held:,}")
    put = sum(look.rates.of_queue(each, "puts") for each in look.queues)
    got = sum(look.rates.of_queue(each, "gets") for each in look.queues)
    yield _tile("in", "In a second", f"{put:,.0f}")
    yield _tile("out", "Out a second", f"{got:,.0f}")
    yield _tile("units", "Units of work", f"{len(look.units_of_work):,}")
    yield _tile("connections", "Connections", f"{figures['connections']:,}")
    store = figures.get("store", {})
    if "free_bytes" in store:
        full = store.get("full") or store["free_bytes"] == 0
        yield _tile("disk", "Disk free", octets(store["free_bytes"]), "bad" if full else "")
    group = figures.get("sharing")
    if group is not None:
        state = str(group["member"]["state"])
        yield _tile("group", f"Group {group['group']}", state, "" if state == "joined" else "warn")


def _problems(look: StatusLook) -> Iterator[str]:
    """Yield the problems in words, the worst first."""
    for name, why in look.failing.items():
        yield f"not ready: {name}: {why}"
    if look.figures["quiescing"]:
        yield "the queue manager is quiescing"
    old = [
        each["name"] for each in look.queues
        if look.at - look.oldest.get(each["name"], look.at) > _OLD_SECONDS and not _system(each)
    ]  # fmt: skip
    if old:
        oldest = min(old, key=lambda name: look.oldest[name])
        age = coarse_age(look.at - look.oldest[oldest])
        others = f", and {len(old) - 1:,} other queues with old ones" if len(old) > 1 else ""
        yield f"a message has been on {oldest} for {age}{others}"
    units = [each for each in look.units_of_work if each["age"] > _OLD_SECONDS]
    if units:
        yield f"a unit of work of {units[0]['name']} has been open for {coarse_age(units[0]['age'])}"
    damaged = sum(each["damaged"] for each in look.queues)
    if damaged:
        yield f"{count(damaged)} messages are damaged"


def _tile(key: str, name: str, value: Node, kind: str = "") -> Keyed:
    tile = h.div({"data-key": key}, class_=kind or None)[h.span(".name")[name], h.span(".value")[value]]
    return Keyed(key, Markup(tile))


OVERVIEW = ConsolePage(path="/", name="Overview", content=_content, parts=_parts)
