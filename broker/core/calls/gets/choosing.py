"""The second step of a get: which message its request is given, and what must be done before that is known."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from broker.core.calls import damage, expiring
from broker.core.calls.gets import getting, granting
from broker.core.queues.handles import CO_OPERATING
from broker.core.queues.shelf import searches
from broker.core.queues.shelf.selection import EXPIRED_AT_ONCE
from broker.core.queues.shelf.selection import choose as choose_among
from broker.core.queues.shelf.views import LOOKS_AT_ONCE, Search

if TYPE_CHECKING:
    from broker.core.manager import Manager
    from broker.core.message.entry import Entry
    from broker.core.queues.handles import Handle
    from broker.core.queues.queue import LocalQueue
    from broker.core.queues.shelf.selection import Request
    from broker.core.queues.shelf.shelf import Shelf


def select(manager: Manager, handle: Handle, queue: LocalQueue, request: Request, now: float) -> Entry | Search | None:
    """Return the message that a get is given now, None without one, or the search that must end before it is known."""
    shelf = queue.shelf
    if request.under_cursor:
        return granting.under_cursor(handle, shelf, queue.name, request, now)
    if request.delayed:
        return _select_with_delayed(manager, handle, shelf, request, now)
    if request.anything and handle.last_calls.search is None:
        first = shelf.first()
        if first is None or first.deadline is None:
            return first
    searches.find_view(shelf, request, handle)
    entry, discarded = _choose(manager, queue, request, now, LOOKS_AT_ONCE if request.view is None else None)
    if entry is None and discarded >= EXPIRED_AT_ONCE:
        return Search(expiring.expire_all(manager, (queue,), now))
    if entry is None and request.view is None:
        searches.begin(shelf, request, handle)
    view = request.view
    if entry is None and view is not None and not view.complete:
        return Search(view.steps(shelf.entries, request.after))
    searches.end(shelf, request, handle)
    if entry is None:
        if shelf.damaged:
            damage.check(shelf, request, now)
        getting.explain_none(shelf, request)
    return entry


def _select_with_delayed(
    manager: Manager, handle: Handle, shelf: Shelf, request: Request, now: float
) -> Entry | Search | None:
    """As `select`, for a get that sees delayed messages. It looks at some in each step."""
    look, handle.last_calls.look = handle.last_calls.look, None
    after = look[1] if look is not None and look[0].asks_as(request) else request.after
    if shelf.is_overdue(now):
        return Search(expiring.expire_all(manager, (handle.usable_queue(),), now))
    for looked, key in enumerate(shelf.with_delayed(request, after)):
        if looked == LOOKS_AT_ONCE:
            handle.last_calls.look = request, after
            return Search(iter((None,)))
        entry = shelf.entries[key]
        if request.accepts(entry, shelf) and key not in shelf.damaged:
            return entry
        after = key
    if shelf.damaged:
        damage.check(shelf, request, now)
    return None


def choose(manager: Manager, queue: LocalQueue, request: Request, now: float) -> Entry | None:
    """The message that a request may be given now; expired ones that were in its way are discarded."""
    return _choose(manager, queue, request, now)[0]


def _choose(
    manager: Manager, queue: LocalQueue, request: Request, now: float, looks: int | None = None
) -> tuple[Entry | None, int]:
    """That message, if it is among so many that are looked at, and how many were discarded: with EXPIRED_AT_ONCE
    there may be more in its way.
    """
    shelf = queue.shelf
    if request.anything:
        first = shelf.first()
        if first is None or first.deadline is None:
            return first, 0
    if request.whole:
        expiring.expire(manager, queue, now)  # an expired part makes the whole incomplete
    if request.unmarked_by and CO_OPERATING in request.unmarked_by:
        queue.browse_marks.drop_old(now - manager.mark_seconds)
    discarded = 0
    while True:
        expired: list[Entry] = []
        entry = choose_among(islice(shelf.candidates(request), looks), request, shelf, now, expired)
        parts = _expired_parts(shelf, request, entry, now)
        expiring.discard(manager, (*expired, *parts))
        discarded += len(expired) + len(parts)
        if not parts or discarded >= EXPIRED_AT_ONCE:
            return None if parts else entry, discarded


def _expired_parts(shelf: Shelf, request: Request, entry: Entry | None, now: float) -> list[Entry]:
    """Return the expired messages of the whole that begins with `entry`, if the get wants a whole."""
    if entry is None or not request.whole or not shelf.is_overdue(now):
        return []
    parts = (shelf.entries[key] for key in shelf.groups.whole_with(entry, request.whole))
    return [part for part in parts if part.expired(now)]
