"""The end of a wait: a get leaves the queue that it waits on, served or with a reason."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from broker.core.queues.effects import Effects
    from broker.core.queues.waiters import Waiter
    from broker.mqi.reasons import MQRC


def stop_waiting(waiter: Waiter) -> None:
    """The getter no longer waits; harmless when it has been served."""
    if waiter.handle.queue is not None:
        waiter.handle.queue.waiters.discard(waiter)
    waiter.handle.waiting.pop(waiter, None)


def end_waits(waiters: Iterable[Waiter], reason: MQRC, effects: Effects) -> None:
    """These gets wait no longer: they end with a reason."""
    for waiter in list(waiters):
        effects.ended.append((waiter, int(reason)))
        stop_waiting(waiter)
