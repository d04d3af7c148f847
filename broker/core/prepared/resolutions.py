"""Decisions of administrators about units in doubt, in place of the databases that would decide (transactions rule
2.8). The last decisions are kept durably: whoever knows better later is told what has been decided, over restarts too.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Final, NamedTuple
from uuid import UUID

import msgpack

from broker.core.message.rows import ObjectRow, Rows

if TYPE_CHECKING:
    from broker.core.prepared.branches import PreparedBranch

SPACE: Final = "RESOLVED"

REMEMBERED_MAX: Final = 10_000
"""So many decisions are kept."""


class UnitResolution(NamedTuple):
    """A decision about a unit of this database; `number` is that of its object in the store."""

    number: int
    database: bytes
    commit: bool


class UnitResolutions:
    """The last of them, by the ids of their units, the oldest first."""

    def __init__(self) -> None:
        self._by_id: OrderedDict[UUID, UnitResolution] = OrderedDict()

    def __len__(self) -> int:
        return len(self._by_id)

    def find(self, id: UUID, database: bytes) -> UnitResolution | None:
        """Return what has been decided about a unit of a database; None if nothing has, or it is forgotten."""
        found = self._by_id.get(id)
        return found if found is not None and found.database == database else None

    def add(self, branch: PreparedBranch, number: int, *, commit: bool) -> None:
        """An administrator decides. It is durable with the rows of the unit's end (`rows`)."""
        self._by_id[branch.id] = UnitResolution(number, branch.decider.database, commit)

    def rows(self, id: UUID) -> Rows:
        """Return what is to be written with the end of a unit: its decision, if an administrator has made it, and the
        oldest ones are forgotten. They need no room.
        """
        kept = self._by_id.get(id)
        if kept is None:
            return Rows()
        rows = Rows(states=[ObjectRow(SPACE, str(id), kept.number, SPACE, msgpack.packb((kept.database, kept.commit)))])
        while len(self._by_id) > REMEMBERED_MAX:
            oldest, _ = self._by_id.popitem(last=False)
            rows.dropped.append((SPACE, str(oldest)))
        return rows

    def load(self, row: ObjectRow) -> None:
        """A decision as the store kept it."""
        self._by_id[UUID(row.name)] = UnitResolution(row.number, *msgpack.unpackb(row.attributes))

    def loaded(self) -> None:
        """All are loaded."""
        self._by_id = OrderedDict(sorted(self._by_id.items(), key=lambda item: item[1].number))
