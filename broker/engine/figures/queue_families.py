"""The figures of queues. Of a shared queue a member knows what it does itself, and the depth that it has heard of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from broker.core.queues.counts.oldest_age import oldest_age
from broker.engine.figures.families import Section, Thing, by_reason, counter, counter_by, gauge, histogram

if TYPE_CHECKING:
    from collections.abc import Iterator

    from broker.core.queues.queue import LocalQueue
    from broker.engine.figures.scrape import Scrape


def _queues(scrape: Scrape) -> Iterator[Thing[LocalQueue]]:
    for queue in scrape.queues:
        if not queue.deleted:
            yield Thing((queue.name,), queue)


def _since(then: float, now: float) -> float | None:
    """Return the seconds since then; None for never."""
    return max(0.0, round(now - then, 3)) if then else None


QUEUE: Final = Section(
    title="Queues",
    labels=("queue",),
    things=_queues,
    families=(
        gauge(
            "evermq_queue_depth", "Messages on the queue, uncommitted ones included (CURDEPTH).", lambda q, _: q.depth
        ),
        gauge(
            "evermq_queue_depth_max", "The most messages that the queue may hold (MAXDEPTH).", lambda q, _: q.max_depth
        ),
        gauge(
            "evermq_queue_available",
            "Messages that a get can be given now.",
            lambda q, _: None if q.shared else len(q.shelf.available),
        ),
        gauge(
            "evermq_queue_uncommitted",
            "Messages that were put or got in units of work which have not ended.",
            lambda q, _: None if q.shared else q.uncommitted,
        ),
        gauge(
            "evermq_queue_delayed",
            "Messages that wait for an instant: a delay, or the next attempt of a handler.",
            lambda q, _: None if q.shared else len(q.shelf.delayed),
        ),
        gauge(
            "evermq_queue_claimed",
            "Messages that consumers have claimed and not acknowledged.",
            lambda q, _: None if q.shared else q.claimed,
        ),
        gauge(
            "evermq_queue_prepared",
            "Messages of prepared units, which are not published yet.",
            lambda q, _: None if q.shared else q.prepared,
        ),
        gauge(
            "evermq_queue_damaged",
            "Messages whose data is damaged: nobody is given them.",
            lambda q, _: None if q.shared else len(q.shelf.damaged),
        ),
        gauge(
            "evermq_queue_bytes",
            "Bytes of the bodies of all messages on the queue.",
            lambda q, _: None if q.shared else q.bytes,
        ),
        gauge(
            "evermq_queue_oldest_message_age_seconds",
            "Seconds since the put of the oldest message that a get can be given; 0 when there is none.",
            oldest_age,
        ),
        gauge("evermq_queue_input_handles", "Handles that are open for input (IPPROCS).", lambda q, _: q.input_count),
        gauge(
            "evermq_queue_output_handles", "Handles that are open for output (OPPROCS).", lambda q, _: q.output_count
        ),
        gauge("evermq_queue_getters", "Gets that wait for a message.", lambda q, _: q.waiters.count),
        gauge(
            "evermq_queue_trigger_pending",
            "Starts of a program or a handler that nobody has taken yet.",
            lambda q, _: q.pending_starts,
        ),
        gauge(
            "evermq_queue_time_since_put_seconds",
            "Seconds since the last put; none before the first since the start.",
            lambda q, now: _since(q.counts.last_put, now),
        ),
        gauge(
            "evermq_queue_time_since_get_seconds",
            "Seconds since the last get; none before the first since the start.",
            lambda q, now: _since(q.counts.last_get, now),
        ),
        counter(
            "evermq_queue_puts_total",
            "Messages put, when the put was made; of a prepared unit when it was published.",
            lambda q, _: q.counts.puts,
        ),
        counter(
            "evermq_queue_put_bytes_total", "Bytes of the bodies of these messages.", lambda q, _: q.counts.put_bytes
        ),
        counter(
            "evermq_queue_gets_total",
            "Messages got from the queue: by a get, for a handler, or claimed.",
            lambda q, _: q.counts.gets,
        ),
        counter(
            "evermq_queue_get_bytes_total", "Bytes of the bodies of these messages.", lambda q, _: q.counts.get_bytes
        ),
        counter("evermq_queue_browses_total", "Messages given to a browse.", lambda q, _: q.counts.browses),
        counter("evermq_queue_expired_total", "Messages whose expiry time was up.", lambda q, _: q.counts.expired),
        counter(
            "evermq_queue_backed_out_total",
            "Messages that were got and came back: backed out, failed in a handler, released, or not taken.",
            lambda q, _: q.counts.backed_out,
        ),
        counter_by(
            "reason",
            "evermq_queue_refused_puts_total",
            "Puts that failed, by reason.",
            lambda q, _: by_reason(q.counts.refused),
        ),
        histogram(
            "evermq_queue_time_on_queue_seconds",
            "Seconds from put to get, by the PutTime of the message, which has hundredths of a second.",
            lambda q, _: q.counts.waited,
        ),
    ),
)
