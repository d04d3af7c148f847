"""A store that keeps its rows in memory: for managers without data, and for tests.

It survives the manager, not the process: a manager opened on the same MemoryStore object finds what the last one wrote.
It does not check more than SQLite would: a second message of one id, or a second object of one number, is refused.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from broker.storage.store import DataDamagedError, Store, StoreFailedError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable

    from broker.storage.store import Done, KeyRow, MessageRow, ObjectRow, Rows, StepRow

LOAD_CHUNK = 10_000
"""The number of messages that a load gives at a time."""


class MemoryStore(Store):
    """Keeps what is written for as long as the object lives; `open` and `close` change nothing."""

    def __init__(self) -> None:
        self._messages: dict[int, MessageRow] = {}
        self._objects: dict[tuple[str, str], ObjectRow] = {}
        self._keys: dict[tuple[int, bytes], KeyRow] = {}
        self._steps: dict[int, dict[int, StepRow]] = {}  # by message and place
        self._high_water = 0

    async def open(self) -> None:
        """Nothing to get ready."""

    async def load_objects(self) -> tuple[list[ObjectRow], int]:
        """All definitions by space and name, and the high-water mark (0 when there is none)."""
        return [self._objects[key] for key in sorted(self._objects)], self._high_water

    async def load_keys(self) -> AsyncIterator[list[KeyRow]]:
        """All keys of puts, by queue and key."""
        rows = sorted(self._keys.values())
        for start in range(0, len(rows), LOAD_CHUNK):
            yield rows[start : start + LOAD_CHUNK]

    async def load_steps(self) -> AsyncIterator[list[StepRow]]:
        """All finished steps, by message and place."""
        for id in sorted(self._steps):
            yield [step for _, step in sorted(self._steps[id].items())]

    async def load_messages(self) -> AsyncIterator[list[MessageRow]]:
        """All messages without their data, in order of id; rows with persistent=0 that nobody holds are gone once all
        were given.
        """
        rows = sorted(self._messages.values())
        for start in range(0, len(rows), LOAD_CHUNK):
            yield [row._replace(data=None) for row in rows[start : start + LOAD_CHUNK]]
        for row in rows:
            if not (row.persistent or row.holder):
                self._remove(row.id)

    def submit(self, rows: Rows, done: Done) -> bool:
        """Take in all of `rows` at once, or none; `done` is told StoreFailedError for an id or a number that is
        taken.
        """
        try:
            self._take(rows)
        except StoreFailedError as failure:
            asyncio.get_running_loop().call_soon(done, failure)
            return False
        return True

    def read(self, ids: Iterable[int], done: Callable[[dict[int, bytes], Exception | None], None]) -> None:
        """Look up the data of these messages; `done` is told DataDamagedError, with the data of the others, when some
        is missing.
        """
        rows = {id: self._messages.get(id) for id in ids}
        found = {id: row.data for id, row in rows.items() if row is not None and row.data is not None}
        error = (
            DataDamagedError.of(rows.keys() - found.keys(), "the store in memory") if len(found) < len(rows) else None
        )
        asyncio.get_running_loop().call_soon(done, found, error)

    async def close(self) -> None:
        """Nothing to let go; the rows stay."""

    def status(self) -> dict[str, Any]:
        """Return the number of messages that are kept."""
        return {"messages": len(self._messages)}

    def _take(self, rows: Rows) -> None:
        objects = self._objects_after(rows)
        self._insert(rows.inserts)
        for id in rows.hardened:
            self._change(id, hardened=1)
        for id, mark in rows.marked:
            self._change(id, hardened=mark)
        for id, backout_count in rows.backouts:
            self._change(id, backout_count=backout_count, hardened=0, holder=0, sequence=0)
        for id, backout_count, handling in rows.handled:
            self._change(id, backout_count=backout_count, hardened=0, holder=0, sequence=0, handling=handling)
        for run in rows.held:
            for sequence, id in enumerate(run.ids, run.first):
                self._change(id, holder=run.holder, sequence=sequence)
        for run in rows.placed:
            for place, id in enumerate(run.ids, run.first):
                self._change(id, holder=0, sequence=0, place=place)
        self._take_steps(rows.steps)
        for id in rows.removals:
            self._remove(id)
        self._objects = objects
        for freed in rows.freed:
            self._keys.pop(freed, None)
        for each in rows.keys:
            self._keys[each.queue, each.key] = each
        self._high_water = max(self._high_water, rows.high_water)

    def _objects_after(self, rows: Rows) -> dict[tuple[str, str], ObjectRow]:
        """The objects as `rows` leaves them: a copy, because the batch may yet be refused."""
        if not (rows.objects or rows.states or rows.dropped):
            return self._objects
        objects = self._objects.copy()
        for key in rows.dropped:
            objects.pop(key, None)
        for row in (*rows.objects, *rows.states):
            objects[row.space, row.name] = row
        if len({row.number for row in objects.values()}) < len(objects):
            raise StoreFailedError("two objects have one number")
        return objects

    def _insert(self, inserts: list[MessageRow]) -> None:
        """Add the messages, after looking that their ids are new."""
        added = {row.id: row for row in inserts}
        if len(added) < len(inserts) or not self._messages.keys().isdisjoint(added):
            raise StoreFailedError("two messages have one id")
        self._messages.update(added)

    def _take_steps(self, steps: list[StepRow]) -> None:
        for step in steps:
            self._steps.setdefault(step.id, {})[step.place] = step

    def _remove(self, id: int) -> None:
        """Remove a message with its steps, if it is there."""
        self._messages.pop(id, None)
        self._steps.pop(id, None)

    def _change(self, id: int, **fields: Any) -> None:
        """Give these fields of a message other values, if it is there."""
        row = self._messages.get(id)
        if row is not None:
            self._messages[id] = row._replace(**fields)
