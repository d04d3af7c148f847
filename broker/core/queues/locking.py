"""Browse locks (semantics 5.5): a handle that browses with LOCK keeps its message from all others.

For the time of its own next get the message is available again, though the position of the handle still names it;
afterwards it is locked as before, unless the get released it by going on to another message or by taking this one.

Invariant (`check_invariants`): each message that is LOCKED is in the position of exactly one handle of its queue, and
nothing else is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.core.message.entry import AVAILABLE, GET_PENDING, LOCKED

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType

    from broker.core.message.entry import Entry
    from broker.core.queues.handles import Handle
    from broker.core.queues.queue import LocalQueue


class OwnLocks:
    """`with OwnLocks(handle, to_offer) as lock:` around a get of `handle`. What it frees is added to `to_offer`."""

    __slots__ = ("_handle", "_locked", "_to_offer", "release")

    def __init__(self, handle: Handle, to_offer: list[Entry]) -> None:
        self.release = False
        self._handle = handle
        self._to_offer = to_offer
        self._locked = handle.position.locked

    def __enter__(self) -> OwnLocks:
        if self._locked:
            for entry in self._locked:
                entry.queue.unlock(entry)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._locked:
            return
        position = self._handle.position
        taken = any(entry.state == GET_PENDING for entry in self._locked)
        free = tuple(entry for entry in self._locked if entry.state == AVAILABLE)
        stays: tuple[Entry, ...] = ()
        if self.release or taken:
            self._to_offer += free
        else:
            stays = free
            for entry in free:
                entry.queue.lock(entry)
        if position.locked is self._locked:  # and not another lock made by this get
            self._handle.position = position._replace(locked=stays)


def unlock(handle: Handle, to_offer: list[Entry]) -> bool:
    """Release the lock of a handle. True if there was one. What becomes free is added to `to_offer`."""
    locked = handle.position.locked
    if not locked:
        return False
    release(handle, locked, to_offer)
    return True


def release(handle: Handle, locked: Sequence[Entry], to_offer: list[Entry]) -> None:
    """These messages, which a handle has locked, are free: they are added to `to_offer`. A lock that it has made since
    stays.
    """
    for entry in locked:
        entry.queue.unlock(entry)
    to_offer += locked
    if handle.position.locked is locked:
        handle.position = handle.position._replace(locked=())


def check_invariants(queue: LocalQueue) -> None:
    """Raise AssertionError when a message of a queue that is not shared is locked by no handle, or a handle has locked
    one that is not. For tests.
    """
    held = sorted(entry.key for handle in queue.handles for entry in handle.position.locked)
    assert held == sorted(key for key, entry in queue.shelf.entries.items() if entry.state == LOCKED)
