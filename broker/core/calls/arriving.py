"""Messages become available outside any put: claims that go back to their queues, prepared units that are published,
messages that have been delayed.

For triggers and for those who wait they arrive now, whenever they were put (claims rule 1).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.core.calls.gets import dispatch
from broker.mqi.constants.attribute_values import MQTT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from broker.core.manager import Manager
    from broker.core.message.entry import Entry
    from broker.core.moment import Moment
    from broker.core.queues.message_queue import MessageQueue


_EVERY = MQTT.EVERY.value


def arrived(manager: Manager, queue: MessageQueue, entries: Sequence[Entry], moment: Moment) -> None:
    """These messages of one queue are available: let trigger conditions see them, and offer them to those who wait."""
    if queue.trigger_on:
        manager.triggers.came(queue, entries, moment.tick)
    if queue.waiters.count:
        dispatch.offer(manager, entries, moment.wall)


def arrived_again(manager: Manager, queue: MessageQueue, entries: Sequence[Entry], moment: Moment) -> None:
    """These messages are available again after attempts that failed: a start for each where the trigger type is EVERY,
    whatever their priority (handlers rule 2.3).
    """
    if queue.trigger_type != _EVERY:
        arrived(manager, queue, entries, moment)
        return
    if queue.trigger_on:
        manager.triggers.again(queue, len(entries))
    if queue.waiters.count:
        dispatch.offer(manager, entries, moment.wall)
