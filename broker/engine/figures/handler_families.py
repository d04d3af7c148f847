"""The figures of handlers: of each queue under each handler, for all workers together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from broker.engine.figures.families import Section, Thing, counter, counter_by, gauge, histogram

if TYPE_CHECKING:
    from collections.abc import Iterator

    from broker.core.deliveries.counts import HandlerCounts
    from broker.core.deliveries.service import Service
    from broker.engine.figures.scrape import Scrape


class HandledQueue(NamedTuple):
    """The counts of a queue under a handler, and its service if that is served now."""

    counts: HandlerCounts
    service: Service | None


def _handlers(scrape: Scrape) -> Iterator[Thing[HandledQueue]]:
    core = scrape.manager.core
    for q_name, handler, counts in core.deliveries.counts():
        queue = core.objects.queues.get(q_name)
        if queue is not None and scrape.selection.shows(q_name):
            service = core.deliveries.find(queue)
            served = service if service is not None and service.counts is counts else None
            yield Thing((q_name, handler), HandledQueue(counts, served))


def _outcomes(counts: HandlerCounts) -> dict[str, int]:
    """Return the attempts by what they came to."""
    return {
        "succeeded": counts.succeeded,
        "failed": counts.failed - counts.timed_out,
        "timeout": counts.timed_out,
        "rejected": counts.rejected,
        "unreadable": counts.unreadable,
        "later": counts.later,
        "crashed": counts.crashed,
        "returned": counts.returned,
    }


def _places(handled: HandledQueue) -> int:
    """Return the messages that its workers could handle at a time."""
    service = handled.service
    free = 0 if service is None else sum([taker.count for taker in service.takers])
    return handled.counts.running + free


HANDLER: Final = Section(
    title="Handlers",
    labels=("queue", "handler"),
    things=_handlers,
    families=(
        counter_by(
            "outcome",
            "evermq_handler_attempts_total",
            "Attempts to handle a message that have ended, by what they came to.",
            lambda h, _: _outcomes(h.counts),
        ),
        counter("evermq_handler_started_total", "Attempts that have begun.", lambda h, _: h.counts.started),
        counter(
            "evermq_handler_retries_total", "Attempts after the first of a message.", lambda h, _: h.counts.retried
        ),
        counter_by(
            "reason",
            "evermq_handler_dead_letters_total",
            "Messages that went to a dead-letter queue, by what their last attempt came to.",
            lambda h, _: h.counts.dead_letters,
        ),
        counter(
            "evermq_handler_history_lost_total",
            "Records of what became of messages that could not be put on the history of the queue.",
            lambda h, _: h.counts.history_lost,
        ),
        gauge("evermq_handler_running", "Messages that are being handled now.", lambda h, _: h.counts.running),
        gauge(
            "evermq_handler_places",
            "Messages that the workers could handle now: those that they do, and those that they wait for.",
            lambda h, _: _places(h),
        ),
        gauge(
            "evermq_handler_workers",
            "Connections that serve the queue under this handler now.",
            lambda h, _: 0 if h.service is None else len(h.service.workers),
        ),
        histogram(
            "evermq_handler_wait_seconds",
            "Seconds from put to the beginning of an attempt.",
            lambda h, _: h.counts.waited,
        ),
        histogram("evermq_handler_run_seconds", "Seconds that attempts ran.", lambda h, _: h.counts.ran),
    ),
)
