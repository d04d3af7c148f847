"""Messages become available outside any put: claims that go back to their queues, prepared units that are published.

For triggers and for those who wait they arrive now, whenever they were put (claims rule 1).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.core.calls import dispatch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from broker.core.manager import Manager
    from broker.core.message.entry import Entry
    from broker.core.moment import Moment
    from broker.core.queues.message_queue import MessageQueue


def arrived(manager: Manager, queue: MessageQueue, entries: Sequence[Entry], moment: Moment) -> None:
    """These messages of one queue are available: let trigger conditions see them, and offer them to those who wait."""
    triggers = manager.triggers
    if queue.trigger_on:
        if triggers.meets_first_together(queue, entries, moment.tick):
            triggers.fire_first(queue)
        triggers.arrived(queue, entries)
    if queue.waiters.count:
        dispatch.offer(manager, entries, moment.wall)
