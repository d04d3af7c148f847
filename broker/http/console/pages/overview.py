"""The first page: is anything wrong? The queues whose messages have waited longest, the handlers, what happened."""

from __future__ import annotations

from heapq import nsmallest
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import anyio
import htpy as h
from markupsafe import Markup

from broker.http.console.elements import empty, in_turns, keyed, live, octets, section, shown, table, when
from broker.http.console.page import ConsolePage, Content, Keyed
from broker.http.console.rows import (
    HANDLER_COLUMNS,
    QUEUE_COLUMNS,
    handler_row,
    queue_row,
)
from broker.presentation.ages import coarse_age

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from htpy import Node

    from broker.http.console.figures.lately import HappenedEvent
    from broker.http.console.figures.look import StatusLook
    from broker.http.console.page import Parts
    from broker.http.console.visit import Visit

QUEUES_SHOWN: Final = 25
_STEP: Final = 100
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


class OverviewFigures(NamedTuple):
    """A look, as the first page shows it: the first queues, how many hold messages, how many are of the system, all
    messages, what comes and goes in a second, and the queues whose messages are old.
    """

    first: Sequence[Mapping[str, Any]]
    filled: int
    system: int
    messages: int
    puts: float
    gets: float
    old: Sequence[str]
    damaged: int


async def _figures(look: StatusLook) -> OverviewFigures:
    """Return what the first page shows of all queues, made once for a look, in steps."""
    found: OverviewFigures | None = look.made.get("overview")
    if found is not None:
        return found
    filled: list[Mapping[str, Any]] = []
    old: list[str] = []
    system = messages = damaged = 0
    for number, queue in enumerate(look.queues, 1):
        depth, own = queue["depth"], queue["name"].startswith("SYSTEM.")
        system += own
        messages += depth
        damaged += queue["damaged"]
        if depth and not own:
            filled.append(queue)
            if look.at - look.oldest.get(queue["name"], look.at) > _OLD_SECONDS:
                old.append(queue["name"])
        if number % _STEP == 0:
            await anyio.lowlevel.checkpoint()
    first = nsmallest(QUEUES_SHOWN, filled, key=_place(look))
    puts, gets = (sum(each) for each in zip(*look.flows.values(), strict=True)) if look.flows else (0.0, 0.0)
    made = OverviewFigures(first, len(filled), system, messages, puts, gets, old, damaged)
    look.made["overview"] = made
    await anyio.lowlevel.checkpoint()
    return made


async def _parts(visit: Visit) -> Parts:
    look = await visit.look()
    figures = await _figures(look)
    handlers = sorted(look.handlers, key=lambda each: (-look.rates.of_handler(each, "failed"), each["queue"]))
    return {
        "health": [*_health(look, figures)],
        "queues": await in_turns(figures.first, lambda each: queue_row(visit, look, each)),
        "folded": [_folded(visit, look, figures)],
        "handlers": await in_turns(handlers[:HANDLERS_SHOWN], lambda each: handler_row(visit, look, each)),
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


def _folded(visit: Visit, look: StatusLook, figures: OverviewFigures) -> Keyed:
    """The queues that are not among the rows, in a line, with a way there."""
    filled, system = figures.filled, figures.system
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
    key = f"{event.at:.3f} {event.q_name} {event.text}"
    where = h.a(href=visit.url("queues", event.q_name))[shown(event.q_name)] if event.q_name else None
    what = h.span(class_=event.kind)[shown(str(event), 300)]
    item = h.li({"data-key": key})[when(event.at, visit.now), h.span[what, " " if where else None, where]]
    return Keyed(key, Markup(item))


def _health(look: StatusLook, made: OverviewFigures) -> Iterator[Keyed]:
    """The line that answers the question: a verdict, then a figure for each part of the queue manager."""
    problems = list(_problems(look, made))
    kind = "bad" if look.failing else "warn" if problems else "good"
    others = h.span(".more", title="; ".join(problems[1:]))[f" and {len(problems) - 1} more"] if problems[1:] else None
    words = [shown(problems[0] if problems else "All is well", 160), others]
    yield _tile("verdict", "Verdict", words, f"verdict {kind}")
    figures = look.figures
    yield _tile("messages", "Messages", f"{made.messages:,}")
    yield _tile("in", "In a second", f"{made.puts:,.0f}")
    yield _tile("out", "Out a second", f"{made.gets:,.0f}")
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


def _problems(look: StatusLook, made: OverviewFigures) -> Iterator[str]:
    """Yield the problems in words, the worst first."""
    for name, why in look.failing.items():
        yield f"not ready: {name}: {why}"
    if look.figures["quiescing"]:
        yield "the queue manager is quiescing"
    if made.old:
        oldest = min(made.old, key=lambda name: look.oldest[name])
        age = coarse_age(look.at - look.oldest[oldest])
        others = f", and {len(made.old) - 1:,} other queues with old ones" if len(made.old) > 1 else ""
        yield f"a message has been on {oldest} for {age}{others}"
    units = [each for each in look.units_of_work if each["age"] > _OLD_SECONDS]
    if units:
        yield f"a unit of work of {units[0]['name']} has been open for {coarse_age(units[0]['age'])}"
    letters = sum(each.number for each in look.events if look.at - each.at < _OLD_SECONDS and each.kind == "bad")
    if letters:
        yield f"{letters:,} dead letters or refused puts in the last minutes"
    if made.damaged:
        yield f"{made.damaged:,} messages are damaged"


def _tile(key: str, name: str, value: Node, kind: str = "") -> Keyed:
    tile = h.div({"data-key": key}, class_=kind or None)[h.span(".name")[name], h.span(".value")[value]]
    return Keyed(key, Markup(tile))


OVERVIEW = ConsolePage(path="/", name="Overview", content=_content, parts=_parts)
