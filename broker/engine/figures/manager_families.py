"""The figures of the queue manager as a whole, and of the scrape itself."""

from __future__ import annotations

from functools import cache
from importlib.metadata import PackageNotFoundError, version
from platform import python_version
from typing import TYPE_CHECKING, Final

from broker.engine.claims.holdings import in_doubt_figures
from broker.engine.figures.families import Section, Thing, by_reason, counter, counter_by, gauge, histogram

if TYPE_CHECKING:
    from collections.abc import Iterator

    from broker.engine.figures.scrape import Scrape
    from broker.engine.figures.scraped import ScrapedManager


@cache
def _version() -> str:
    try:
        return version("evermq")
    except PackageNotFoundError:  # a source tree that is not installed
        return ""


def _info(scrape: Scrape) -> Iterator[Thing[Scrape]]:
    group = scrape.manager.config.queue_sharing_group.name
    yield Thing((scrape.manager.name, _version(), python_version(), group), scrape)


def _manager(scrape: Scrape) -> Iterator[Thing[ScrapedManager]]:
    scrape.manager.context.figures.turns.begin()
    yield Thing((), scrape.manager)


def _scrape(scrape: Scrape) -> Iterator[Thing[Scrape]]:
    yield Thing((), scrape)


def _calls(manager: ScrapedManager) -> dict[str, int]:
    return {verb: count for verb, count in manager.context.figures.calls.verbs.items() if count}


def _oldest_unit(manager: ScrapedManager, now: float) -> float:
    """Return the age of the oldest unit of work in seconds; 0 when there is none."""
    began = min([unit.since for unit in manager.conversations.units()], default=now)
    return max(0.0, round(now - began, 3))


INFO: Final = Section(
    title="The queue manager",
    labels=("name", "version", "python", "group"),
    things=_info,
    families=(gauge("evermq_info", "The queue manager, its release, and its queue-sharing group.", lambda *_: 1),),
)

MANAGER: Final = Section(
    title="The queue manager",
    labels=(),
    things=_manager,
    families=(
        gauge(
            "evermq_connections",
            "Lines of clients, over TCP or a Unix socket.",
            lambda m, _: sum([each.sessions for each in m.context.figures.listeners]),
        ),
        counter_by(
            "reason",
            "evermq_refused_connections_total",
            "Connections that were refused, by what was lacking.",
            lambda m, _: m.context.security_log.refused,
        ),
        gauge(
            "evermq_in_flight_bytes",
            "Bytes of calls and answers on their way to and from clients.",
            lambda m, _: sum([each.in_flight_bytes for each in m.context.figures.listeners]),
        ),
        gauge(
            "evermq_conversations",
            "Connections of programs (Hconn), embedded ones included.",
            lambda m, _: len(m.conversations),
        ),
        gauge(
            "evermq_units_of_work",
            "Units of work that have begun and not ended.",
            lambda m, _: len(list(m.conversations.units())),
        ),
        gauge(
            "evermq_oldest_unit_of_work_age_seconds",
            "Seconds since the oldest unit of work began; 0 when there is none.",
            _oldest_unit,
        ),
        gauge(
            "evermq_in_doubt_units",
            "Units of work that are prepared, and whose decision lies elsewhere and is not known.",
            lambda m, _: len(m.core.branches.by_id),
        ),
        gauge(
            "evermq_in_doubt_oldest_seconds",
            "Seconds since the oldest of these was prepared; 0 when there is none.",
            lambda m, now: in_doubt_figures(m.core, now)["in_doubt_oldest_seconds"],
        ),
        gauge(
            "evermq_steps_bytes",
            "Bytes of names and values of steps that handlers have finished, in memory with their messages.",
            lambda m, _: m.core.deliveries.step_budget.bytes,
        ),
        gauge(
            "evermq_bodies_bytes",
            "Bytes of persistent bodies in memory.",
            lambda m, _: m.bodies.bytes,
        ),
        counter_by(
            "verb",
            "evermq_calls_total",
            "Calls of programs, by the verb; a batch is one call.",
            lambda m, _: _calls(m),
        ),
        counter_by(
            "reason",
            "evermq_call_errors_total",
            "Calls of programs that failed, by reason.",
            lambda m, _: by_reason(m.context.figures.calls.errors),
        ),
        counter_by(
            "verb",
            "evermq_commands_total",
            "MQSC and ZMQSC commands, by the verb.",
            lambda m, _: m.context.figures.calls.commands,
        ),
        histogram(
            "evermq_loop_turn_seconds",
            "Seconds of turns of the event loop, one a second from the first scrape on.",
            lambda m, _: m.context.figures.turns.turns,
        ),
        gauge(
            "evermq_loop_longest_turn_seconds",
            "The longest turn of the event loop in the last minute or two.",
            lambda m, _: round(m.context.figures.turns.longest, 6),
        ),
        counter("evermq_journal_transactions_total", "Transactions of the store.", lambda m, _: m.journal.transactions),
        counter("evermq_journal_units_total", "Units that they made durable.", lambda m, _: m.journal.units),
        gauge("evermq_quiescing", "1 while the queue manager quiesces.", lambda m, _: int(m.core.quiescing)),
    ),
)

SCRAPE: Final = Section(
    title="The scrape",
    labels=(),
    things=_scrape,
    families=(
        gauge(
            "evermq_queues_left_out",
            "Queues that have no series of their own, since there are more than queues_max.",
            lambda scrape, _: scrape.left_out,
        ),
    ),
)
