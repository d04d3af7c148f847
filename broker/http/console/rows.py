"""The rows of queues and handlers: a row whose figures have not changed is not made again, for whomever it is."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import htpy as h
from markupsafe import Markup

from broker.http.console.elements import PageColumn, badge, cells, count, instant_as, rate, shown
from broker.http.console.figures.sparkline import drawn
from broker.http.console.page import Keyed

if TYPE_CHECKING:
    from collections.abc import Mapping

    from htpy import Node

    from broker.http.console.figures.look import StatusLook
    from broker.http.console.visit import Visit

ROWS_KEPT: Final = 8192

QUEUE_COLUMNS: Final = (
    PageColumn("Queue"),
    PageColumn("Oldest", figures=True, title="since when the oldest message that a get would be given has been there"),
    PageColumn("Depth", figures=True, title="all messages, those in units of work among them"),
    PageColumn("Available", figures=True, wide=True, title="a get is given them"),
    PageColumn("Delayed", figures=True, wide=True, title="put with a delay, or waiting for another attempt"),
    PageColumn("Uncom.", figures=True, wide=True, title="uncommitted: put or got in units of work that are open"),
    PageColumn("Held", figures=True, wide=True, title="claimed by consumers, or in prepared units"),
    PageColumn("In/s", figures=True, wide=True),
    PageColumn("Out/s", figures=True, wide=True),
    PageColumn("15 minutes", wide=True, line=True, title="depth over the last 15 minutes"),
    PageColumn("Served by", wide=True),
)

HANDLER_COLUMNS: Final = (
    PageColumn("Handler"),
    PageColumn("Running", figures=True, wide=True),
    PageColumn("Done/min", figures=True, wide=True),
    PageColumn("Attempts", figures=True, wide=True),
    PageColumn("Failed", figures=True),
    PageColumn("Dead", figures=True, title="messages that have become dead letters"),
)


def queue_row(visit: Visit, look: StatusLook, queue: Mapping[str, Any]) -> Keyed:
    """The row of a queue."""
    name = queue["name"]
    series, oldest = look.series(name), look.oldest.get(name, 0.0)
    figures = (
        queue["depth"],
        queue["available"],
        queue["delayed"],
        queue["uncommitted"],
        queue["claimed"] + queue["prepared"],
    )
    rates = look.rates.of_queue(queue, "puts"), look.rates.of_queue(queue, "gets")
    places = () if series is None else series.line("depth")
    age = visit.age(oldest, look.at) if oldest else ""
    return Keyed(
        name,
        _queue_row(visit.url("queues", name), name, (age, oldest), figures, rates, places, _served_by(look, queue)),
    )


def handler_row(visit: Visit, look: StatusLook, handler: Mapping[str, Any]) -> Keyed:
    """The row of a queue under a handler."""
    key = f"{handler['queue']} {handler['handler']}"
    done = 60 * look.rates.of_handler(handler, "succeeded")
    figures = tuple(handler[name] for name in ("running", "started", "failed", "dead_lettered"))
    return Keyed(
        key,
        _handler_row(key, visit.url("queues", handler["queue"]), handler["queue"], handler["handler"], done, figures),
    )


def _served_by(look: StatusLook, queue: Mapping[str, Any]) -> str:
    """Name the takers of messages of a queue in words; empty where nobody has to take any."""
    name = queue["name"]
    workers = look.workers.get(name, 0)
    consumers = sum(name in each["queues"].split(", ") for each in look.consumers)
    said = [
        _many(number, word)
        for number, word in ((workers, "worker"), (consumers, "consumer"), (queue["ipprocs"], "input handle"))
        if number
    ]
    return ", ".join(said[:2]) or ("nobody" if queue["depth"] else "")


def _many(number: int, word: str) -> str:
    return f"{number:,} {word}{'' if number == 1 else 's'}"


@lru_cache(ROWS_KEPT)
def _queue_row(
    url: str,
    name: str,
    age: tuple[str, float],
    figures: tuple[int, ...],
    rates: tuple[float, ...],
    places: tuple[int, ...],
    served_by: str,
) -> Markup:
    depth, *others = (count(each) for each in figures)
    oldest = instant_as(age[1], age[0]) if age[0] else ""
    served = badge(served_by) if served_by == "nobody" else served_by
    drawing = drawn(places, f"depth of {name} over the last minutes") if places else ""
    values: list[Node] = [
        h.a(href=url)[shown(name)],
        oldest,
        h.a(href=f"{url}/messages")[depth] if depth else "",
        *others,
        rate(rates[0]),
        rate(rates[1]),
        drawing,
        served,
    ]
    return Markup(h.tr({"data-key": name})[cells(QUEUE_COLUMNS, values)])


@lru_cache(ROWS_KEPT)
def _handler_row(key: str, url: str, q_name: str, handler: str, done: float, figures: tuple[int, ...]) -> Markup:
    running, started, failed, dead = figures
    words = [h.a(href=url)[shown(handler or q_name)], h.span(".soft")[" on ", shown(q_name)] if handler else None]
    values: list[Node] = [
        words, count(running), rate(done), count(started),
        badge(count(failed), "warn") if failed else "", badge(count(dead), "bad") if dead else "",
    ]  # fmt: skip
    return Markup(h.tr({"data-key": key})[cells(HANDLER_COLUMNS, values)])
