"""Expired messages leave their queues (semantics 12.1): where a call meets them, and now and then wherever they are."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from broker.core.calls import postponing
from broker.core.message.entry import DAMAGED, DELAYED
from broker.core.queues.shelf.selection import EXPIRED_AT_ONCE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from broker.core.manager import Manager
    from broker.core.message.entry import Entry
    from broker.core.queues.queue import LocalQueue

_EXPIRED_A_STEP = 50


def expire(manager: Manager, queue: LocalQueue, now: float) -> None:
    """Discard what is available, or delayed, and is expired on a queue: all, or EXPIRED_AT_ONCE of it. A queue that is
    being deleted takes its own with it.
    """
    if not queue.deleted:
        discard(manager, list(islice(queue.shelf.overdue(now), EXPIRED_AT_ONCE)))


def expire_all(manager: Manager, queues: Iterable[LocalQueue], now: float) -> Iterator[None]:
    """Discard all of it on these queues, a few messages in each step."""
    for queue in queues:
        while not queue.deleted and queue.shelf.is_overdue(now):
            discard(manager, list(islice(queue.shelf.overdue(now), _EXPIRED_A_STEP)))
            yield


def discard(manager: Manager, expired: Iterable[Entry]) -> None:
    """Take expired messages off their queues, and note them in the effects for whoever writes that."""
    for entry in expired:
        if entry.state == DAMAGED:
            entry.queue.readmit(entry)
            entry.data = b""  # all that a report on it can say
        elif entry.state == DELAYED:
            postponing.leave(manager, entry)
        entry.queue.discard(entry)
        manager.effects.expired.append(entry)
