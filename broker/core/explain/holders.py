"""The holders of messages that no getter is given: consumers that have claimed them, and prepared units (claims rules
2.11 and 3.10).
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from broker.core.claims.group_consumer import Claimed, GroupConsumer
from broker.core.explain.findings import LOOKS_AT_ONCE, are, finding, in_steps
from broker.core.explain.held import MESSAGES_NAMED, first_msg_ids
from broker.mqi.explanations import Cause

if TYPE_CHECKING:
    from collections.abc import Collection, Generator, Iterable, Iterator

    from broker.core.claims.consumer import Consumer
    from broker.core.claims.consumers import Consumers
    from broker.core.explain.explaining import ExplainSelection
    from broker.core.explain.findings import Steps
    from broker.core.manager import Manager
    from broker.core.message.entry import Entry
    from broker.core.prepared.sinks import Sinks
    from broker.core.prepared.unit import PreparedUnit
    from broker.core.queues.queue import LocalQueue

BATCHES_MAX: Final = 10


def claimed(consumer: Consumer, queue: LocalQueue) -> Generator[None, None, Claimed]:
    """Return the figures of a consumer's claims on a queue. Where it claims from several, this takes steps."""
    if isinstance(consumer, GroupConsumer):
        return consumer.held.get(queue, Claimed(0, 0, 0))
    messages = consumer.counts.get(queue, 0)
    if not messages:
        return Claimed(0, 0, 0)
    if messages == len(consumer.claims):
        return Claimed(messages, messages - consumer.not_pinned, consumer.bytes)
    return (yield from _looked_at(consumer, queue, None))


def _looked_at(
    consumer: Consumer, queue: LocalQueue, among: Collection[Entry] | None
) -> Generator[None, None, Claimed]:
    if isinstance(consumer, GroupConsumer):
        seen = {entry: pinned for entry, pinned in consumer.seen.items() if among is None or entry in among}
        return Claimed(len(seen), sum(seen.values()), sum(entry.length for entry in seen))
    messages = pinned = size = 0
    until = len(consumer.claims) - consumer.not_pinned
    for number, entry in enumerate(list(consumer.claims), 1):
        if entry is not None and entry.queue is queue and (among is None or entry in among):
            messages += 1
            pinned += number <= until
            size += entry.length
        if number % LOOKS_AT_ONCE == 0:
            yield
    return Claimed(messages, pinned, size)


def pairs(consumers: Consumers) -> Iterator[tuple[LocalQueue, Consumer] | None]:
    """Each queue with each consumer that claims from it, or has claims of it, by the names of both; None between two
    steps.
    """
    found: list[tuple[LocalQueue, Consumer]] = []
    for consumer in list(consumers.all()):
        found += [(queue, consumer) for queue in {*consumers.queues_for(consumer), *consumer.counts}]
        yield None
    found.sort(key=lambda pair: (pair[0].name, pair[1].name))
    yield from found


def claims(consumers: Consumers, queue: LocalQueue, among: Collection[Entry] | None, now: float) -> Steps:
    """A finding for each consumer that has claimed messages of the queue, or some of those asked for (`among`)."""
    of_queue = [each for each in consumers.all() if queue in each.counts]
    for consumer in sorted(of_queue, key=lambda each: each.name):
        looking = claimed(consumer, queue) if among is None else _looked_at(consumer, queue, among)
        while True:
            try:
                next(looking)
            except StopIteration as end:
                held: Claimed = end.value
                break
            yield None
        if not held.messages:
            continue
        seconds = consumer.age(now)
        not_pinned = held.messages - held.pinned
        yield finding(
            Cause.CLAIMED,
            f"{are(held.messages)} claimed by {consumer.name}, generation {consumer.generation}, "
            f"since {seconds:.0f} s, {not_pinned} of them not pinned",
            messages=held.messages,
            msg_ids=_named(consumer.seen if isinstance(consumer, GroupConsumer) else consumer.claims, queue, among),
            consumer=consumer.name,
            generation=consumer.generation,
            pinned=held.pinned,
            bytes=held.bytes,
            since=consumer.since,
            seconds=seconds,
        )


def _named(held: Iterable[Entry | None], queue: LocalQueue, among: Collection[Entry] | None = None) -> list[str]:
    """Return MsgIds of the queue's messages among the first that a consumer or a unit holds, on whatever queues."""
    of_queue = [each for each in islice(held, LOOKS_AT_ONCE) if each is not None and each.queue is queue]
    return first_msg_ids(each for each in of_queue if among is None or each in among)


class PreparedMessages(NamedTuple):
    """Messages that the units of one batch have prepared: how many, in how many units, when the first of these was
    begun (wall clock), and the MsgIds of some.
    """

    messages: int
    units: int
    since: float
    msg_ids: list[str]

    def age(self, now: float) -> float:
        """Return the seconds since it was prepared."""
        return max(0.0, now - self.since)


Batch: TypeAlias = tuple[str, int]
"""A sink, and the number of its batch."""


def prepared(sinks: Sinks, queue: LocalQueue) -> dict[Batch, PreparedMessages]:
    """Return the prepared messages of a queue, by sink and batch."""
    found: dict[Batch, PreparedMessages] = {}
    for unit in sinks.all():
        if queue in unit.counts:
            _add(found, unit, queue)
    return dict(sorted(found.items()))


def _add(
    found: dict[Batch, PreparedMessages], unit: PreparedUnit, queue: LocalQueue, selected: list[Entry] | None = None
) -> None:
    """Count the messages of the queue in this unit, or those of them that are asked for."""
    batch = unit.name.sink, unit.name.batch
    messages, units, since, named = found.get(batch, PreparedMessages(0, 0, unit.since, []))
    count = unit.counts[queue] if selected is None else len(selected)
    if len(named) < MESSAGES_NAMED:
        named = (named + _named(unit.left() if selected is None else selected, queue))[:MESSAGES_NAMED]
    found[batch] = PreparedMessages(messages + count, units + 1, min(since, unit.since), named)


def _prepared_among(
    sinks: Sinks, queue: LocalQueue, selection: ExplainSelection
) -> Generator[None, None, dict[Batch, PreparedMessages]]:
    found: dict[Batch, PreparedMessages] = {}
    for unit in [each for each in sinks.all() if queue in each.counts]:
        selected: list[Entry] = []
        for entry in in_steps(list(unit.left())):
            if entry is None:
                yield
            elif entry.queue is queue and selection.has(entry):
                selected.append(entry)
        if selected:
            _add(found, unit, queue, selected)
    return found


def prepared_units(sinks: Sinks, queue: LocalQueue, selection: ExplainSelection | None, now: float) -> Steps:
    """A finding for each of the first batches of which messages are prepared for the queue, or some of those that are
    `selection`.
    """
    if not queue.prepared:
        return
    found = prepared(sinks, queue) if selection is None else (yield from _prepared_among(sinks, queue, selection))
    for (sink, batch), held in list(found.items())[:BATCHES_MAX]:
        yield finding(
            Cause.PREPARED,
            f"{are(held.messages)} prepared for batch {batch} of sink {sink}, since {held.age(now):.0f} s, and not "
            "published",
            messages=held.messages,
            msg_ids=held.msg_ids,
            sink=sink,
            batch=batch,
            units=held.units,
            since=held.since,
            seconds=held.age(now),
        )
    if len(found) > BATCHES_MAX:
        yield finding(Cause.PREPARED, f"{len(found) - BATCHES_MAX} more batches are prepared")


def held_by(core: Manager, queue: LocalQueue, now: float) -> str:
    """Return a sentence that names the holder of messages of a queue, so that it can be neither cleared nor deleted;
    empty when nobody has any.
    """
    if count := core.consumers.claimed_of(queue):
        return _claimed_by(core.consumers.all(), queue, count)
    return _prepared_by(prepared(core.sinks, queue), queue, now) if queue.prepared else ""


def _prepared_by(found: dict[Batch, PreparedMessages], queue: LocalQueue, now: float) -> str:
    if not found:  # on its way to its unit, or out of it
        return f"{are(queue.prepared)} prepared"
    (sink, batch), held = min(found.items(), key=lambda each: each[1].since)
    others = f" and {queue.prepared - held.messages} for others" if queue.prepared > held.messages else ""
    return (
        f"{are(held.messages)} prepared for batch {batch} of sink {sink}, since {held.age(now):.0f} s{others}; DISPLAY "
        "THREAD(*) TYPE(INDOUBT) lists their units, and RESOLVE INDOUBT discards one"
    )


def _claimed_by(consumers: Iterable[Consumer], queue: LocalQueue, claimed: int) -> str:
    most = max(((each.counts[queue], each.name) for each in consumers if queue in each.counts), default=None)
    if most is None:  # the claim is on its way
        return f"{are(claimed)} being claimed by a consumer"
    count, name = most
    others = f" and {claimed - count} by others" if claimed > count else ""
    return f"{are(count)} claimed by consumer {name}{others}; RESOLVE CONSUMER({name}) ends that"
