"""Puts with a key (handlers rule 4): a second one within the window of the first is answered as made."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.core.message.entry import GET_PENDING, MAX_PRIORITY, order_key
from broker.core.message.rows import Rows
from broker.core.queues import unit as units
from broker.core.queues.keys import KeyHolder, Keys, digest_of
from broker.core.queues.unit_extras import PutKey, UnitExtras
from broker.mqi.errors import MQError
from broker.mqi.reasons import MQRC

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from broker.core.calls.puts.put import Put
    from broker.core.manager import Manager
    from broker.core.message.entry import Entry
    from broker.core.message.rows import KeyRow
    from broker.core.queues.message_queue import MessageQueue
    from broker.core.queues.queue import LocalQueue
    from broker.core.queues.unit import Unit


class Duplicate(Exception):
    """A put that was made before: by which message says `msg_id`; that is `entry`, while it is on the queue.
    `same_data`: with the same data. `awaited`: the first is on
    its way to the store, and the answer stands or falls with it (`is_held` says which, then).
    """

    def __init__(
        self, queue: MessageQueue, hashed: bytes, first: KeyHolder, entry: Entry | None, msg_id: bytes, *, awaited: bool
    ) -> None:
        super().__init__(queue.name)
        self.queue = queue
        self.hashed = hashed
        self.first = first
        self.entry = entry
        self.msg_id = msg_id
        self.same_data = True
        self.awaited = awaited

    def is_held(self, now: float) -> bool:
        """True if the key is held by the first message."""
        keys = self.queue.keys
        holder = None if keys is None else keys.find(self.hashed, now)
        return holder is not None and holder.id == self.first.id


def check(manager: Manager, put: Put, unit: Unit | None, now: float) -> bytes:
    """The hash of the key with which a message may be put as part of `unit`, where that is known. Raises Duplicate;
    OBJECT_IN_USE (2042) when another unit of work has the key to itself, RESOURCE_PROBLEM (2102) for one key too many.
    """
    queue, of_all = put.route.queue, manager.keys
    hashed = of_all.hashed(put.extras.key)
    keys = queue.keys
    if keys is not None:
        keys.drop_old(now)
        found = _found(manager, queue, keys, hashed, unit, now)
        if found is not None:
            found.same_data = found.first.digest == digest_of(put.data)
            keys.duplicates += 1
            keys.other_data += not found.same_data
            raise found
    if of_all.count >= of_all.maximum and (keys is None or keys.find(hashed, now) is None):
        _make_room(manager, now)
    return hashed


def in_use(q_name: str) -> MQError:
    """OBJECT_IN_USE (2042) for a key that a unit of work has to itself."""
    return MQError(
        MQRC.OBJECT_IN_USE,
        f"the key is that of a message which is put to {q_name} in a unit of work that has not ended",
    )


def _found(
    manager: Manager, queue: LocalQueue, keys: Keys, hashed: bytes, unit: Unit | None, now: float
) -> Duplicate | None:
    """The put that was made before; None where there was none."""
    pending = keys.pending(hashed)
    if pending is not None:
        holding, entry, first = pending
        if holding is unit:
            return Duplicate(queue, hashed, first, entry, entry.msg_id, awaited=False)
        waits_for_program = holding.owner is not None and holding.state != units.COMMITTING
        if waits_for_program or holding.state in (units.PREPARED, units.IN_DOUBT):
            raise in_use(queue.name)
        return Duplicate(queue, hashed, first, entry, entry.msg_id, awaited=True)
    holder = keys.find(hashed, now)
    if holder is None:
        return None
    held_by = _entry(queue, holder.id)
    if unit is not None and held_by is not None and held_by.state == GET_PENDING and held_by.unit is unit:
        return None
    msg_id = holder.msg_id or manager.ids.identifier(holder.id)
    return Duplicate(queue, hashed, holder, held_by, msg_id, awaited=False)


def _entry(queue: LocalQueue, id: int) -> Entry | None:
    """The message of this number, if it is on the queue."""
    for rank in range(MAX_PRIORITY + 1):
        entry = queue.shelf.entries.get(order_key(rank, id))
        if entry is not None:
            return entry
    return None


def _make_room(manager: Manager, now: float) -> None:
    """Raise RESOURCE_PROBLEM (2102) unless some key's time is over."""
    of_all = manager.keys
    for queue in manager.objects.queues.values():
        if queue.keys is not None:
            queue.keys.drop_old(now)
            if of_all.count < of_all.maximum:
                return
    raise MQError(
        MQRC.RESOURCE_PROBLEM,
        f"{of_all.count} keys of puts are kept, the limit of {manager.name}: [limits] keys in broker.toml",
    )


def join(manager: Manager, put: Put, hashed: bytes, entry: Entry, unit: Unit, now: float) -> None:
    """A message that has been placed holds the key, once the unit is committed."""
    queue = put.route.queue
    keys = queue.keys
    if keys is None:
        keys = queue.keys = Keys(queue.number, manager.keys)
    window = put.extras.window
    since = entry.handling.not_before if entry.handling is not None and entry.delayed else now
    until = 0.0 if window is None else max(since, now) + window
    keys.begin(hashed, unit, entry, KeyHolder(entry.id, until, digest_of(put.data), entry.given_msg_id or b""))
    extras = unit.extras = unit.extras or UnitExtras()
    extras.puts.append(PutKey(keys, hashed, entry))


def load(manager: Manager, rows: Iterable[KeyRow], now: float) -> Rows:
    """Load the stored keys, after all messages. Return the rows of keys to forget."""
    queues = {queue.number: queue for queue in manager.objects.queues.values()}
    wrong = Rows()
    for row in rows:
        queue = queues.get(row.queue)
        if queue is None:
            wrong.freed.append((row.queue, row.key))
            continue
        if queue.keys is None:
            queue.keys = Keys(queue.number, manager.keys)
        if not queue.keys.load(row, now, on_queue=_entry(queue, row.id) is not None):
            wrong.freed.append((row.queue, row.key))
    return wrong


def tidy(queues: Iterable[LocalQueue], now: float) -> Iterator[None]:
    """Forget the keys of these queues whose time is over, in steps."""
    for queue in queues:
        if queue.keys is not None:
            yield from queue.keys.tidy(now)
