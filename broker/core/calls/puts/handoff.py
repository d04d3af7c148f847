"""A put outside syncpoint that meets a waiting destructive get outside syncpoint (journal rule 5).

The message goes from hand to hand: nobody else sees it in between, so that neither its arrival nor its removal needs to
be written.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.core.message.generated import reports
from broker.core.message.logical_order import IN_PARTS
from broker.core.queues import unit as units
from broker.core.queues.queue import LocalQueue
from broker.core.queues.shelf.selection import NEVER

if TYPE_CHECKING:
    from broker.core.manager import Manager
    from broker.core.message.entry import Entry
    from broker.core.queues.effects import Grant
    from broker.core.queues.shelf.selection import Request
    from broker.core.queues.unit import Unit
    from broker.core.queues.waiters import Waiter


def awaited(unit: Unit, now: float) -> bool:
    """True if the unit does nothing but put one message which, once settled, a get outside syncpoint takes before
    anybody else sees it.
    """
    if len(unit.puts) != 1 or unit.gets or unit.reports or unit.extras is not None:
        return False
    (entry,) = unit.puts
    queue = entry.queue
    if not queue.waiters.outside or entry.expired(now) or reports.asked(entry, reports.COD):
        return False
    if queue.waiters.wholes and entry.msg_flags & IN_PARTS:
        return False  # who is served depends on other messages too
    assert isinstance(queue, LocalQueue)  # only such a queue has its messages in memory
    shelf = queue.shelf

    def judge(request: Request) -> Entry | None:
        needs_others = request.start or request.whole
        return entry if needs_others or request.accepts(entry, shelf) else None

    for waiter, _ in queue.waiters.takers(entry, shelf, judge):
        return _takes_for_good(waiter.request)
    return False


def settle_together(manager: Manager, unit: Unit, now: float) -> tuple[Waiter, Grant]:
    """Settle the put of a message that is `awaited` and the get that takes it, in one step."""
    unit.become(units.COMMITTING)
    manager.settle(unit, committed=True, now=now)
    ((waiter, grant),) = manager.effects.grants
    manager.effects.grants = []
    assert grant.unit is not None
    grant.unit.become(units.COMMITTING)
    manager.settle(grant.unit, committed=True, now=now)
    return waiter, grant


def _takes_for_good(request: Request) -> bool:
    """True if accepting a message removes it: no browse, no syncpoint, no buffer too small for it."""
    return (
        not (request.browse or request.logical or request.start or request.whole)
        and request.syncpoint == NEVER
        and (request.max_length is None or request.accept_truncated)
    )
