"""Messages are delayed, and leave that state in other ways than by the coming of their instant (handlers rule 2.2).

They are delayed when their put is committed, or when they go back to their queue after a failed attempt. Who gets one
while it is delayed has it fall due in that step; if it comes back, it is delayed again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from broker.core.message.entry import DELAYED
from broker.core.queues.unit_extras import UnitExtras

if TYPE_CHECKING:
    from collections.abc import Iterable

    from broker.core.manager import Manager
    from broker.core.message.entry import Entry
    from broker.core.moment import Moment
    from broker.core.queues.queue import LocalQueue
    from broker.core.queues.unit import Unit

FROM_NOW: Final = -1.0
"""In place of an instant of the monotonic clock: that which is as far off as the instant on the wall clock is now."""

AT_ONCE: Final = float("-inf")


def postpone(manager: Manager, entry: Entry, due: float | None) -> None:
    """Delay a message on its queue until `due` on the monotonic clock, or where that is None until the instant that it
    has on the wall clock. Those who keep time are told (`Effects.postponed`).
    """
    entry.queue.postpone(entry)
    manager.effects.postponed.append((entry, due))


def postpone_again(manager: Manager, entry: Entry) -> None:
    """A message that was got goes back, and has an instant to come. It was set while the queue manager runs,
    or the message was delayed when it was got: then its record is still there, unless that instant has come.
    """
    come = manager.delays.give_back(entry)
    if come is None:
        postpone(manager, entry, FROM_NOW)
    elif come:
        postpone(manager, entry, AT_ONCE)
    else:
        entry.queue.postpone(entry)
    manager.deliveries.delayed_again(entry)


def keep(manager: Manager, postponed: Iterable[tuple[Entry, float | None]], moment: Moment) -> None:
    """Keep the time of messages that are delayed now."""
    for entry, due in postponed:
        if entry.state == DELAYED and entry.handling is not None:
            instant = moment.tick + entry.handling.not_before - moment.wall if due == FROM_NOW else due
            manager.delays.add(entry, instant, moment)


# Messages that are got, or go, while they are delayed


def take(manager: Manager, entry: Entry, unit: Unit) -> None:
    """A delayed message is available, for the step that takes it out of the queue. If the unit is committed, it is as
    if it had never been put: its key is free.
    """
    manager.delays.take(entry)
    entry.queue.fall_due(entry)
    manager.effects.posted = True  # those of its key that it held back may be handed out
    if entry.queue.keys is not None:
        extras = unit.extras = unit.extras or UnitExtras()
        extras.cancel(entry)


def leave(manager: Manager, entry: Entry) -> None:
    """A delayed message is available, for the step that discards it: it is expired."""
    manager.delays.left(entry)
    entry.queue.fall_due(entry)
    manager.effects.posted = True


def forget(manager: Manager, queue: LocalQueue) -> None:
    """A queue has gone with its messages."""
    for key in queue.shelf.delayed:
        manager.delays.left(queue.shelf.entries[key])
    if queue.keys is not None:
        queue.keys.forget_all()
    if manager.deliveries.step_budget.bytes:
        for entry in queue.shelf.entries.values():
            if entry.handling is not None and entry.handling.steps is not None:
                entry.handling.steps.drop()
