"""The options of a unit's puts beyond those of the MQI (handlers rules 3 and 4)."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from broker.core.message.entry import Entry
    from broker.core.message.rows import Rows
    from broker.core.queues.keys import Keys


class PutKey(NamedTuple):
    """A key that the unit puts with, on one queue, and its message."""

    keys: Keys
    hashed: bytes
    entry: Entry


class FreedKey(NamedTuple):
    """A key whose holder the unit cancels; `number` is that of the queue in the store."""

    keys: Keys
    hashed: bytes
    holder: Entry
    number: int


class UnitExtras:
    """`delayed` has the messages put with a delivery instant that is to come: on the monotonic clock, or None for one
    of the wall clock, which the message has. `puts` are the keys of messages that were put, `cancels` those of messages
    that were got while they were delayed, or cleared. `stepped` has messages that were put with steps.
    """

    __slots__ = ("cancels", "delayed", "puts", "stepped")

    def __init__(self) -> None:
        self.delayed: dict[Entry, float | None] = {}
        self.puts: list[PutKey] = []
        self.cancels: list[FreedKey] = []
        self.stepped: list[Entry] = []

    def cancel(self, entry: Entry) -> None:
        """The unit removes a message as if it had never been put."""
        keys = entry.queue.keys
        hashed = None if keys is None else keys.of(entry)
        if keys is not None and hashed is not None:
            self.cancels.append(FreedKey(keys, hashed, entry, entry.queue.number))

    def forget(self, entry: Entry) -> None:
        """A message got leaves the unit."""
        self.cancels = [freed for freed in self.cancels if freed.holder is not entry]

    def add_rows(self, rows: Rows) -> None:
        """Add the rows that its commit writes."""
        put = {id(key.keys): set[bytes]() for key in self.puts}
        for key in self.puts:
            put[id(key.keys)].add(key.hashed)
            if key.entry.persistence:
                rows.keys.append(key.keys.row(key.hashed))
        for freed in self.cancels:
            if freed.holder.persistence and freed.hashed not in put.get(id(freed.keys), ()):
                rows.freed.append((freed.number, freed.hashed))
        for entry in self.stepped:
            if entry.persistence and entry.handling is not None and entry.handling.steps is not None:
                rows.steps += entry.handling.steps.rows(entry.id)

    def commit(self, now: float) -> None:
        """The unit is committed, before what it has got goes: its keys are known to all."""
        for freed in self.cancels:
            freed.keys.free(freed.hashed, freed.holder.id)
        for key in self.puts:
            key.keys.commit(key.hashed, now)

    def undo(self) -> None:
        """It is backed out."""
        for key in self.puts:
            key.keys.undo(key.hashed)
