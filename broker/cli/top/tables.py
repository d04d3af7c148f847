"""The tables of `evermq top`: what a row of each has, and the order of rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from broker.presentation.ages import age
from broker.presentation.rates import named_like

if TYPE_CHECKING:
    from collections.abc import Mapping

    from broker.presentation.rates import Rates

ORDERS: Final = ("age", "rate", "depth")
"""The orders of queues: by the age of the oldest message, by how much comes and goes, by depth; the most first."""

QUEUES: Final = ("queue", "oldest", "depth", "in/s", "out/s", "change/s", "getters")
HANDLERS: Final = ("handler", "running", "done/s", "failed/s", "failed", "dead")
UNITS: Final = ("unit of work of", "user", "age", "puts", "gets", "state")


def queue_rows(rates: Rates, order: str = "age", pattern: str = "") -> list[list[str]]:
    """Return the rows of the queues whose names have `pattern` in them, or match it where it has a `*`."""
    queues = [each for each in rates.now.figures["queues"] if named_like(each["name"], pattern)]

    def place(queue: Mapping[str, Any]) -> tuple[float, float, str]:
        first = {"age": queue["oldest_age"], "rate": rates.flow(queue), "depth": queue["depth"]}[order]
        return -first, -queue["depth"], queue["name"]

    shown = [each for each in queues if not each["name"].startswith("SYSTEM.") or each["depth"] or rates.flow(each)]
    return [_queue(rates, queue) for queue in sorted(shown, key=place)]


def handler_rows(rates: Rates) -> list[list[str]]:
    """Return the rows of the handlers, those that fail most first, then those that do most."""

    def order(handler: Mapping[str, Any]) -> tuple[float, float, str]:
        failed, done = rates.of_handler(handler, "failed"), rates.of_handler(handler, "succeeded")
        return -failed, -done, handler["queue"]

    return [
        [
            f"{each['queue']} {each['handler']}".rstrip(),
            f"{each['running']:,}",
            _rate(rates.of_handler(each, "succeeded")),
            _rate(rates.of_handler(each, "failed")),
            f"{each['failed']:,}",
            f"{each['dead_lettered']:,}",
        ]
        for each in sorted(rates.now.figures["handlers"], key=order)
    ]


def unit_rows(rates: Rates) -> list[list[str]]:
    """Return the rows of the units of work and who holds them, the oldest first."""
    return [
        [each["name"], each["user"], age(each["age"]), f"{each['puts']:,}", f"{each['gets']:,}", each["state"]]
        for each in rates.now.figures["units_of_work"]
    ]


def title(rates: Rates, at: str) -> str:
    """Return the line about the whole queue manager."""
    figures = rates.now.figures
    held = sum(queue["depth"] for queue in figures["queues"])
    state = "quiescing, " if figures["quiescing"] else ""
    parts = f"{_many(held, 'message')}, {_many(figures['connections'], 'connection')}"
    return f"{figures['name']}: {state}{parts}  {at}"


def _many(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def _queue(rates: Rates, queue: Mapping[str, Any]) -> list[str]:
    counted = "puts" in queue
    return [
        queue["name"],
        age(queue["oldest_age"]),
        f"{queue['depth']:,}",
        _rate(rates.of_queue(queue, "puts")) if counted else "",
        _rate(rates.of_queue(queue, "gets")) if counted else "",
        _rate(rates.of_queue(queue, "depth"), sign="+"),
        f"{queue['getters']:,}" if queue["getters"] else "",
    ]


def _rate(a_second: float, sign: str = "-") -> str:
    return "" if not a_second else format(a_second, f"{sign},.1f" if abs(a_second) < 100 else f"{sign},.0f")
