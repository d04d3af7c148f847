"""Serving those who wait (semantics 5.3): what has become available in one step is offered together."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.core import granting
from broker.core.effects import Effects
from broker.core.entry import AVAILABLE
from broker.mqi.errors import MQError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from broker.core.entry import Entry
    from broker.core.manager import Manager


def offer(manager: Manager, entries: Iterable[Entry], now: float) -> Effects:
    """Offer messages to the getters that wait, in delivery order whatever the order of the calls was."""
    effects = Effects()
    awaited = [entry for entry in entries if entry.queue.waiters.count and entry.state == AVAILABLE]
    for entry in sorted(awaited, key=_key):
        if entry.state == AVAILABLE:  # and not a segment of what another was given
            _offer_one(manager, entry, effects, now)
    return effects


def offer_freed(manager: Manager, now: float) -> Effects:
    """Offer what is no longer locked, or has been revealed. What that reveals is offered in its turn."""
    effects = Effects()
    while manager.freed:
        freed = [entry for entry in manager.freed if entry.state == AVAILABLE]
        manager.freed.clear()
        effects.add(offer(manager, freed, now))
    return effects


def _offer_one(manager: Manager, entry: Entry, effects: Effects, now: float) -> None:
    """Offer a message; discard it where those who wait would meet it expired."""
    queue = entry.queue
    if not queue.waiters.count or queue.get_inhibited:
        return
    served = []
    for waiter in queue.waiters.interested(entry):
        request = waiter.request
        if request.part_of_more:
            found = manager.choose(queue, request, now)
        else:
            found = entry if request.accepts(entry, queue) else None
        if found is None:
            continue
        if found.expired(now):
            manager.discard((found,))
            break
        served.append(waiter)
        try:
            grant = granting.grant(waiter.handle, queue, request, found, manager.max_calls, now)
        except MQError as error:
            effects.ended.append((waiter, int(error.reason)))
            continue
        if grant.destructive:
            manager.events.got(queue, len(grant.entries), now)
        effects.grants.append((waiter, grant))
        if entry.state != AVAILABLE:
            break
    for waiter in served:
        manager.stop_waiting(waiter)


def _key(entry: Entry) -> int:
    return entry.key
