"""The figures of consumers, which claim messages, and of prepared units."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from broker.core.claims.lag import lag_of
from broker.engine.figures.families import Section, Thing, gauge

if TYPE_CHECKING:
    from collections.abc import Iterator

    from broker.core.claims.consumer import Consumer
    from broker.core.queues.shared_queue import ConsumerLag
    from broker.engine.figures.scrape import Scrape
    from broker.engine.figures.scraped import ScrapedManager


class ClaimingConsumer(NamedTuple):
    """A consumer, and what it has not claimed of its queues."""

    consumer: Consumer
    lag: ConsumerLag


def _consumers(scrape: Scrape) -> Iterator[Thing[ClaimingConsumer]]:
    consumers = scrape.manager.core.consumers
    for consumer in sorted(consumers.all(), key=lambda each: each.name):
        if scrape.selection.shows(*consumer.q_names):
            yield Thing((consumer.name,), ClaimingConsumer(consumer, lag_of(consumers.queues_for(consumer))))


def _manager(scrape: Scrape) -> Iterator[Thing[ScrapedManager]]:
    yield Thing((), scrape.manager)


CONSUMER: Final = Section(
    title="Consumers and sinks",
    labels=("consumer",),
    things=_consumers,
    families=(
        gauge(
            "evermq_consumer_claimed",
            "Messages that the consumer has claimed and not acknowledged.",
            lambda c, _: c.consumer.claim_count,
        ),
        gauge(
            "evermq_consumer_lag_messages",
            "Messages that are available on its queues and not claimed.",
            lambda c, _: c.lag.messages,
        ),
        gauge(
            "evermq_consumer_oldest_claim_age_seconds",
            "Seconds since its oldest claim that is not acknowledged; 0 when there is none.",
            lambda c, now: round(c.consumer.age(now), 3),
        ),
    ),
)

SINK: Final = Section(
    title="Consumers and sinks",
    labels=(),
    things=_manager,
    families=(
        gauge(
            "evermq_prepared_units",
            "Prepared units of sinks, published or not, whose messages are not on their queues yet.",
            lambda m, _: sum(1 for _ in m.core.sinks.all()),
        ),
    ),
)
