"""Figures by the names that IBM's exporter gives them (`mq-metric-samples`), for dashboards that were made for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from broker.core.queues.counts.oldest_age import oldest_age
from broker.engine.figures.families import Section, Thing, gauge

if TYPE_CHECKING:
    from collections.abc import Iterator

    from broker.core.queues.queue import LocalQueue
    from broker.engine.figures.scrape import Scrape
    from broker.engine.figures.scraped import ScrapedManager

_PLATFORM: Final = "UNIX"


def _queues(scrape: Scrape) -> Iterator[Thing[LocalQueue]]:
    name = scrape.manager.name
    for queue in scrape.queues:
        if not queue.deleted:
            usage = "XMITQ" if queue.transmits else "NORMAL"
            description = str(queue.definition.attributes["DESCR"])
            yield Thing((description, _PLATFORM, name, queue.name, usage), queue)


def _manager(scrape: Scrape) -> Iterator[Thing[ScrapedManager]]:
    manager = scrape.manager
    description = str(manager.core.objects.definition.attributes["DESCR"])
    yield Thing((description, _PLATFORM, manager.name), manager)


def _whole(then: float, now: float) -> int | None:
    """Return the whole seconds since then; None for never, where IBM's exporter has no sample either."""
    return max(0, int(now - then)) if then else None


def _age(queue: LocalQueue, now: float) -> int | None:
    age = oldest_age(queue, now)
    return None if age is None else int(age)


IBM_QUEUE: Final = Section(
    title="Queues",
    labels=("description", "platform", "qmgr", "queue", "usage"),
    things=_queues,
    families=(
        gauge("ibmmq_queue_depth", "Queue Depth", lambda q, _: q.depth),
        gauge("ibmmq_queue_attribute_max_depth", "Queue Max Depth", lambda q, _: q.max_depth),
        gauge("ibmmq_queue_oldest_message_age", "Oldest Message", _age),
        gauge(
            "ibmmq_queue_uncommitted_messages",
            "Uncommitted Messages",
            lambda q, _: None if q.shared else q.uncommitted,
        ),
        gauge("ibmmq_queue_time_since_get", "Time Since Get", lambda q, now: _whole(q.counts.last_get, now)),
        gauge("ibmmq_queue_time_since_put", "Time Since Put", lambda q, now: _whole(q.counts.last_put, now)),
        gauge("ibmmq_queue_input_handles", "Input Handles", lambda q, _: q.input_count),
        gauge("ibmmq_queue_output_handles", "Output Handles", lambda q, _: q.output_count),
        gauge("ibmmq_queue_mqput_mqput1_count", "MQPUT/MQPUT1 count", lambda q, _: q.counts.puts),
        gauge("ibmmq_queue_mqget_count", "MQGET count", lambda q, _: q.counts.gets),
    ),
)

IBM_Q_MGR: Final = Section(
    title="Queue manager",
    labels=("description", "platform", "qmgr"),
    things=_manager,
    families=(
        gauge("ibmmq_qmgr_uptime", "Up time", lambda m, now: max(0, int(now - m.context.figures.since))),
        gauge("ibmmq_qmgr_connection_count", "Connection Count", lambda m, _: len(m.conversations)),
    ),
)
