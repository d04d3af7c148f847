"""The changes of the batches since the snapshot, in memory: a carry-over writes them.

A message that came and went between two carry-overs leaves nothing. It assumes of every message that it has not met
that the snapshot has it.

A batch may hold or place many thousand messages. So that is kept beside the rows, in dictionaries that take in a run
without a step of Python for each message, and a row gets it when it is written or loaded (`left`).
"""

from __future__ import annotations

from itertools import chain, count, repeat
from typing import TYPE_CHECKING, Final, TypeAlias

from broker.storage.store import MessageRow

if TYPE_CHECKING:
    from collections.abc import Iterable

    from broker.storage.store import KeyRow, Numbering, ObjectRow, Rows, StepRow

Counters: TypeAlias = "tuple[int, int, int, int, int, bytes]"
"""The changeable fields in the row of a message: backout_count, hardened, holder, sequence, place, handling."""

_FREE: Final = (0, 0)


class Delta:
    """Rows that the snapshot lacks, and what has become of those that it has. A message may be among both: a
    nonpersistent one that was kept, removed and kept again.

    `counters` has the backout count (None: as it was; else nobody holds it) and the mark `hardened` of messages in the
    snapshot; `held` the holder and the sequence, `placed` the place, `handled` what handlers have left with any
    messages, and they count after those of the row and of `counters`; `objects` None for one that was dropped, `keys`
    for one that was freed; `steps` new steps, by message and place.
    """

    def __init__(self) -> None:
        self.inserts: dict[int, MessageRow] = {}
        self.removals: dict[int, None] = {}
        self.counters: dict[int, tuple[int | None, int]] = {}
        self.held: dict[int, tuple[int, int]] = {}
        self.placed: dict[int, int] = {}
        self.handled: dict[int, bytes] = {}
        self.objects: dict[tuple[str, str], ObjectRow | None] = {}
        self.keys: dict[tuple[int, bytes], KeyRow | None] = {}
        self.steps: dict[int, dict[int, StepRow]] = {}
        self.high_water = 0
        self.held_later = 0  # rows of the snapshot that runs have held or placed, at most

    def __bool__(self) -> bool:
        return bool(
            self.inserts or self.removals or self.counters or self.held or self.placed or self.handled
            or self.objects or self.keys or self.steps or self.high_water
        )  # fmt: skip

    @property
    def changes(self) -> int:
        """The number of changed rows in the snapshot, at most. One that is held or placed, and a key, counts a third:
        only the page of its row changes, and none of its data.
        """
        return len(self.removals) + len(self.counters) + (self.held_later + len(self.keys)) // 3

    def changed(self) -> list[int]:
        """The messages of the snapshot that are there and others than they were. It may take long."""
        later = self.held.keys() | self.placed.keys() | self.handled.keys()
        return [*self.counters, *(later - self.inserts.keys() - self.counters.keys())]

    def left(self, row: MessageRow) -> MessageRow:
        """A row of the snapshot, or one of `inserts`, as this leaves it."""
        id = row[0]
        if id in self.held or id in self.counters or id in self.placed or id in self.handled:
            before = (row.backout_count, row.hardened, row.holder, row.sequence, row.place, row.handling)
            return MessageRow._make((*row[: -len(before)], *self.counted(id, before)))
        return row

    def counted(self, id: int, before: Counters) -> Counters:
        """Return the counters of a row of the snapshot, or of `inserts`, after these changes; they were `before`."""
        backout_count, hardened, holder, sequence, place, handling = before
        change = self.counters.get(id)
        if change is not None:
            backouts, hardened = change
            if backouts is not None:
                backout_count, holder, sequence = backouts, 0, 0
        holder, sequence = self.held.get(id, (holder, sequence))
        return backout_count, hardened, holder, sequence, self.placed.get(id, place), self.handled.get(id, handling)

    def apply(self, rows: Rows) -> None:
        """Take in a batch that has become durable, after those before it."""
        inserts = self.inserts
        for row in rows.inserts:
            inserts[row.id] = row
        for id in rows.hardened:
            self._count(id, None, 1)
        for id, mark in rows.marked:
            self._count(id, None, mark)
        for id, backouts in rows.backouts:
            self._count(id, backouts, 0)
        for id, backouts, handling in rows.handled:
            self._count(id, backouts, 0)
            self.handled[id] = handling
        for run in rows.held:
            self._hold(run, zip(repeat(run.holder), count(run.first), strict=False))
        for run in rows.placed:
            self._hold(run, repeat(_FREE))
            self.placed.update(zip(run.ids, count(run.first), strict=False))
        for step in rows.steps:
            self.steps.setdefault(step.id, {})[step.place] = step
        for id in rows.removals:
            self._remove(id)
        if rows.objects or rows.states or rows.dropped or rows.keys or rows.freed:
            self._define(rows)
        self.high_water = max(self.high_water, rows.high_water)

    def _define(self, rows: Rows) -> None:
        for key in rows.dropped:  # before the objects: a queue may be deleted and defined anew in one batch
            self.objects[key] = None
        for each in chain(rows.objects, rows.states):
            self.objects[each.space, each.name] = each
        for freed in rows.freed:  # before the keys: who removes a message may put another with its key
            self.keys[freed] = None
        for put in rows.keys:
            self.keys[put.queue, put.key] = put

    def follow(self, later: Delta) -> None:
        """Take in what came after this one."""
        for id, (backouts, hardened) in later.counters.items():
            self._count(id, backouts, hardened)
        for id in later.removals:
            self._remove(id)
        self.inserts |= later.inserts  # after the removals: a message that was kept and removed comes again
        self.held |= later.held
        self.placed |= later.placed
        self.handled |= later.handled
        self.held_later += later.held_later
        self.objects |= later.objects
        self.keys |= later.keys
        for id, steps in later.steps.items():
            self.steps[id] = self.steps.get(id, {}) | steps
        self.high_water = max(self.high_water, later.high_water)

    def _hold(self, run: Numbering, held: Iterable[tuple[int, int]]) -> None:
        self.held.update(zip(run.ids, held, strict=False))
        self.held_later += len(run.ids) - sum(map(self.inserts.__contains__, run.ids))

    def _count(self, id: int, backouts: int | None, hardened: int) -> None:
        if backouts is not None:
            self.held.pop(id, None)
        row = self.inserts.get(id)
        if row is not None:
            if backouts is None:
                self.inserts[id] = row._replace(hardened=hardened)
            else:
                self.inserts[id] = row._replace(backout_count=backouts, hardened=hardened, holder=0, sequence=0)
            return
        if backouts is None:
            backouts, _ = self.counters.get(id, (None, 0))
        self.counters[id] = (backouts, hardened)

    def _remove(self, id: int) -> None:
        if self.held or self.placed or self.handled or self.steps:
            self.held.pop(id, None)
            self.placed.pop(id, None)
            self.handled.pop(id, None)
            self.steps.pop(id, None)
        if self.inserts.pop(id, None) is None:
            self.removals[id] = None
            self.counters.pop(id, None)
