"""What the batches since the snapshot leave, in memory: what a carry-over has to write.

A message that came and went between two carry-overs leaves nothing. It assumes of every message that it has not met
that the snapshot has it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from broker.storage.store import MessageRow, ObjectRow, Rows


class Delta:
    """Rows that the snapshot lacks, and what has become of those that it has. A message may be among both: a
    nonpersistent one that two orderly stops in a row have kept.

    `counters` has the backout count (None: as it was) and the mark `hardened` of messages in the snapshot; `objects`
    None for one that was dropped.
    """

    def __init__(self) -> None:
        self.inserts: dict[int, MessageRow] = {}
        self.removals: dict[int, None] = {}
        self.counters: dict[int, tuple[int | None, int]] = {}
        self.objects: dict[tuple[str, str], ObjectRow | None] = {}
        self.high_water = 0

    def __bool__(self) -> bool:
        return bool(self.inserts or self.removals or self.counters or self.objects or self.high_water)

    def apply(self, rows: Rows) -> None:
        """Take in a batch that has become durable, after those before it."""
        inserts = self.inserts
        for row in rows.inserts:
            inserts[row.id] = row
        for id in rows.hardened:
            self._count(id, None, 1)
        for id, count in rows.backouts:
            self._count(id, count, 0)
        for id in rows.removals:
            self._remove(id)
        for key in rows.dropped:  # before the objects: a queue may be deleted and defined anew in one batch
            self.objects[key] = None
        for each in rows.objects:
            self.objects[each.space, each.name] = each
        self.high_water = max(self.high_water, rows.high_water)

    def follow(self, later: Delta) -> None:
        """Take in what came after this one."""
        for id, (count, hardened) in later.counters.items():
            self._count(id, count, hardened)
        for id in later.removals:
            self._remove(id)
        self.inserts |= later.inserts  # after the removals: a message that was kept over a stop comes again
        self.objects |= later.objects
        self.high_water = max(self.high_water, later.high_water)

    def _count(self, id: int, count: int | None, hardened: int) -> None:
        row = self.inserts.get(id)
        if row is not None:
            self.inserts[id] = row._replace(
                backout_count=row.backout_count if count is None else count, hardened=hardened
            )
            return
        if count is None:
            count, _ = self.counters.get(id, (None, 0))
        self.counters[id] = (count, hardened)

    def _remove(self, id: int) -> None:
        if self.inserts.pop(id, None) is None:
            self.removals[id] = None
            self.counters.pop(id, None)
