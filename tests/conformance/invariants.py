"""Invariants after every scenario, while its programs are still there: on private queues, and in a group."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from broker.core.message.entry import LOCKED

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from broker import QueueManager
    from tests.sharing.database import GroupDatabase


class Lock(NamedTuple):
    """A browse lock: at which queue manager its handle is, and the place of the message on its queue."""

    q_mgr_name: str
    q_name: str
    place: int


def check_locks(managers: Sequence[QueueManager], group: GroupDatabase | None = None) -> None:
    """Raise AssertionError unless each message that is locked has exactly one handle that has locked it, and each that
    a handle has locked is. `group`: where the shared queues of these queue managers are.
    """
    there = [lock for manager in managers for lock in _on_private_queues(manager)]
    if group is not None:
        sql = f"SELECT member, queue, place FROM held WHERE kind = {LOCKED}"
        there += [Lock(member, q_name, int(place)) for member, q_name, place in group.at_once(sql)]
    held = [lock for manager in managers for lock in _of_handles(manager)]
    assert sorted(there) == sorted(held), f"locked are {sorted(there)}, handles have {sorted(held)}"


def _on_private_queues(manager: QueueManager) -> Iterator[Lock]:
    for queue in manager.core.objects.queues.values():
        if not queue.shared:
            for key, entry in queue.shelf.entries.items():
                if entry.state == LOCKED:
                    yield Lock(manager.name, queue.name, key)


def _of_handles(manager: QueueManager) -> Iterator[Lock]:
    for queue in manager.core.objects.queues.values():
        for handle in queue.handles:
            for entry in handle.position.locked:
                yield Lock(manager.name, queue.name, entry.key)
