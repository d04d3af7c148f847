"""The ends of claims: they are acknowledged, or go back to their queues (claims rules 2.4, 2.5).

Both go in slices, from the first claim on, each frozen, made durable and settled before the next. So what a failure
leaves is a consumer that stands a little further, with all the rest of its claims.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from broker.core.calls import arriving
from broker.core.claims.claiming import SLICE_LENGTH
from broker.core.claims.consumer import counts
from broker.core.message.generated import reports
from broker.core.message.rows import Rows
from broker.core.queues.unit import Unit

if TYPE_CHECKING:
    from collections.abc import Sequence

    from broker.core.claims.consumer import Consumer
    from broker.core.manager import Manager
    from broker.core.message.entry import Entry
    from broker.core.moment import Moment


class Slice(NamedTuple):
    """Claims that end together: the first `length` of the consumer's, and those messages of them that the store has not
    lost. The unit has the reports that they cause.
    """

    length: int
    messages: list[Entry]
    unit: Unit
    rows: Rows


def slice_end(consumer: Consumer, to: int) -> int:
    """The sequence up to which the claims end next, of those up to `to`."""
    return min(max(to, consumer.acknowledged), consumer.acknowledged + SLICE_LENGTH)


def next_slice(consumer: Consumer, to: int) -> list[Entry | None]:
    """The claims, up to the sequence `to`, that end next."""
    return consumer.between(consumer.acknowledged, slice_end(consumer, to))


def unread(entries: Sequence[Entry | None]) -> list[Entry]:
    """Return the messages whose bodies the reports on them need, and which are only on disk."""
    return reports.unread([(entry, reports.COD) for entry in entries if entry is not None])


def acknowledge(manager: Manager, consumer: Consumer, entries: Sequence[Entry | None], moment: Moment) -> Slice:
    """Freeze the end of these claims: their consumer is done with them."""
    unit = Unit()
    messages = [entry for entry in entries if entry is not None]
    unit.reports = {entry: reports.COD for entry in messages if reports.asked(entry, reports.COD)}
    rows = manager.commit(unit, moment)
    rows.removals += [entry.id for entry in messages]
    rows.states.append(consumer.row(**consumer.done(consumer.acknowledged + len(entries))))
    return Slice(len(entries), messages, unit, rows)


def acknowledged(manager: Manager, consumer: Consumer, ended: Slice, now: float) -> None:
    """The end of these claims is durable: the messages are gone. (The unit of their reports has been settled.)"""
    for entry in ended.messages:
        entry.queue.acknowledge(entry)
    _pass_by(consumer, ended.length)
    for queue in counts(ended.messages):
        manager.events.left(queue, now)


def release(consumer: Consumer, entries: Sequence[Entry | None]) -> Slice:
    """Freeze the return of these claims to their queues, at their own places; each counts a backout."""
    rows = Rows()
    messages = [entry for entry in entries if entry is not None]
    for entry in messages:
        entry.backout_count += 1
        if entry.persistence:
            rows.backouts.append((entry.id, entry.backout_count))
        else:
            rows.removals.append(entry.id)
    rows.states.append(consumer.row(**consumer.done(consumer.acknowledged + len(entries))))
    return Slice(len(entries), messages, Unit(), rows)


def released(manager: Manager, consumer: Consumer, ended: Slice, moment: Moment, *, durable: bool) -> None:
    """The return is durable: the messages are available, and arrive now. Or it is not, and they stay claimed."""
    if not durable:
        for entry in ended.messages:
            entry.backout_count -= 1
        return
    _pass_by(consumer, ended.length)
    for entry in ended.messages:
        entry.queue.counts.backed_out += 1
        entry.queue.release(entry)
    for queue in counts(ended.messages):
        arriving.arrived(manager, queue, [entry for entry in ended.messages if entry.queue is queue], moment)


def _pass_by(consumer: Consumer, count: int) -> None:
    consumer.let_go(count)
    consumer.pinned = max(consumer.pinned, consumer.acknowledged)
