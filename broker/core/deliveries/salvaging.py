"""A delivery whose end a mistake of ours has broken off: its messages are in nobody's hands all the same.

The end had been begun: messages may be in units of work of their own by now, dead letters placed. All of that is taken
back, and the messages are delayed, as those are whose commit the store has refused (handlers rule 1, case 8).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.core.deliveries import ending
from broker.core.deliveries.steps import Ending, Fate, Step
from broker.core.message.rows import Rows
from broker.core.queues import unit as units
from broker.core.queues.unit import Unit
from broker.mqi.delivery_fields import Became, Outcome, Settled
from broker.mqi.reasons import MQRC

if TYPE_CHECKING:
    from collections.abc import Sequence

    from broker.core.deliveries.delivery import Delivery
    from broker.core.manager import Manager
    from broker.core.message.entry import Entry
    from broker.core.moment import Moment

_FROZEN = (units.COMMITTING, units.BACKING_OUT)


def salvage(
    manager: Manager, delivery: Delivery | None, entries: Sequence[Entry], moment: Moment, outcome: int | None = None
) -> Ending:
    """One step that delays these messages. `outcome` is what their worker said, which may have been counted."""
    own = delivery.unit if delivery is not None else Unit()
    if own.state not in (units.ACTIVE, *_FROZEN):  # it had settled: it is its messages that are left
        own = Unit()
    for other in {entry.unit for entry in entries}:
        if other is not None and other is not own:
            _take_back(manager, other, own)
    end = Ending(delivery)
    rows = ending.refuse(manager, Step(Fate.COMMITTED, own, Rows(), list(entries)), end, moment)
    if own.state == units.ACTIVE:
        own.become(units.BACKING_OUT)
        own.restore()
    end.steps.append(Step(Fate.DELAYED, own, rows, list(entries)))
    end.answer = Settled(0, Became.DELAYED, int(MQRC.UNEXPECTED_ERROR), entries[0].backout_count, end.answer.next_at)
    if delivery is not None:
        delivery.pending = 1
        end.answer = end.answer._replace(id=delivery.id)
        if outcome in (Outcome.DONE, Outcome.RETURNED):  # these are counted when they have settled
            delivery.service.counts.returned += len(entries)
    return end


def _take_back(manager: Manager, other: Unit, own: Unit) -> None:
    """Move the gets of the broken end's unit back to that of the delivery; withdraw its puts."""
    for entry in list(other.gets):
        other.pass_on(entry, own)
    if other.state == units.ACTIVE:
        other.become(units.BACKING_OUT)
    if other.state in _FROZEN:
        manager.settle(other, committed=False)
