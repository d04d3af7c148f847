"""Serving those who wait (semantics 5.3): what has become available in one step is offered together."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.core.calls import expiring
from broker.core.calls.gets import choosing, granting
from broker.core.message.entry import AVAILABLE
from broker.core.queues import locking
from broker.core.queues.queue import LocalQueue
from broker.core.queues.waiting import stop_waiting
from broker.mqi.errors import MQError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from broker.core.manager import Manager
    from broker.core.message.entry import Entry
    from broker.core.queues.effects import Grant
    from broker.core.queues.shelf.selection import Request
    from broker.core.queues.waiters import Waiter
    from broker.core.selector import Selector


def offer(manager: Manager, entries: Iterable[Entry], now: float) -> None:
    """Offer messages to the getters that wait, in delivery order whatever the order of the calls was."""
    awaited = [entry for entry in entries if entry.queue.waiters.count and entry.state == AVAILABLE]
    for entry in sorted(awaited, key=_key):
        offer_one(manager, entry, now)


def offer_again(manager: Manager, now: float) -> None:
    """Offer what is no longer locked, or no longer behind another, and then what that brings to light."""
    effects = manager.effects
    while effects.to_offer:
        entries = [entry for entry in effects.to_offer if entry.state == AVAILABLE]
        effects.to_offer.clear()
        offer(manager, entries, now)


def offer_one(manager: Manager, entry: Entry, now: float) -> None:
    """Offer a message, unless somebody has got it; discard it where those who wait would meet it expired."""
    queue = entry.queue
    if not queue.waiters.count or queue.get_inhibited or entry.state != AVAILABLE:
        return
    assert isinstance(queue, LocalQueue)  # only such a queue has its messages in memory
    served = []
    for waiter, found in queue.waiters.takers(entry, queue.shelf, _Judge(manager, queue, entry, now)):
        if found.deadline is not None and found.expired(now):
            expiring.discard(manager, (found,))
            break
        served.append(waiter)
        try:
            locked = waiter.handle.position.locked
            grant = granting.grant(manager, waiter.handle, queue, waiter.request, found, now)
            if locked:
                _let_go(manager, waiter, grant, locked)
        except MQError as error:
            manager.effects.ended.append((waiter, int(error.reason)))
            continue
        manager.effects.grants.append((waiter, grant))
        if entry.state != AVAILABLE:
            break
    for waiter in served:
        stop_waiting(waiter)


def _let_go(manager: Manager, waiter: Waiter, grant: Grant, locked: tuple[Entry, ...]) -> None:
    """A get that waited does to what its handle has locked since what one that did not wait does (semantics 5.5)."""
    if granting.moves_cursor(waiter.request, grant):
        locking.release(waiter.handle, locked, manager.effects.to_offer)


class _Judge:
    """Says what those who wait are given because of a message. Each selector is tried on it once."""

    __slots__ = ("_entry", "_manager", "_now", "_queue", "_tried")

    def __init__(self, manager: Manager, queue: LocalQueue, entry: Entry, now: float) -> None:
        self._manager = manager
        self._queue = queue
        self._entry = entry
        self._now = now
        self._tried: dict[Selector, bool] = {}

    def __call__(self, request: Request) -> Entry | None:
        entry = self._entry
        if entry.state != AVAILABLE:
            return None  # it was found expired by one who wants a whole group
        if request.anything:
            return entry
        if request.whole:
            found = choosing.choose(self._manager, self._queue, request, self._now)
            related = found is not None and found.key in self._queue.shelf.groups.whole_with(entry, request.whole)
            return found if related else None  # the turn of another comes when that is offered
        if request.view is not None:  # which has judged it already
            return entry if entry.key in request.view.keys and request.matches(entry) else None
        if not request.suits(entry, self._queue.shelf):
            return None
        selector = request.selector
        if selector is None:
            return entry
        selected = self._tried.get(selector)
        if selected is None:
            selected = self._tried[selector] = selector.matches(entry)
        return entry if selected else None


def _key(entry: Entry) -> int:
    return entry.key
